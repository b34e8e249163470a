package model

import (
	"github.com/rota-hpc/rota/jobspec/hostlist"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// StepReport is a step of a job that has ended: a program that was started inside the allocation.
type StepReport struct {
	Job     JobID `json:"job"`
	Attempt int   `json:"attempt"`
	Step
}

// Step is one step of an attempt.
type Step struct {
	Row      int    `json:"row"` // from 1, in the order in which the steps of the attempt have ended
	ID       int    `json:"id"`  // as in 7.0
	Name     string `json:"name"`
	Nodes    string `json:"nodes"` // as a host list, see [Step.SetNodes]
	Tasks    int    `json:"tasks"`
	Cores    int    `json:"cores"` // on all nodes
	GPUs     int    `json:"gpus,omitempty"`
	Began    UnixMS `json:"began"` // by the clock of the first node
	Ended    UnixMS `json:"ended"`
	ExitCode int    `json:"exit_code,omitempty"`
	Signal   int    `json:"signal,omitempty"`
	OOM      bool   `json:"oom,omitempty"`
	Why      string `json:"why,omitempty"` // what ended it, if that was not its program
	Usage    *Usage `json:"usage,omitempty"`

	// output that the step's client could not write; nil: none
	OutputLost *lossy.Loss `json:"output_lost,omitempty"`
}

// MaxSteps is how many steps of a job are kept. Later ones are counted only.
const MaxSteps = 10_000

// MaxStepText is how many bytes the name of a step, and why it ended, may have.
const MaxStepText = 256

// maxStepNodes is how many bytes the nodes of a step may have, as a host list: a few for names with numbers.
const maxStepNodes = 8 << 10

// SetNodes notes the nodes of a step: the first half of them, or fewer, if their names have nothing in
// common and there are thousands.
func (s *Step) SetNodes(names []string) {
	for s.Nodes = hostlist.Compress(names); len(s.Nodes) > maxStepNodes; s.Nodes = hostlist.Compress(names) {
		names = names[:len(names)/2]
	}
}

// NodeNames lists the nodes of a step.
func (s *Step) NodeNames() []string {
	names, err := hostlist.Expand(s.Nodes)
	if err != nil {
		return []string{s.Nodes} // which no node has written
	}
	return names
}

// Possible reports whether a node can say so of a step.
func (r *StepReport) Possible() bool {
	return r.Row > 0 && r.ID >= 0 && r.Tasks > 0 && min(r.Cores, r.GPUs) >= 0 && r.Ended >= r.Began &&
		len(r.Name) <= MaxStepText && len(r.Why) <= MaxStepText && len(r.Nodes) > 0 && len(r.Nodes) <= maxStepNodes &&
		(r.Usage == nil || r.Usage.Possible()) && (r.OutputLost == nil || r.OutputLost.Possible())
}

// AddStep notes a step that has ended, unless it is known already. The job must be one that may be
// changed.
func (j *Job) AddStep(a *Attempt, s Step) bool {
	if s.Row <= a.LastStep {
		return false
	}
	a.LastStep = s.Row
	kept := 0
	for i := range j.Attempts {
		kept += len(j.Attempts[i].Steps)
	}
	if kept < MaxSteps {
		a.Steps = append(a.Steps, s)
	}
	return true
}
