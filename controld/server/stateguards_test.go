package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// small is a leader with an empty history, as newSite has, without jobs and nodes.
func small(t *testing.T) *site {
	t.Helper()
	s := &site{Server: leading(t, 1, &links{}), t: t}
	store, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.Name, s.History, s.Samples, s.Peers = "c1", store, &telemetry.Samples{}, &peers.Peers{}
	s.Users = &identity.Users{}
	return s
}

// of is a request of a caller about {name}.
func (s *site) of(caller *identity.Caller, name string) *exchange {
	x := ask("POST", "/v1/x", caller)
	x.s, x.view, x.roles = s.Server, s.Replica.View(), access.User
	x.r.SetPathValue("name", name)
	return x
}

// TestChangesThatAMajorityOfNodesWouldNotSee: with so many nodes that follow another generation.
func TestChangesThatAMajorityOfNodesWouldNotSee(t *testing.T) {
	s := small(t)
	other := generation.Generation{Number: 9, ID: "00000000000000aa"}
	for nodes := 0; nodes <= 5; nodes++ {
		if nodes > 0 {
			boot(t, s.Server, fmt.Sprint("n", nodes), "b")
		}
		for lost := 0; lost <= nodes; lost++ {
			s.refusing = refusingNodes{}
			s.refusing.note("stranger", other)
			for i := range lost {
				s.refusing.note(fmt.Sprint("n", i+1), other)
			}
			want := ""
			if lost > nodes-lost {
				want = api.CodeGeneration
			}
			x := s.of(named("ann", 7), "")
			for _, c := range []fsm.Command{fsm.SubmitJobs{}, fsm.ControlJobs{}, fsm.UpdateJobs{}} {
				err := x.checkFollowed(c)
				if codeOf(err) != want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%d of %d nodes", lost, nodes)) {
					t.Errorf("%s, %d of %d nodes are lost: %v", c.Kind(), lost, nodes, err)
				}
			}
			if err := x.checkFollowed(fsm.SetNodeState{}); err != nil {
				t.Errorf("a change of a node: %v", err)
			}
		}
	}
	if _, err := s.of(named("ann", 7), "").propose(fsm.SubmitJobs{}); codeOf(err) != api.CodeGeneration {
		t.Errorf("the change is proposed: %v", err)
	}
}

// TestHowAGenerationIsShown: before it holds, when it does, and until jobs from before may start.
func TestHowAGenerationIsShown(t *testing.T) {
	s := small(t)
	g := generation.Generation{Number: 1, ID: "00000000000000aa"}
	show := func() *api.GenerationState { return s.of(named("ann", 7), "").presentGeneration() }
	if show() != nil || s.of(nil, "n1").awaitGeneration() != nil {
		t.Errorf("generation 0 is shown as %+v", show())
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		boot(t, s.Server, n, "b"+n)
	}
	s.do(fsm.RaiseGeneration{Generation: g, Means: generation.MeansRestore, Controller: "c1"})
	got := show()
	if got.Generation != g.String() || got.Means != generation.MeansRestore ||
		got.Controller != "c1" || got.Raised == nil ||
		got.Settled || got.Accepted != 0 || got.Need != 2 || !slices.Equal(got.Missing, []string{"n1", "n2", "n3"}) ||
		got.OldJobsIn != 0 {
		t.Errorf("before any node follows: %+v", got)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	s.alive = gone
	if err := s.of(nil, "n1").awaitGeneration(); !errors.Is(err, generation.ErrUnsettled) {
		t.Errorf("it holds already: %v", err)
	}
	follows := func(node string) error {
		_, err := s.of(nil, node).nodeThatFollows("b" + node)
		return err
	}
	if err := follows("n1"); !errors.Is(err, generation.ErrGeneration) {
		t.Errorf("n1 follows: %v", err)
	}
	accept := func(node, boot, generation string) (*api.Generation, error) {
		return acceptGeneration(s.of(nil, node), &api.AcceptGeneration{BootID: boot, Generation: generation,
			Known: []string{fmt.Sprintf("%d.1.0", 7)}})
	}
	for name, c := range map[string][3]string{"another boot": {"n1", "x", g.String()}, "no node": {"n9", "bn9",
		g.String()},
		"another generation": {"n1", "bn1", "1-00000000000000bb"}, "no generation": {"n1", "bn1", "1"}} {
		if _, err := accept(c[0], c[1], c[2]); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if got, err := accept("n1", "bn1", g.String()); err != nil || !got.Accepted || got.Settled ||
		got.Generation != g.String() {
		t.Errorf("n1 follows: %+v, %v", got, err)
	}
	if err := follows("n1"); err != nil {
		t.Error(err)
	}
	if err := follows("n2"); err == nil {
		t.Error("n2 follows too")
	}
	if got := show(); got.Settled || got.Accepted != 1 || !slices.Equal(got.Missing, []string{"n2", "n3"}) ||
		got.Unknown != 1 {
		t.Errorf("with one of three: %+v", got)
	}
	if got, err := accept("n2", "bn2", g.String()); err != nil || !got.Settled {
		t.Errorf("n2 follows: %+v, %v", got, err)
	}
	cfg := s.Replica.View().Config()
	if got, span := show(), (cfg.LeaseMS+cfg.MarginMS)/1000; !got.Settled || got.Accepted != 2 || got.OldJobsIn > span ||
		got.OldJobsIn < span-60 {
		t.Errorf("with two of three: %+v, the lease is %d s", got, span)
	}
	if err := s.of(nil, "n1").awaitGeneration(); err != nil {
		t.Errorf("it holds: %v", err)
	}
	if got, err := getGeneration(s.of(nil, "n3")); err != nil || got.Accepted || !got.Settled {
		t.Errorf("n3 asks: %+v, %v", got, err)
	}
}

// TestWhatChangesANode goes through what operators and nodes ask, and what of it is refused.
func TestWhatChangesANode(t *testing.T) {
	s := newSite(t)
	s.Contacts = &telemetry.Contacts{}
	s.Contacts.Restart(time.Now())
	long := strings.Repeat("x", maxReason)
	set := func(to model.NodeState, node, reason string) (*api.Node, error) {
		return setNode(to)(s.of(named("ops", 9), node), &api.NodeRequest{Reason: reason})
	}
	s.do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	for name, c := range map[string]struct {
		to           model.NodeState
		node, reason string
		code         string
	}{
		"no node":            {model.NodeDrained, "n9", "x", api.CodeNotFound},
		"no reason":          {model.NodeDrained, "n2", "", api.CodeInvalid},
		"a long reason":      {model.NodeDrained, "n2", long, ""},
		"one byte more":      {model.NodeDrained, "n2", long + "x", api.CodeInvalid},
		"up":                 {model.NodeUp, "n1", "", ""},
		"up, with a reason":  {model.NodeUp, "n1", long + "x", api.CodeInvalid},
		"up while it is not": {model.NodeUp, "n3", "", api.CodeWrongState},
		"drained while down": {model.NodeDrained, "n3", "disk", ""},
	} {
		if out, err := set(c.to, c.node, c.reason); codeOf(err) != c.code || err == nil && out.Name != c.node {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	s.do(fsm.SetNodeState{Node: "n2", State: model.NodeUp})
	register := func(path string, edit func(*model.Node)) (moved bool, err error) {
		known, _ := s.Replica.View().Node("n1")
		n := model.Node{Name: path, Addr: known.Addr, BootID: "bn1", Cores: 8, Memory: 32 * jobspec.GiB}
		edit(&n)
		before := s.Replica.View().Index()
		_, err = register(s.of(nil, path), &api.RegisterRequest{Node: n})
		return s.Replica.View().Index() > before, err
	}
	down := func() { s.do(fsm.SetNodeState{Node: "n1", State: model.NodeDown, Reason: "silent"}) }
	same := func(*model.Node) {}
	for _, c := range []struct {
		name   string
		before func()
		path   string
		edit   func(*model.Node)
		moved  bool
		code   string
	}{
		{"what is known", nil, "n1", same, false, ""},
		{"another inventory", nil, "n1", func(n *model.Node) { n.Cores = 9 }, true, ""},
		{"and back", nil, "n1", same, true, ""},
		{"one that is down", down, "n1", same, true, ""},
		{"a new node", nil, "n4", func(n *model.Node) { n.BootID = "b4" }, true, ""},
		{"another name in the path", nil, "n5", func(n *model.Node) { n.Name = "n6" }, false, api.CodeInvalid},
		{"no name", nil, "a b", same, false, api.CodeInvalid},
		{"another machine", nil, "n1", func(n *model.Node) { n.BootID = "other" }, false, api.CodeWrongState},
		{"another machine, without jobs", nil, "n2", func(n *model.Node) { n.BootID = "other" }, true, ""},
	} {
		if c.before != nil {
			c.before()
		}
		s.Contacts = &telemetry.Contacts{}
		s.Contacts.Restart(time.Now())
		moved, err := register(c.path, c.edit)
		if moved != c.moved || codeOf(err) != c.code || s.Contacts.Seen(c.path).IsZero() == (c.code == "") {
			t.Errorf("%s: an entry %t, %v, heard of at %v", c.name, moved, err, s.Contacts.Seen(c.path))
		}
	}
	if n, _ := s.Replica.View().Node("n1"); n.State != model.NodeUp {
		t.Errorf("after all n1 is %s", n.State)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	s.alive = gone
	for node, code := range map[string]string{"n1": "", "n3": api.CodeNoLeader, "n9": ""} {
		if err := s.of(nil, node).awaitUp(node); codeOf(err) != code {
			t.Errorf("until %s is up: %v", node, err)
		}
	}
	for boot, code := range map[string]string{"bn1": "", "x": api.CodeWrongState} {
		s.Contacts = &telemetry.Contacts{}
		s.Contacts.Restart(time.Now())
		if _, err := s.of(nil, "n1").nodeOf(boot); codeOf(err) != code || s.Contacts.Seen("n1").IsZero() == (code == "") {
			t.Errorf("boot %s: %v", boot, err)
		}
	}
}

// TestWhichNodesAreConfirmedDead: those that are down, all or none.
func TestWhichNodesAreConfirmedDead(t *testing.T) {
	s := newSite(t)
	s.do(fsm.SetNodeState{Node: "n1", State: model.NodeDown, Reason: "silent"})
	s.do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	many := make([]string, model.MaxNodes+1)
	for i := range many {
		many[i] = fmt.Sprintf("m%05d", i)
	}
	confirm := func(req api.ConfirmDeadRequest) (*api.ConfirmedDead, string, error) {
		x := s.of(named("ops", 9), "")
		out, err := confirmDead(x, &req)
		return out, x.about.object, err
	}
	for name, c := range map[string]struct {
		req  api.ConfirmDeadRequest
		code string
	}{
		"none":     {api.ConfirmDeadRequest{}, api.CodeInvalid},
		"too many": {api.ConfirmDeadRequest{Nodes: many}, api.CodeInvalid},
		"as many":  {api.ConfirmDeadRequest{Nodes: many[1:]}, api.CodeNotFound},
		"a long reason": {api.ConfirmDeadRequest{Nodes: []string{"n1"}, Reason: strings.Repeat("x", maxReason+1)},
			api.CodeInvalid},
		"one that is up": {api.ConfirmDeadRequest{Nodes: []string{"n1", "n2"}, Reason: strings.Repeat("x", maxReason)},
			api.CodeWrongState},
		"no node": {api.ConfirmDeadRequest{Nodes: []string{"n1", "n9"}}, api.CodeNotFound},
	} {
		before := s.Replica.View().Index()
		if _, _, err := confirm(c.req); codeOf(err) != c.code || s.Replica.View().Index() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := []model.JobID{s.gang, s.leaving, s.steps}
	for _, dry := range []bool{true, false} {
		before := s.Replica.View().Index()
		out, object, err := confirm(api.ConfirmDeadRequest{Nodes: []string{"n3", "n1", "n3"}, DryRun: dry})
		if err != nil || object != "n1,n3" || len(out.Items) != 2 || out.Items[0].Name != "n1" ||
			len(out.Items[1].Jobs) != 0 ||
			out.Items[0].Since == nil || (s.Replica.View().Index() == before) != dry {
			t.Errorf("dry run %t: %+v, %q, %v", dry, out, object, err)
		}
		if slices.Sort(out.Items[0].Jobs); !slices.Equal(out.Items[0].Jobs, want) {
			t.Errorf("dry run %t: the jobs %v, want %v", dry, out.Items[0].Jobs, want)
		}
	}
}

// TestTokensThatAreMade goes through how long they last, for which scopes, and for which users.
func TestTokensThatAreMade(t *testing.T) {
	s := small(t)
	admin, ann := named("adm", 5), named("ann", 7)
	byNode := &identity.Caller{Role: "node", From: "n1", User: ann.User}
	route := &route{rule: with(forUsers, partTokens)}
	for name, c := range map[string]struct {
		caller *identity.Caller
		roles  access.Role
		req    api.TokenRequest
		days   int64
		code   string
	}{
		"as it is": {ann, access.User, api.TokenRequest{}, trust.APITokenDays, ""},
		"a day":    {ann, access.User, api.TokenRequest{Days: 1, Name: "ci", Scope: trust.ScopeAll}, 1, ""},
		"a year": {ann, access.User, api.TokenRequest{Days: trust.MaxAPITokenDays, User: "ann"},
			trust.MaxAPITokenDays, ""},
		"a day more":        {ann, access.User, api.TokenRequest{Days: trust.MaxAPITokenDays + 1}, 0, api.CodeInvalid},
		"less than a day":   {ann, access.User, api.TokenRequest{Days: -1}, 0, api.CodeInvalid},
		"no name":           {ann, access.User, api.TokenRequest{Name: "a b"}, 0, api.CodeInvalid},
		"an odd scope":      {ann, access.User, api.TokenRequest{Scope: "x"}, 0, api.CodeInvalid},
		"all, by a node":    {byNode, access.User, api.TokenRequest{Scope: trust.ScopeAll}, 0, api.CodeDenied},
		"submit, by a node": {byNode, access.User, api.TokenRequest{Scope: trust.ScopeSubmit}, trust.APITokenDays, ""},
		"for another":       {ann, access.User, api.TokenRequest{User: "bob"}, 0, api.CodeDenied},
		"for another, by admins": {admin, access.User | access.Admin, api.TokenRequest{User: "daemon"}, trust.APITokenDays,
			""},
		"for an unknown one": {admin, access.User | access.Admin, api.TokenRequest{User: "not-there"}, 0,
			api.CodeInvalid},
		"for root, by admins": {admin, access.User | access.Admin, api.TokenRequest{User: "root"}, 0, api.CodeDenied},
	} {
		x := s.of(c.caller, "")
		x.rt, x.roles = route, c.roles
		got, err := createToken(x, &c.req)
		if codeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil && (got.Expires.Sub(got.Created.Time) != time.Duration(c.days)*24*time.Hour || got.State != "valid" ||
			x.about.object != got.ID || got.Token == "" || got.By != c.caller.User.User || c.req.Scope == "" &&
			got.Scope != trust.ScopeSubmit || c.req.Scope != "" && got.Scope != c.req.Scope || got.Name != c.req.Name) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	list := func(caller *identity.Caller, roles access.Role, user string) (users []string) {
		x := s.of(caller, "")
		x.rt, x.roles, x.query = route, roles, url.Values{"user": {user}}
		got, err := listTokens(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range got.Items {
			if users = append(users, k.User); i > 0 && k.Created.After(got.Items[i-1].Created.Time) {
				t.Errorf("token %d is out of order", i)
			}
		}
		slices.Sort(users)
		return slices.Compact(users)
	}
	if a, b, c := list(ann, access.User, ""), list(admin, access.User|access.Admin, ""), list(admin,
		access.User|access.Admin, "daemon"); !slices.Equal(a, []string{"ann"}) ||
		!slices.Equal(b, []string{"ann", "daemon"}) || !slices.Equal(c, []string{"daemon"}) {
		t.Errorf("they see the tokens of %v, %v, %v", a, b, c)
	}
	revoke := func(caller *identity.Caller, roles access.Role, id string) (*api.APIToken, error) {
		x := s.of(caller, "")
		x.rt, x.roles = route, roles
		x.r.SetPathValue("id", id)
		return revokeToken(x)
	}
	id := s.Replica.View().APITokens()[0].ID
	for _, c := range []struct {
		caller *identity.Caller
		roles  access.Role
		id     string
		code   string
	}{{named("bob", 8), access.User, id, api.CodeNotFound}, {admin, access.User | access.Admin, "x", api.CodeNotFound},
		{admin, access.User | access.Admin, id, ""}} {
		if got, err := revoke(c.caller, c.roles, c.id); codeOf(err) != c.code || err == nil && got.State != "revoked" {
			t.Errorf("%s revokes %s: %+v, %v", c.caller.User.User, c.id, got, err)
		}
	}
	made, err := createToken(func() *exchange { x := s.of(ann, ""); x.rt = route; return x }(), &api.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token, scope string
		method       string
		needs        trust.TokenScope
		status       int // 0: it may
	}{"no token": {"", "", "POST", scopeNever, 0}, "reads": {made.ID, "submit", "GET", "", 0}, "acts": {made.ID,
		"submit", "POST", "", 403},
		"submits": {made.ID, "submit", "POST", trust.ScopeSubmit, 0}, "acts with all": {made.ID, "all", "POST", "", 0},
		"makes one": {made.ID, "all", "POST", scopeNever, 403}, "revoked": {id, "all", "GET", "", 401}, "unknown": {"x",
			"all", "GET", "", 401}} {
		x := s.of(&identity.Caller{User: ann.User, Token: c.token, Scope: c.scope}, "")
		own := *route
		own.token, own.Method = c.needs, c.method
		x.rt = &own
		err := x.authoriseToken()
		var p *api.Problem
		if errors.As(err, &p); (p == nil) != (c.status == 0) || p != nil && p.Status != c.status {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.of(nil, "").authoriseToken(); err != nil {
		t.Errorf("a stranger's token: %v", err)
	}
	now := s.Replica.Now(s.Replica.View())
	for at, want := range map[model.Instant]string{now - 1000: "expired", now + 60_000: "valid"} {
		if got := s.of(ann, "").presentToken(&trust.APIToken{Expires: model.Stamp{At: at}}).State; got != want {
			t.Errorf("a token that ends at %d, now %d, is %s", at, now, got)
		}
	}
}

// TestConfigurationsThatAreSet goes through versions, comments and what is left out.
func TestConfigurationsThatAreSet(t *testing.T) {
	s := small(t)
	set := func(edit func(*cluster.Config), comment string, least int) (*api.ConfigVersion, error) {
		cfg := *s.Replica.View().Config()
		edit(&cfg)
		return setConfig(s.of(named("adm", 5), ""), &api.ConfigRequest{Config: &cfg, Comment: comment, IfVersion: least})
	}
	if _, err := setConfig(s.of(named("adm", 5), ""), &api.ConfigRequest{}); codeOf(err) != api.CodeInvalid {
		t.Errorf("no configuration: %v", err)
	}
	long := strings.Repeat("x", versions.MaxComment)
	if _, err := set(func(c *cluster.Config) { c.MaxReads = 3 }, long+"x", 0); codeOf(err) != api.CodeInvalid {
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
		_, err := rollBackConfig(s.of(named("adm", 5), ""), &api.RollbackRequest{Version: version})
		return err
	}
	if codeOf(back(0)) != api.CodeInvalid || back(99) == nil || back(first.Number) != nil ||
		s.Replica.View().Config().MaxReads != 3 {
		t.Errorf("after going back reads are %d", s.Replica.View().Config().MaxReads)
	}
	if got := configVersions(fsm.New(cluster.DefaultConfig()).View()); len(got) != 1 || got[0].Number != 1 {
		t.Errorf("of a new state: %+v", got)
	}
}

// TestMachinesThatMayJoin goes through names that are taken, and roles.
func TestMachinesThatMayJoin(t *testing.T) {
	s := small(t)
	boot(t, s.Server, "up", "b")
	boot(t, s.Server, "down", "b")
	s.do(fsm.SetNodeState{Node: "down", State: model.NodeDown})
	s.Name = "self" // the log knows this controller as c1
	for name, c := range map[string]struct {
		role  pki.Role
		name  string
		taken bool
	}{"itself": {pki.Controller, "self", true}, "a voter": {pki.Controller, "c1", true}, "a new one": {pki.Controller,
		"c2", false},
		"a node that is up": {pki.Node, "up", true}, "a node that is down": {pki.Node, "down", false},
		"a new node": {pki.Node, "new", false}, "a login node of that name": {pki.Login, "up", false}} {
		if err := s.of(nil, "").nameTaken(c.role, c.name); (err != nil) != c.taken {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		role, name string
		generation int
		code       string
	}{{"node", "n1", 1, ""}, {"node", "n1", 2, ""}, {"login", "n1", 1, ""}, {"controller", "c1", 0, api.CodeInvalid},
		{"x", "n1", 0, api.CodeInvalid}, {"node", "a b", 0, api.CodeInvalid}} {
		x := s.of(named("adm", 5), c.name)
		x.r.SetPathValue("role", c.role)
		got, err := revoke(x)
		if codeOf(err) != c.code || err == nil && (int(got.Generation) != c.generation || got.Role != c.role ||
			got.Name != c.name) {
			t.Errorf("%s %s: %+v, %v", c.role, c.name, got, err)
		}
	}
	remove := func(name string) error {
		_, err := removeController(s.of(named("adm", 5), name))
		return err
	}
	if codeOf(remove("c9")) != api.CodeNotFound {
		t.Error("a controller that there is not is removed")
	}
	s.Name = "c1"
	if codeOf(remove("c1")) != api.CodeWrongState {
		t.Error("this controller is removed")
	}
	if got, err := getCluster(s.of(named("ann", 7), "")); err != nil || got.Leader != "c1" || len(got.Controllers) != 1 ||
		!got.Controllers[0].Voter || !got.Controllers[0].Leader || got.Controllers[0].State != api.ControllerVoter ||
		got.Generation != nil || got.GossipKey != nil || got.Witnesses != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := createJoinToken(s.of(named("adm", 5), ""),
		&api.JoinTokenRequest{Role: "node"}); codeOf(err) != api.CodeWrongState {
		t.Errorf("without an authority: %v", err)
	}
	if _, err := createJoinToken(s.of(named("adm", 5), ""),
		&api.JoinTokenRequest{Role: "x"}); codeOf(err) != api.CodeInvalid {
		t.Errorf("an odd role: %v", err)
	}
}

// TestPagesOfEvents: a page ends with the first index behind so many events, and begins again there.
func TestPagesOfEvents(t *testing.T) {
	s := small(t)
	jobs := make([]*jobspec.Job, maxEvents+5)
	for i := range jobs {
		jobs[i] = &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m",
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	}
	s.do(fsm.SubmitJobs{Owner: model.Identity{UID: 7, User: "ann"}, Jobs: jobs})
	last := s.submit(nil)
	page := func(after uint64) *api.List[api.Event] {
		x := s.request("/v1/events", "", "", "")
		x.after = after
		got, err := listEvents(x)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := page(0)
	if len(first.Items) < len(jobs) || first.Index == s.Replica.View().Index() ||
		first.Items[len(first.Items)-1].Job == last {
		t.Fatalf("%d events up to %d", len(first.Items), first.Index)
	}
	second := page(first.Index)
	if len(second.Items) != 1 || second.Items[0].Job != last || second.Index != s.Replica.View().Index() {
		t.Errorf("then %+v", second)
	}
}

// TestEventsOfHiddenJobs takes out what a caller may not see, and leaves the rest.
func TestEventsOfHiddenJobs(t *testing.T) {
	s := newSite(t)
	own := s.gang
	bobs := s.do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
	s.do(fsm.SetConfig{Config: func() cluster.Config {
		c := *s.Replica.View().Config()
		c.Private = []string{cluster.PrivateEvents}
		return c
	}()})
	for name, c := range map[string]struct {
		event api.Event
		seen  bool
		want  api.Event
	}{
		"its own":       {api.Event{Job: own}, true, api.Event{Job: own}},
		"another's":     {api.Event{Job: bobs}, false, api.Event{Job: bobs}},
		"a node's":      {api.Event{Node: "n1"}, false, api.Event{Node: "n1"}},
		"for another's": {api.Event{Job: own, For: bobs, ForUser: "bob", ForAccount: "a"}, true, api.Event{Job: own}},
		"for its own": {api.Event{Job: own, For: own, ForUser: "ann"}, true, api.Event{Job: own, For: own,
			ForUser: "ann"}},
		"with another's": {api.Event{Job: own, With: bobs}, true, api.Event{Job: own}},
		"with its own":   {api.Event{Job: own, With: own}, true, api.Event{Job: own, With: own}},
		"its end": {api.Event{Job: own, Type: "ended", Text: "x"}, true, api.Event{Job: own, Type: "ended",
			Text: "x"}},
		"another's end": {api.Event{Job: bobs, Type: "ended", Text: "x"}, false, api.Event{Job: bobs, Type: "ended"}},
		"another's other text": {api.Event{Job: bobs, Type: "held", Text: "x"}, false, api.Event{Job: bobs, Type: "held",
			Text: "x"}},
		"its class": {api.Event{Job: own, Type: "class"}, true, api.Event{Job: own, Type: "class"}},
	} {
		e := c.event
		x := s.request("/v1/events", "", "", "")
		if seen := x.maySeeEvent(&e); seen != c.seen || !reflect.DeepEqual(e, c.want) {
			t.Errorf("%s: seen %t, %+v", name, seen, e)
		}
	}
	s.do(fsm.SetConfig{Config: func() cluster.Config { c := *s.Replica.View().Config(); c.Private = nil; return c }()})
	x := s.request("/v1/events", "", "", "")
	if !x.maySeeEvent(&api.Event{Job: bobs}) || !x.maySeeEvent(&api.Event{Node: "n1"}) ||
		x.maySeeEvent(&api.Event{Job: bobs, Type: string(model.EventClass)}) {
		t.Error("while events are not private a caller sees too few, or the class of another's job")
	}
}

// TestEndedJobsThatAreNotStoredYet are listed with those that are, by the same words.
func TestEndedJobsThatAreNotStoredYet(t *testing.T) {
	s := newSite(t)
	j := s.Replica.View().Job(s.ended)
	at, seq, id := j.Ended.Wall, j.Seq, int(j.ID)
	for name, c := range map[string]struct {
		q    history.Filter
		want int
	}{
		"all":           {history.Filter{}, 1},
		"since then":    {history.Filter{Since: at}, 1},
		"since later":   {history.Filter{Since: at + 1}, 0},
		"until then":    {history.Filter{Until: at}, 0},
		"until later":   {history.Filter{Until: at + 1}, 1},
		"before it":     {history.Filter{Before: seq}, 0},
		"behind it":     {history.Filter{Before: seq + 1}, 1},
		"it":            {history.Filter{IDs: ranges.Span(id, id)}, 1},
		"another":       {history.Filter{IDs: ranges.Span(id+1, id+1)}, 0},
		"its user":      {history.Filter{User: "ann"}, 1},
		"another user":  {history.Filter{User: "bob"}, 0},
		"its name":      {history.Filter{Name: "j"}, 1},
		"another name":  {history.Filter{Name: "k"}, 0},
		"another state": {history.Filter{States: []model.JobState{model.Completed}}, 0},
	} {
		c.q.Limit = 10
		if got, err := s.request("/v1/history", "", "", "").finished(c.q); err != nil || len(got) != c.want {
			t.Errorf("%s: %d jobs, %v", name, len(got), err)
		}
	}
	list := func(seqs ...int64) (jobs []*model.Job) {
		for _, n := range seqs {
			jobs = append(jobs, &model.Job{Seq: n})
		}
		return jobs
	}
	for _, c := range []struct {
		a, b  []*model.Job
		limit int
		want  string
	}{{list(5, 4), list(4, 3), 10, "5 4 3"}, {list(5, 4), list(4, 3), 2, "5 4"}, {nil, list(1, 2), 2, "2 1"}, {nil, nil,
		3, ""}} {
		var got []string
		for _, j := range mergeBySeq(c.a, c.b, c.limit) {
			got = append(got, strconv.FormatInt(j.Seq, 10))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("merged: %v, want %s", got, c.want)
		}
	}
}

// TestWhichControllerAnswers turns each condition on which a request is passed on, by a controller that
// leads and one that does not. There is no other to pass it on to.
func TestWhichControllerAnswers(t *testing.T) {
	s := newSite(t)
	s.Peers, s.Fetching = &peers.Peers{}, func() bool { return false }
	run := func(edit func(*route), query string, forwarded bool) string {
		x := s.request("/v1/nodes", "", query, "")
		rt := *x.rt
		rt.rule, rt.handle, rt.past, rt.place, rt.Poll = forUsers, func(*exchange) (any, error) { return 1, nil }, false,
			here, false
		edit(&rt)
		rt.Operation.Params = nil
		x.rt, x.view = &rt, nil
		x.r.URL.RawQuery = query
		if forwarded {
			x.r.Header.Set(headerForwarded, "c2")
		}
		if _, err := x.run(); err != nil {
			return codeOf(err)
		}
		return "answered"
	}
	here := func(*route) {}
	polls := func(rt *route) { rt.Poll = true }
	past := func(rt *route) { rt.Poll, rt.past = true, true }
	fetching := false
	s.Fetching = func() bool { return fetching }
	for _, c := range []struct {
		name                       string
		edit                       func(*route)
		query                      string
		leads, fresh, fetch, lacks bool
		want                       string
	}{
		{"leads", here, "", true, true, false, false, "answered"},
		{"leads, a change", func(rt *route) { rt.place = onLeader }, "", true, true, false, false, "answered"},
		{"leads, an odd word", here, "x=1", true, true, false, false, api.CodeInvalid},
		{"leads, a poll", polls, "", true, false, false, false, "answered"},
		{"leads, of now", polls, "consistent=true", true, true, false, false, "answered"},
		{"leads, of the past", past, "", true, true, true, false, "answered"},
		{"leads, records are fetched", past, "", true, true, true, true, api.CodeNoLeader},
		{"leads, records are lost", past, "", true, true, false, true, "answered"},
		{"leads, of the present while records are fetched", polls, "", true, true, true, true, "answered"},
		{"follows, a read", here, "", false, false, false, false, "answered"},
		{"follows, a change", func(rt *route) { rt.place = onLeader }, "", false, true, false, false, api.CodeNoLeader},
		{"follows, a poll", polls, "", false, true, false, false, "answered"},
		{"follows, a poll of one that has just started", polls, "", false, false, false, false, api.CodeNoLeader},
		{"follows, of now", polls, "consistent=true", false, true, false, false, api.CodeNoLeader},
		{"follows, of the past", past, "", false, true, false, false, "answered"},
		{"follows, without records", past, "", false, true, false, true, api.CodeNoLeader},
		{"follows, of the present without records", polls, "", false, true, false, true, "answered"},
	} {
		if c.leads {
			s.Replica.StartLeading()
		} else {
			s.Replica.StopLeading()
		}
		s.fresh.Store(c.fresh)
		fetching = c.fetch
		if c.lacks {
			if err := s.History.NoteGaps(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
		}
		if s.missesRecords() != c.lacks {
			store, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			s.History = store
		}
		if s.missesRecords() != c.lacks {
			t.Fatalf("%s: it misses records %t", c.name, !c.lacks)
		}
		if got := run(c.edit, c.query, false); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		x := s.request("/v1/nodes", "", "", "")
		behind := x.maybeBehind()
		x.r.Header.Set(headerForwarded, "c2")
		if behind == c.leads || x.maybeBehind() {
			t.Errorf("%s: it may be behind %t, and what was passed on %t", c.name, behind, x.maybeBehind())
		}
		if _, err := readyz(x); (err == nil) != c.leads {
			t.Errorf("%s: ready %v", c.name, err)
		}
		if _, stale := s.stale(); stale {
			t.Errorf("%s: no leader is known", c.name)
		}
	}
	s.Replica.StartLeading()
	s.caught = make(chan struct{})
	s.fresh.Store(false)
	if err := s.CatchUp(t.Context()); err != nil || !s.fresh.Load() {
		t.Errorf("a leader has not caught up: %v", err)
	}
	<-s.CaughtUp()
}

// TestSharesThatAreHeld: of jobs that run, in thousandths that are not round.
func TestSharesThatAreHeld(t *testing.T) {
	s := small(t)
	gpus := make([]model.GPU, 3)
	for i := range gpus {
		gpus[i] = model.GPU{UUID: fmt.Sprint("g", i), Model: "h100", Memory: 80 * jobspec.GiB, Healthy: true}
	}
	s.do(fsm.RegisterNode{Node: model.Node{Name: "g", Addr: "127.0.0.1:1", BootID: "bg", Cores: 32,
		Memory: 64 * jobspec.GiB,
		GPUs:   gpus}})
	submit := func(account string, n int) model.JobID {
		return s.submit(func(j *jobspec.Job) {
			j.Account = account
			j.Groups[0].Tasks[0].Resources.GPUs = n
		})
	}
	one, two := submit("a", 1), submit("b", 2)
	submit("b", 3)
	for id, p := range map[model.JobID][]int{one: {0}, two: {1, 2}} {
		if errs := s.do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id, Places: []model.Place{{Node: "g",
			GPUs: p}}}}}).([]error); errs[0] != nil {
			t.Fatal(errs)
		}
	}
	s.do(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: submit("c", 1)}}})
	held := heldByAccount(s.Replica.View())
	a, b := held["a"], held["b"]
	if len(held) != 2 || a.Jobs != 1 || a.Running != 1 || a.Share != 333 || a.GPUs != 1 || b.Jobs != 2 || b.Running != 1 ||
		b.Share != 666 || b.GPUs != 2 {
		t.Errorf("a holds %+v, b %+v, %d accounts", a, b, len(held))
	}
	own := map[string]bool{"a": true}
	x := s.request("/v1/shares", "", "", "")
	if !x.seesAccount(own, "a") || !x.seesAccount(own, "b") {
		t.Error("a user does not see shares that are not private")
	}
	for _, word := range []string{cluster.PrivateUsage, cluster.PrivateAccounts} {
		cfg := *s.Replica.View().Config()
		cfg.Private = []string{word}
		s.do(fsm.SetConfig{Config: cfg})
		x := s.request("/v1/shares", "", "", "")
		if !x.seesAccount(own, "a") || x.seesAccount(own, "b") {
			t.Errorf("with %s private: own %t, another's %t", word, x.seesAccount(own, "a"), x.seesAccount(own, "b"))
		}
		users := []api.UserShare{{User: "ann"}, {User: "bob"}}
		n := len(x.visibleShare(&api.Share{Account: "b", Users: users}).Users)
		if (n == 1) != (word == cluster.PrivateUsage) {
			t.Errorf("with %s private %d users are shown", word, n)
		}
	}
}

// TestWhatIsPruned compares what tasks report, and leaves those alone that cannot be compared.
func TestWhatIsPruned(t *testing.T) {
	s := newSite(t)
	array := s.submit(func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "10-15"} })
	for n := 1; n <= 5; n++ {
		if errs := s.do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: array, TaskNumber: n,
			Places: []model.Place{{Node: []string{"n2", "n3"}[n%2]}}}}}).([]error); errs[0] != nil {
			t.Fatal(errs)
		}
		s.all(array+model.JobID(n), model.WorkerRunning)
	}
	live := func(model.JobID) bool { return false }
	put := func(n, attempt int, step int64, metrics map[string]float64) {
		s.Samples.Put(array+model.JobID(n), telemetry.Progress{Attempt: attempt, Step: step, Metrics: metrics}, "", live)
	}
	put(1, 1, 10, map[string]float64{"loss": 3})
	put(2, 1, 10, map[string]float64{"loss": 1})
	put(3, 1, 9, map[string]float64{"loss": 2}) // not so far
	put(4, 1, 10, map[string]float64{"acc": 2}) // another metric
	s.do(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: array + 5}}, By: 7})
	put(5, 1, 10, map[string]float64{"loss": 0}) // it is being stopped
	ask := func(id string, req api.PruneRequest) (*api.PruneResponse, error) {
		return prune(s.request("/v1/jobs/{id}/prune", id, "", ""), &req)
	}
	name := fmt.Sprint(array)
	good := api.PruneRequest{Metric: "loss", Keep: "top 1", AtStep: 10, DryRun: true}
	for what, c := range map[string]struct {
		id   string
		edit func(*api.PruneRequest)
		code string
	}{"good": {name, func(*api.PruneRequest) {}, ""}, "no array": {fmt.Sprint(s.gang), func(*api.PruneRequest) {},
		api.CodeInvalid},
		"a task":      {name + "_10", func(*api.PruneRequest) {}, api.CodeInvalid},
		"no metric":   {name, func(r *api.PruneRequest) { r.Metric = "" }, api.CodeInvalid},
		"min":         {name, func(r *api.PruneRequest) { r.Goal = "min" }, ""},
		"an odd goal": {name, func(r *api.PruneRequest) { r.Goal = "avg" }, api.CodeInvalid},
		"odd to keep": {name, func(r *api.PruneRequest) { r.Keep = "some" }, api.CodeInvalid}} {
		req := good
		c.edit(&req)
		if _, err := ask(c.id, req); codeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	check := func(what string, req api.PruneRequest, kept, cancelled, silent []int) {
		t.Helper()
		got, err := ask(name, req)
		if err != nil || !slices.Equal(got.Kept, kept) || !slices.Equal(got.Cancelled, cancelled) ||
			!slices.Equal(got.Silent, silent) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	check("the least", good, []int{11}, []int{10}, []int{12, 13})
	most := good
	most.Goal = "max"
	check("the most", most, []int{10}, []int{11}, []int{12, 13})
	all := good
	all.AtStep = 9
	check("one step less", all, []int{11}, []int{12, 10}, []int{13})
	all.Keep = "top 3"
	before := s.Replica.View().Index()
	all.DryRun = false
	check("all are kept", all, []int{11, 12, 10}, []int{}, []int{13})
	if s.Replica.View().Index() != before {
		t.Error("what cancels nothing is in the log")
	}
	done := good
	done.DryRun = false
	check("it is done", done, []int{11}, []int{10}, []int{12, 13})
	if a, b := s.Replica.View().Job(array+1), s.Replica.View().Job(array+2); a.Live() == nil || a.Live().Stop == nil ||
		!a.Pruned ||
		b.Live().Stop != nil {
		t.Errorf("afterwards: %+v, %+v", a, b)
	}
}

// TestHowLongANodeWaits: for news, and no longer than half of the silence after which it is down.
func TestHowLongANodeWaits(t *testing.T) {
	s := small(t)
	boot(t, s.Server, "n1", "b")
	cfg := *s.Replica.View().Config()
	cfg.NodeDownMS = 2000
	s.do(fsm.SetConfig{Config: cfg})
	wait := func(after uint64, wait string) time.Duration {
		x := s.of(nil, "n1")
		x.query = url.Values{"after": {fmt.Sprint(after)}, "wait": {wait}}
		x.r = x.r.WithContext(t.Context())
		begin := time.Now()
		if err := x.awaitNode("n1"); err != nil {
			t.Error(err)
		}
		return time.Since(begin)
	}
	modified := s.Replica.View().NodeModified("n1")
	if d := wait(modified-1, "60s"); d > 900*time.Millisecond {
		t.Errorf("there is news, and it waits %v", d)
	}
	if d := wait(modified, "60s"); d < 900*time.Millisecond || d > 1900*time.Millisecond {
		t.Errorf("there is no news, and it waits %v, of 1 s", d)
	}
	if d := wait(modified, "10ms"); d > 900*time.Millisecond {
		t.Errorf("it asks to wait 10 ms, and waits %v", d)
	}
}
