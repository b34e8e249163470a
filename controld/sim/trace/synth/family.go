package synth

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// familyWidths are the numbers of GPUs of jobs in a [Family]. Larger ones than a node are gangs of
// whole nodes.
var familyWidths = [...]int{1, 2, 4, 8, 16}

const (
	gpuCores  = 3                // for each GPU, of the 4 that nodes have: jobs without GPUs find room
	gpuMemory = 24 * jobspec.GiB // for each GPU, of the 32 GiB that nodes have
	shortest  = minute           // of all jobs
	longest   = 60 * 24 * hour   // of all jobs
	trialMean = 10 * minute      // of trial-and-error jobs
	trialMost = 4                // GPUs of a trial-and-error job
	coreGiB   = 4 * jobspec.GiB  // for each core of a job without GPUs
)

// Family is a family of workloads: log-normal run times of jobs that arrive at random times of a
// window. Users differ in how much they ask for: the k-th submits 1/k as many jobs as the first.
// Shares are in thousandths. Every seed draws another member.
type Family struct {
	Nodes    int // of the cluster, where nothing else says how large it is
	NodeGPUs int // of a node, and of a worker at most: a power of two

	Users    int   // in all accounts
	Accounts int   // to which the users belong in turn; more than there are users is as many
	Mean     int64 // ms that a best-effort job runs on average
	Sigma    int64 // thousandths, of the logarithm of run times
	Load     int64 // thousandths of the cluster's scarcest resource that arrive in the window

	Weights [len(familyWidths)]int64 // of the widths of jobs with GPUs

	TE      int64 // share of trial-and-error jobs: ten minutes on average, up to four GPUs
	CPU     int64 // share of jobs without GPUs
	Elastic int64 // share of the best-effort jobs with GPUs that run with half to twice their GPUs
	Saves   int64 // share of jobs that save all their work when they are stopped; the others save nothing
}

// SimilarFamily has jobs of nearly one length, so that policies that guess lengths learn nothing.
func SimilarFamily() Family {
	return Family{
		Nodes: 8, NodeGPUs: 8, Users: 6, Accounts: 1, Mean: 12 * hour, Sigma: 150, Load: 1050,
		Weights: [...]int64{50, 20, 15, 13, 2}, Saves: 1000,
	}
}

// MixedFamily has run times with a heavy tail, and every kind of job.
func MixedFamily() Family {
	return Family{
		Nodes: 8, NodeGPUs: 8, Users: 12, Accounts: 1, Mean: 4 * hour, Sigma: 2000, Load: 1000,
		Weights: [...]int64{50, 20, 15, 13, 2}, TE: 200, CPU: 100, Elastic: 150, Saves: 1000,
	}
}

// Cluster describes the nodes of the family, for [trace.ParseNodes].
func (f *Family) Cluster() string {
	return fmt.Sprintf("%dx%dc/%dg/%dgpu", f.Nodes, 4*f.NodeGPUs, 32*f.NodeGPUs, f.NodeGPUs)
}

// Generate draws count jobs for a cluster of that capacity. Equal seeds give equal traces.
func (f *Family) Generate(name string, seed uint64, count int, capacity model.Vector) (*trace.Trace, error) {
	if count < 1 || count > trace.MaxJobs {
		return nil, fmt.Errorf("%d jobs: must be 1 to %d", count, trace.MaxJobs)
	}
	t := &trace.Trace{Name: name, Format: trace.Generated, Seed: seed, Jobs: make([]trace.Job, count)}
	for i := range t.Jobs {
		t.Jobs[i] = f.job(seed, i)
	}
	gap, err := GapFor(t.Jobs, capacity, f.Load)
	if err != nil {
		return nil, err
	}
	if gap > trace.MaxTime/int64(count) {
		return nil, errors.New("jobs would arrive over more than ten years: choose a higher load or fewer jobs")
	}
	window := gap * int64(count)
	for i := range t.Jobs {
		j := &t.Jobs[i]
		j.Submit = source(seed, streamArrival, uint64(i)).Int64N(window)
		if j.Elastic() { // Work has been the time with the requested workers, as the load counts it
			j.Scaling = trace.Diminishing{Loss: 50_000}
			rate := j.Scaling.Rate(trace.Layout{PerNode: []int{j.Workers}})
			j.Work = min(trace.MaxTime, model.MulDiv(j.Work, rate, trace.FullRate))
		}
	}
	slices.SortStableFunc(t.Jobs, func(a, b trace.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return t, nil
}

// job draws the job with a number. Every number is drawn whether it is used or not, so that
// workloads that differ in one parameter are alike in everything else.
func (f *Family) job(seed uint64, index int) trace.Job {
	r := source(seed, streamJob, uint64(index))
	te, bare, elastic, saves := chance(r, f.TE), chance(r, f.CPU), chance(r, f.Elastic), chance(r, f.Saves)
	length, gpus, cores := r.NormFloat64(), f.width(r), int64(1)<<r.IntN(4)

	j := trace.NewJob(strconv.Itoa(index))
	j.Work = lengthOf(f.Mean, f.Sigma, length)
	if te {
		j.Class, j.Work, gpus = jobspec.TE, lengthOf(trialMean, 1000, length), min(gpus, trialMost)
	}
	switch {
	case bare:
		j.Request = model.Vector{Cores: cores, Memory: coreGiB * jobspec.Bytes(cores)}
	case elastic && !te:
		j.Request = withGPUs(1)
		j.Workers, j.MinWorkers, j.MaxWorkers = gpus, max(1, gpus/2), 2*gpus
	default:
		j.Workers = max(1, gpus/f.NodeGPUs)
		j.Request = withGPUs(gpus / j.Workers)
	}
	if f.Saves < 1000 { // otherwise the command line may choose
		j.Saves = trace.SavesNone
		if saves {
			j.Saves = trace.SavesSignal
		}
	}
	user := rank(r, f.Users)
	j.User = fmt.Sprintf("u%02d", user+1)
	if f.Accounts > 1 {
		j.Account = fmt.Sprintf("a%02d", user%f.Accounts+1)
	}
	j.Fill()
	return *j
}

func withGPUs(n int) model.Vector {
	return model.Vector{Cores: gpuCores * int64(n), Memory: gpuMemory * jobspec.Bytes(n), GPUs: int64(n) * gpu}
}

// width draws the number of a job's GPUs.
func (f *Family) width(r *rand.Rand) int {
	total := int64(0)
	for _, w := range f.Weights {
		total += w
	}
	at := r.Int64N(total)
	for i, w := range f.Weights {
		if at -= w; at < 0 {
			return familyWidths[i]
		}
	}
	return familyWidths[0]
}

// lengthOf returns the run time that stands at a place of the standard normal distribution. The
// times beyond the bounds are set to them: drawing these again would raise the mean of a wide
// distribution of short jobs by half.
func lengthOf(mean, sigma int64, at float64) int64 {
	s := float64(sigma) / 1000
	x := float64(mean) * math.Exp(float64(s*at)-float64(s*s)/2)
	return int64(math.Round(min(max(x, float64(shortest)), float64(longest))))
}
