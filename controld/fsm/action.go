package fsm

import (
	"encoding/json"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// Action is one decision of a scheduling cycle. Each action has a file of its own, and a field in
// [storedAction].
type Action interface {
	// String says in words what the action does.
	String() string

	// PartOf returns the part of scheduling that the action belongs to. It is empty for actions that
	// no pause of a single part stops.
	PartOf() steering.Switch

	// ends reports whether the action only ends something, a suspension included, or announces an
	// end. Such actions go on whatever is paused.
	ends() bool

	// names returns the verb and the job with which an error names the action.
	names() (verb string, job model.JobID)

	// act carries the action out. An error is a refusal, after which the state is as it was.
	act(m *Machine) error

	// store sets the action's field in its stored form.
	store(to *storedAction)
}

// MayDo reports whether what operators have told the scheduler allows an action.
func MayDo(s *steering.Steering, a Action) bool {
	if len(s.Settings) == 0 {
		return true
	}
	if s.Setting(steering.All) != nil {
		return a.ends()
	}
	return s.Forbids(a.PartOf()) == nil
}

// carryOutAction carries out one action of a plan, unless an operator has paused its part of scheduling
// since it was decided.
func (m *Machine) carryOutAction(a Action) error {
	switch {
	case a == nil:
		return model.ErrBadAction
	case !MayDo(m.v.Steering(), a):
		return model.ErrPaused
	}
	err := a.act(m)
	if verb, job := a.names(); err != nil && verb != "" {
		return fmt.Errorf("%s job %d: %w", verb, job, err)
	}
	return err
}

// EncodeAction returns an action as JSON, in the form that the log stores.
func EncodeAction(a Action) ([]byte, error) {
	var s storedAction
	a.store(&s)
	return json.Marshal(s)
}

// storedAction is the form of an action in the log: exactly one field is set.
type storedAction struct {
	Start     *StartJob    `json:"start,omitempty"`
	Stop      *StopJob     `json:"stop,omitempty"`
	End       *EndAttempt  `json:"end,omitempty"`
	Reserve   *Reserve     `json:"reserve,omitempty"`
	Unreserve *model.JobID `json:"unreserve,omitempty"`
	GiveUp    *model.JobID `json:"give_up,omitempty"`
	Settle    bool         `json:"settle,omitempty"`
	Resize    *ResizeJob   `json:"resize,omitempty"`
	Suspend   *SuspendJob  `json:"suspend,omitempty"`
	Resume    *ResumeJob   `json:"resume,omitempty"`
	Pack      *PackJob     `json:"pack,omitempty"`
	Move      *MoveJob     `json:"move,omitempty"`
	Early     *EarlySignal `json:"early,omitempty"`
}

// action returns the action that is stored, an [unclearAction] if no field is set or several are.
func (s *storedAction) action() Action {
	switch {
	case s.fieldsSet() != 1:
		return &unclearAction{stored: *s}
	case s.Start != nil:
		return s.Start
	case s.Stop != nil:
		return s.Stop
	case s.End != nil:
		return s.End
	case s.Reserve != nil:
		return s.Reserve
	case s.Unreserve != nil:
		return &Unreserve{Job: *s.Unreserve}
	case s.GiveUp != nil:
		return &GiveUp{Job: *s.GiveUp}
	case s.Resize != nil:
		return s.Resize
	case s.Suspend != nil:
		return s.Suspend
	case s.Resume != nil:
		return s.Resume
	case s.Pack != nil:
		return s.Pack
	case s.Move != nil:
		return s.Move
	case s.Early != nil:
		return s.Early
	}
	return &Settle{}
}

func (s *storedAction) fieldsSet() (set int) {
	for _, is := range []bool{s.Start != nil, s.Stop != nil, s.End != nil, s.Reserve != nil, s.Unreserve != nil,
		s.GiveUp != nil, s.Settle, s.Resize != nil, s.Suspend != nil, s.Resume != nil,
		s.Pack != nil, s.Move != nil, s.Early != nil} {
		if is {
			set++
		}
	}
	return set
}

// unclearAction is an entry of a plan whose stored form is no action. It is refused, and written as
// it was read.
type unclearAction struct{ stored storedAction }

// String implements fmt.Stringer.
func (*unclearAction) String() string { return "nothing" }

// PartOf implements Action.
func (*unclearAction) PartOf() steering.Switch { return "" }

func (*unclearAction) ends() bool                   { return true }
func (*unclearAction) names() (string, model.JobID) { return "", 0 }
func (*unclearAction) act(*Machine) error           { return model.ErrBadAction }
func (a *unclearAction) store(to *storedAction)     { *to = a.stored }
