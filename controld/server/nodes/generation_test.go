package nodes

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhatANodeKnowsAndTheStateDoesNot goes through jobs and attempts that a node names: those next to what the
// state knows.
func TestWhatANodeKnowsAndTheStateDoesNot(t *testing.T) {
	m, index := fsm.New(cluster.DefaultConfig()), uint64(0)
	apply := func(c fsm.Command) any {
		t.Helper()
		index++
		got, err := m.Apply(index, fsm.Entry{Stamp: model.Stamp{At: 1000}, Command: c})
		if err != nil {
			t.Fatalf("%s: %v", c.Kind(), err)
		}
		return got
	}
	for _, name := range []string{"n1", "n2"} {
		apply(fsm.RegisterNode{Node: model.Node{Name: name, Addr: name + ":1", BootID: "b1", Machine: name, Cores: 32,
			Memory: 256 * jobspec.GiB, PortMin: 20000, PortMax: 20003}})
	}
	submit := func(array string, workers int) model.JobID {
		spec := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Count: workers, Tasks: []jobspec.Task{{
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
		if array != "" {
			spec.Array = &jobspec.Array{Indices: array}
		}
		return apply(fsm.SubmitJobs{Owner: model.Identity{UID: 7, User: "ann"},
			Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	}
	cancel := func(id model.JobID) {
		apply(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: id}}, By: 7})
	}
	runs, waits, gone := submit("", 2), submit("", 1), submit("", 1)
	cancel(gone)
	array, ended := submit("0-1", 1), submit("0-1", 1)
	cancel(ended)
	if errs := apply(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: runs, Port: 20000,
		Places: []model.Place{{Node: "n1"}, {Node: "n2"}}}}}).([]error); errs[0] != nil {
		t.Fatal(errs)
	}
	last := m.View().LastJob()
	at := func(id model.JobID, attempt int) string { return fmt.Sprintf("%d.%d.0", id, attempt) }
	for _, c := range []struct {
		name    string
		known   string
		ran     model.JobID // with a higher attempt
		unknown int
	}{
		{"the attempt that runs", at(runs, 1), 0, 0}, {"a later one", at(runs, 2), runs, 0},
		{"one of a job that waits", at(waits, 1), waits, 0}, {"one of a job that has ended", at(gone, 1), 0, 0},
		{"one of a task that waits", at(array+1, 1), array + 1, 0}, {"one of an array that has ended", at(ended+1, 1), 0, 0},
		{"the last id", at(last, 1), 0, 0}, {"one behind it", at(last+1, 1), 0, 1},
	} {
		var out fsm.AcceptGeneration
		err := summarise(m.View(), &api.AcceptGeneration{Known: []string{c.known, c.known}}, &out)
		ran := model.JobID(0)
		if len(out.Ran) == 1 {
			ran = out.Ran[0].Job
		}
		if err != nil || ran != c.ran || len(out.Ran) > 1 || out.Unknown != c.unknown || out.LastJob == 0 {
			t.Errorf("%s, %s: %+v, %v", c.name, c.known, out, err)
		}
	}
	var out fsm.AcceptGeneration
	if err := summarise(m.View(), &api.AcceptGeneration{Known: []string{at(waits, 3), at(runs, 4), at(waits, 2),
		at(runs, 3)}}, &out); err != nil || !reflect.DeepEqual(out.Ran, []generation.RanAttempt{{Job: runs, Attempt: 4},
		{Job: waits, Attempt: 3}}) || out.LastJob != waits {
		t.Errorf("the highest attempts are %+v, the last job %d, %v", out.Ran, out.LastJob, err)
	}
	for _, bad := range []string{"", "7", "0.1.0", "1.0.0", "x.1.0"} {
		if err := summarise(m.View(), &api.AcceptGeneration{Known: []string{bad}}, &out); err == nil {
			t.Errorf("%q names a worker", bad)
		}
	}
	missing := func(state model.WorkerState, live ...string) int {
		apply(fsm.NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{{Job: runs, Attempt: 1, Worker: 1,
			State: state}}})
		out := fsm.AcceptGeneration{Node: "n2"}
		if err := summarise(m.View(), &api.AcceptGeneration{Live: live}, &out); err != nil {
			t.Fatal(err)
		}
		return len(out.Missing)
	}
	own := fmt.Sprintf("%d.1.1", runs)
	if n := missing(model.WorkerAssigned); n != 0 {
		t.Errorf("before its container was made %d workers are missing", n)
	}
	if a, b, c := missing(model.WorkerCreated), missing(model.WorkerCreated, own), missing(model.WorkerCreated,
		at(runs, 1)); a != 1 || b != 0 || c != 1 {
		t.Errorf("of one worker %d, %d, %d are missing", a, b, c)
	}
	if n := missing(model.WorkerExited); n != 0 {
		t.Errorf("after its end %d workers are missing", n)
	}
}

// TestHowAGenerationIsShown: before it holds, when it does, and until jobs from before may start.
func TestHowAGenerationIsShown(t *testing.T) {
	s := small(t)
	g := generation.Generation{Number: 1, ID: "00000000000000aa"}
	show := func() *api.GenerationState {
		return present.Generation(s.Replica.View(), s.Replica.Now(s.Replica.View()))
	}
	if show() != nil || s.awaitGeneration(s.Of(nil, "n1")) != nil {
		t.Errorf("generation 0 is shown as %+v", show())
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		servertest.Boot(t, s.Replica, n, "b"+n)
	}
	s.Do(fsm.RaiseGeneration{Generation: g, Means: generation.MeansRestore, Controller: "c1"})
	got := show()
	if got.Generation != g.String() || got.Means != generation.MeansRestore || got.Controller != "c1" ||
		got.Raised == nil ||
		got.Settled || got.Accepted != 0 || got.Need != 2 || !slices.Equal(got.Missing, []string{"n1", "n2", "n3"}) ||
		got.OldJobsIn != 0 {
		t.Errorf("before any node follows: %+v", got)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	s.Alive = gone
	if err := s.awaitGeneration(s.Of(nil, "n1")); !errors.Is(err, generation.ErrUnsettled) {
		t.Errorf("it holds already: %v", err)
	}
	follows := func(node string) error {
		_, err := s.nodeThatFollows(s.Of(nil, node), "b"+node)
		return err
	}
	if err := follows("n1"); !errors.Is(err, generation.ErrGeneration) {
		t.Errorf("n1 follows: %v", err)
	}
	accept := func(node, boot, generation string) (*api.Generation, error) {
		return s.acceptGeneration(s.Of(nil, node), &api.AcceptGeneration{BootID: boot, Generation: generation,
			Known: []string{fmt.Sprintf("%d.1.0", 7)}})
	}
	for name, c := range map[string][3]string{"another boot": {"n1", "x", g.String()}, "no node": {"n9", "bn9",
		g.String()},
		"another generation": {"n1", "bn1", "1-00000000000000bb"}, "no generation": {"n1", "bn1", "1"}} {
		if _, err := accept(c[0], c[1], c[2]); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if got, err := accept("n1", "bn1", g.String()); err != nil || !got.Accepted || got.Settled ||
		got.Generation != g.String() {
		t.Errorf("n1 follows: %+v, %v", got, err)
	}
	if err := follows("n1"); err != nil {
		t.Error(err)
	}
	if err := follows("n2"); err == nil {
		t.Error("n2 follows too")
	}
	if got := show(); got.Settled || got.Accepted != 1 || !slices.Equal(got.Missing, []string{"n2", "n3"}) ||
		got.Unknown != 1 {
		t.Errorf("with one of three: %+v", got)
	}
	if got, err := accept("n2", "bn2", g.String()); err != nil || !got.Settled {
		t.Errorf("n2 follows: %+v, %v", got, err)
	}
	cfg := s.Replica.View().Config()
	if got, span := show(), (cfg.LeaseMS+cfg.MarginMS)/1000; !got.Settled || got.Accepted != 2 || got.OldJobsIn > span ||
		got.OldJobsIn < span-60 {
		t.Errorf("with two of three: %+v, the lease is %d s", got, span)
	}
	if err := s.awaitGeneration(s.Of(nil, "n1")); err != nil {
		t.Errorf("it holds: %v", err)
	}
	if got, err := s.getGeneration(s.Of(nil, "n3")); err != nil || got.Accepted || !got.Settled {
		t.Errorf("n3 asks: %+v, %v", got, err)
	}
}
