package fsm

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// watched starts a job with log policies on a node of three.
func watched(t *testing.T, edit ...func(*jobspec.Job)) (*world, model.JobID) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 8)
	}
	spec := testSpec(1, 1)
	spec.LogPolicies = []jobspec.LogPolicy{
		{Name: "ecc", Pattern: "ECC", Action: "exclude_node"}, {Name: "oom", Pattern: "CUDA", Action: "fail"},
		{Name: "nccl", Pattern: "NCCL", Action: "restart"}, {Name: "note", Pattern: "epoch", Action: "event"},
	}
	for _, e := range edit {
		e(spec)
	}
	id := w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	w.ok(w.start(id, "n1"))
	w.run(id)
	return w, id
}

// finds reports a finding from the node of the job's only worker.
func (w *world) finds(id model.JobID, policy, line string) {
	w.t.Helper()
	a := w.job(id).Attempts[len(w.job(id).Attempts)-1]
	w.must(NodeReport{Node: a.Workers[0].Node, BootID: "b1", Workers: []model.WorkerReport{{
		Job: id, Attempt: a.N, State: model.WorkerRunning, Policy: policy, Message: line,
	}}})
}

func TestPolicyExcludesNode(t *testing.T) {
	w, id := watched(t)
	w.finds(id, "ecc", "GPU 3: uncorrectable ECC error")
	w.state(id, model.Completing)
	if stop := w.job(id).Live().Stop; stop.Cause != model.CauseRequeue ||
		stop.Reason != "log_policy ecc: GPU 3: uncorrectable ECC error" {
		t.Fatalf("stop %+v", stop)
	}
	w.report(id, 0, model.WorkerExited, signal(15))
	w.state(id, model.Pending)
	if j := w.job(id); !slices.Equal(j.Exclude, []string{"n1"}) || j.Counters.Requeues != 1 ||
		j.Counters.UserFailures != 0 {
		t.Fatalf("job avoids %v, counters %+v", j.Exclude, j.Counters)
	}
	w.cause(id, model.CauseRequeue)
	w.ok(w.start(id, "n2"))
	w.run(id)
	w.finds(id, "ecc", "again")
	w.report(id, 0, model.WorkerExited) // it was done all the same
	w.state(id, model.Completed)
}

func TestPolicyExcludesOnlySoOften(t *testing.T) {
	w, id := watched(t)
	for n := range w.s.v.Config().Policy.MaxRequeues + 1 {
		if n > 0 {
			node := []string{"n1", "n2", "n3"}[slices.IndexFunc([]string{"n1", "n2", "n3"},
				func(n string) bool { return !slices.Contains(w.job(id).Exclude, n) })]
			w.ok(w.start(id, node))
			w.run(id)
		}
		w.finds(id, "ecc", "ECC")
		w.report(id, 0, model.WorkerExited, code(1))
	}
	if j := w.job(id); j.Hold != model.HeldRequeue {
		t.Fatalf("held %q after %d", j.Hold, j.Counters.Requeues)
	}
}

func TestPolicyFails(t *testing.T) {
	w, id := watched(t, func(j *jobspec.Job) { j.Restart = &jobspec.Restart{Attempts: 5} })
	w.finds(id, "oom", strings.Repeat("x", 2000))
	w.finds(id, "oom", "a second time says nothing new")
	if f := w.job(id).Live().Findings; len(f) != 1 || len(f[0].Line) != model.MaxFindingText {
		t.Fatalf("findings %+v", f)
	}
	w.report(id, 0, model.WorkerExited) // however politely it goes
	w.state(id, model.Failed)
	if j := w.job(id); j.ExitCode != 1 || !strings.HasPrefix(j.Reason.Text, "log_policy oom: xxx") {
		t.Fatalf("exit %d, %+v", j.ExitCode, j.Reason)
	}
}

// TestFindingsEndInWholeCharacters: a state that is restored from a snapshot has the same line as
// the one that it was taken of.
func TestFindingsEndInWholeCharacters(t *testing.T) {
	for _, before := range []string{"", "x", "xx", "xxx"} {
		w, id := watched(t)
		w.finds(id, "oom", before+strings.Repeat("€", 1000))
		twin, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, w.s.View())))
		if err != nil {
			t.Fatal(err)
		}
		a, b := w.job(id).Live().Findings, twin.View().Job(id).Live().Findings
		if len(a) != 1 || len(b) != 1 || a[0].Line != b[0].Line || len(a[0].Line) <= model.MaxFindingText-3 {
			t.Errorf("the line is %+v, restored %+v", a, b)
		}
	}
}

func TestPolicyRestarts(t *testing.T) {
	for _, own := range []*jobspec.Restart{nil, {Attempts: 2, NoRetryOnExit: []int{7}}} {
		w, id := watched(t, func(j *jobspec.Job) { j.Restart = own })
		want := 3 // the restarts of a log policy without a restart block
		if own != nil {
			want = own.Attempts
		}
		for range want {
			w.finds(id, "nccl", "NCCL timeout")
			w.report(id, 0, model.WorkerExited, code(7))
			w.state(id, model.Pending)
			w.wait(3600)
			w.job(id)
			node := "n1"
			for _, n := range []string{"n1", "n2", "n3"} {
				if !slices.Contains(w.job(id).Exclude, n) {
					node = n
				}
			}
			w.ok(w.start(id, node))
			w.run(id)
		}
		w.finds(id, "nccl", "NCCL timeout")
		w.report(id, 0, model.WorkerExited, code(7))
		w.state(id, model.Failed)
		if n := int(w.job(id).Counters.UserFailures); n != want+1 {
			t.Errorf("%d failures, want %d", n, want+1)
		}
	}
}

func TestPolicyOfEventsOnly(t *testing.T) {
	w, id := watched(t)
	w.finds(id, "note", "epoch 1")
	w.finds(id, "nothing", "there is no such policy")
	w.state(id, model.Running)
	var seen int
	for _, e := range w.s.View().Events(0) {
		if e.Type == model.EventPolicy && e.Job == id && e.Node == "n1" {
			seen++
		}
	}
	if seen != 1 {
		t.Errorf("%d events", seen)
	}
	w.must(ControlJobs{Verb: model.VerbCancel, Targets: targets(id), By: alice.UID})
	w.finds(id, "oom", "too late to decide anything")
	w.report(id, 0, model.WorkerExited, signal(15))
	w.state(id, model.Cancelled)
}

func TestFinalLaunchFailure(t *testing.T) {
	w, id := watched(t)
	w.must(ControlJobs{Verb: model.VerbCancel, Targets: targets(id), By: alice.UID})
	id = w.submit(1, 1)
	w.ok(w.start(id, "n2"))
	a := w.job(id).Live()
	w.must(NodeReport{Node: "n2", BootID: "b1", Workers: []model.WorkerReport{{
		Job: id, Attempt: a.N, State: model.WorkerFailed, Message: "image /x cannot be read", Final: true,
	}}})
	w.state(id, model.BootFailed)
	if j := w.job(id); j.Counters.LaunchFailures != 1 || j.Reason.Text != "image /x cannot be read" {
		t.Errorf("%+v %+v", j.Counters, j.Reason)
	}
}

// TestTheTaskThatFailedIsNamed when it is none of the main ones.
func TestTheTaskThatFailedIsNamed(t *testing.T) {
	w, id := watched(t)
	w.must(NodeReport{Node: "n1", BootID: "b1", Workers: []model.WorkerReport{{
		Job: id, Attempt: 1, State: model.WorkerExited, ExitCode: 3, Why: "its prestart task setup ended with exit code 3",
	}}})
	w.state(id, model.Failed)
	if got := w.job(id).Reason.Text; got != "its prestart task setup ended with exit code 3" {
		t.Errorf("the reason is %q", got)
	}
}
