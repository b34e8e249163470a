package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// A job is asked to leave for a trial-and-error job and takes some seconds to save. While it does,
// and afterwards, status, events and the history say why, for which job of which user, and what it
// costs.
func TestALeavingJobSaysWhy(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, GPUs: 2})
	w.policy("rota")
	dir := w.scratch("leaving")
	victim := w.submit(onGPUs("victim", 2, fmt.Sprintf("checkpoint {\n path = %q\n }\n preemption {\n"+
		" grace_period = \"2m\"\n }", dir), fmt.Sprintf(
		`trap 'while [ ! -e %[1]s/saved ]; do sleep 0.05; done; exit 85' TERM
      echo $ROTA_ATTEMPT >> %[1]s/up
      while [ ! -e %[1]s/saved ]; do sleep 0.05; done`, dir)))
	w.lines(filepath.Join(dir, "up"), 1)
	trial := w.submit(onGPUs("trial", 1, `class = "te"`, "true"))

	var during api.Job
	w.until(victim, "some seconds into its grace", func(j api.Job) bool {
		during = j
		return j.Code == "CK" && j.Attempts[0].Lost != nil && j.Attempts[0].Lost.Grace >= 4
	})
	a := during.Attempts[0]
	if during.State != "CHECKPOINTING" || a.Cause != "te" || fmt.Sprint(a.For) != trial || a.ForUser != "nobody" ||
		a.ForAccount == "" || a.LeaveBy == nil || a.End != nil || a.Lost.Work != 0 || a.LostGPUSeconds < 2 {
		t.Errorf("in its grace: %s, attempt %+v", during.State, a)
	}
	owner := a.ForUser + "/" + a.ForAccount
	whose := fmt.Sprintf(`%s \(%s\)`, trial, owner)
	w.says(w.ok("status", victim), `state +CHECKPOINTING \(CK,stopping\)\n`,
		`leaving +te: a trial-and-error job takes its room, job `+whose, `leaves by +.*then it is killed`,
		`lost so far +\d+ GPU seconds: 0 of work, \d+ of grace`)
	w.says(w.ok("why", victim), `it is leaving .*te: a trial-and-error job takes its room, job `+whose)
	w.says(w.ok("events", "--job", victim, "--no-header", "--columns", "type,cause,for,of"),
		fmt.Sprintf(`stopping +te +%s %s`, trial, owner))
	w.says(w.ok("why", trial), `AFTER PREEMPTION \(te\)\n +jobs are leaving for it already`)

	w.must(os.WriteFile(filepath.Join(dir, "saved"), nil, 0o644))
	if j := w.ends(trial); j.Code != "CD" {
		t.Errorf("the trial ended as %s", j.Code)
	}
	j := w.ends(victim)
	w.displaced(j, api.Preemptions{TE: 1})
	if l := j.Attempts[0].Lost; l == nil || l.Work != 0 || l.Grace < during.Attempts[0].Lost.Grace ||
		l.GPUSeconds < l.Work+l.Grace+l.Restart {
		t.Errorf("afterwards the first attempt has lost %+v", l)
	}
	w.says(w.ok("events", "--job", victim, "--type", "ended", "--no-header", "--columns", "type,cause,for,of,lost"),
		fmt.Sprintf(`ended +te +%s %s +[1-9]`, trial, owner))
	w.says(w.ok("hist", "-l", "-j", victim), fmt.Sprintf(`te:%s\(%s\) +[1-9]\d*\s`, trial, owner))
	var hist api.List[api.Job]
	if err := json.Unmarshal([]byte(w.ok("hist", "-j", victim, "-o", "json")), &hist); err != nil ||
		len(hist.Items) != 1 || fmt.Sprint(hist.Items[0].Attempts[0].For) != trial ||
		hist.Items[0].Attempts[0].LostGPUSeconds != j.Attempts[0].LostGPUSeconds {
		t.Errorf("the history has %+v, %v", hist.Items, err)
	}
}

// says checks that an output matches patterns.
func (w *world) says(out string, patterns ...string) {
	w.t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(out) {
			w.t.Errorf("this does not say %s:\n%s", p, out)
		}
	}
}
