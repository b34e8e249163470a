package fsm

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// divide makes a job a pipeline of groups, or gives its workers another idea of success.
func (c *chaos) divide(spec *jobspec.Job) {
	g := &spec.Groups[0]
	g.Success = []string{"", "leader", "any"}[c.IntN(3)]
	g.OnWorkerFailure = []string{"", "ignore"}[c.IntN(2)]
	if spec.Array != nil {
		if c.small && c.one(2) {
			spec.Array.Indices, spec.Begin, spec.Deadline = "5", "", ""
		}
		spec.Array.Order = []string{"", "random"}[c.IntN(2)]
		if most := c.IntN(3); c.one(2) {
			spec.Array.MaxFailures = &most
		}
		return
	}
	if !c.one(3) {
		return
	}
	names := []string{"a", "b", "c", "d"}[:2+c.IntN(5)/2]
	like := *g
	spec.Groups = nil
	for i, name := range names {
		like.Name, like.DependsOn = name, nil
		for _, before := range names[:i] {
			if c.one(2) {
				like.DependsOn = append(like.DependsOn, before+[]string{"", ":any", ":failed", ":started"}[c.IntN(4)])
			}
		}
		like.Count = 1 + c.IntN(2)
		spec.Groups = append(spec.Groups, like)
	}
}

// control2 acts on records and on some of their members.
func (c *chaos) control2() Command {
	verbs := []model.Verb{model.VerbCancel, model.VerbHold, model.VerbHold, model.VerbRelease, model.VerbRelease,
		model.VerbRequeue, "x"}
	cmd := ControlJobs{Verb: verbs[c.IntN(len(verbs))], By: uint32(c.IntN(3)), Admin: c.one(2)}
	if cmd.Verb == model.VerbCancel && c.one(3) {
		cmd.Signal = []string{"SIGUSR1", "SIGNONE"}[c.IntN(2)]
	}
	var parents []*model.Job
	for j := range c.s.v.Jobs() {
		if j.Children != nil && !j.State.Final() {
			parents = append(parents, j)
		}
	}
	for range 1 + c.IntN(3) {
		t := Target{ID: c.job()}
		if len(parents) > 0 && !c.one(5) {
			t.ID = parents[c.IntN(len(parents))].ID
			if size := c.s.v.Job(t.ID).Children.Size; !c.one(3) {
				first := 1 + c.IntN(size)
				t.Tasks = ranges.Span(first, min(first+c.IntN(3), size+c.IntN(20)/19))
			}
		}
		cmd.Targets = append(cmd.Targets, t)
	}
	return cmd
}

// noticeParents remembers what parents have come to.
func (c *chaos) noticeParents() {
	for j := range c.s.v.Jobs() {
		f := j.Children
		if f == nil {
			continue
		}
		kind := "array"
		if j.Spec.Array == nil {
			kind = "pipeline"
		}
		if j.State.Final() || j.State == model.Running {
			c.seen[kind+" in state "+string(j.State)]++
		}
		if len(f.HeldUser) > 0 {
			c.seen["elements held by their owner"]++
		}
		if len(f.HeldAdmin) > 0 {
			c.seen["elements held by an operator"]++
		}
		if j.Hold != model.NotHeld && j.State == model.Running {
			c.seen["a parent job that is held although it has begun"]++
		}
	}
}

// TestRandomParents is TestRandomHistories with few jobs at a time, most of them parents, so that
// these come to their ends.
func TestRandomParents(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 4)), s: New(cluster.DefaultConfig()), at: 1, seen: seen, small: true}
		twin, audit := New(cluster.DefaultConfig()), audited(t, c.s)
		for i := uint64(1); i <= 5000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}, Command: c.parentCommand()}
			_, err := c.s.Apply(i, e)
			if bad := errors.Join(c.s.Check(), audit.Check()); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			c.noticeParents()
		}
	}
	for _, what := range []string{
		"array in state R", "array in state CD", "array in state F", "array in state CA", "array in state DL",
		"pipeline in state R",
		"pipeline in state CD", "pipeline in state F", "pipeline in state CA", "elements held by their owner",
		"elements held by an operator",
		"a parent job that is held although it has begun",
	} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("there was no %s: %v", what, seen)
		}
	}
}

func (c *chaos) parentCommand() Command {
	open := 0
	for j := range c.s.v.Jobs() {
		if !j.State.Final() && j.Parent == 0 {
			open++
		}
	}
	switch n := c.IntN(100); {
	case len(c.s.v.Nodes()) < 4:
		return c.register()
	case n < 2:
		return SetNodeState{Node: c.nodeName(), State: []model.NodeState{model.NodeUp, model.NodeUp, model.NodeDown,
			model.NodeDrained}[c.IntN(4)]}
	case n < 12 && open < 8:
		cmd := c.submit()
		if one, ok := cmd.(SubmitJobs); ok {
			cmd = c.depend(one)
		}
		return cmd
	case n < 15:
		return c.control2()
	case n < 17:
		return TrimHistory{UpTo: c.s.v.LastSeq() - c.Int64N(40)}
	case n < 45:
		return c.plan()
	}
	return c.report()
}

// TestCheckFindsDamageToParents damages what a parent job knows in one way at a time: Check must
// say so.
func TestCheckFindsDamageToParents(t *testing.T) {
	for name, damage := range map[string]func(w *world, parent, task *model.Job){
		"a task counted twice": func(_ *world, r, _ *model.Job) { r.Children.Completed++ },
		"a task that waits although it lives": func(_ *world, r, _ *model.Job) {
			r.Children.Waiting = r.Children.Waiting.With(ranges.Span(1, 1))
		},
		"a task that waits and was dropped": func(_ *world, r, _ *model.Job) { r.Children.Dropped = ranges.Span(3, 3) },
		"a held task that does not wait":    func(_ *world, r, _ *model.Job) { r.Children.HeldUser = ranges.Span(1, 1) },
		"an end although tasks wait":        func(_ *world, r, _ *model.Job) { r.State = model.Failed },
		"a task of nobody":                  func(_ *world, _, m *model.Job) { m.Parent += 100 },
		"a task with a specification":       func(_ *world, _, m *model.Job) { m.Spec = testSpec(1, 1) },
		"a live task that ended for its parent": func(_ *world, r, _ *model.Job) {
			r.Children.Live, r.Children.Failed = 0, 1
		},
		"a job with a task's id": func(w *world, r, _ *model.Job) {
			w.s.s.Put(&model.Job{ID: r.ID + 4, Spec: r.Spec, State: model.Pending, Workers: 1})
		},
	} {
		w := newWorld(t)
		w.node("n1", 8)
		id := w.parent(1, 1, array("0-4"))
		w.ok(w.make(id, 1, "n1"))
		w.ok(w.s.Check())
		damage(w, w.job(id), w.job(id+1))
		if err := w.s.Check(); err == nil {
			t.Errorf("%s: Check says nothing", name)
		}
	}
}
