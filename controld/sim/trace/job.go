package trace

import (
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Milliseconds, the unit of every time in this package.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
)

// gpu is a whole GPU in the unit of vectors.
const gpu = model.WholeGPU

// Unknown is the value of Grace and Restart if the trace does not give one.
const Unknown int64 = -1

// MidPriority is the priority of a job if the trace does not give one, as in a job file.
const MidPriority = 50

// Bounds of one job. A number beyond them is a mistake, usually of its unit. Within them sums over
// a trace cannot overflow.
const (
	MaxTime    = int64(jobspec.MaxDuration) * 1000 // ms, of each duration and of Submit
	maxStamp   = 10_000_000_000 * second           // ms, of a time in a file, which may count from 1970
	MaxCores   = 1 << 20                           // of a worker
	MaxMemory  = 1 << 50                           // bytes of a worker
	MaxGPUs    = model.MaxGPUsPerNode              // of a worker
	MaxWorkers = jobspec.MaxWorkers
	MaxText    = 255 // bytes of an id, a name, a user or an account
	maxModels  = 64
)

// minMemory is the memory of a worker if the trace does not give it: the least that a job may
// request.
const minMemory = jobspec.MinMemory

// Job is one job of a trace in neutral units. Only the simulator may see Work, Steps, Progress and
// Scaling, Search and Learning. Policies may see everything else, Estimate only if they are allowed
// to.
type Job struct {
	ID       string // as in the trace; unique in it
	Line     int    // of the input, from 1; 0 for a generated job
	Name     string // jobs of one user with the same name are probably alike; may be empty
	User     string // leaf of the tree of accounts
	Account  string
	Class    jobspec.Class
	Priority int    // 0 to 100
	QoS      string // the trace's own word for the service class, if any
	App      string // the program, if known
	Batch    int    // samples of a step over all workers, if known

	Submit int64 // ms since the trace began
	// Work is how many ms the job runs at [FullRate]: alone, undisturbed, with Workers workers in
	// their best placement (or as its Scaling says).
	Work     int64
	Steps    int64 // of training that Work stands for; 0 if unknown
	Progress int64 // the same in steps of the application's smallest batch; 0 if unknown
	Grace    int64 // ms between the notice of a preemption and the kill; Unknown if not given
	Restart  int64 // ms that a restart or a resize holds resources without progress; Unknown if not given
	Limit    int64 // ms an attempt may run; 0: none; policies see it
	Estimate int64 // ms, the user's own estimate; 0: none; only policy easy may see it

	Request    model.Vector // of each worker
	Workers    int          // requested
	MinWorkers int          // elastic jobs run with any number from here to MaxWorkers; others have Workers in both
	MaxWorkers int
	PerNode    int          // at most this many workers on one node; 0: any number
	Servers    int          // workers of a fixed second role, such as parameter servers; the gang includes them
	Server     model.Vector // request of each of them
	Models     []string     // allowed GPU models; empty: any

	Scaling  Scaling  // nil: in proportion to the number of workers
	Locality Locality // the cost of distance between the workers
	// Saves is how much of its work the job keeps when it is preempted. Empty: not given.
	Saves Saves
	Every int64 // ms between checkpoints, with SavesEvery

	// Model is the kind of network that it trains, by a name of the interference model; "": not known.
	Model  string
	Pauses bool // it can be suspended at the end of a mini-batch

	Search   *Search   // to which it belongs, shared with its other jobs; nil: none
	Learning *Learning // how well it learns, if it belongs to a search

	Unplaced bool // the recorded system never ran it; Work is how long it was wanted
}

// Saves says when a job writes its state to disk.
type Saves string

// When jobs write their state to disk.
const (
	SavesNone   Saves = "none"   // never: it starts from scratch
	SavesSignal Saves = "signal" // all of it, within the grace period
	SavesEvery  Saves = "every"  // at intervals: work after the last checkpoint is lost
)

// Elastic reports whether the number of workers may change.
func (j *Job) Elastic() bool { return j.MinWorkers != j.MaxWorkers }

// Demand returns the room of the job with n workers, its servers included.
func (j *Job) Demand(n int) model.Vector {
	return j.Request.Times(int64(n)).Plus(j.Server.Times(int64(j.Servers)))
}

// Fill sets the fields that the trace left open. Call it after all columns are read and before
// [Job.Check].
func (j *Job) Fill() {
	j.Workers = cmp.Or(j.Workers, 1)
	j.MinWorkers = cmp.Or(j.MinWorkers, j.Workers)
	j.MaxWorkers = cmp.Or(j.MaxWorkers, max(j.Workers, j.MinWorkers))
	j.User, j.Account = cmp.Or(j.User, "user"), cmp.Or(j.Account, "default")
	j.Request.Cores = cmp.Or(j.Request.Cores, 1)
	j.Request.Memory = max(j.Request.Memory, minMemory)
}

// Check returns the fault of a job, or nil. Faults are numbers that are negative or absurd, or zero
// where that means nothing.
func (j *Job) Check() error {
	for _, err := range []error{
		j.checkTexts(), j.checkTimes(), j.checkWorkers(), j.checkSearch(),
		checkVector("the request", j.Request), checkVector("the request of a server", j.Server),
	} {
		if err != nil {
			return err
		}
	}
	if j.Request.Cores < 1 || j.Request.Memory < 1 {
		return errors.New("a worker needs at least one core and some memory")
	}
	return j.Locality.check()
}

func (j *Job) checkTexts() error {
	for _, t := range []struct{ what, text string }{
		{"id", j.ID}, {"name", j.Name}, {"user", j.User}, {"account", j.Account}, {"class of service",
			j.QoS}, {"application", j.App}, {"network", j.Model},
	} {
		if err := checkText(t.what, t.text); err != nil {
			return err
		}
	}
	if len(j.Models) > maxModels {
		return fmt.Errorf("%d GPU models, at most %d", len(j.Models), maxModels)
	}
	for _, m := range j.Models {
		if m == "" {
			return errors.New("an empty GPU model in the list of models")
		}
		if err := checkText("GPU model", m); err != nil {
			return err
		}
	}
	switch {
	case j.ID == "" || j.User == "" || j.Account == "":
		return errors.New("the id, the user or the account is empty")
	case j.Class != jobspec.TE && j.Class != jobspec.BE:
		return fmt.Errorf("the class must be te or be, not %q", j.Class)
	case j.Priority < 0 || j.Priority > 100:
		return fmt.Errorf("the priority must be from 0 to 100, not %d", j.Priority)
	case j.Saves != "" && j.Saves != SavesNone && j.Saves != SavesSignal && j.Saves != SavesEvery:
		return fmt.Errorf("the way of saving must be none, signal or every, not %q", j.Saves)
	case (j.Saves == SavesEvery) != (j.Every > 0):
		return errors.New("checkpoints at intervals need an interval, and others must not have one")
	case j.Batch < 0 || j.Steps < 0 || j.Progress < 0:
		return errors.New("the batch size, the number of steps or the progress is negative")
	}
	return nil
}

// checkText refuses texts that cannot be shown on one line.
func checkText(what, text string) error {
	if len(text) > MaxText {
		return fmt.Errorf("the %s has %d bytes, at most %d", what, len(text), MaxText)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("the %s is not UTF-8", what)
	}
	for _, r := range text {
		if r < ' ' || r == 0x7f {
			return fmt.Errorf("the %s has a control character", what)
		}
	}
	return nil
}

func (j *Job) checkTimes() error {
	for _, t := range []struct {
		what      string
		ms, least int64
	}{
		{"the submit time", j.Submit, 0}, {"the run time", j.Work, 1}, {"the grace period", j.Grace, Unknown},
		{"the restart cost", j.Restart, Unknown}, {"the time limit", j.Limit, 0}, {"the estimate", j.Estimate, 0},
		{"the time between checkpoints", j.Every, 0},
	} {
		switch {
		case t.ms < 0 && t.ms < t.least:
			return fmt.Errorf("%s is negative", t.what)
		case t.ms < t.least:
			return fmt.Errorf("%s is zero", t.what)
		case t.ms > MaxTime:
			return fmt.Errorf("%s is more than ten years", t.what)
		}
	}
	return nil
}

func (j *Job) checkWorkers() error {
	switch {
	case j.MinWorkers < 1 || j.MaxWorkers < j.MinWorkers || j.Workers < j.MinWorkers || j.Workers > j.MaxWorkers:
		return fmt.Errorf("%d workers are not between the minimum %d and the maximum %d, or these are not positive and in "+
			"order", j.Workers,
			j.MinWorkers, j.MaxWorkers)
	case j.MaxWorkers > MaxWorkers || j.Servers > MaxWorkers:
		return fmt.Errorf("%d workers and %d servers, at most %d of each", j.MaxWorkers, j.Servers, MaxWorkers)
	case j.PerNode < 0 || j.Servers < 0:
		return errors.New("the workers on a node or the servers are negative")
	}
	return nil
}

func checkVector(what string, v model.Vector) error {
	switch {
	case v.Cores < 0 || v.Memory < 0 || v.GPUs < 0:
		return fmt.Errorf("%s is negative", what)
	case v.Cores > MaxCores:
		return fmt.Errorf("%s of %d cores is more than %d", what, v.Cores, MaxCores)
	case v.Memory > MaxMemory:
		return fmt.Errorf("%s of %d bytes of memory is more than a pebibyte", what, v.Memory)
	case v.GPUs > gpu && v.GPUs%gpu != 0:
		return fmt.Errorf("%s of %d thousandths of a GPU is more than one GPU, but not whole: only a single GPU can be "+
			"shared", what, v.GPUs)
	case v.GPUs > MaxGPUs*gpu:
		return fmt.Errorf("%s of %d thousandths of a GPU is more than %d GPUs", what, v.GPUs, MaxGPUs)
	}
	return nil
}
