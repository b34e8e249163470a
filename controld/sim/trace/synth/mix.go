package synth

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// Kind is one kind of job in a [Mix].
type Kind struct {
	Name    string // also the account of its jobs
	Weight  int    // share of the jobs, relative to the other kinds
	Class   jobspec.Class
	Users   int       // the k-th user submits 1/k as much as the first
	Length  LogNormal // of the job's Work
	Workers []int     // requested, equally likely
	GPUs    []int     // of each worker, equally likely
	Cores   int64     // for each GPU of a worker, at least one
	Memory  jobspec.Bytes
	Grace   int64 // ms
	Stretch int   // elastic from 1 to this many times the requested workers; 0 or 1: not elastic
	Scaling trace.Scaling
}

// Mix is a workload of independent arrivals of several kinds of jobs.
type Mix struct {
	Kinds []Kind
	Gap   int64 // ms between arrivals on average
}

// DefaultMix is the everyday work of a cluster: short trials, training on a part of a node, wide
// gangs, and elastic jobs.
func DefaultMix() Mix {
	return Mix{Gap: 30 * second, Kinds: []Kind{
		{
			Name: "trial", Weight: 40, Class: jobspec.TE, Users: 20, Length: LogNormal{3 * minute, 10 * second, 30 * minute, 1},
			Workers: []int{1}, GPUs: []int{1, 1, 1, 2}, Cores: 4, Memory: 16 * jobspec.GiB,
		},
		{
			Name: "train", Weight: 45, Class: jobspec.BE, Users: 20, Length: LogNormal{40 * minute, minute, 24 * hour, 1.2},
			Workers: []int{1}, GPUs: []int{1, 1, 2, 4, 8}, Cores: 4, Memory: 24 * jobspec.GiB, Grace: 2 * minute,
		},
		{
			Name: "wide", Weight: 5, Class: jobspec.BE, Users: 4, Length: LogNormal{2 * hour, 10 * minute, 48 * hour, 1},
			Workers: []int{2, 2, 4, 8}, GPUs: []int{8}, Cores: 4, Memory: 28 * jobspec.GiB, Grace: 5 * minute,
		},
		{
			Name: "elastic", Weight: 10, Class: jobspec.BE, Users: 6, Length: LogNormal{hour, 5 * minute, 24 * hour, 1},
			Workers: []int{1, 2, 4}, GPUs: []int{1}, Cores: 4, Memory: 24 * jobspec.GiB, Grace: minute, Stretch: 4,
			Scaling: trace.Diminishing{Loss: 50_000},
		},
	}}
}

// sized returns a job of the kind without a length.
func (k *Kind) sized(workers, gpus int) *trace.Job {
	j := trace.NewJob("")
	j.Class, j.Account, j.Name, j.Grace = k.Class, k.Name, k.Name, k.Grace
	j.Workers, j.Scaling = workers, k.Scaling
	n := max(1, int64(gpus))
	j.Request = model.Vector{Cores: k.Cores * n, Memory: k.Memory * jobspec.Bytes(n), GPUs: int64(gpus) * gpu}
	if k.Stretch > 1 {
		j.MinWorkers, j.MaxWorkers = 1, workers*k.Stretch
	}
	return j
}

// Generate draws count jobs. Equal seeds give equal traces.
func (m *Mix) Generate(seed uint64, count int) (*trace.Trace, error) {
	if count < 1 || count > trace.MaxJobs {
		return nil, fmt.Errorf("%d jobs: must be 1 to %d", count, trace.MaxJobs)
	}
	t := &trace.Trace{Name: "poisson", Format: trace.Generated, Jobs: make([]trace.Job, count)}
	for i := range t.Jobs {
		t.Jobs[i] = m.job(seed, i)
	}
	return t, Arrive(t, m.Gap, seed)
}

func (m *Mix) job(seed uint64, index int) trace.Job {
	r := source(seed, streamJob, uint64(index))
	k := m.kind(r)
	j := k.sized(k.Workers[r.IntN(len(k.Workers))], k.GPUs[r.IntN(len(k.GPUs))])
	j.ID = strconv.Itoa(index)
	j.User = fmt.Sprintf("%s-%d", k.Name, rank(r, k.Users)+1)
	j.Work = k.Length.draw(r)
	j.Fill()
	return *j
}

func (m *Mix) kind(r *rand.Rand) *Kind {
	total := 0
	for i := range m.Kinds {
		total += m.Kinds[i].Weight
	}
	at := r.IntN(total)
	for i := range m.Kinds {
		if at -= m.Kinds[i].Weight; at < 0 {
			return &m.Kinds[i]
		}
	}
	return &m.Kinds[len(m.Kinds)-1]
}

// rank draws one of n, the k-th with a weight of 1/k. The weights are integers so that all machines
// draw the same.
func rank(r *rand.Rand, n int) int {
	const unit = 1_000_000
	total := int64(0)
	for k := range n {
		total += unit / int64(k+1)
	}
	at := r.Int64N(total)
	for k := range n {
		if at -= unit / int64(k+1); at < 0 {
			return k
		}
	}
	return n - 1
}
