package fsm

import (
	"encoding/json"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
)

// KindCommitPlan is the kind of [CommitPlan].
var KindCommitPlan = newKind("commit-plan/1")

// CommitPlan carries out what a scheduling cycle decided. Each action is checked against the
// present state with the same Fits that decided; one that no longer holds is refused alone, a gang
// whole. Its result is []error, one for each action.
//
// BasedOn, At and Rules are everything that a cycle knows beside the state. So the cycle can be run
// again on the state at BasedOn, and must decide the same. Apply does not look at them.
type CommitPlan struct {
	BasedOn uint64        `json:"based_on"`          // index of the view
	At      model.Instant `json:"at"`                // when the cycle decided
	Rules   int           `json:"rules"`             // the version of the policy's rules
	Part    int           `json:"part,omitempty"`    // of a plan in several entries: which this is, from 0
	Actions []Action      `json:"actions"`           // carried out in order; one that no longer fits is left out
	Rotated bool          `json:"rotated,omitempty"` // the cycle has looked whose turn it is among best-effort jobs
	// Would is what the cycle would have done to running jobs but for a dry run.
	Would []steering.Displacement `json:"would,omitempty"`
}

// Kind implements Command.
func (CommitPlan) Kind() Kind { return KindCommitPlan }

// storedPlan is the form of a plan in the log. It has the plan's fields, with the actions in their
// stored form.
type storedPlan struct {
	BasedOn uint64                  `json:"based_on"`
	At      model.Instant           `json:"at"`
	Rules   int                     `json:"rules"`
	Part    int                     `json:"part,omitempty"`
	Actions []storedAction          `json:"actions"`
	Rotated bool                    `json:"rotated,omitempty"`
	Would   []steering.Displacement `json:"would,omitempty"`
}

// stored returns the form of the plan in the log.
func (c CommitPlan) stored() any {
	s := storedPlan{BasedOn: c.BasedOn, At: c.At, Rules: c.Rules, Part: c.Part, Rotated: c.Rotated, Would: c.Would}
	if c.Actions != nil {
		s.Actions = make([]storedAction, len(c.Actions))
	}
	for i, a := range c.Actions {
		if a != nil {
			a.store(&s.Actions[i])
		}
	}
	return s
}

// MarshalJSON implements json.Marshaler.
func (c CommitPlan) MarshalJSON() ([]byte, error) { return json.Marshal(c.stored()) }

// UnmarshalJSON implements json.Unmarshaler. An unknown field is an error.
func (c *CommitPlan) UnmarshalJSON(data []byte) error {
	var s storedPlan
	if err := decodeStrict(data, &s); err != nil {
		return err
	}
	*c = CommitPlan{BasedOn: s.BasedOn, At: s.At, Rules: s.Rules, Part: s.Part, Rotated: s.Rotated, Would: s.Would}
	if s.Actions != nil {
		c.Actions = make([]Action, len(s.Actions))
	}
	for i := range s.Actions {
		c.Actions[i] = s.Actions[i].action()
	}
	return nil
}

// Empty reports whether there is nothing in a plan to be carried out or noted.
func (c *CommitPlan) Empty() bool { return len(c.Actions) == 0 && !c.Rotated && len(c.Would) == 0 }

// apply carries out the actions of the plan in order. Each is checked against the state that the
// ones before it have left.
func (c CommitPlan) apply(m *Machine) (any, error) {
	errs := make([]error, len(c.Actions))
	passed := map[model.JobID]int{}
	var heads []model.JobID
	for i, a := range c.Actions {
		errs[i] = m.carryOutAction(a)
		if past := startedPast(a); past != 0 && errs[i] == nil {
			if passed[past] == 0 {
				heads = append(heads, past)
			}
			passed[past]++
		}
	}
	for _, id := range heads {
		m.countBypass(id, passed[id])
	}
	if c.Rotated {
		m.s.Learn().Rotation()
	}
	m.recordDisplacements(c.Would)
	return errs, nil
}

func startedPast(a Action) model.JobID {
	if start, ok := a.(*StartJob); ok {
		return start.Bypasses
	}
	return 0
}

// countBypass notes that starts went past a blocked head.
func (m *Machine) countBypass(id model.JobID, n int) {
	m.jobs.ApplyChildChanges(id)
	if j := m.v.Job(id); j != nil && j.StillToStart() {
		next := *j
		next.Bypassed += int32(n)
		m.jobs.Put(&next)
	}
}
