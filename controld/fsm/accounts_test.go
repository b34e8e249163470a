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

// TestTheAccountOfAGroupIsNoted: with the first job that is charged to it, and not if that is refused.
func TestTheAccountOfAGroupIsNoted(t *testing.T) {
	w := newWorld(t)
	submit := func(create string, gid uint32, account string) SubmitJobs {
		return SubmitJobs{Owner: alice, NewAccount: create, Group: &cluster.GroupAccount{GID: gid, Account: account},
			Jobs: []*jobspec.Job{testSpec(1, 0)}}
	}
	w.must(submit("gid-7", 7, "gid-7"))
	w.must(submit("staff", 7, "staff"))
	w.must(submit("", 8, "staff"))
	var spec *model.SpecError
	for create, account := range map[string]string{"": "not a name", "more": "not a name"} {
		if _, err := w.apply(submit(create, 9, account)); !errors.As(err, &spec) {
			t.Errorf("an account that has no name: %v", err)
		}
	}
	v := w.s.View()
	if v.AccountOfGroup(7) != "staff" || v.AccountOfGroup(8) != "staff" || v.AccountOfGroup(9) != "" ||
		v.KnowsAccount("more") {
		t.Errorf("accounts of groups: %q, %q, %q", v.AccountOfGroup(7), v.AccountOfGroup(8), v.AccountOfGroup(9))
	}
	for i := v.GroupAccounts(); i < cluster.MaxGroups; i++ {
		w.s.s.SetGroupAccount(cluster.GroupAccount{GID: uint32(1000 + i), Account: "staff"})
	}
	var limit *model.LimitError
	if _, err := w.apply(submit("", 9, "staff")); !errors.As(err, &limit) {
		t.Errorf("more than %d groups: %v", cluster.MaxGroups, err)
	}
	w.must(submit("", 7, "staff"))
	if err := w.s.Check(); err != nil {
		t.Error(err)
	}
}
