package submission

import (
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func TestWhatWouldNotBeHonouredIsRefused(t *testing.T) {
	v := fsm.New(cluster.DefaultConfig()).View()
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
		err := found(v, owner, j)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestPausingIsPromisedOnlyWhereNodesCan: a job that can pause is warned of while no node could pause
// it, and refused where its queue makes it a trial-and-error job.
func TestPausingIsPromisedOnlyWhereNodesCan(t *testing.T) {
	cfg := cluster.DefaultConfig()
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
	if err := found(m.View(), model.Identity{}, j); err == nil ||
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

// found returns what is wrong with one job in a cluster.
func found(v *state.View, owner model.Identity, j *jobspec.Job) error {
	f := &findings{jobs: []*jobspec.Job{j}}
	f.impossible(v, j, map[model.Shape]fits{})
	f.notHonoured(v, owner, j)
	return f.problem()
}

// TestAllThatIsWrongIsSaidAtOnce: a job of which several things cannot be is refused with all of them,
// and is told how much memory it asks for if it does not say so itself.
func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	m := fsm.New(cluster.DefaultConfig())
	node := model.Node{Name: "n1", BootID: "b", Cores: 64, Memory: 100 * jobspec.GiB, SharedPath: []string{"/home"}}
	if _, err := m.Apply(1, fsm.Entry{Command: fsm.RegisterNode{Node: node}}); err != nil {
		t.Fatal(err)
	}
	j := &jobspec.Job{Name: "x", Workdir: "/scratch/x", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
		Command: []string{"true"}, User: "eve", Resources: jobspec.Resources{Cores: 32}}}}}}
	j.Default()
	var p *api.Problem
	if err := found(m.View(), model.Identity{User: "ada"}, j); !errors.As(err, &p) || len(p.Errors) != 3 ||
		!strings.Contains(p.Errors[0], "/scratch/x") || !strings.Contains(p.Errors[1], "100 GiB of 128 GiB memory") ||
		!strings.Contains(p.Errors[2], "eve") {
		t.Errorf("got %v with %q", err, p.Errors)
	}
	j.Workdir, j.Groups[0].Tasks[0].User = "", ""
	if err := found(m.View(), model.Identity{User: "ada"}, j); !errors.As(err, &p) ||
		!strings.Contains(p.Hint, "4GiB for each of its cores") || p.Errors != nil {
		t.Errorf("got %+v", p)
	}
	j.ExcludeNodes = []string{"n[2-3]"}
	if err := found(m.View(), model.Identity{User: "ada"}, j); !errors.As(err, &p) || len(p.Errors) != 2 ||
		p.Errors[1] != `exclude_nodes: invalid node name "n2": the cluster has no such node` {
		t.Errorf("it excludes nodes that there are not: %+v", p)
	}
	j.ExcludeNodes = nil
	j.Groups[0].Constraints = []jobspec.Constraint{{Attribute: "node.name", Operator: "not_in", Values: []string{"n9"}}}
	if err := found(m.View(), model.Identity{User: "ada"}, j); !errors.As(err, &p) || len(p.Errors) != 2 ||
		!strings.Contains(p.Errors[1], `"n9"`) {
		t.Errorf("a component excludes a node that there is not: %+v", p)
	}
	j.Groups[0].Constraints = nil
	j.Groups[0].Tasks[0].Resources.Memory = 127 * jobspec.GiB
	if err := found(m.View(), model.Identity{User: "ada"}, j); !errors.As(err, &p) || strings.Contains(p.Hint, "4GiB") {
		t.Errorf("of a job that says how much it needs: %+v", p)
	}
}
