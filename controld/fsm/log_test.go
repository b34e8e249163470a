package fsm

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/jobspec"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// TestLog replays the log of testdata to the state in its snapshot, byte for byte, and reads that
// snapshot.
func TestLog(t *testing.T) {
	if *update {
		writeLog(t, "testdata")
	}
	want, err := os.ReadFile("testdata/snapshot.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshotOf(t, replay(t, "testdata/log.jsonl").View()); !bytes.Equal(got, want) {
		t.Errorf("the log leads to another state:\n%s\nwant\n%s", got, want)
	}
	s, err := ReadSnapshot(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if got := snapshotOf(t, s.View()); !bytes.Equal(got, want) {
		t.Errorf("the snapshot is written differently:\n%s\nwant\n%s", got, want)
	}
}

// TestLogGoesOn applies further commands to the state that replayed the log and to the one that
// read its snapshot. They stay the same, and so does one that is restored after each command.
func TestLogGoesOn(t *testing.T) {
	data, err := os.ReadFile("testdata/snapshot.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	restore := func(data []byte) *Machine {
		s, err := ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	states := []*Machine{replay(t, "testdata/log.jsonl"), restore(data)}
	for i, c := range further(states[0]) {
		e := Entry{Stamp: model.Stamp{At: states[0].v.At() + 1000, Wall: 1_700_000_000_000}, Command: c}
		for k, s := range states {
			if _, err := s.Apply(s.Index()+1, e); err != nil {
				t.Fatalf("command %d, %s: %v", i, c.Kind(), err)
			}
			if err := s.Check(); err != nil {
				t.Fatalf("replica %d after command %d, %s: %v", k, i, c.Kind(), err)
			}
		}
		written := snapshotOf(t, states[0].View())
		states = append(states[:2], restore(written))
		for k, s := range states {
			if got := snapshotOf(t, s.View()); !bytes.Equal(got, written) {
				t.Fatalf("replica %d after command %d, %s:\n%s\nwant\n%s", k, i, c.Kind(), got, written)
			}
		}
	}
}

// further is what happens after the log.
func further(s *Machine) []Command {
	cfg := *s.v.Config()
	var pending model.JobID
	for j := range s.v.Jobs() {
		if j.State == model.Pending {
			pending = j.ID
		}
	}
	sweep, after := testSpec(1, 0), testSpec(1, 0)
	sweep.Array = &jobspec.Array{Indices: "0-3"}
	after.Dependencies = []jobspec.Dependency{{Type: model.NeedAfterAny,
		Jobs: []string{fmt.Sprint(pending), fmt.Sprint(s.v.LastJob() + 1)}}}
	return []Command{
		SetConfig{Config: cfg},
		SubmitJobs{Owner: alice, Key: "later", Digest: "d", Jobs: []*jobspec.Job{sweep, after}},
		ControlJobs{Verb: model.VerbCancel, Admin: true, Targets: []Target{{ID: pending},
			{ID: s.v.LastJob() + 1, Tasks: ranges.Span(2, 2)}}},
		ControlJobs{Verb: model.VerbCancel, Admin: true, Targets: []Target{{ID: s.v.LastJob() + 1}}},
		TrimHistory{UpTo: s.v.LastSeq() + 1},
	}
}

// replay applies a log, one entry a line, and makes sure that it has every kind of command.
func replay(t *testing.T, path string) *Machine {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, seen := New(cluster.DefaultConfig()), map[Kind]bool{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for i := uint64(1); lines.Scan(); i++ {
		e, err := Decode(lines.Bytes())
		if err != nil {
			t.Fatalf("%s:%d: %v", path, i, err)
		}
		seen[e.Command.Kind()] = true
		_, _ = s.Apply(i, e) // a refusal is part of the history
		if err := s.Check(); err != nil {
			t.Fatalf("%s:%d: %v", path, i, err)
		}
	}
	for kind := range kinds {
		if !seen[kind] {
			t.Errorf("%s has no %s", path, kind)
		}
	}
	return s
}

// steered turns switches of the scheduler, and records what a dry run would do.
func steered(w *world) {
	w.must(Steer{What: steering.Growth, On: true, By: "root", Reason: "a look at the racks"})
	w.must(Steer{What: steering.DryRun, On: true, By: "root"})
	waiting, spared := w.submit(1, 1), w.running(1, []string{"m1"})
	w.must(CommitPlan{BasedOn: w.index, Would: []steering.Displacement{{Job: spared, Attempt: 1, For: waiting,
		Cause: model.CauseOrder, GraceMS: 30_000}}})
}

// confirmedDead has a job wait for a node that is silent, until that is confirmed dead.
func confirmedDead(w *world) {
	w.node("w1", 2)
	w.running(1, []string{"w1"}, func(j *jobspec.Job) { j.OnNodeLost = jobspec.NodeLossWait })
	w.must(SetNodeState{Node: "w1", BootID: "b1", State: model.NodeDown, Reason: "silent"})
	w.must(ConfirmDead{Nodes: []string{"w1"}, By: "root", Reason: "burnt"})
}

func writeLog(t *testing.T, dir string) {
	t.Helper()
	w := newWorld(t)
	w.s = New(cluster.DefaultConfig())
	everything(w)
	parentsInEveryState(w)
	steered(w)
	confirmedDead(w)
	var log bytes.Buffer
	for _, e := range w.log {
		line, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		log.Write(append(line, '\n'))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"log.jsonl": log.Bytes(), "snapshot.jsonl": w.snapshot()} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// everything is a history with every kind of command and every way that matters for an attempt to
// end.
func everything(w *world) {
	cfg := cluster.DefaultConfig()
	cfg.ClusterName = "golden"
	w.must(FoundCluster{Cluster: "0123456789abcdef"})
	w.must(SetConfig{Config: cfg})
	w.must(CreateJoinToken{Digest: "t1", Role: "node", By: "alice"})
	w.must(UseJoinToken{Digest: "t1", Role: "node", Name: "n1", Key: "k1"})
	_, _ = w.apply(UseJoinToken{Digest: "t1", Role: "node", Name: "n1", Key: "k2"})
	w.must(RevokeCertificates{Role: "node", Name: "n9"})
	w.must(RotateGossipKey{Text: "a text"})
	w.must(AdvanceGossipKey{Number: 1, Phase: trust.GossipInstalled})
	w.must(AdvanceGossipKey{Number: 1, Phase: trust.GossipUsed})
	w.must(ReplaceAuthority{Succession: "certificates"})
	w.must(AdvanceAuthority{Number: 1, Phase: trust.AuthorityTrusted})
	w.must(AdvanceAuthority{Number: 1, Phase: trust.AuthorityIssues, Gossip: RotateGossipKey{Text: "b", Authority: "f"}})
	for _, n := range []string{"n2", "n1", "n3"} {
		w.node(n, 4)
	}
	w.must(ChooseWitnesses{Set: witnessSet(1, "n1", "n2", "n3")})
	w.must(ChooseWitnesses{Set: witnessSet(2, "n1", "n2", "n3")})
	w.must(NoteWitnesses{Nodes: []StoredWitnesses{{Node: "n1", BootID: "b1", Number: 2},
		{Node: "n2", BootID: "b0", Number: 2}}})
	w.must(SubmitJobs{Owner: alice, Key: "once", Digest: "d1", Jobs: []*jobspec.Job{testSpec(2, 4), testSpec(1, 1)}})
	_, _ = w.apply(SubmitJobs{Owner: alice, Key: "once", Digest: "d2", Jobs: []*jobspec.Job{testSpec(1, 1)}})
	w.ok(w.start(1, "n1", "n2"))
	w.wait(1)
	w.run(1)
	w.ok(w.start(2, "n3"))
	w.report(2, 0, model.WorkerFailed, func(r *model.WorkerReport) { r.Message = "no image" })
	waiting := w.submit(2, 3)
	w.ok(w.plan(&Reserve{Job: waiting, Until: w.at + 9000,
		Claims: []model.Claim{{Node: "n1", Resources: model.Vector{Cores: 4, Memory: 8 << 30, GPUs: 3000}}}}))
	oom, lease := func(r *model.WorkerReport) { r.OOM = true }, func(r *model.WorkerReport) { r.Lease = true }
	ends := []func(*model.WorkerReport){code(0), code(3), code(85), signal(9), oom, lease}
	for i, end := range ends {
		id := w.running(1, []string{"n3"}, func(j *jobspec.Job) {
			j.Account, j.Checkpoint = "team", &jobspec.Checkpoint{}
			if i%2 == 1 {
				j.Restart = &jobspec.Restart{Attempts: 1, Delay: 5}
			}
		})
		w.wait(3)
		w.report(id, 0, model.WorkerExited, end)
	}
	stopped := w.running(1, []string{"n3"}, func(j *jobspec.Job) { j.Class = jobspec.TE })
	w.ok(w.plan(&StopJob{Job: stopped, Attempt: 1, Cause: model.CauseTimeout}))
	w.report(stopped, 0, model.WorkerExited, signal(15))
	held := w.submit(1, 1)
	priority := 70
	w.must(UpdateJobs{IDs: []model.JobID{held}, Admin: true, Priority: &priority})
	w.ok(w.control(model.VerbHold, 0, true, held))
	gone := w.submit(1, 1)
	w.ok(w.control(model.VerbCancel, 1000, false, gone))
	w.must(SetNodeState{Node: "n2", BootID: "b1", State: model.NodeDown, Reason: "silent"})
	w.wait(700)
	_ = w.plan(&EndAttempt{Job: 1, Attempt: 1, Cause: model.CauseNodeLost}) // witnesses may keep it
	w.must(DeclareLost{Node: "n2", BootID: "b1", Newest: 2})
	w.ok(w.plan(&EndAttempt{Job: 1, Attempt: 1, Cause: model.CauseNodeLost}))
	w.must(SetNodeState{Node: "n3", State: model.NodeDrained, Reason: "service"})
	rebooted := testNode("n2", 4)
	rebooted.BootID = "b2"
	w.must(RegisterNode{Node: rebooted})
	again := w.running(2, []string{"n2"})
	w.ok(w.control(model.VerbRequeue, 1000, false, again))
	w.must(testToken("t1"))
	w.must(testToken("t2"))
	w.must(RevokeAPIToken{ID: "t1"})
	w.must(SubmitJobs{Owner: alice, NewAccount: "staff", Jobs: []*jobspec.Job{testSpec(1, 0)}})
	w.must(TrimHistory{UpTo: 2})
	w.ok(w.plan(&Unreserve{Job: waiting}))
	w.ok(w.plan(&Reserve{Job: waiting, Until: w.at + 9000,
		Claims: []model.Claim{{Node: "n2", Resources: model.Vector{GPUs: 3000}}}}))
	recovered(w)
}

// recovered begins another generation, which all nodes follow.
func recovered(w *world) {
	ran, g := w.submit(1, 1), generation.Generation{Number: 1, ID: "00000000000000aa"}
	w.must(RaiseGeneration{Generation: g, Means: generation.MeansRestore, Controller: "c1"})
	_, _ = w.apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{testSpec(1, 1)}})
	for _, n := range w.s.View().Nodes() {
		w.must(AcceptGeneration{Node: n.Name, BootID: n.BootID, Generation: g, LastJob: 9, Unknown: 1,
			Ran: []generation.RanAttempt{{Job: ran, Attempt: 1}}})
	}
}
