package synth

import (
	"fmt"
	"math"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// Source hands out the jobs of a workload one after the other, without a submit time. A closed loop
// sets the time when it takes a job; an open loop draws it ([Arrive]).
type Source interface {
	// Next returns the following job; ok is false when there is none.
	Next() (job trace.Job, ok bool)
}

// ClassModel describes the jobs of one class: minutes, cores, GiB and GPUs.
type ClassModel struct {
	Minutes, Cores, GiB, GPUs Normal
}

// FitGppModel is the synthetic workload of the FitGpp paper: jobs of one worker in two classes. All
// quantities come from truncated normal distributions. Times are rounded up to minutes.
type FitGppModel struct {
	TEShare      int64 // thousandths of the jobs that are TE
	Users        int   // equal ones, leaves of one account
	TE, BE       ClassModel
	GraceMinutes Normal
}

// PaperModel is the workload as far as the paper describes it: its execution times and grace
// periods, and demands that reproduce its tables.
func PaperModel() FitGppModel {
	cores, memory := Normal{10, 10, 1, 32}, Normal{96, 60, 1, 256}
	return FitGppModel{
		TEShare: 300, Users: 50,
		TE: ClassModel{Minutes: Normal{5, 3, 0, 30}, Cores: cores, GiB: memory,
			GPUs: Normal{2, 1.2, 0, 8}}, // the shortest take one minute
		BE:           ClassModel{Minutes: Normal{30, 10, 1, 24 * 60}, Cores: cores, GiB: memory, GPUs: Normal{3, 1.2, 0, 8}},
		GraceMinutes: Normal{3, 1, 0, 20},
	}
}

// ScaleGrace returns the model with the length and the spread of grace periods multiplied by f.
func (m FitGppModel) ScaleGrace(f float64) FitGppModel {
	m.GraceMinutes = m.GraceMinutes.times(f)
	return m
}

// Source returns count jobs of the model. Equal seeds give equal jobs.
func (m FitGppModel) Source(seed uint64, count int) (Source, error) {
	if count < 1 || count > trace.MaxJobs {
		return nil, fmt.Errorf("%d jobs: must be 1 to %d", count, trace.MaxJobs)
	}
	return &fitgppSource{model: m, seed: seed, left: count}, nil
}

type fitgppSource struct {
	model FitGppModel
	seed  uint64
	index int
	left  int
}

// Next implements [Source].
func (s *fitgppSource) Next() (trace.Job, bool) {
	if s.left == 0 {
		return trace.Job{}, false
	}
	j := s.model.job(s.seed, s.index)
	s.index++
	s.left--
	return j, true
}

// job draws the job with a number. The order of the draws is part of the meaning of a seed.
func (m *FitGppModel) job(seed uint64, index int) trace.Job {
	r := source(seed, streamJob, uint64(index))
	j := trace.NewJob(strconv.Itoa(index))
	j.Account = trace.FitGppAccount
	c := &m.BE
	if chance(r, m.TEShare) {
		j.Class, c = jobspec.TE, &m.TE
	}
	j.User = fmt.Sprintf("u%02d", r.IntN(m.Users))
	j.Work = max(1, c.Minutes.upTo(r)) * minute
	j.Request = model.Vector{
		Cores:  max(1, c.Cores.nearest(r)),
		Memory: jobspec.Bytes(max(1, c.GiB.nearest(r))) * jobspec.GiB,
		GPUs:   c.GPUs.nearest(r) * gpu,
	}
	j.Grace = m.GraceMinutes.upTo(r) * minute
	j.Fill()
	return *j
}

// Take reads every job of a source into a trace in which all arrive at once.
func Take(name string, s Source) *trace.Trace {
	t := &trace.Trace{Name: name, Format: trace.Generated}
	for j, ok := s.Next(); ok; j, ok = s.Next() {
		t.Jobs = append(t.Jobs, j)
	}
	return t
}

// Arrive gives the jobs of a trace independent arrivals, gap ms apart on average, and keeps their
// order.
func Arrive(t *trace.Trace, gap int64, seed uint64) error {
	if gap < 1 || gap > trace.MaxTime {
		return fmt.Errorf("arrivals %d ms apart: must be 1 ms to ten years", gap)
	}
	at := int64(0)
	for i := range t.Jobs {
		if at > trace.MaxTime {
			return fmt.Errorf("arrivals %d ms apart: job %d of %d would arrive after more than ten years", gap, i+1, len(t.Jobs))
		}
		t.Jobs[i].Submit = at
		at += exponential(source(seed, streamArrival, uint64(i)), gap)
	}
	t.Seed = seed
	return nil
}

// GapFor returns the mean time between arrivals, in ms, at which jobs demand load thousandths of
// capacity, in the resource that is scarcest for them. At 1000 a scheduler without waste would just
// keep up.
func GapFor(jobs []trace.Job, capacity model.Vector, load int64) (int64, error) {
	if load < 1 {
		return 0, fmt.Errorf("a load of %d thousandths is not positive", load)
	}
	busy := float64(0) // ms for which all jobs keep the whole of the scarcest resource busy
	total := [3]float64{}
	for i := range jobs {
		d := parts(jobs[i].Demand(jobs[i].Workers))
		for r := range total {
			total[r] += d[r] * float64(jobs[i].Work)
		}
	}
	for r, have := range parts(capacity) {
		switch {
		case total[r] == 0:
		case have == 0:
			return 0, fmt.Errorf("the jobs need %s, but the cluster has none", [...]string{"cores", "memory", "GPUs"}[r])
		default:
			busy = max(busy, total[r]/have)
		}
	}
	gap := busy / float64(max(1, len(jobs))) * 1000 / float64(load)
	return max(1, int64(math.Round(min(gap, float64(trace.MaxTime))))), nil
}

func parts(v model.Vector) [3]float64 {
	return [3]float64{float64(v.Cores), float64(v.Memory), float64(v.GPUs)}
}

// Load is the demand of pending and running jobs over the capacity of a cluster, in thousandths, in
// the resource where it is highest. A closed loop submits the next job while the load is below its
// goal.
func Load(demand, capacity model.Vector) int64 {
	load := float64(0)
	have := parts(capacity)
	for r, d := range parts(demand) {
		if have[r] > 0 {
			load = max(load, d/have[r])
		}
	}
	return int64(load * 1000)
}
