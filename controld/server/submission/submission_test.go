package submission

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func TestWhatWouldNotBeHonouredIsRefused(t *testing.T) {
	v := fsm.New(model.DefaultConfig()).View()
	owner := model.Identity{UID: 7, User: "ada"}
	for want, change := range map[string]func(*jobspec.Job){
		"":              func(j *jobspec.Job) { j.Groups[0].Tasks[0].User = "ada" },
		`user = "root"`: func(j *jobspec.Job) { j.Groups[0].Tasks[0].User = "root" },
		`user = "eve"`: func(j *jobspec.Job) {
			j.Groups = append(j.Groups, j.Groups[0])
			j.Groups[1].Tasks = []jobspec.Task{{User: "eve"}}
		},
		"kill_timeout": func(j *jobspec.Job) { j.Groups[0].Tasks[0].KillTimeout = 24 * 3600 },
		"grace_period": func(j *jobspec.Job) { j.Preemption = &jobspec.Preemption{GracePeriod: 24 * 3600} },
	} {
		j := &jobspec.Job{Name: "x", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"}}}}}}
		j.Default()
		change(j)
		err := honoured(v, owner, []*jobspec.Job{j})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestPausingIsPromisedOnlyWhereNodesCan: a job that can pause is warned of while no node could pause
// it, and refused where its queue makes it a trial-and-error job.
func TestPausingIsPromisedOnlyWhereNodesCan(t *testing.T) {
	cfg := model.DefaultConfig()
	quick := cfg.Queues["default"]
	quick.DefaultClass = jobspec.TE
	cfg.Queues["quick"] = quick
	m := fsm.New(cfg)
	j := &jobspec.Job{Name: "x", Preemption: &jobspec.Preemption{Mode: jobspec.PreemptSuspend},
		Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"true"}}}}}}
	j.Default()
	if got := Warnings(m.View(), []*jobspec.Job{j}); len(got) != 1 || !strings.Contains(got[0], "stopped instead") {
		t.Errorf("without such a node: %q", got)
	}
	if got := Warnings(m.View(), []*jobspec.Job{{}}); got != nil {
		t.Errorf("of a job that does not ask for it: %q", got)
	}
	j.Queue = "quick"
	if err := honoured(m.View(), model.Identity{}, []*jobspec.Job{j}); err == nil ||
		!strings.Contains(err.Error(), `"quick"`) {
		t.Errorf("in a queue of trial-and-error jobs: %v", err)
	}
	node := model.Node{Name: "n1", BootID: "b", Cores: 4, Memory: jobspec.GiB, PortMin: 1, PortMax: 2, Suspends: true}
	if _, err := m.Apply(1, fsm.Entry{Command: fsm.RegisterNode{Node: node}}); err != nil {
		t.Fatal(err)
	}
	if got := Warnings(m.View(), []*jobspec.Job{j}); got != nil {
		t.Errorf("with such a node: %q", got)
	}
}
