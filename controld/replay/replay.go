// Package replay repeats the decisions of a log. It applies the entries of a log to a state
// machine, and runs the scheduling cycle on the state that each committed plan was based on. The
// live leader's plan and the repeated plan must be equal, byte for byte.
package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
)

// viewsKept is the number of states kept before the newest one, one for each command. A plan is
// based on a state before its own entry: other commands enter the log during the cycle and the wait
// for a quorum. A busy cluster has some hundred commands in that time.
const viewsKept = 8192

// Replay is a replay in progress. It is not safe for concurrent use.
type Replay struct {
	Report
	machine *fsm.Machine
	cycle   func(*state.View, model.Instant, cluster.Policy) (fsm.CommitPlan, model.Instant)
	begin   uint64 // index of the first state
	views   []*state.View
	cut     cut
}

// cut is the newest repeated plan, divided as a leader divides it.
type cut struct {
	basedOn uint64
	at      model.Instant
	parts   []fsm.CommitPlan
}

// New returns a replay that continues from a machine, with one cycle cache for all plans or an
// empty one for each.
func New(m *fsm.Machine, withCache bool) *Replay {
	r := &Replay{machine: m, cycle: sched.Cycle, begin: m.Index(), views: make([]*state.View, viewsKept)}
	if withCache {
		r.cycle = new(sched.Cache).Cycle
	}
	r.Cache, r.From, r.To = withCache, m.Index(), m.Index()
	r.keep()
	return r
}

// Machine returns the state machine after the last entry.
func (r *Replay) Machine() *fsm.Machine { return r.machine }

// Apply applies a proposal of a log entry. If it is a plan, the cycle decides first.
func (r *Replay) Apply(entry uint64, proposal []byte) error {
	e, err := fsm.Decode(proposal)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if plan, ok := e.Command.(fsm.CommitPlan); ok {
		if err := r.compare(entry, plan); err != nil {
			return err
		}
	}
	_, err = r.machine.Apply(r.machine.Index()+1, e)
	if unknown := new(fsm.UnknownKindError); errors.As(err, &unknown) {
		return fmt.Errorf("it cannot be applied: %w", err)
	}
	r.Commands++
	r.To = r.machine.Index()
	r.keep()
	return nil
}

// keep stores the current state in place of the oldest one.
func (r *Replay) keep() {
	v := r.machine.View()
	r.views[v.Index()%viewsKept] = v
}

// compare decides a plan again.
func (r *Replay) compare(entry uint64, plan fsm.CommitPlan) error {
	r.Plans++
	v := r.views[plan.BasedOn%viewsKept]
	if v == nil || v.Index() != plan.BasedOn {
		r.OutOfReach++
		if plan.BasedOn >= r.begin {
			return fmt.Errorf("a plan is based on state %d, which is not among the %d states before state %d: no leader can "+
				"have written this log", plan.BasedOn, viewsKept, r.machine.Index()+1)
		}
		return nil
	}
	if plan.Rules != sched.RulesVersion(v.Config().Policy.Name) {
		r.OtherVersion++
		return nil
	}
	d, err := firstDifference(plan, r.decide(v, &plan))
	if err != nil {
		return err
	}
	if d == nil {
		r.Identical++
		return nil
	}
	r.Differing++
	if r.First == nil {
		d.Entry, d.Index, d.BasedOn, d.At = entry, r.machine.Index()+1, plan.BasedOn, plan.At
		d.Policy = v.Config().Policy.Name
		r.First = d
	}
	return nil
}

// decide returns a part of the repeated plan, or an empty plan if it has fewer parts.
func (r *Replay) decide(v *state.View, plan *fsm.CommitPlan) fsm.CommitPlan {
	c := &r.cut
	if c.parts == nil || c.basedOn != plan.BasedOn || c.at != plan.At {
		whole, _ := r.cycle(v, plan.At, v.Config().Policy)
		*c = cut{basedOn: plan.BasedOn, at: plan.At}
		for part := range sched.Parts(whole, sched.PartMost) {
			c.parts = append(c.parts, part)
		}
	}
	if plan.Part < 0 || plan.Part >= len(c.parts) {
		return fsm.CommitPlan{BasedOn: plan.BasedOn, At: plan.At, Rules: plan.Rules, Part: plan.Part}
	}
	return c.parts[plan.Part]
}

// firstDifference compares two plans in their log form, and returns nil if they are equal.
func firstDifference(logged, decided fsm.CommitPlan) (*Difference, error) {
	texts := make([][]byte, 2)
	for i, p := range []fsm.CommitPlan{logged, decided} {
		if p.Actions == nil {
			p.Actions = []fsm.Action{}
		}
		var err error
		if texts[i], err = json.Marshal(p); err != nil {
			return nil, fmt.Errorf("encode a plan: %w", err)
		}
	}
	if bytes.Equal(texts[0], texts[1]) {
		return nil, nil
	}
	d := &Difference{Logged: whole(&logged), Decided: whole(&decided)}
	for i := range max(len(logged.Actions), len(decided.Actions)) {
		a, b := actionAt(&logged, i), actionAt(&decided, i)
		if a.text != b.text {
			d.Action, d.Logged, d.Decided = i+1, a.words, b.words
			if a.words == b.words {
				d.Logged, d.Decided = a.text, b.text
			}
			break
		}
	}
	return d, nil
}
