package cluster

import (
	"errors"
	"slices"
)

// SubmitJobs2 is SubmitJobs for everything that a job file can say: arrays, several groups, dependencies. Its result is []JobID, for a
// record the record's id: those of its members follow it.
type SubmitJobs2 struct {
	SubmitJobs
	Facts []Fact `json:"facts,omitempty"`
	Admin bool   `json:"admin,omitempty"` // an operator: may depend on anyone's jobs
}

// Fact is what the history says of a job that somebody depends on and the state may have no more.
type Fact struct {
	ID      JobID    `json:"id"`
	Code    int      `json:"code,omitempty"` // exit code
	Ended   JobState `json:"ended,omitempty"`
	UID     uint32   `json:"uid,omitempty"`     // of its owner
	Missing bool     `json:"missing,omitempty"` // the history has no such job either
}

// ControlJobs2 applies a verb to jobs, and to single members of records. Its result is []ControlResult, one for each target; one refusal
// does not stop the rest.
type ControlJobs2 struct {
	Verb    Verb     `json:"verb"`
	Targets []Target `json:"targets"`
	By      uint32   `json:"by"`    // uid of who asked
	Admin   bool     `json:"admin"` // an operator or root: may act on anyone's jobs
	Reason  string   `json:"reason,omitempty"`
	Signal  string   `json:"signal,omitempty"` // of cancel: in place of the one that the job says
}

// Target is a job, or some members of a record.
type Target struct {
	ID      JobID  `json:"id"`
	Members Ranges `json:"members,omitempty"` // by number, from 1; none: the job itself and with a record all its members
}

// CommitPlan2 is CommitPlan whose starts may make members of records, and whose places may have ports.
type CommitPlan2 struct {
	CommitPlan
}

// Command returns the plan in the kind that a cluster of some version may use.
func (c CommitPlan) Command(version int) Command {
	switch {
	case version >= 3 && c.newIn3():
		return CommitPlan3{c}
	case version >= 2:
		return CommitPlan2{c}
	}
	return c
}

// Kind implements Command.
func (SubmitJobs2) Kind() Kind  { return KindSubmitJobs2 }
func (ControlJobs2) Kind() Kind { return KindControlJobs2 }
func (CommitPlan2) Kind() Kind  { return KindCommitPlan2 }

// Refusals of plans by their form.
var (
	errPlanField  = errors.New("commit-plan/1 has no member, port, give_up, settle, for, firm, turns, resize or inexact")
	errPlanField2 = errors.New("commit-plan/2 has no resize or inexact")
)

// Empty reports whether there is nothing in a plan to be carried out or noted.
func (c *CommitPlan) Empty() bool { return len(c.Actions) == 0 && !c.Turns }

// newIn3 reports whether a plan says what only commit-plan/3 can.
func (c CommitPlan) newIn3() bool {
	return slices.ContainsFunc(c.Actions, func(a Action) bool { return a.Resize != nil || a.Stop != nil && a.Stop.Inexact })
}

// newIn2 reports whether a plan says what only commit-plan/2 can.
func (c CommitPlan) newIn2() bool {
	return c.Turns || slices.ContainsFunc(c.Actions, func(a Action) bool {
		return a.GiveUp != nil || a.Settle || a.Stop != nil && a.Stop.For != 0 || a.Reserve != nil && a.Reserve.Firm || a.Start != nil &&
			(a.Start.Member != 0 || slices.ContainsFunc(a.Start.Places, func(p Place) bool { return p.Port != 0 }))
	})
}

// decodePlan1 decodes a plan of version 1, and is as strict about fields that came later as programs of that version are.
func decodePlan1(body []byte) (Command, error) {
	var c CommitPlan
	if err := decodeStrict(body, &c); err != nil {
		return nil, err
	}
	if c.newIn2() || c.newIn3() {
		return nil, errPlanField
	}
	return c, nil
}

// decodePlan2 is decodePlan1 for plans of version 2.
func decodePlan2(body []byte) (Command, error) {
	var c CommitPlan2
	if err := decodeStrict(body, &c); err != nil {
		return nil, err
	}
	if c.newIn3() {
		return nil, errPlanField2
	}
	return c, nil
}
