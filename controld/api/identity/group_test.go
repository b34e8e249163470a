package identity

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/model"
)

func TestListsHaveUsersAndGroups(t *testing.T) {
	var g Groups
	gid, ok := g.gid("daemon")
	if !ok {
		t.Skip("this machine has no group daemon")
	}
	ada := model.Identity{UID: 7, GID: 7, User: "ada", GIDs: []uint32{5, gid}}
	for _, c := range []struct {
		id    model.Identity
		names []string
		want  bool
	}{
		{ada, nil, false},
		{ada, []string{"bob", "ada"}, true},
		{ada, []string{"ada"}, true},
		{ada, []string{"bob"}, false},
		{ada, []string{"%ada"}, false},
		{ada, []string{"%daemon"}, true},
		{model.Identity{UID: 8, GID: gid, User: "eve"}, []string{"%daemon"}, true},
		{model.Identity{UID: 8, GID: 8, User: "eve"}, []string{"%daemon"}, false},
		{model.Identity{UID: 8, GID: 0, User: "eve"}, []string{"%no-such-group-here"}, false},
		{model.Identity{UID: 8, GID: 0, User: "%daemon"}, []string{"%daemon"}, false},
		{model.Identity{UID: 8, GID: 0}, []string{"%"}, false},
		{ada, []string{"%5"}, true},
		{model.Identity{UID: 8, GID: 10, User: "eve"}, []string{"%10"}, true},
		{ada, []string{"%8", "%-1", "%4294967303"}, false}, // the last is 7 in 32 bits
	} {
		for range 2 { // the second time from memory
			if got := g.Listed(c.id, c.names); got != c.want {
				t.Errorf("%+v in %q: %t", c.id, c.names, got)
			}
		}
	}
}

// TestOnlyAControllerNamesTheOrigin: a node, or a login node, passes a request on in the name of a
// controller or of another node.
func TestOnlyAControllerNamesTheOrigin(t *testing.T) {
	origin := Caller{Machine: true, Role: string(pki.Node), From: "n7"}
	for role, taken := range map[string]bool{string(pki.Controller): true, string(pki.Node): false,
		string(pki.Login): false, "other": false} {
		h := http.Header{}
		PassOn(h, origin)
		c := Caller{Machine: true, Role: role, From: "m1"}
		before := c
		if c.passedOn(h); taken && !reflect.DeepEqual(c, origin) || !taken && !reflect.DeepEqual(c, before) {
			t.Errorf("from a %s: %+v", role, c)
		}
	}
}

// TestAJobIsVouchedForByItsNode: only a node says of a user's request that a process of a job makes
// it, also by way of a follower.
func TestAJobIsVouchedForByItsNode(t *testing.T) {
	cluster := pkitest.New(t)
	addr, last := whoAmI(t, &Guard{Credential: cluster.First()}, "tcp")
	ada := model.Identity{UID: 5, User: "ada"}
	follower := http.Header{}
	PassOn(follower, Caller{Role: string(pki.Node), From: "n1", User: ada, Job: 7})
	own, machine, broken := http.Header{}, http.Header{}, http.Header{}
	VouchInJob(own, ada, 7)
	machine.Set(headerJob, "7")
	VouchInJob(broken, ada, -7)
	for _, c := range []struct {
		role pki.Role
		h    http.Header
		want bool
	}{
		{pki.Node, own, true}, {pki.Controller, follower, true},
		{pki.Login, own, false}, {pki.Controller, own, false}, {pki.Node, machine, false}, {pki.Node, broken, false},
	} {
		code, body := do(t, transport(t, cluster.Member(c.role, "n1"), true), "https://"+addr, "", c.h)
		if (code == http.StatusOK) != c.want || c.want && (last().Job != 7 || last().User.UID != 5 || last().Machine) {
			t.Errorf("a %s with %v: %d %s, %+v", c.role, c.h, code, body, last())
		}
	}
	Unvouch(own)
	if len(own) > 0 {
		t.Errorf("a proxy passes on %v", own)
	}
}

func TestAnOriginWithItsUser(t *testing.T) {
	h := http.Header{}
	PassOn(h, Caller{Role: string(pki.Login), From: "l/1", User: model.Identity{UID: 5, User: "ada"}})
	c := Caller{Role: string(pki.Controller), From: "c1"}
	if c.passedOn(h); c.Role != string(pki.Login) || c.From != "l/1" || h.Get(headerUID) != "5" {
		t.Errorf("%+v, %v", c, h)
	}
	PassOn(h, Caller{User: model.Identity{UID: 6, User: "eve"}})
	c = Caller{Role: string(pki.Controller), From: "c1"}
	if c.passedOn(h); c.From != "c1" || h.Get(headerUID) != "6" {
		t.Errorf("what was passed on before stays: %+v, %v", c, h)
	}
}
