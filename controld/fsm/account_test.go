package fsm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func whole(gpus int64) *cluster.Quota {
	gpus *= 1000
	return &cluster.Quota{GPUs: &gpus}
}

func TestAccountsThatCannotBe(t *testing.T) {
	negative, memory := int64(-1), jobspec.Bytes(-5)
	for want, accounts := range map[string]map[string]cluster.Account{
		`account "a": its parent, account "b", does not exist`: {"a": {Parent: "b"}},
		`account "a": its parents form a cycle`:                {"a": {Parent: "b"}, "b": {Parent: "a"}},
		`account "a": weight -1: must be from 1 to 1000000`:    {"a": {Terms: cluster.Terms{Weight: -1}}},
		`account "a", user "u": weight 2000000`: {
			"a": {Users: map[string]cluster.Terms{"u": {Weight: 2_000_000}}}},
		`account "a": deserved: cores: -1 is negative`: {
			"a": {Terms: cluster.Terms{Deserved: &cluster.Quota{Cores: &negative}}}},
		`account "a": limit: memory: -5 is negative`: {
			"a": {Terms: cluster.Terms{Limit: &cluster.Limit{Quota: cluster.Quota{Memory: &memory}}}}},
		`account "a": gpus: the quota (deserved) of 8 is above`: {
			"a": {Terms: cluster.Terms{Deserved: whole(8), Limit: &cluster.Limit{Quota: *whole(4)}}}},
		`below account "a": gpus: the quotas add up to 9`: {"a": {Terms: cluster.Terms{Deserved: whole(8)}},
			"b": {Parent: "a", Terms: cluster.Terms{Deserved: whole(9)}}},
		`all accounts: gpus: the quotas add up to 21, but there are only`: {"a": {Terms: cluster.Terms{Deserved: whole(10)}},
			"b": {Terms: cluster.Terms{Deserved: whole(11)}}},
		`below account "a": gpus: the quotas add up to 6, but there are o`: {"a": {Terms: cluster.Terms{Deserved: whole(4)},
			Users: map[string]cluster.Terms{"u": {Deserved: whole(6)}}}},
	} {
		c := cluster.DefaultConfig()
		c.Accounts, c.Capacity = accounts, whole(20)
		s := New(cluster.DefaultConfig())
		_, err := s.Apply(1, Entry{Command: SetConfig{Config: c}})
		if !errors.Is(err, model.ErrBadConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestAllProblemsOfAccountsAreSaid(t *testing.T) {
	c := cluster.DefaultConfig()
	c.Accounts = map[string]cluster.Account{"a": {Parent: "x", Terms: cluster.Terms{Weight: -1}}, "b": {Parent: "y"}}
	if n := len(strings.Split(cluster.CheckAccounts(&c).Error(), "\n")); n != 3 {
		t.Errorf("%d problems in %v", n, cluster.CheckAccounts(&c))
	}
}

// TestSumsOfWhatIsDeserved do not start again from below when they are absurd, and problems are
// said in the same order every time.
func TestSumsOfWhatIsDeserved(t *testing.T) {
	c := cluster.DefaultConfig()
	c.Capacity, c.Accounts = whole(20), map[string]cluster.Account{}
	most := int64(cluster.MaxQuota)
	for i := range cluster.MaxAccounts {
		c.Accounts[fmt.Sprint(i)] = cluster.Account{Terms: cluster.Terms{Deserved: &cluster.Quota{GPUs: &most}}}
	}
	if err := cluster.CheckAccounts(&c); err == nil {
		t.Error("more than a cluster can have is deserved of 20 GPUs, and no error")
	}
	little, much := int64(1), int64(2)
	limit, memory := &cluster.Quota{Cores: &little, GPUs: &little, Models: map[string]int64{"a": 1, "b": 1}},
		jobspec.Bytes(1)
	limit.Memory = &memory
	two := jobspec.Bytes(2)
	c.Accounts = map[string]cluster.Account{"a": {Terms: cluster.Terms{Limit: &cluster.Limit{Quota: *limit},
		Deserved: &cluster.Quota{Cores: &much,
			Memory: &two, GPUs: &much, Models: map[string]int64{"a": 2, "b": 2}}}}}
	first := cluster.CheckAccounts(&c).Error()
	for range 20 {
		if again := cluster.CheckAccounts(&c).Error(); again != first {
			t.Fatalf("said in two orders:\n%s\n%s", first, again)
		}
	}
}

func TestAccountsThatCanBe(t *testing.T) {
	c := cluster.DefaultConfig()
	c.Capacity = whole(20)
	c.Accounts = map[string]cluster.Account{
		"top": {Terms: cluster.Terms{Weight: 3, Deserved: whole(20)}},
		"a": {Parent: "top", Terms: cluster.Terms{Deserved: whole(12), Limit: &cluster.Limit{Quota: *whole(12)}},
			Users: map[string]cluster.Terms{"u": {Deserved: whole(12)}}},
		"b":     {Parent: "top", Terms: cluster.Terms{Deserved: whole(8)}},
		"guest": {},
	}
	if err := cluster.CheckAccounts(&c); err != nil {
		t.Error(err)
	}
}
