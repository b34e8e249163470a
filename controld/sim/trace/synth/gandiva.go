package synth

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// gandivaKinds are the networks of table 1 of Gandiva (Xiao et al., OSDI 2018), in order of their
// GPU use. Each has its part of the jobs of the 180-GPU mix, in thousandths.
var gandivaKinds = []struct {
	network string
	part    int64
	wide    bool // on two or four GPUs
}{
	{"vae", 150, false}, {"superres", 150, false},
	{"rhn", 84, false}, {"scrnn", 83, false}, {"mi-lstm", 83, false},
	{"lstm", 150, false}, {"resnet50", 150, true}, {"resnext", 150, true},
}

// gandivaMemory is the memory of a node of a job for each of its GPUs. It stays there while the job
// is suspended.
const gandivaMemory = 8 * jobspec.GiB

// GandivaNodes are the nodes of Gandiva's mix, for [trace.ParseNodes].
const GandivaNodes = "45x64c/1024g/4gpu"

// Gandiva draws the mix with which the paper measures early feedback and utilisation. Jobs arrive
// uniformly over two hours and bring 30 to 45 GPU minutes each. All can be suspended.
func Gandiva(name string, seed uint64, count int) *trace.Trace {
	t := &trace.Trace{Name: name, Format: trace.Generated, Seed: seed}
	for i := range count {
		r := source(seed, streamJob, uint64(i))
		kind, gpus, work := r.Int64N(1000), int64(1), 30*minute+r.Int64N(15*minute)
		wide := 2 << r.IntN(2)
		k := 0
		for kind >= gandivaKinds[k].part {
			kind -= gandivaKinds[k].part
			k++
		}
		if gandivaKinds[k].wide {
			gpus = int64(wide)
		}
		j := gandivaJob(i, gandivaKinds[k].network, gpus, work/gpus)
		j.Submit = source(seed, streamArrival, uint64(i)).Int64N(2 * hour)
		t.Jobs = append(t.Jobs, *j)
	}
	sortArrivals(t)
	return t
}

func gandivaJob(i int, network string, gpus, work int64) *trace.Job {
	j := trace.NewJob(strconv.Itoa(i))
	j.Name, j.Model, j.Pauses, j.Work = network, network, true, work
	j.User, j.Account, j.Saves = fmt.Sprintf("u%02d", i%20), "research", trace.SavesSignal
	j.Grace, j.Restart = 2*second, 10*second
	j.Request = model.Vector{Cores: 2 * gpus, Memory: gandivaMemory * jobspec.Bytes(gpus), GPUs: gpus * gpu}
	j.Fill()
	return j
}

func sortArrivals(t *trace.Trace) {
	slices.SortStableFunc(t.Jobs, func(a, b trace.Job) int { return cmp.Compare(a.Submit, b.Submit) })
}

// GandivaTraceNodes are the nodes of the experiments with a trace of nine days, for
// [trace.ParseNodes].
const GandivaTraceNodes = "25x64c/1024g/4gpu"

// gandivaTrace is one setting of the experiment with a trace. The paper gives only the numbers of
// jobs, GPUs and days.
type gandivaTrace struct {
	window int64   // ms over which jobs arrive
	load   int64   // thousandths of 100 GPUs
	sigma  float64 // of the logarithm of run times
}

// gandivaTraces are two settings: with nine days of arrivals the paper's makespan cannot be, and
// with its makespan jobs arrive faster than they end.
var gandivaTraces = map[string]gandivaTrace{
	"gandiva-a": {9 * 24 * hour, 950, 1.5},
	"gandiva-b": {76 * 24 * hour / 10, 1150, 0.5},
}

// draw draws the jobs of a setting. Seven of ten need one GPU, the others two or four.
func (g gandivaTrace) draw(name string, seed uint64, count int) *trace.Trace {
	t := &trace.Trace{Name: name, Format: trace.Generated, Seed: seed}
	var asked float64
	for i := range count {
		r := source(seed, streamJob, uint64(i))
		length, width, kind := math.Exp(float64(g.sigma*r.NormFloat64())), r.IntN(20), r.IntN(len(gandivaKinds))
		gpus := int64(1)
		switch {
		case width >= 17:
			gpus = 4
		case width >= 14:
			gpus = 2
		}
		asked += float64(length * float64(gpus))
		j := gandivaJob(i, gandivaKinds[kind].network, gpus, int64(length*1e6))
		j.Submit = source(seed, streamArrival, uint64(i)).Int64N(g.window)
		t.Jobs = append(t.Jobs, *j)
	}
	scale := float64(g.window) * 100 * float64(g.load) / 1000 / asked / 1e6
	for i := range t.Jobs {
		t.Jobs[i].Work = min(trace.MaxTime, max(minute, int64(float64(t.Jobs[i].Work)*scale)))
	}
	sortArrivals(t)
	return t
}

// SixNodes is the node of [Six], for [trace.ParseNodes].
const SixNodes = "1x64c/1024g/4gpu"

// Six returns six equal jobs for the four GPUs of one node, as in figure 7 of the paper.
func Six(name string, count int) *trace.Trace {
	t := &trace.Trace{Name: name, Format: trace.Generated}
	for i := range count {
		t.Jobs = append(t.Jobs, *gandivaJob(i, "resnet50", 1, 2*hour))
	}
	return t
}
