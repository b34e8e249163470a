package sim

import (
	"math"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// Schema is the version of [Result]'s JSON.
const Schema = 1

// Result describes one run. Durations are in seconds, utilisation and fragmentation are parts of
// one, percentages are of 100. Statistics are over jobs that have ended; percentiles are
// nearest-rank.
type Result struct {
	Schema   int               `json:"schema"`
	Policy   string            `json:"policy"`
	Params   map[string]string `json:"params"`
	Trace    string            `json:"trace"`
	Seed     uint64            `json:"seed"`
	Jobs     int               `json:"jobs"`     // of the trace, excluded ones included
	Excluded []string          `json:"excluded"` // id: reason
	Placed   int               `json:"placed"`   // started at least once
	Unplaced int               `json:"unplaced"`

	Classes  map[string]*Class   `json:"classes"` // te, be, all
	Wide     Wide                `json:"wide"`
	Long     Long                `json:"long"`
	Accounts map[string]*Account `json:"accounts"`

	MakespanS        float64     `json:"makespan_s"`  // first submit to last end
	Utilisation      Utilisation `json:"utilisation"` // part held, from the first submit to the last arrival
	GPUFragmentation float64     `json:"gpu_fragmentation"`
	UnallocatedGPUs  float64     `json:"unallocated_gpus"` // when the last job had arrived

	PreemptedJobsPct    float64            `json:"preempted_jobs_pct"`
	PreemptedTimesPct   map[string]float64 `json:"preempted_times_pct"` // of all jobs: once, twice, more often
	Preemptions         int                `json:"preemptions"`
	PreemptionsMaxJob   int                `json:"preemptions_max_job"`
	RescheduleIntervalS Stats              `json:"reschedule_interval_s"` // end of grace to the next start
	AbsenceS            Stats              `json:"absence_s"`             // notice to the next start, the grace included
	LostGPUS            float64            `json:"lost_gpu_s"`            // held without lasting progress
	Migrations          int                `json:"migrations"`
	Resizes             int                `json:"resizes"`
	Fairness            Fairness           `json:"fairness"`
	Decisions           Decisions          `json:"decisions"`
	WallS               float64            `json:"wall_s"`

	Sharing *Sharing `json:"sharing,omitempty"` // nil: the trace does not say what jobs train, and none was suspended

	JobsPerMin float64  `json:"jobs_per_min"`          // ended, over the makespan
	GPUS       float64  `json:"gpu_s"`                 // held by all jobs
	TimedOut   int      `json:"timed_out,omitempty"`   // jobs killed at their time limit
	Cancelled  int      `json:"cancelled,omitempty"`   // tasks of searches, which are in no statistics
	Unended    int      `json:"unended,omitempty"`     // arrived jobs that have not ended
	Refused    int      `json:"refused,omitempty"`     // actions of plans that the state refused
	Stopped    bool     `json:"interrupted,omitempty"` // by Setup.Stopped
	SkippedN   int      `json:"skipped_lines,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	Story      *Story   `json:"-"` // for plots, if asked for
}

// Sharing is about jobs that share GPUs.
type Sharing struct {
	// average useful work of the GPUs: the use of each GPU times the speed of its jobs; over
	// Setup.Window
	UsefulUtilisation float64 `json:"useful_utilisation"`
	FeedbackS         Stats   `json:"feedback_s"` // from submission until 100 mini-batches are done
	Suspensions       int     `json:"suspensions"`
	// Jain's index of the work that jobs have done at the end of Setup.Window, of those that have
	// arrived and not ended
	ProgressJain float64   `json:"progress_jain"`
	Search       *Searches `json:"search,omitempty"` // nil: the trace has none
}

// Searches is about searches for a configuration that learns well.
type Searches struct {
	TimeS float64 `json:"time_s"` // mean, from submission until a task reached the goal or all have ended
	Found float64 `json:"found"`  // part of the searches of which a task reached the goal
}

// Class has the statistics of the jobs of one class.
type Class struct {
	Count           int   `json:"count"`
	Slowdown        Stats `json:"slowdown"`
	BoundedSlowdown Stats `json:"bounded_slowdown"`
	WaitS           Stats `json:"wait_s"`
	FirstWaitS      Stats `json:"first_wait_s"`
	JCTS            Stats `json:"jct_s"`
}

// Wide is about jobs of many GPUs.
type Wide struct {
	MinGPUs int64 `json:"min_gpus"`
	Count   int   `json:"count"`
	WaitS   Stats `json:"wait_s"`
}

// Long is about jobs that run for long.
type Long struct {
	MinS  int64 `json:"min_s"` // the least that they run
	Count int   `json:"count"`
	WaitS Stats `json:"wait_s"`
}

// longMS is from which run time on a job is long: a day.
const longMS = 24 * 3600 * 1000

// Account has the results of the jobs of one account.
type Account struct {
	Count int     `json:"count"`
	JCTS  Stats   `json:"jct_s"`
	GPUS  float64 `json:"gpu_s"`
	// Rho is its mean JCT relative to that of the same jobs alone on the account's quota, served
	// first come first; 0 if unknown.
	Rho float64 `json:"rho"`
}

// Utilisation is the part of each resource that was held.
type Utilisation struct {
	GPU    float64 `json:"gpu"`
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Fairness compares accounts.
type Fairness struct {
	Jain     float64 `json:"jain"`      // over accounts: GPU seconds by quota while jobs were pending
	WorstRho float64 `json:"worst_rho"` // 0 if unknown
	// JainUsers is over users: their mean slowdown, of best-effort jobs if there are any.
	JainUsers float64 `json:"jain_users"`
}

// Decisions are how long cycles took.
type Decisions struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
}

// Stats are a mean and nearest-rank percentiles.
type Stats struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P75  float64 `json:"p75"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// statsOf sorts and summarises values. Without values all is 0.
func statsOf(values []float64) Stats {
	if len(values) == 0 {
		return Stats{}
	}
	sortNumbers(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(thousandths int) float64 { return values[rank(len(values), thousandths)] }
	return Stats{
		Mean: sum / float64(len(values)), P50: at(500), P75: at(750), P95: at(950), P99: at(990), P999: at(999),
		Max: values[len(values)-1],
	}
}

// rank is the index of a percentile among n sorted values: the least value that the given
// thousandths of them do not exceed.
func rank(n, thousandths int) int { return max(0, (n*thousandths+999)/1000-1) }

// jain is Jain's index: 1 if all values are equal, or there are none, and 1/n if one value has
// everything.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(values)) * squares)
}

// result computes the result of a run.
func (e *engine) result(t *trace.Trace, excluded []string) *Result {
	p := &e.setup.Policy
	r := &Result{
		Schema: Schema, Policy: p.Name, Params: p.Params, Trace: t.Name, Seed: e.setup.Seed, Jobs: len(t.Jobs),
		Excluded: excluded,
		Refused:  e.refused, Stopped: e.stopped, SkippedN: t.Bad, Story: e.totals.story,
		Migrations: e.totals.migrations, Resizes: e.totals.resizes, Preemptions: e.totals.preempts,
		LostGPUS: float64(e.totals.lost) / 1e6,
	}
	if r.Params == nil {
		r.Params = map[string]string{}
	}
	if r.Excluded == nil {
		r.Excluded = []string{}
	}
	e.count(r)
	e.classes(r)
	e.accountsOf(r)
	e.utilisation(r)
	e.preemptions(r)
	e.decisions(r)
	r.Sharing = e.sharingResult()
	r.Notes = e.notes(t, len(excluded))
	return r
}

func (e *engine) count(r *Result) {
	first, last := model.Instant(math.MaxInt64), model.Instant(0)
	for i := range e.runs {
		v := &e.runs[i]
		first = min(first, v.submitted)
		last = max(last, v.ended)
		if v.first > 0 {
			r.Placed++
		}
		if v.ended == 0 {
			r.Unended++
		}
		if v.timedOut {
			r.TimedOut++
		}
		if v.cancelled {
			r.Cancelled++
		}
	}
	r.Unplaced = len(e.runs) - r.Placed
	if last > first {
		r.MakespanS = seconds(int64(last - first))
		r.JobsPerMin = 60 * float64(len(e.runs)-r.Unended-r.Cancelled) / r.MakespanS
	}
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// collector collects one value of each kind for every job that has ended.
type collector struct{ slowdown, bounded, wait, first, jct []float64 }

func (c *collector) add(e *engine, v *run) {
	jct := v.jct()
	c.slowdown = append(c.slowdown, v.slowdown())
	c.bounded = append(c.bounded, max(1, float64(jct)/float64(max(v.alone, e.setup.Bound))))
	c.wait = append(c.wait, seconds(v.waited))
	c.first = append(c.first, seconds(int64(v.first-v.submitted)))
	c.jct = append(c.jct, seconds(jct))
}

func (c *collector) class() *Class {
	return &Class{
		Count: len(c.jct), Slowdown: statsOf(c.slowdown), BoundedSlowdown: statsOf(c.bounded), WaitS: statsOf(c.wait),
		FirstWaitS: statsOf(c.first), JCTS: statsOf(c.jct),
	}
}

func (e *engine) classes(r *Result) {
	var te, be, all collector
	var wide, long []float64
	for v := range e.endedRuns() {
		all.add(e, v)
		if v.job.Class == jobspec.TE {
			te.add(e, v)
		} else {
			be.add(e, v)
		}
		if v.gpus >= e.setup.WideGPUs*1000 {
			wide = append(wide, seconds(v.waited))
		}
		if v.alone >= longMS {
			long = append(long, seconds(v.waited))
		}
	}
	r.Classes = map[string]*Class{"te": te.class(), "be": be.class(), "all": all.class()}
	r.Wide = Wide{MinGPUs: e.setup.WideGPUs, Count: len(wide), WaitS: statsOf(wide)}
	r.Long = Long{MinS: longMS / 1000, Count: len(long), WaitS: statsOf(long)}
}

// accountsOf sets the results of each account, and the fairness between them.
func (e *engine) accountsOf(r *Result) {
	jct := make([][]float64, len(e.totals.accounts))
	for v := range e.endedRuns() {
		jct[v.account] = append(jct[v.account], seconds(v.jct()))
	}
	r.Accounts = map[string]*Account{}
	capacity := trace.Capacity(e.nodes).GPUs
	var got []float64
	for i := range e.totals.accounts {
		a := &e.totals.accounts[i]
		a.advance(e.now)
		r.Accounts[a.name] = &Account{Count: len(jct[i]), JCTS: statsOf(jct[i]), GPUS: float64(a.gpuMS) / 1e6}
		r.GPUS += float64(a.gpuMS) / 1e6
		deserved := int64(1)
		if e.setup.Deserved.Any() {
			deserved = e.setup.Deserved.of(a.name, len(e.totals.accounts), capacity)
		}
		if a.backlog > 0 && deserved > 0 {
			got = append(got, float64(a.backHeld)/float64(a.backlog)/float64(deserved))
		}
	}
	r.Fairness.Jain = jain(got)
	r.Fairness.JainUsers = e.fairUsers()
}

// fairUsers is Jain's index of the users' mean slowdowns, of best-effort jobs if there are any.
func (e *engine) fairUsers() float64 {
	users := len(e.totals.userOf)
	sums, counts := make([]float64, users), make([]float64, users)
	for _, class := range []jobspec.Class{jobspec.BE, jobspec.TE} {
		var means []float64
		for v := range e.endedRuns() {
			if v.job.Class == class {
				sums[v.user] += v.slowdown()
				counts[v.user]++
			}
		}
		for u := range sums {
			if counts[u] > 0 {
				means = append(means, sums[u]/counts[u])
			}
		}
		if len(means) > 0 {
			return jain(means)
		}
	}
	return 0
}

func (e *engine) utilisation(r *Result) {
	c, w := trace.Capacity(e.nodes), &e.totals.window
	part := func(held, have float64) float64 {
		if w.all == 0 || have == 0 {
			return 0
		}
		return held / w.all / have
	}
	r.Utilisation = Utilisation{GPU: part(w.gpus, float64(c.GPUs)), CPU: part(w.cores, float64(c.Cores)),
		Memory: part(w.memory, float64(c.Memory))}
	if s := e.totals.atLast; s != nil {
		r.UnallocatedGPUs = float64(s.gpus) / 1000
		r.GPUFragmentation = e.fragmentation(s)
	}
}

func (e *engine) preemptions(r *Result) {
	times := [4]int{}
	for i := range e.runs {
		n := int(e.runs[i].preempted)
		times[min(n, 3)]++
		r.PreemptionsMaxJob = max(r.PreemptionsMaxJob, n)
	}
	pct := func(n int) float64 { return 100 * float64(n) / float64(max(1, len(e.runs))) }
	r.PreemptedJobsPct = pct(times[1] + times[2] + times[3])
	r.PreemptedTimesPct = map[string]float64{"1": pct(times[1]), "2": pct(times[2]), "3+": pct(times[3])}
	r.RescheduleIntervalS, r.AbsenceS = statsOf(allSeconds(e.totals.gaps)), statsOf(allSeconds(e.totals.absences))
}

func allSeconds(ms []int64) []float64 {
	s := make([]float64, len(ms))
	for i := range ms {
		s[i] = seconds(ms[i])
	}
	return s
}

func (e *engine) decisions(r *Result) {
	d := e.durations
	r.Decisions.Count = len(d)
	if len(d) == 0 || e.setup.Clock == nil {
		return
	}
	d = sortBits(d)
	us := func(ns uint64) float64 { return float64(ns) / 1000 }
	r.Decisions.P50, r.Decisions.P99, r.Decisions.Max = us(d[rank(len(d), 500)]), us(d[rank(len(d), 990)]), us(d[len(d)-1])
}
