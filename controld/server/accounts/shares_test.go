package accounts

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestSharesThatAreHeld: of jobs that run, in thousandths that are not round.
func TestSharesThatAreHeld(t *testing.T) {
	s := small(t)
	gpus := make([]model.GPU, 3)
	for i := range gpus {
		gpus[i] = model.GPU{UUID: fmt.Sprint("g", i), Model: "h100", Memory: 80 * jobspec.GiB, Healthy: true}
	}
	s.Do(fsm.RegisterNode{Node: model.Node{Name: "g", Addr: "127.0.0.1:1", BootID: "bg", Cores: 32,
		Memory: 64 * jobspec.GiB,
		GPUs:   gpus}})
	submit := func(account string, n int) model.JobID {
		return s.Submit(func(j *jobspec.Job) {
			j.Account = account
			j.Groups[0].Tasks[0].Resources.GPUs = n
		})
	}
	one, two := submit("a", 1), submit("b", 2)
	submit("b", 3)
	for id, p := range map[model.JobID][]int{one: {0}, two: {1, 2}} {
		if errs := s.Do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id, Places: []model.Place{{Node: "g",
			GPUs: p}}}}}).([]error); errs[0] != nil {
			t.Fatal(errs)
		}
	}
	s.Do(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: submit("c", 1)}}})
	held := heldByAccount(s.Replica.View())
	a, b := held["a"], held["b"]
	if len(held) != 2 || a.Jobs != 1 || a.Running != 1 || a.Share != 333 || a.GPUs != 1 || b.Jobs != 2 || b.Running != 1 ||
		b.Share != 666 || b.GPUs != 2 {
		t.Errorf("a holds %+v, b %+v, %d accounts", a, b, len(held))
	}
	own := map[string]bool{"a": true}
	x := s.Request("/v1/shares", "", "", "")
	if !seesAccount(x, own, "a") || !seesAccount(x, own, "b") {
		t.Error("a user does not see shares that are not private")
	}
	for _, word := range []string{cluster.PrivateUsage, cluster.PrivateAccounts} {
		cfg := *s.Replica.View().Config()
		cfg.Private = []string{word}
		s.Do(fsm.SetConfig{Config: cfg})
		x := s.Request("/v1/shares", "", "", "")
		if !seesAccount(x, own, "a") || seesAccount(x, own, "b") {
			t.Errorf("with %s private: own %t, another's %t", word, seesAccount(x, own, "a"), seesAccount(x, own, "b"))
		}
		users := []api.UserShare{{User: "ann"}, {User: "bob"}}
		if n := len(visibleShare(x, &api.Share{Account: "b",
			Users: users}).Users); (n == 1) != (word == cluster.PrivateUsage) {
			t.Errorf("with %s private %d users are shown", word, n)
		}
	}
}
