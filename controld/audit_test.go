package controld

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// TestATokenKeepsItsScopeThroughAFollower: a follower shows the leader the token and does not vouch
// for its user. So a token that may submit has no more rights there. The bug "a follower vouches
// for the user of a token" shows here. The audit log of any controller has the decisions of all,
// with the origin of each request. It names the controllers that cannot be asked.
func TestATokenKeepsItsScopeThroughAFollower(t *testing.T) {
	admins := func(c *Config) {
		cfg := cluster.InitialConfig()
		cfg.Operators, cfg.Admins = []string{"u51000"}, []string{"u51001"}
		c.Cluster = &cfg
	}
	servers := startThree(t, admins)
	leader, followers := leaderOf(t, servers)
	made, err := followers[0].client(user(51000)).CreateToken(t.Context(), api.TokenRequest{Scope: trust.ScopeSubmit})
	if err != nil {
		t.Fatal(err)
	}
	token, err := api.ParseBearerToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	bearing, err := api.DialWith("https://"+followers[0].addrs.HTTP, api.Options{}.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	defer bearing.Close()
	id, err := bearing.Submit(t.Context(), "", job("by-token"))
	if err != nil {
		t.Fatalf("a token through a follower: %v", err)
	}
	other, err := leader.client(user(51002)).Submit(t.Context(), "", job("of-another"))
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, bearing.Cancel(t.Context(), other, ""), api.CodeDenied)
	wantProblem(t, bearing.SetNode(t.Context(), "n1", "resume", ""), api.CodeDenied)
	_, err = bearing.CreateToken(t.Context(), api.TokenRequest{})
	wantProblem(t, err, api.CodeDenied)
	_, err = followers[1].client(model.Identity{}).CreateToken(t.Context(), api.TokenRequest{})
	wantProblem(t, err, api.CodeDenied)

	admin := followers[1].client(user(51001))
	list, _, err := admin.Audit(t.Context(), api.AuditFilter{})
	if err != nil || len(list.Unreachable) > 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	find := func(list *api.AuditList, action, user string, status int) *api.AuditEntry {
		i := slices.IndexFunc(list.Items, func(e api.AuditEntry) bool {
			return e.Action == action && e.User == user && e.Status == status
		})
		if i < 0 {
			t.Errorf("no entry %s of %q with status %d in %+v", action, user, status, list.Items)
			return &api.AuditEntry{}
		}
		return &list.Items[i]
	}
	if e := find(list, "POST /v1/jobs", "u51000", http.StatusOK); e.Controller != leader.cfg.Name ||
		e.From != "127.0.0.1" ||
		e.Token != token.ID {
		t.Errorf("%+v", e)
	}
	find(list, "POST /v1/jobs/{id}/cancel", "u51000", http.StatusForbidden)
	if n := len(slices.DeleteFunc(slices.Clone(list.Items), func(e api.AuditEntry) bool {
		return e.Action != "POST /v1/jobs" || e.User != "u51000"
	})); n != 1 {
		t.Errorf("the submission is in the audit log %d times", n)
	}
	if own, _, err := followers[1].client(user(51002)).Audit(t.Context(), api.AuditFilter{}); err != nil ||
		slices.ContainsFunc(own.Items, func(e api.AuditEntry) bool { return e.User != "u51002" }) {
		t.Errorf("a user sees others through another controller: %+v, %v", own, err)
	}
	followers[0].stop()
	eventually(t, "the audit log names the controller that is gone", func() error {
		list, _, err := admin.Audit(t.Context(), api.AuditFilter{Job: id})
		if err == nil && (len(list.Items) != 1 || strings.Join(list.Unreachable, ",") != followers[0].cfg.Name) {
			err = fmt.Errorf("%d entries, unreachable: %v", len(list.Items), list.Unreachable)
		}
		return err
	})
}
