package estimate

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// UsageCounter is what the jobs of one leaf hold and ask for now. It belongs to the view that it
// was taken from and never changes there.
type UsageCounter struct {
	model.Association
	Held      model.Amounts // by attempts in progress
	Requested model.Amounts // by all jobs that wait and could start if there were room

	Jobs  int            // that hold something or want some
	Since []HourHoldings // by hour
	epoch uint64         // at which it was last replaced
}

// HourHoldings is what attempts hold that began in one hour.
type HourHoldings struct {
	hour int64
	runs int
	held model.Amounts // without models
	Late model.Amounts // times the milliseconds of the hour before each began, of memory the seconds
}

// RunningUsage returns the usage of a leaf's attempts in progress since they began, as [Decay.Of]
// does for ended ones. It is in amounts times weighted seconds, memory in MiB.
func (d *Decay) RunningUsage(st *UsageCounter) (cores, memory, gpus int64) {
	for i := range st.Since {
		h := &st.Since[i]
		age := int64(d.now)/HourMS - h.hour
		if age >= UsedHours {
			cores += h.held.Cores * d.total[UsedHours] / 1000
			memory += h.held.Memory * (d.total[UsedHours] / 1000)
			gpus += h.held.GPUs * d.total[UsedHours] / 1000
			continue
		}
		age = max(0, age)
		length := min(HourMS, int64(d.now)-h.hour*HourMS) // of the hour, as far as it has passed
		whole, w := d.total[age], d.weight[age]
		part := func(held, late, unit int64) int64 {
			return held*(whole/unit) + int64(discount(uint64(max(0, held*(length/unit)-late)), w))
		}
		cores += part(h.held.Cores, h.Late.Cores, 1) / 1000
		memory += part(h.held.Memory, h.Late.Memory, 1000)
		gpus += part(h.held.GPUs, h.Late.GPUs, 1) / 1000
	}
	return cores, memory, gpus
}

// AddRun adds an attempt in progress n times; -1 takes it out, and nil is none.
func (st *UsageCounter) AddRun(r *LiveAttempt, n int) {
	if r == nil {
		return
	}
	st.Jobs += n
	st.Held.Add(&r.Held, int64(n))
	hour := int64(r.HeldSince) / HourMS
	i, known := slices.BinarySearchFunc(st.Since, hour,
		func(h HourHoldings, hour int64) int { return cmp.Compare(h.hour, hour) })
	if !known {
		st.Since = slices.Insert(st.Since, i, HourHoldings{hour: hour})
	}
	h := &st.Since[i]
	held := model.Amounts{Cores: r.Held.Cores, Memory: r.Held.Memory, GPUs: r.Held.GPUs}
	h.held.Add(&held, int64(n))
	ms := int64(r.HeldSince) - hour*HourMS
	late := model.Amounts{Cores: held.Cores * ms, Memory: held.Memory * (ms / 1000), GPUs: held.GPUs * ms}
	h.Late.Add(&late, int64(n))
	if h.runs += n; h.runs == 0 {
		st.Since = slices.Delete(st.Since, i, i+1)
	}
}

// Equal reports whether two hours have the same holdings.
func (h HourHoldings) Equal(o HourHoldings) bool {
	return h.hour == o.hour && h.runs == o.runs && h.held.Equal(&o.held) && h.Late.Equal(&o.Late)
}

// AddDemand adds what a job asks for n times; -1 takes it out. A job that asks for nothing counts
// for nothing.
func (st *UsageCounter) AddDemand(d Demand, n int) {
	if d.Attempts > 0 {
		st.Requested.Add(&d.Each, int64(n)*d.Attempts)
		st.Jobs += n
	}
}
