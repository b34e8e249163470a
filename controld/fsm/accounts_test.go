package fsm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestTheFirstJobOfAGroupCreatesItsAccount: once, and not if the job is refused or the account is
// configured.
func TestTheFirstJobOfAGroupCreatesItsAccount(t *testing.T) {
	w := newWorld(t)
	cfg := *w.s.View().Config()
	cfg.Accounts = map[string]cluster.Account{"there": {}}
	w.must(SetConfig{Config: cfg})
	submit := func(account string) SubmitJobs {
		return SubmitJobs{Owner: alice, NewAccount: account, Jobs: []*jobspec.Job{testSpec(1, 0)}}
	}
	refused := submit("refused")
	refused.Jobs[0].Queue = "none"
	if _, err := w.apply(refused); err == nil {
		t.Error("a job of an unknown queue was accepted")
	}
	var spec *model.SpecError
	if _, err := w.apply(submit("not a name")); !errors.As(err, &spec) {
		t.Errorf("an account that has no name: %v", err)
	}
	before := w.s.View()
	for _, account := range []string{"users", "there", "staff", "users", ""} {
		w.must(submit(account))
	}
	got := w.s.View().CreatedAccounts()
	if len(got) != 2 || got[0].Name != "staff" || got[1].Name != "users" || got[1].By != alice.User {
		t.Errorf("created: %+v", got)
	}
	if len(before.CreatedAccounts()) != 0 {
		t.Error("an earlier view has changed")
	}
	for i := len(got); i < cluster.MaxAccounts; i++ {
		w.s.s.AddAccount(&cluster.CreatedAccount{Name: fmt.Sprintf("g%d", i)})
	}
	var limit *model.LimitError
	if _, err := w.apply(submit("onemore")); !errors.As(err, &limit) {
		t.Errorf("more than %d accounts: %v", cluster.MaxAccounts, err)
	}
	if err := w.s.Check(); err != nil {
		t.Error(err)
	}
}
