package report

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/convergence"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
)

// News is a message about a worker. Each kind of message has a type below. On the wire all of them are
// rows of one form, [model.WorkerReport]: a message fills in the fields that it is about.
type News interface {
	// kind names the message within its worker: only the newest of a kind is sent. State has "".
	kind() string
	// fill writes the message into the row of its worker, which runs.
	fill(r *model.WorkerReport)
}

// State is how far a worker has come. A later state implies the earlier ones.
type State model.WorkerState

func (State) kind() string                 { return "" }
func (s State) fill(r *model.WorkerReport) { r.State = model.WorkerState(s) }

// Result is the state of a worker that has ended, as the journal keeps it.
type Result model.WorkerReport

func (Result) kind() string                 { return "" }
func (e Result) fill(r *model.WorkerReport) { *r = model.WorkerReport(e) }

// Finding says that a log policy has found a line in the output.
type Finding container.Finding

func (f Finding) kind() string               { return "policy " + f.Policy }
func (f Finding) fill(r *model.WorkerReport) { r.Policy, r.Message = f.Policy, f.Line }

// Rate is the progress of an attempt, in steps per 1,000 s.
type Rate int64

func (Rate) kind() string                 { return "rate" }
func (n Rate) fill(r *model.WorkerReport) { r.Rate = int64(n) }

// Class is the progress class that an attempt has come to by its metric.
type Class convergence.Class

func (Class) kind() string                 { return "class" }
func (c Class) fill(r *model.WorkerReport) { r.Class = convergence.Class(c) }

// Loss says how much output of a worker could not be written by now.
type Loss lossy.Loss

func (Loss) kind() string                 { return "loss" }
func (l Loss) fill(r *model.WorkerReport) { r.OutputLost = (*lossy.Loss)(&l) }

// Switch says that a worker has paused or gone on as ordered, or why it has not.
type Switch struct {
	Number   int    // of the order
	Means    string // that paused it; "" with Unpaused
	TookMS   int64  // how long that took; 0 with Unpaused
	Unpaused string // why it goes on although it was to pause; "": it has done as ordered
}

func (Switch) kind() string { return "switch" }
func (s Switch) fill(r *model.WorkerReport) {
	r.Switch, r.Means, r.TookMS, r.Unpaused = s.Number, s.Means, s.TookMS, s.Unpaused
}

// Profile is how a job uses its GPU when it has it for itself.
type Profile model.Profile

func (*Profile) kind() string                 { return "profile" }
func (p *Profile) fill(r *model.WorkerReport) { r.Profile = (*model.Profile)(p) }

// Packed is the rate of a job beside others on its GPU.
type Packed model.PackedRate

func (*Packed) kind() string                 { return "packed" }
func (p *Packed) fill(r *model.WorkerReport) { r.Packed = (*model.PackedRate)(p) }
