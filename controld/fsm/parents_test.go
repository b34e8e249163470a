package fsm

import (
	"bytes"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// parentsInEveryState is a history with parents in every state that they can be in.
func parentsInEveryState(w *world) {
	n := testNode("m1", 8)
	n.Memory *= 4
	w.must(RegisterNode{Node: n})
	sweep := w.parent(1, 1, array("0-9:3,20-29", func(a *jobspec.Array) { a.MaxParallel, a.Order = 3, "random" }))
	w.ok(w.make(sweep, 2, "m1"))
	w.ok(w.make(sweep, 9, "m1"))
	w.run(sweep + 2)
	w.exit(sweep+2, 4)
	w.ok(w.control2(model.VerbHold, sweep, "3-4"))
	w.ok(w.control2(model.VerbCancel, sweep, "6-7"))
	done := w.parent(1, 1, func(j *jobspec.Job) {
		j.Array = &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1"}}}}
	})
	w.ok(w.make(done, 1, "m1"))
	w.run(done + 1)
	w.exit(done+1, 0)
	pipe := w.parent(1, 1, taskGroups("a", "b<a", "c<b:failed"))
	w.ok(w.start(pipe+1, "m1"))
	w.run(pipe + 1)
	w.ok(w.control(model.VerbRequeue, alice.UID, false, pipe+1))
	held := w.parent(1, 1, array("1-5"), func(j *jobspec.Job) { j.Hold = true })
	w.ok(w.control2(model.VerbRelease, held, "2"))
	w.must(ControlJobs{Verb: model.VerbHold, Targets: []Target{{held, ranges.Span(3, 3)}}, Admin: true})
	w.must(TrimHistory{UpTo: w.s.v.LastSeq() - 1})
	w.ok(w.s.Check())
}

// TestDamagedParents changes one number after another of a snapshot with parents. An accepted
// snapshot must be usable.
func TestDamagedParents(t *testing.T) {
	w := newWorld(t)
	parentsInEveryState(w)
	good := w.snapshot()
	refused := 0
	for i, b := range good {
		if b < '0' || b > '9' {
			continue
		}
		for _, other := range []byte("09") {
			bad := bytes.Clone(good)
			bad[i] = other
			s, err := ReadSnapshot(bytes.NewReader(bad))
			if err != nil {
				refused++
				continue
			}
			use(s)
		}
	}
	if refused < 200 {
		t.Errorf("only %d damaged snapshots were refused", refused)
	}
}

// use does what a leader does with a state, which must not panic whatever is in it.
func use(s *Machine) {
	_ = s.Check()
	for g := range s.v.QueueGroups() {
		for _, j := range g.Jobs {
			if j.Children == nil {
				continue
			}
			for turns := j.TaskOrder(); turns.Len() > 0; {
				_ = turns.Next()
			}
		}
	}
}
