package cluster

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Standing is what the jobs of one leaf hold and ask for now. It belongs to the view that it was taken from and never changes there.
type Standing struct {
	Leaf
	Held  Amounts // by attempts in progress
	Wants Amounts // by all jobs that wait and could start if there were room

	jobs  int            // that hold something or want some
	since []hourHoldings // by hour
	epoch uint64         // at which it was last replaced
}

// hourHoldings is what attempts hold that began in one hour.
type hourHoldings struct {
	hour int64
	runs int
	held Amounts // without models
	late Amounts // times the milliseconds of the hour before each began, of memory the seconds
}

// Standings yields what every leaf holds and asks for that does either, in no particular order.
func (v *View) Standings() iter.Seq[*Standing] { return v.usageCounters.values() }

// Lasted returns what the attempts in progress of a leaf have used since they began: amounts times weighted seconds, memory in MiB, as
// [Decay.Of] does for those that have ended.
func (d *Decay) Lasted(st *Standing) (cores, memory, gpus int64) {
	for i := range st.since {
		h := &st.since[i]
		age := int64(d.now)/hourMS - h.hour
		if age >= usedHours {
			cores += h.held.Cores * d.total[usedHours] / 1000
			memory += h.held.Memory * (d.total[usedHours] / 1000)
			gpus += h.held.GPUs * d.total[usedHours] / 1000
			continue
		}
		age = max(0, age)
		length := min(hourMS, int64(d.now)-h.hour*hourMS) // of the hour, as far as it has passed
		whole, w := d.total[age], d.weight[age]
		part := func(held, late, unit int64) int64 {
			return held*(whole/unit) + int64(discount(uint64(max(0, held*(length/unit)-late)), w))
		}
		cores += part(h.held.Cores, h.late.Cores, 1) / 1000
		memory += part(h.held.Memory, h.late.Memory, 1000)
		gpus += part(h.held.GPUs, h.late.GPUs, 1) / 1000
	}
	return cores, memory, gpus
}

// startableAttempts returns for how many attempts a job asks now: 1 while it waits and is not set aside, of a parent job for all children that may start.
func (j *Job) startableAttempts() int64 {
	switch {
	case j == nil || !j.waits() || isSetAside(j):
		return 0
	case j.Family != nil:
		return int64(j.Startable())
	}
	return 1
}

// updateUsageCounter keeps the standing of a leaf in step with a job that has changed, and with its run.
func (s *State) updateUsageCounter(old, next *Job, was, is *Run) {
	wanted, wants := old.startableAttempts(), next.startableAttempts()
	sameRun := was == is || was != nil && is != nil && was.Since == is.Since && was.held.equal(&is.held)
	if sameRun && wanted == wants && (wants == 0 || sameDemand(old, next)) {
		return
	}
	st := s.ownUsageCounter(next.Leaf())
	if !sameRun {
		st.addRun(was, -1)
		st.addRun(is, 1)
	}
	if wanted > 0 {
		ask := s.v.Asked(old)
		st.Wants.add(&ask, -wanted)
		st.jobs--
	}
	if wants > 0 {
		ask := s.v.Asked(next)
		st.Wants.add(&ask, wants)
		st.jobs++
	}
	if st.jobs == 0 {
		s.v.usageCounters.drop(s.usageCounterAt[st.Leaf])
		s.freeUsageCounters = append(s.freeUsageCounters, s.usageCounterAt[st.Leaf])
		delete(s.usageCounterAt, st.Leaf)
	}
}

// sameDemand reports whether two states of a job ask for the same.
func sameDemand(a, b *Job) bool { return a.Total() == b.Total() }

// ownUsageCounter returns the standing of a leaf ready to be written.
func (s *State) ownUsageCounter(of Leaf) *Standing {
	at, known := s.usageCounterAt[of]
	if !known {
		at = int64(len(s.usageCounterAt))
		if n := len(s.freeUsageCounters); n > 0 {
			at, s.freeUsageCounters = s.freeUsageCounters[n-1], s.freeUsageCounters[:n-1]
		}
		if s.usageCounterAt == nil {
			s.usageCounterAt = map[Leaf]int64{}
		}
		s.usageCounterAt[of] = at
		s.v.usageCounters.set(at, &Standing{Leaf: of, epoch: s.epoch})
	}
	st, _ := s.v.usageCounters.get(at)
	if st.epoch == s.epoch {
		return st
	}
	next := *st
	next.epoch, next.since = s.epoch, slices.Clone(st.since)
	next.Held.Models, next.Wants.Models = slices.Clone(st.Held.Models), slices.Clone(st.Wants.Models)
	s.v.usageCounters.set(at, &next)
	return &next
}

// indexUsageCounters finds out where the standings are: of the view that a fork is made from.
func (s *State) indexUsageCounters() {
	s.usageCounterAt = map[Leaf]int64{}
	next := int64(0)
	for at, st := range s.v.usageCounters.from(0) {
		for ; next < at; next++ {
			s.freeUsageCounters = append(s.freeUsageCounters, next)
		}
		s.usageCounterAt[st.Leaf], next = at, at+1
	}
}

// addRun adds an attempt in progress n times; -1 takes it out, and nil is none.
func (st *Standing) addRun(r *Run, n int) {
	if r == nil {
		return
	}
	st.jobs += n
	st.Held.add(&r.held, int64(n))
	hour := int64(r.Since) / hourMS
	i, known := slices.BinarySearchFunc(st.since, hour, func(h hourHoldings, hour int64) int { return cmp.Compare(h.hour, hour) })
	if !known {
		st.since = slices.Insert(st.since, i, hourHoldings{hour: hour})
	}
	h := &st.since[i]
	held := Amounts{Cores: r.held.Cores, Memory: r.held.Memory, GPUs: r.held.GPUs}
	h.held.add(&held, int64(n))
	ms := int64(r.Since) - hour*hourMS
	late := Amounts{Cores: held.Cores * ms, Memory: held.Memory * (ms / 1000), GPUs: held.GPUs * ms}
	h.late.add(&late, int64(n))
	if h.runs += n; h.runs == 0 {
		st.since = slices.Delete(st.since, i, i+1)
	}
}

// rebuildUsageCounters returns the standings made anew from the jobs and runs, and where each is.
func (s *State) rebuildUsageCounters() (table[*Standing], map[Leaf]int64) {
	var t table[*Standing]
	at := map[Leaf]int64{}
	of := func(leaf Leaf) *Standing {
		i, known := at[leaf]
		if !known {
			i = int64(len(at))
			at[leaf] = i
			t.set(i, &Standing{Leaf: leaf, epoch: s.epoch})
		}
		st, _ := t.get(i)
		return st
	}
	for r := range s.v.runs.values() {
		of(r.Job.Leaf()).addRun(r, 1)
	}
	for j := range s.v.jobs.values() {
		if n := j.startableAttempts(); n > 0 {
			st, ask := of(j.Leaf()), s.v.Asked(j)
			st.Wants.add(&ask, n)
			st.jobs++
		}
	}
	return t, at
}

// checkUsageCounters compares the standings and the inventory with those made anew.
func (s *State) checkUsageCounters(note func(error)) {
	want, at := s.rebuildUsageCounters()
	for leaf, i := range at {
		st, _ := want.get(i)
		note(s.checkUsageCounter(leaf, st))
	}
	if len(at) != len(s.usageCounterAt) || s.v.usageCounters.size() != len(at) {
		note(fmt.Errorf("%d leaves have a standing, and there are %d, for %d", len(s.usageCounterAt), s.v.usageCounters.size(), len(at)))
	}
	if got, want := s.v.inventory, s.v.inventoryOf(); !got.All.equal(&want.All) || !got.Up.equal(&want.Up) || !got.WithGPUs.equal(&want.WithGPUs) {
		note(fmt.Errorf("the inventory is %+v, made anew %+v", *got, *want))
	}
}

func (s *State) checkUsageCounter(leaf Leaf, want *Standing) error {
	var got *Standing
	if i, known := s.usageCounterAt[leaf]; known {
		got, _ = s.v.usageCounters.get(i)
	}
	if got == nil || got.Leaf != leaf || got.jobs != want.jobs || !got.Held.equal(&want.Held) || !got.Wants.equal(&want.Wants) ||
		!slices.EqualFunc(got.since, want.since, hourHoldings.equal) {
		return fmt.Errorf("the standing of %s in %s is %+v, made anew %+v", leaf.User, leaf.Account, got, want)
	}
	return nil
}

func (h hourHoldings) equal(o hourHoldings) bool {
	return h.hour == o.hour && h.runs == o.runs && h.held.equal(&o.held) && h.late.equal(&o.late)
}
