package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// twoAccounts are accounts of the user as which the tests submit.
const twoAccounts = `account "vision" {
 users = ["nobody"]
}
account "speech" {
 users = ["nobody"]
}
`

// An elastic job has all GPUs, most of them beyond its least. It gives of that to a best-effort job
// that waits, of its own account and of another, and nothing is lost.
func TestElasticSurplusGivesWay(t *testing.T) {
	w := shares(t, lab.Options{Nodes: 1, GPUs: 4}, `min_runtime = "2s"`, twoAccounts)
	dir := w.scratch("surplus")
	text := strings.NewReplacer(`job "stretch" {`, "job \"stretch\" {\n  account = \"vision\"", "step       = 2", "").
		Replace(stretches(dir, 100_000))
	id := w.submit(text)
	w.until(id, "running with four workers", func(j api.Job) bool { return j.Code == "R" && j.Elastic.Workers == 4 })
	before := 4
	ids := []string{id}
	for _, account := range []string{"vision", "speech"} {
		other := w.submit(saves(dir, account, 1, fmt.Sprintf("account = %q", account)))
		ids = append(ids, other)
		w.until(other, "running", func(j api.Job) bool { return j.Code == "R" })
		j := w.until(id, "running beside it", func(j api.Job) bool { return j.Code == "R" })
		if j.Elastic.Workers >= before || j.Elastic.Workers < 1 || j.Preemptions != (api.Preemptions{}) {
			t.Errorf("it has %d workers for a job of account %s, before it had %d; displaced %+v", j.Elastic.Workers, account,
				before, j.Preemptions)
		}
		before = j.Elastic.Workers
	}
	for _, id := range ids[1:] {
		if j := w.status(id); j.Code != "R" || j.Attempt != 1 {
			t.Errorf("job %s is %s in attempt %d", id, j.Code, j.Attempt)
		}
	}
	w.ok("cancel", id)
	w.finish(dir, ids)
}

// Of two jobs that could leave, the one that must not be started again stays. When no other is left,
// it ends as preempted, and says for which job.
func TestAJobThatRunsOnceLeavesLast(t *testing.T) {
	w := shares(t, lab.Options{Nodes: 1, GPUs: 2},
		"min_runtime = \"100ms\"\n te_account_gpus = 2\n te_user_share = 1000", twoAccounts)
	dir := w.scratch("once")
	// It has lost least of all when it has to leave: it came last.
	again := w.submit(saves(dir, "again", 1, `account = "vision"`))
	w.until(again, "running", func(j api.Job) bool { return j.Code == "R" })
	once := w.submit(onGPUs("once", 1, "account = \"vision\"\n preemption {\n requeue = false\n grace_period = \"1s\"\n }",
		"while [ ! -e "+dir+"/go ]; do sleep 0.05; done"))
	w.until(once, "running", func(j api.Job) bool { return j.Code == "R" })

	trial := onGPUs("trial", 1, "account = \"vision\"\n class = \"te\"", "while [ ! -e "+dir+"/go ]; do sleep 0.05; done")
	first := w.submit(trial)
	w.until(first, "running", func(j api.Job) bool { return j.Code == "R" })
	if a, b := w.status(again), w.status(once); a.Preemptions.TE != 1 || b.Code != "R" || b.Attempt != 1 {
		t.Errorf("for the first trial, the other has left %+v, and the job that runs once is %s", a.Preemptions, b.Code)
	}
	second := w.submit(trial)
	w.until(second, "running", func(j api.Job) bool { return j.Code == "R" })
	j := w.ends(once)
	if j.State != "PREEMPTED" || j.Attempt != 1 || j.Preemptions.TE != 1 {
		t.Errorf("it ended as %s in attempt %d, displaced %+v: %s", j.State, j.Attempt, j.Preemptions, j.Reason.Text)
	}
	a := j.Attempts[0]
	if fmt.Sprint(a.For) != second || a.ForUser != "nobody" || a.ForAccount != "vision" {
		t.Errorf("its attempt says %+v", a)
	}
	whose := second + " " + a.ForUser + "/vision"
	w.says(w.ok("events", "--job", once, "--type", "ended", "--no-header", "--columns", "type,cause,for,of"),
		`ended +te +`+whose)
	w.says(w.ok("hist", "-l", "-j", once), `PREEMPTED`, fmt.Sprintf(`te:%s\(nobody/vision\)`, second))
	w.finish(dir, []string{first, second, again})
}
