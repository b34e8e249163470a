package specon

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// network is a model that jobs train.
type network struct {
	work int64 // ms of a whole worker
	tau  int64 // after how much of the work the loss has fallen to 1/e, in thousandths
}

// models are those of the paper. A VAE needs 222 s: 20 of them, one every 50 s on four workers, end
// after 1260 s then, as in the paper. The others are chosen so that the means of its mixed runs
// come near.
var models = []network{
	{222_000, 200}, // VAE
	{280_000, 150}, // GRU
	{345_000, 120}, // BiRNN
	{130_000, 250}, // RNN
	{220_000, 180}, // DynRNN
}

// reports is how often a job reports its loss.
const reports = 50

// noise is how much a report is off at most, in parts of the loss's range.
const noise = 0.01

// Workload is one of the paper's runs.
type Workload struct {
	Name    string
	Workers int
	Jobs    int
	Window  int64 // ms in which jobs arrive at random; 0: one every Every
	Every   int64 // ms
	Mixed   bool  // all models; else VAE alone
}

// Workloads are the runs of the paper: its four figures, and that of its table III.
var Workloads = []Workload{
	{Name: "fixed20", Workers: 4, Jobs: 20, Every: 50_000},
	{Name: "mixed20", Workers: 4, Jobs: 20, Window: 300_000, Mixed: true},
	{Name: "mixed30", Workers: 4, Jobs: 30, Window: 600_000, Mixed: true},
	{Name: "mixed50", Workers: 8, Jobs: 50, Window: 1_200_000, Mixed: true},
	{Name: "vae20", Workers: 4, Jobs: 20, Window: 300_000},
}

// WorkloadNamed returns one of [Workloads].
func WorkloadNamed(name string) (*Workload, error) {
	i := slices.IndexFunc(Workloads, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown run %q", name)
	}
	return &Workloads[i], nil
}

// job is one that arrives.
type job struct {
	arrives int64 // ms
	work    int64 // ms of a whole worker
	tau     int64 // ms of a whole worker
	noise   [reports + 1]float64
}

// draw returns the jobs of a run, in order of arrival.
func (w *Workload) draw(seed uint64) []job {
	jobs := make([]job, w.Jobs)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range jobs {
		j := &jobs[i]
		m := &models[0]
		if w.Mixed {
			m = &models[r.IntN(len(models))]
		}
		j.work, j.tau = m.work, m.work*m.tau/1000
		if j.arrives = int64(i) * w.Every; w.Window > 0 {
			j.arrives = r.Int64N(w.Window)
		}
		for k := range j.noise {
			j.noise[k] = noise * (2*r.Float64() - 1)
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(a.arrives, b.arrives) })
	return jobs
}

// loss returns what a job has reported after some work, for the first time at or before that.
func (j *job) loss(report int64) float64 {
	x := float64(report) * float64(j.work) / reports / float64(j.tau)
	return math.Exp(-x) + j.noise[report]
}

// reported returns how many reports a job has made after some work besides the first.
func (j *job) reported(received int64) int64 { return min(reports, received*reports/j.work) }

// good returns after how much work a job has 95 % of the quality that it ends with.
func (j *job) good() int64 {
	end := math.Exp(-float64(j.work) / float64(j.tau))
	return int64(-float64(j.tau) * math.Log(1-0.95*(1-end)))
}
