package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// narrow lets the trial-and-error jobs of an account hold two GPUs at once. It is the policy of new
// clusters with one parameter of its own.
const narrow = `policy "rota" {
  te_account_gpus = 2
  te_user_share   = 1000
}
account "other" {
  users = ["nobody"]
}
`

// parted is a cluster in which two accounts deserve half each.
const parted = `policy "fairshare" {
  min_runtime = "100ms"
}
account "vision" {
  users = ["nobody"]
  deserved { gpus = 2 }
}
account "speech" {
  users = ["nobody"]
  deserved { gpus = 2 }
}
`

// onGPUs is a job whose script runs with some GPUs of one node.
func onGPUs(name string, gpus int, more, script string) string {
	return fmt.Sprintf(`job %q {
  %s
  task "t" {
    script = <<-EOT
      %s
    EOT
    kill_timeout = "2s"
    resources {
      memory = "64MiB"
      gpus   = %d
    }
  }
}`, name, more, script, gpus)
}

// trains is a trainer that saves when it is asked to leave, after it has kept the notice.
func trains(dir string, gpus, steps int) string {
	return onGPUs("train", gpus, fmt.Sprintf("checkpoint {\n path = %q\n }\n preemption {\n grace_period = \"60s\"\n }\n",
		dir), fmt.Sprintf(
		`trap 'cp $ROTA_NOTICE_FILE %[1]s/notice.$ROTA_ATTEMPT; kill -TERM $pid || true; wait $pid; exit $?' TERM
      bin/trainer -steps %[2]d -pause 20ms -every 0 -dir %[1]s & pid=$!
      wait $pid`, dir, steps))
}

// The whole machine trains; a trial-and-error job comes, gets room by the training's grace, and the
// training goes on where it was.
func TestATrialTakesRoomAndGivesItBack(t *testing.T) {
	config := filepath.Join(t.TempDir(), "cluster.hcl")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(narrow)
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 4, Controld: []string{"--config", config}})
	w.policy("rota")

	t.Run("the training saves, leaves, and resumes at the head", w.trialAndTraining)
	t.Run("a job that ignores the signal is killed at the end of the grace", w.trialAndStubborn)
	t.Run("an account has so many trials at once", w.trialsOfOneAccount)
	t.Run("another account takes back its quota", func(t *testing.T) {
		write(parted)
		if err := syscall.Kill(w.Cluster.Controllers[0].Pid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		w.policy("fairshare")
		w.reclaims()
	})
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// policy waits until the cluster schedules by a policy.
func (w *world) policy(name string) {
	w.t.Helper()
	for {
		cl, _, err := w.client.Cluster(w.ctx)
		if err == nil && cl.Policy == name {
			return
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("the cluster does not come to policy %s: %+v, %v", name, cl, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// within reports failures to the test of a part of the story.
func (w *world) within(t *testing.T) (*world, func()) {
	whole := w.t
	w.t = t
	return w, func() { w.t = whole }
}

func (w *world) trialAndTraining(t *testing.T) {
	w, back := w.within(t)
	defer back()
	dir := w.scratch("train")
	const steps = 150
	train := w.submit(trains(dir, 4, steps))
	w.lines(filepath.Join(dir, "heartbeat"), 4)
	behind := w.submit(onGPUs("behind", 4, "", "true"))
	trial := w.submit(onGPUs("trial", 2, `class = "te"`, "nvidia=$CUDA_VISIBLE_DEVICES; echo got=$nvidia"))

	tj := w.ends(trial)
	j := w.ends(train)
	w.ends(behind)
	if tj.Code != "CD" || tj.Attempt != 1 {
		t.Errorf("the trial ended as %s in attempt %d: %s", tj.Code, tj.Attempt, tj.Reason.Text)
	}
	w.displaced(j, api.Preemptions{TE: 1})
	if a := j.Attempts[0]; a.Cause != "te" || a.ExitCode != 85 || a.Signal != 0 {
		t.Errorf("the first attempt of the training: %+v", a)
	}
	w.notice(filepath.Join(dir, "notice.1"), j.Attempts[0].Start.Time)
	w.inOrder(train, trial, train, behind)
	out := w.ok("logs", train)
	w.wants(out, "resumed at step")
	if got, want := lastLoss(t, out), lastLoss(t, w.alone(steps)); got != want {
		t.Errorf("last loss is %s, a run left alone has %s", got, want)
	}
	var hist api.List[api.Job]
	if err := json.Unmarshal([]byte(w.ok("hist", "-j", train, "-o", "json")), &hist); err != nil ||
		len(hist.Items) != 1 || hist.Items[0].Preemptions.TE != 1 {
		t.Errorf("the history has %+v, %v", hist.Items, err)
	}
}

// displaced checks that a job was displaced as often as is said, and nothing else happened to it:
// it had no retries to use up.
func (w *world) displaced(j api.Job, by api.Preemptions) {
	w.t.Helper()
	if n := by.TE + by.Reclaim + by.Order; j.Code != "CD" || j.Preemptions != by || j.Attempt != n+1 ||
		len(j.Attempts) != n+1 {
		w.t.Errorf("job %s ended as %s in attempt %d, displaced %+v: %s %+v", j.Name, j.Code, j.Attempt, j.Preemptions,
			j.Reason.Text, j.Attempts)
	}
}

// notice checks what an attempt was told when it was asked to leave.
func (w *world) notice(path string, since time.Time) {
	w.t.Helper()
	b, err := os.ReadFile(path)
	w.must(err)
	var n struct {
		Reason, Signal string
		Attempt        int
		Deadline       time.Time
	}
	if err := json.Unmarshal(b, &n); err != nil || n.Reason != "preempt" || n.Signal != "SIGTERM" || n.Attempt != 1 ||
		n.Deadline.Before(since.Add(time.Minute)) {
		w.t.Errorf("the notice is %s: %v", b, err)
	}
}

// inOrder checks that attempts of jobs were assigned in an order, and those of no other job.
func (w *world) inOrder(ids ...string) {
	w.t.Helper()
	var want []string
	for _, id := range ids {
		want = append(want, "assigned "+id)
	}
	if got := w.events("assigned", ids[0]); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("assigned were %v, want %v", got, want)
	}
}

// events lists the events of a type from the first one of a job on, as "TYPE JOB".
func (w *world) events(kind, from string) []string {
	w.t.Helper()
	list, _, err := w.client.Events(w.ctx, 0, 0)
	w.must(err)
	var got []string
	for _, e := range list.Items {
		if id := fmt.Sprint(e.Job); e.Type == kind && (len(got) > 0 || id == from) {
			got = append(got, kind+" "+id)
		}
	}
	return got
}

func (w *world) trialAndStubborn(t *testing.T) {
	w, back := w.within(t)
	defer back()
	dir := w.scratch("stubborn")
	stubborn := w.submit(onGPUs("stubborn", 4, "preemption {\n grace_period = \"1s\"\n }", fmt.Sprintf(
		`trap "" TERM; echo $ROTA_ATTEMPT >> %[1]s/up; [ $ROTA_ATTEMPT = 2 ] || while :; do sleep 0.1; done`, dir)))
	w.lines(filepath.Join(dir, "up"), 1)
	trial := w.submit(onGPUs("trial", 1, `class = "te"`, "true"))
	if tj := w.ends(trial); tj.Code != "CD" {
		t.Errorf("the trial ended as %s", tj.Code)
	}
	j := w.ends(stubborn)
	w.displaced(j, api.Preemptions{TE: 1})
	a := j.Attempts[0]
	if a.Cause != "te" || a.Signal != 9 {
		t.Errorf("the first attempt: %+v", a)
	}
	stop := w.stoppedAt(stubborn)
	if took := a.End.Sub(stop); took < time.Second {
		t.Errorf("it was killed %v after it was asked to leave, before its grace was over", took)
	}
	w.inOrder(stubborn, trial, stubborn)
}

// stoppedAt returns when a job was asked to leave, which may have been once only.
func (w *world) stoppedAt(id string) time.Time {
	w.t.Helper()
	list, _, err := w.client.Events(w.ctx, 0, 0)
	w.must(err)
	var at []time.Time
	for _, e := range list.Items {
		if fmt.Sprint(e.Job) == id && e.Type == "stopping" {
			at = append(at, e.At.Time)
		}
	}
	if len(at) != 1 {
		w.t.Fatalf("job %s was asked to leave %d times", id, len(at))
	}
	return at[0]
}

// Two trials of an account hold what it may; the third waits although there is room, and a fourth
// of another account does not.
func (w *world) trialsOfOneAccount(t *testing.T) {
	w, back := w.within(t)
	defer back()
	dir := w.scratch("limit")
	wait := fmt.Sprintf("echo up >> %[1]s/up; while [ ! -e %[1]s/go ]; do sleep 0.05; done", dir)
	first := w.submit(onGPUs("first", 2, `class = "te"`, wait))
	w.lines(filepath.Join(dir, "up"), 1)
	second := w.submit(onGPUs("second", 1, `class = "te"`, "true"))
	w.until(second, "over the limit", func(j api.Job) bool { return j.Reason.Code == "TELimit" })
	other := w.ends(w.submit(onGPUs("other", 1, "class = \"te\"\n  account = \"other\"", "true")))
	if other.Code != "CD" {
		t.Errorf("the trial of another account ended as %s", other.Code)
	}
	why := w.ok("why", second)
	w.wants(why, "Job "+second+": TELimit: trial-and-error jobs have reached a limit on the resources that they may "+
		"hold: account ",
		" holds 2 GPUs in them, may hold 2 at once, and this job asks for 1\n")
	if got, want := w.ok("queue", "-j", second, "--no-header", "--columns", "code,where"), "PD (TELimit)\n"; got != want {
		t.Errorf("the queue has %q, want %q", got, want)
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for _, id := range []string{first, second} {
		if j := w.ends(id); j.Code != "CD" || j.Attempt != 1 {
			t.Errorf("job %s ended as %s in attempt %d", id, j.Code, j.Attempt)
		}
	}
}

// One account holds everything; the other's job gets what it deserves back, and no more leave than
// have to.
func (w *world) reclaims() {
	w.t.Helper()
	dir := w.scratch("reclaim")
	var ids []string
	for k := range 4 {
		ids = append(ids, w.submit(onGPUs("v"+strconv.Itoa(k), 1,
			fmt.Sprintf("account = \"vision\"\n  checkpoint {\n path = %q\n }", dir), fmt.Sprintf(
				`trap 'exit 85' TERM; echo up >> %[1]s/up; while [ ! -e %[1]s/go ]; do sleep 0.05; done`, dir))))
	}
	w.lines(filepath.Join(dir, "up"), 4)
	w.usedBy("vision")
	back := w.submit(onGPUs("back", 2, "account = \"speech\"", fmt.Sprintf("echo back >> %s/back", dir)))
	if j := w.ends(back); j.Code != "CD" {
		w.t.Errorf("the job of the other account ended as %s: %s", j.Code, j.Reason.Text)
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	left := 0
	for _, id := range ids {
		j := w.ends(id)
		if j.Preemptions.Reclaim > 0 {
			left++
			w.displaced(j, api.Preemptions{Reclaim: 1})
			if a := j.Attempts[0]; a.Cause != "reclaim" || a.ExitCode != 85 {
				w.t.Errorf("the first attempt of job %s: %+v", id, a)
			}
			continue
		}
		w.displaced(j, api.Preemptions{})
	}
	if left != 2 {
		w.t.Errorf("%d jobs left for one that needs two GPUs", left)
	}
}

// usedBy waits until an account has been charged for a second of the cluster.
func (w *world) usedBy(account string) {
	w.t.Helper()
	for {
		list, _, err := w.client.Shares(w.ctx, api.Read{})
		w.must(err)
		for _, s := range list.Items {
			if s.Account == account && s.Usage > 0 {
				return
			}
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("account %s is charged for nothing: %+v", account, list.Items)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The leader dies while a job saves its state because it was asked to leave. The next one carries
// the displacement through, once.
func TestAPreemptionOutlivesItsLeader(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 1, GPUs: 2})
	w.policy("rota")
	dir := w.scratch("leader")
	blocks := fmt.Sprintf("checkpoint {\n path = %q\n }\n preemption {\n grace_period = \"2m\"\n }", dir)
	victim := w.submit(onGPUs("victim", 2, blocks, fmt.Sprintf(
		`trap 'echo $ROTA_ATTEMPT >> %[1]s/stops; while [ ! -e %[1]s/saved ]; do sleep 0.05; done; exit 85' TERM
      echo $ROTA_ATTEMPT >> %[1]s/up
      while [ ! -e %[1]s/saved ]; do sleep 0.05; done`, dir)))
	w.lines(filepath.Join(dir, "up"), 1)
	trial := w.submit(onGPUs("trial", 1, `class = "te"`, "true"))
	w.lines(filepath.Join(dir, "stops"), 1)
	leader, err := w.Leader(w.ctx)
	w.must(err)
	leader.Kill()
	next, err := w.Leader(w.ctx)
	w.must(err)
	w.until(trial, "waiting for the job that leaves", func(j api.Job) bool { return j.Reason.Code == "Preempting" })
	w.must(leader.Start())
	w.must(os.WriteFile(filepath.Join(dir, "saved"), nil, 0o644))
	if j := w.ends(trial); j.Code != "CD" || j.Attempt != 1 {
		t.Errorf("the trial ended as %s in attempt %d", j.Code, j.Attempt)
	}
	j := w.ends(victim)
	w.displaced(j, api.Preemptions{TE: 1})
	if a := j.Attempts[0]; a.Cause != "te" || a.ExitCode != 85 {
		t.Errorf("the first attempt of the victim: %+v", a)
	}
	if got := w.lines(filepath.Join(dir, "stops"), 1); got != "1\n" {
		t.Errorf("jobs that were asked to leave, by attempt: %q", got)
	}
	w.stoppedAt(victim)
	w.inOrder(victim, trial, victim)
	if next == leader {
		t.Error("the leader was not replaced")
	}
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}
