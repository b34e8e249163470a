package server

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/jobspec"
)

// TestHowManyWrongSecretsAreTaken: so many at once from one network, from all of them, and no more.
func TestHowManyWrongSecretsAreTaken(t *testing.T) {
	var s strangers
	taken := 0
	for s.mayFail("10.0.0.1:7") {
		taken++
	}
	if taken != strangerBurst {
		t.Errorf("one network has shown %d wrong secrets at once, at most %d are allowed", taken, strangerBurst)
	}
	if s.mayFail("10.0.0.1:8") || !s.mayFail("10.0.1.1:7") {
		t.Error("another port of the network counts for it, and another network for itself")
	}
	for i := range 200 {
		if s.mayFail(fmt.Sprintf("10.1.%d.1:7", i)) {
			taken++
		}
	}
	if all := taken + 1; all < strangersMost || all > strangersMost+strangersRate { // a second may pass meanwhile
		t.Errorf("all networks have shown %d wrong secrets at once, at most %d are allowed", all, strangersMost)
	}
	for i := range strangersKept {
		s.mayFail(fmt.Sprintf("11.%d.%d.1:7", i/256, i%256))
	}
	if n := len(s.by); n > strangersKept {
		t.Errorf("%d networks are known", n)
	}
}

// TestWhichNodesRefuse lists those that refused within a minute, and tells of each generation once.
func TestWhichNodesRefuse(t *testing.T) {
	var r refusingNodes
	one := generation.Generation{Number: 1, ID: "00000000000000aa"}
	two := generation.Generation{Number: 2, ID: "00000000000000aa"}
	for i, c := range []struct {
		node  string
		g     generation.Generation
		first bool
	}{{"n2", one, true}, {"n2", one, false}, {"n1", one, true}, {"n2", two, true}} {
		if r.note(c.node, c.g) != c.first {
			t.Errorf("note %d is the first: %t", i, !c.first)
		}
	}
	want := []api.RefusingNode{{Node: "n1", Generation: one.String()}, {Node: "n2", Generation: two.String()}}
	if got := r.list(); !reflect.DeepEqual(got, want) {
		t.Errorf("they refuse: %+v", got)
	}
	r.nodes["n1"] = followed{one, time.Now().Add(-refusedFor)}
	r.nodes["n2"] = followed{two, time.Now().Add(-refusedFor + 30*time.Second)}
	if got := r.list(); !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("after a minute they refuse: %+v", got)
	}
}

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

// TestWhatMakesAnotherInventory: anything but the state, and the difference between none and an empty list.
func TestWhatMakesAnotherInventory(t *testing.T) {
	base := func() model.Node {
		return model.Node{Name: "n1", BootID: "b1", Cores: 4, Labels: map[string]string{"a": "b"},
			GPUs: []model.GPU{{UUID: "g"}}, SharedPath: []string{"/s"}}
	}
	for name, c := range map[string]struct {
		edit func(*model.Node)
		same bool
	}{
		"nothing": {func(*model.Node) {}, true}, "state": {func(n *model.Node) { n.State = model.NodeDown }, true},
		"reason": {func(n *model.Node) { n.Reason = "x" }, true}, "since": {func(n *model.Node) { n.Since.At = 7 }, true},
		"boot": {func(n *model.Node) { n.BootID = "b2" }, false}, "cores": {func(n *model.Node) { n.Cores++ }, false},
		"labels": {func(n *model.Node) { n.Labels = nil }, false}, "GPUs": {func(n *model.Node) { n.GPUs = nil }, false},
		"paths": {func(n *model.Node) { n.SharedPath = nil }, false},
	} {
		other := base()
		c.edit(&other)
		if sameInventory(base(), other) != c.same || sameInventory(other, base()) != c.same {
			t.Errorf("%s: the same %t", name, !c.same)
		}
	}
	empty := model.Node{Labels: map[string]string{}, GPUs: []model.GPU{}, SharedPath: []string{}}
	if !sameInventory(empty, model.Node{}) {
		t.Error("empty lists are others than none")
	}
}

// TestWhichRequestsShareAnEntry: refusals of one kind at once, others of a caller beyond so many.
func TestWhichRequestsShareAnEntry(t *testing.T) {
	entry := func(edit func(*history.AuditEntry)) *history.AuditEntry {
		e := &history.AuditEntry{UID: 7, Method: "POST", Route: "/v1/jobs", Status: 200, Code: "c"}
		edit(e)
		return e
	}
	for name, c := range map[string]struct {
		edit func(*history.AuditEntry)
		own  bool
	}{
		"the same": {func(*history.AuditEntry) {}, false}, "another user": {func(e *history.AuditEntry) { e.UID++ }, true},
		"another route":  {func(e *history.AuditEntry) { e.Route = "x" }, true},
		"another method": {func(e *history.AuditEntry) { e.Method = "PUT" }, true},
		"another status": {func(e *history.AuditEntry) { e.Status = 404 }, true},
		"another code":   {func(e *history.AuditEntry) { e.Code = "x" }, true},
	} {
		var l auditLog
		refused := func(e *history.AuditEntry) *history.AuditEntry { e.Status = max(e.Status, 400); return e }
		l.add(refused(entry(func(*history.AuditEntry) {})))
		l.add(refused(entry(c.edit)))
		if entries, lost := l.take(); (len(entries) == 2) != c.own || lost != 0 {
			t.Errorf("%s: %d entries, %d lost", name, len(entries), lost)
		}
	}
	var l auditLog
	for range maxApart + 5 {
		l.add(entry(func(*history.AuditEntry) {}))
	}
	l.add(entry(func(e *history.AuditEntry) { e.Status = 399 }))
	l.add(entry(func(e *history.AuditEntry) { e.UID = 8 }))
	if entries, _ := l.take(); len(entries) != maxApart+3 {
		t.Errorf("%d entries of a caller that has %d apart, one shared and one of another kind, and of another caller",
			len(entries), maxApart)
	}
	if entries, lost := l.take(); len(entries) != 0 || lost != 0 {
		t.Errorf("%d entries are taken twice", len(entries))
	}
	l.pending = make([]history.AuditEntry, maxPending-1)
	l.add(entry(func(*history.AuditEntry) {}))
	l.add(entry(func(*history.AuditEntry) {}))
	entries, lost := l.take()
	if len(entries) != maxPending || lost != 1 {
		t.Errorf("%d entries wait, %d are lost", len(entries), lost)
	}
	l.add(entry(func(e *history.AuditEntry) { e.Status = 500 }))
	l.putBack([]history.AuditEntry{{UID: 1}})
	l.add(entry(func(e *history.AuditEntry) { e.Status = 500 })) // shares none, as its place has moved
	if entries, _ := l.take(); len(entries) != 3 || entries[0].UID != 1 {
		t.Errorf("after entries were put back: %+v", entries)
	}
}

// TestHowManyUsersAreCounted: with one more than there is room for all begin anew.
func TestHowManyUsersAreCounted(t *testing.T) {
	var p processorTime
	now := time.Unix(1_000_000, 0)
	for uid := range uint32(readers) {
		p.spend(uid, 6*time.Second, 50, now)
	}
	if p.wait(0, 50, now) == 0 || len(p.users) != readers {
		t.Errorf("%d users are counted of %d, and the first waits %v", len(p.users), readers, p.wait(0, 50, now))
	}
	p.spend(readers, 6*time.Second, 50, now)
	if p.wait(0, 50, now) != 0 || p.wait(readers, 50, now) == 0 || len(p.users) != 1 {
		t.Errorf("%d users are counted after one more", len(p.users))
	}
}
