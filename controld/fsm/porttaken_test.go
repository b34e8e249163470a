package fsm

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestATakenPort launches a job again at once, on the same node, that was given a port at which
// something else listens. It notices that the port is given again, that the node is avoided, or
// that the user pays for it. It also notices that a renewed inventory forgets the port.
func TestATakenPort(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	id := w.submit(1, 1)
	w.ok(w.start(id, "n"))
	port := w.job(id).Live().MasterPort
	w.report(id, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.Message, r.PortTaken = "taken", port })
	j := w.job(id)
	if j.State != model.Pending || j.Eligible > w.s.View().At() || len(j.Exclude) > 0 || j.Counters.LaunchFailures != 1 ||
		j.Counters.UserFailures != 0 || j.Reason.Text != "taken" {
		t.Fatalf("%+v", j)
	}
	w.cause(id, model.CauseLaunch)
	n, _ := w.s.View().Node("n")
	if next, ok := w.s.View().FreePort("n"); !ok || next == port || !slices.Equal(n.PortsTaken, []int{port}) {
		t.Errorf("the next port is %d, taken are %v", next, n.PortsTaken)
	}
	again := *n
	again.PortsTaken = nil
	w.must(RegisterNode{Node: again})
	if n, _ := w.s.View().Node("n"); !slices.Equal(n.PortsTaken, []int{port}) {
		t.Errorf("taken after the node has registered again: %v", n.PortsTaken)
	}
	w.ok(w.start(id, "n"))
	w.report(id, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.PortTaken = 7 }) // which it was not given
	if n, _ := w.s.View().Node("n"); !slices.Equal(n.PortsTaken, []int{port}) || w.job(id).Eligible <= w.s.View().At() {
		t.Errorf("taken after a report about another port: %v", n.PortsTaken)
	}
	again.BootID = "next"
	w.must(RegisterNode{Node: again})
	if n, _ := w.s.View().Node("n"); n.PortsTaken != nil {
		t.Errorf("taken after a boot: %v", n.PortsTaken)
	}
}

// TestTakenPortsAreBounded remembers no more than half of a node's range.
func TestTakenPortsAreBounded(t *testing.T) {
	n := &model.Node{PortMin: 1, PortMax: 6}
	for _, port := range []int{1, 2, 3, 2, 4} {
		n.PortsTaken = n.WithPortTaken(port)
	}
	if want := []int{3, 2, 4}; !slices.Equal(n.PortsTaken, want) {
		t.Errorf("%v, want %v", n.PortsTaken, want)
	}
	if one := (&model.Node{PortMin: 5, PortMax: 5}); len(one.WithPortTaken(5)) > 0 {
		t.Error("the only port of a node is never given again")
	}
}

// TestGraceIsMeasured learns from attempts that were asked to leave and had begun, and from no
// others.
func TestGraceIsMeasured(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	long := func(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{GracePeriod: 1200} }
	known := func() int { return len(w.s.View().Statistics().Graces) }
	id := w.running(1, []string{"n"}, long)
	other := w.submit(1, 1)
	w.finished(other, 1)
	if known() != 0 {
		t.Fatalf("a failure says how long jobs take to leave: %v", w.s.View().Statistics().Graces)
	}
	w.ok(w.plan(&StopJob{Job: id, Attempt: 1, Cause: model.CauseTE}))
	w.wait(2)
	w.report(id, 0, model.WorkerExited, func(r *model.WorkerReport) { r.ExitCode = 85 })
	w.cause(id, model.CauseTE)
	for key, g := range w.s.View().Statistics().Graces {
		if g.Took != 2000 || g.Declared != 1_200_000 {
			t.Errorf("%s: %+v", key, g)
		}
	}
	if known() != 2 {
		t.Errorf("%d kinds are known, want the job's and the user's", known())
	}
}
