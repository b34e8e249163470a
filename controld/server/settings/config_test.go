package settings

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestConfigurationsThatAreSet goes through versions, comments and what is left out.
func TestConfigurationsThatAreSet(t *testing.T) {
	s := small(t)
	set := func(edit func(*cluster.Config), comment string, least int) (*api.ConfigVersion, error) {
		cfg := *s.Replica.View().Config()
		edit(&cfg)
		return s.setConfig(s.Of(servertest.Named("adm", 5), ""), &api.ConfigRequest{Config: &cfg, Comment: comment,
			IfVersion: least})
	}
	if _, err := s.setConfig(s.Of(servertest.Named("adm", 5), ""),
		&api.ConfigRequest{}); servertest.CodeOf(err) != api.CodeInvalid {
		t.Errorf("no configuration: %v", err)
	}
	long := strings.Repeat("x", versions.MaxComment)
	if _, err := set(func(c *cluster.Config) { c.MaxReads = 3 }, long+"x", 0); servertest.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a comment that is too long: %v", err)
	}
	policy := s.Replica.View().Config().Policy.Name
	first, err := set(func(c *cluster.Config) { c.MaxReads, c.Version, c.Policy.Name = 3, 99, "" }, long, 0)
	if err != nil || first.By != "adm" || first.Comment != long || s.Replica.View().Config().MaxReads != 3 ||
		s.Replica.View().Config().Policy.Name != policy || s.Replica.View().Config().Version == 99 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := set(func(c *cluster.Config) { c.MaxReads = 4 }, "", first.Number)
	if err != nil || second.Number != first.Number+1 || len(second.Changes) != 1 {
		t.Fatalf("%+v, %v", second, err)
	}
	if _, err := set(func(c *cluster.Config) { c.MaxReads = 5 }, "", first.Number); err == nil {
		t.Error("a version that is not in force any more is replaced")
	}
	list := configVersions(s.Replica.View())
	if len(list) < 2 || list[0].Number != second.Number || list[1].Number != first.Number ||
		len(list[len(list)-1].Changes) != 0 {
		t.Errorf("versions: %+v", list)
	}
	back := func(version int) error {
		_, err := s.rollBackConfig(s.Of(servertest.Named("adm", 5), ""), &api.RollbackRequest{Version: version})
		return err
	}
	if servertest.CodeOf(back(0)) != api.CodeInvalid || back(99) == nil || back(first.Number) != nil ||
		s.Replica.View().Config().MaxReads != 3 {
		t.Errorf("after going back reads are %d", s.Replica.View().Config().MaxReads)
	}
	if got := configVersions(fsm.New(cluster.DefaultConfig()).View()); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("of a new state: %+v", got)
	}
}

// TestWhatTheSchedulerIsTold goes through switches that there are, and reasons.
func TestWhatTheSchedulerIsTold(t *testing.T) {
	s := small(t)
	long := strings.Repeat("x", exchange.MaxReason)
	steered := func(req api.SchedRequest) (*api.Sched, error) {
		return s.steer(s.Of(servertest.Named("ops", 9), ""), &req)
	}
	for _, c := range []struct {
		req  api.SchedRequest
		on   int
		code string
	}{{api.SchedRequest{What: "growth", On: true, Reason: long}, 1, ""}, {api.SchedRequest{What: "growth", On: true,
		Reason: long + "x"}, 0, api.CodeInvalid},
		{api.SchedRequest{What: "brakes", On: true}, 0, api.CodeInvalid}, {api.SchedRequest{What: "growth", Reason: "x"}, 0,
			api.CodeInvalid},
		{api.SchedRequest{What: "growth"}, 0, ""}} {
		if got, err := steered(c.req); servertest.CodeOf(err) != c.code || err == nil && len(got.Settings) != c.on {
			t.Errorf("%+v: %+v, %v", c.req, got, err)
		}
	}
}

// TestAccountsOfTheConfiguration are shown to those that may know them.
func TestAccountsOfTheConfiguration(t *testing.T) {
	s := small(t)
	cfg := *s.Replica.View().Config()
	cfg.Accounts = map[string]cluster.Account{"named": {Users: map[string]cluster.Terms{"ann": {}}}, "other": {},
		"led": {Coordinators: []string{"ann"}}}
	cfg.Private = []string{cluster.PrivateAccounts}
	s.Do(fsm.SetConfig{Config: cfg})
	s.Submit(func(j *jobspec.Job) { j.Account = "charged" })
	reads := func() *exchange.Exchange {
		return s.Routed(http.MethodGet, "/v1/config", servertest.Named("ann", 7), "", "", "")
	}

	for name, c := range map[string]struct {
		user string
		uid  uint32
		want []string
	}{"a user": {"ann", 7, []string{"led", "named"}}, "another": {"bob", 8, nil}} {
		x := reads()
		x.Caller = servertest.Named(c.user, c.uid)
		got, err := getConfig(x)
		var names []string
		if err == nil {
			for n := range got.Accounts {
				names = append(names, n)
			}
		}
		if slices.Sort(names); err != nil || !slices.Equal(names, c.want) {
			t.Errorf("%s sees the accounts %v, %v", name, names, err)
		}
	}
	if len(s.Replica.View().Config().Accounts) != 3 {
		t.Error("the configuration in force has lost accounts")
	}
	own := s.Of(servertest.Named("ann", 7), "").OwnAccounts()
	if !own["named"] || own["other"] || !own["charged"] {
		t.Errorf("the accounts of ann are %v", own)
	}
	x := reads()
	x.Roles = access.User | access.Operator
	if got, err := getConfig(x); err != nil || len(got.Accounts) != 3 {
		t.Errorf("an operator sees %d accounts, %v", len(got.Accounts), err)
	}
}
