package e2e

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// shares runs a cluster under policy rota, with parameters of it and accounts.
func shares(t *testing.T, o lab.Options, parameters, accounts string) *world {
	t.Helper()
	text := "policy \"rota\" {\n" + parameters + "\n}\n" + accounts
	config := configFile(t, text)
	o.Controllers, o.Controld, o.Cores = 1, []string{"--config", config}, 32
	w := start(t, o)
	w.policy("rota")
	return w
}

// users are two users that every Linux system has. They share account lab.
func users(t *testing.T) (bob, alice *user.User, account string) {
	t.Helper()
	bob, first := user.LookupId("1")
	alice, second := user.LookupId("2")
	if first != nil || second != nil {
		t.Skipf("needs users 1 and 2: %v, %v", first, second)
	}
	return bob, alice, fmt.Sprintf("account \"lab\" {\n users = [%q, %q]\n}\n", bob.Username, alice.Username)
}

// submitAs submits a file's text as a user and returns the id.
func (w *world) submitAs(u *user.User, text string) string {
	w.t.Helper()
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	w.must(err)
	file := w.file(w.t, "job.hcl", text)
	cmd := w.Rota(w.ctx, "submit", "--parsable", file)
	cmd.Dir = w.shared
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("submit as %s: %v\n%s", u.Username, err, out)
	}
	return strings.TrimSpace(string(out))
}

// saves is a job that runs until a file is there, and saves its state at once when it has to leave.
func saves(dir, name string, gpus int, more string) string {
	return onGPUs(name, gpus, fmt.Sprintf("%s\n  checkpoint {\n path = %q\n }\n  preemption {\n grace_period = \"1s\"\n }",
		more, dir), fmt.Sprintf("trap 'exit 85' TERM; while [ ! -e %s/go ]; do sleep 0.05; done", dir))
}

// running counts the jobs that run.
func (w *world) running(ids []string) (n int) {
	w.t.Helper()
	for _, id := range ids {
		if w.status(id).Code == "R" {
			n++
		}
	}
	return n
}

// A user submits forty long jobs at once, and another of the same account a few a little later. The
// second one gets half of the cluster once the others have run for the undisturbed time, whatever
// their priority, and keeps it.
func TestALateUserGetsHalf(t *testing.T) {
	for _, priority := range []int{90, 50} {
		if priority == 50 && !long() {
			continue
		}
		t.Run(fmt.Sprintf("the first jobs have priority %d", priority), func(t *testing.T) {
			lateUserGetsHalf(t, priority)
		})
	}
}

func lateUserGetsHalf(t *testing.T, priority int) {
	bob, alice, account := users(t)
	w := shares(t, lab.Options{Nodes: 1, GPUs: 4}, `min_runtime = "3s"`, account)
	dir := w.scratch("half")
	var early, late []string
	for k := range 40 {
		early = append(early, w.submitAs(bob, saves(dir, fmt.Sprintf("early%d", k), 1,
			fmt.Sprintf("account = \"lab\"\n priority = %d", priority))))
	}
	for k := range 4 {
		late = append(late, w.submitAs(alice, saves(dir, fmt.Sprintf("late%d", k), 1, "account = \"lab\"\n priority = 50")))
	}
	for _, id := range late[:2] {
		w.until(id, "running", func(j api.Job) bool { return j.Code == "R" })
	}
	// Several more times the room could change hands, and it must not.
	w.until(late[1], "running for four turns", func(j api.Job) bool {
		return j.Code != "R" || time.Since(j.Attempts[0].Start.Time) > 12*time.Second
	})
	if n, m := w.running(early), w.running(late); n != 2 || m != 2 {
		t.Errorf("%d jobs of the first user run and %d of the second, want 2 and 2", n, m)
	}
	var out int
	for _, id := range slices.Concat(early, late) {
		j := w.status(id)
		if n := j.Preemptions.Reclaim + j.Preemptions.Order + j.Preemptions.TE; n > 0 {
			out += n
			if n > 1 || slices.Contains(late, id) || j.Attempts[0].ForUser != alice.Username {
				t.Errorf("job %s of %s was displaced %+v: %+v", id, j.User, j.Preemptions, j.Attempts)
			}
		}
	}
	if out != 2 {
		t.Errorf("jobs were displaced %d times, want 2", out)
	}
	w.finish(dir, slices.Concat(late[2:], early))
}

// finish cancels the jobs that wait, lets the others end, and checks the ledger.
func (w *world) finish(dir string, ids []string) {
	w.t.Helper()
	for _, id := range ids {
		if w.status(id).Code == "PD" {
			w.ok("cancel", id)
		}
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for _, id := range ids {
		w.ends(id)
	}
	if out, errs, code := w.rota("check"); code != 0 {
		w.t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}

// A job of all GPUs and a job of half of them, of equal users, take turns. Neither waits for the
// end of the other, and each has about half of the time. A job that fits beside the smaller one
// uses the room that is free there.
func TestIndivisibleJobsTakeTurns(t *testing.T) {
	if !long() {
		t.Skip("takes over a minute: set ROTA_TEST_LONG, as make race does")
	}
	bob, alice, account := users(t)
	w := shares(t, lab.Options{Nodes: 1, GPUs: 4}, "min_runtime = \"3s\"\n cost_worth = 1", account)
	dir := w.scratch("turns")
	whole := w.submitAs(bob, saves(dir, "whole", 4, `account = "lab"`))
	w.until(whole, "running", func(j api.Job) bool { return j.Code == "R" })
	half := w.submitAs(alice, saves(dir, "half", 2, `account = "lab"`))
	const turns = 2
	var first, second api.Job
	for _, id := range []string{half, whole} {
		w.until(id, "in its third turn", func(j api.Job) bool { return j.Attempt > turns && j.Code == "R" })
	}
	first, second = w.status(whole), w.status(half)
	for n := range turns { // one after the other: the whole cluster first
		a, b := first.Attempts[n], second.Attempts[n]
		if b.Start.Before(a.End.Time) || first.Attempts[n+1].Start.Before(b.End.Time) {
			t.Errorf("turn %d of both overlaps: %+v and %+v, then %+v", n+1, a, b, first.Attempts[n+1])
		}
	}
	// From the moment in which both were there to the end of the second turn of each.
	since, until := second.Submitted.Time, first.Attempts[turns-1].End.Time
	if e := second.Attempts[turns-1].End.Time; e.After(until) {
		until = e
	}
	for _, j := range []api.Job{first, second} {
		held := heldBetween(j, since, until)
		if percent := 100 * held / until.Sub(since); percent < 35 {
			t.Errorf("job %s has run for %d %% of the time: %s of %s", j.Name, percent, held, until.Sub(since))
		}
		t.Logf("job %s: %d turns, %s of %s", j.Name, j.Attempt, held, until.Sub(since))
	}

	w.until(whole, "running", func(j api.Job) bool { return j.Code == "R" })
	small := w.submitAs(bob, saves(dir, "small", 2, `account = "lab"`))
	beside := w.until(small, "running", func(j api.Job) bool { return j.Code == "R" })
	if j := w.status(half); j.Code != "R" && j.Code != "CF" && beside.Attempt == 1 { // CF: its report is on the way
		t.Errorf("the small job runs beside no other: the job of half is %s", j.Code)
	}
	w.finish(dir, []string{whole, half, small})
}

// heldBetween is for how long a job ran in a time.
func heldBetween(j api.Job, since, until time.Time) (held time.Duration) {
	for _, a := range j.Attempts {
		from, to := a.Start.Time, until
		if a.End != nil && a.End.Before(until) {
			to = a.End.Time
		}
		if from.Before(since) {
			from = since
		}
		held += max(0, to.Sub(from))
	}
	return held
}

// Trial-and-error jobs come all the time and could hold all GPUs. A gang of both nodes gets its room
// all the same: once it has waited for its time, what comes free is kept for it. Trials may displace
// it before it runs, but only as often as a job may be displaced in a day.
func TestAGangStartsDespiteAStreamOfTrials(t *testing.T) {
	const reserveAfter, patience = 5 * time.Second, 40 * time.Second
	bob, alice, account := users(t)
	w := shares(t, lab.Options{Nodes: 2, GPUs: 2},
		"reserve_after = \"5s\"\n te_account_gpus = 4\n te_user_share = 1000", account)
	dir := w.scratch("stream")
	trial := func() string {
		return w.submitAs(bob, onGPUs("trial", 1, "account = \"lab\"\n class = \"te\"\n time_limit = \"10m\"", "sleep 2"))
	}
	var trials []string
	for range 8 {
		trials = append(trials, trial())
	}
	gang := w.submitAs(alice, fmt.Sprintf(`job "gang" {
  account = "lab"
  group "workers" {
    count                = 2
    max_workers_per_node = 1
    task "t" {
      script = "while [ ! -e %s/go ]; do sleep 0.05; done"
      resources {
        memory = "64MiB"
        gpus   = 2
      }
    }
  }
}`, dir))
	started := 0 // trials that have started, from the front
	j := w.until(gang, "running beside the stream", func(j api.Job) bool {
		for started < len(trials) && w.status(trials[started]).Code != "PD" {
			started++
		}
		for len(trials) < started+6 {
			trials = append(trials, trial())
		}
		return j.Code == "R"
	})
	waited := j.Started.Sub(j.Submitted.Time)
	if waited > reserveAfter+patience {
		t.Errorf("it has waited for %s", waited)
	}
	if j.Preemptions.TE > 0 {
		t.Errorf("trials have displaced it %d times", j.Preemptions.TE)
	}
	t.Logf("it has waited for %s while %d trials started", waited, started)
	if started <= 4 { // as many as there are GPUs
		t.Errorf("only %d trials have started before it: they were no stream", started)
	}
	w.finish(dir, append([]string{gang}, trials...))
}
