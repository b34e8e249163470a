package cluster

import (
	"cmp"
	"fmt"
)

// KindNodeReport is the kind of [NodeReport].
var KindNodeReport = newKind("node-report/1")

// NodeReport says what became of workers on one node. What belongs to an old attempt, or has been said before, changes nothing.
type NodeReport struct {
	Node    string         `json:"node"`
	BootID  string         `json:"boot_id"`
	Workers []WorkerReport `json:"workers"`
}

// WorkerReport is how far one worker has come.
type WorkerReport struct {
	Job      JobID       `json:"job"`
	Attempt  int         `json:"attempt"`
	Worker   int         `json:"worker"`
	State    WorkerState `json:"state"`
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`
	Lease    bool        `json:"lease,omitempty"` // stopped by its shim because the lease ran out
	Began    bool        `json:"began,omitempty"` // of a failed one: its command may have begun, so that this is no failure to launch
	Message  string      `json:"message,omitempty"`

	// A report with a Policy says that its log policy has found Message in the output, and nothing else.
	Policy string `json:"policy,omitempty"`
	Final  bool   `json:"final,omitempty"` // of a failure to launch: trying again cannot help
	Why    string `json:"why,omitempty"`   // which task ended the worker, if it was no main one

	// Rate is how fast the attempt makes progress, in steps in 1,000 s; 0: nothing is said about it. See [RateAfterMS].
	Rate int64 `json:"rate,omitempty"`
}

// Kind implements Command.
func (NodeReport) Kind() Kind { return KindNodeReport }

// rank orders worker states; both final ones are last.
func rank(w WorkerState) int {
	switch w {
	case WorkerAssigned:
		return 0
	case WorkerCreated:
		return 1
	case WorkerRunning:
		return 2
	case WorkerExited, WorkerFailed:
		return 3
	}
	return -1
}

// apply notes what became of workers. What is of an old attempt, of another node, or known already changes nothing.
func (c NodeReport) apply(s *State) (any, error) {
	n, _ := s.v.Node(c.Node)
	switch {
	case n == nil:
		return nil, fmt.Errorf("node %s: %w", c.Node, ErrNoNode)
	case n.BootID != c.BootID:
		return nil, fmt.Errorf("node %s: %w", c.Node, ErrOtherBoot)
	}
	for _, r := range c.Workers {
		if rank(r.State) < 0 {
			return nil, fmt.Errorf("job %d worker %d, state %q: %w", r.Job, r.Worker, r.State, ErrBadReport)
		}
	}
	for i := range c.Workers {
		if c.Workers[i].Policy != "" {
			s.recordFinding(c.Node, &c.Workers[i])
			continue
		}
		s.rated(c.Node, &c.Workers[i])
		s.workerReport(c.Node, &c.Workers[i])
	}
	return nil, nil
}

func (s *State) workerReport(node string, r *WorkerReport) {
	a, err := s.attempt(r.Job, r.Attempt)
	if err != nil || r.Worker < 0 || r.Worker >= len(a.Workers) {
		return
	}
	if w := &a.Workers[r.Worker]; w.Node != node || rank(r.State) <= rank(w.State) {
		return
	}
	next, a := copyToChange(s.v.Job(r.Job))
	w := &a.Workers[r.Worker]
	w.State = r.State
	if r.State == WorkerRunning || r.State == WorkerExited || r.Began {
		w.Started = cmp.Or(w.Started, s.v.at)
	}
	if r.State.Final() {
		w.ExitCode, w.Signal, w.OOM, w.Lease, w.Message = r.ExitCode, r.Signal, r.OOM, r.Lease, r.Message
		w.LaunchFinal, w.Why = r.Final, r.Why
		s.vacate(next, a, w)
	}
	s.advance(next, a)
}
