package identity

import (
	"net/http"
	"reflect"
	"testing"

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
		{ada, []string{"%ada"}, false},
		{ada, []string{"%daemon"}, true},
		{model.Identity{UID: 8, GID: gid, User: "eve"}, []string{"%daemon"}, true},
		{model.Identity{UID: 8, GID: 8, User: "eve"}, []string{"%daemon"}, false},
		{model.Identity{UID: 8, GID: 0, User: "eve"}, []string{"%no-such-group-here"}, false},
		{model.Identity{UID: 8, GID: 0, User: "%daemon"}, []string{"%daemon"}, false},
		{model.Identity{UID: 8, GID: 0}, []string{"%"}, false},
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
	origin := Caller{Machine: true, Role: RoleNode, From: "n7"}
	for role, taken := range map[string]bool{RoleController: true, RoleNode: false, RoleLogin: false, "other": false} {
		h := http.Header{}
		PassOn(h, origin)
		c := Caller{Machine: true, Role: role, From: "m1"}
		if got := c.passedOn(h); got != taken || (c.From == "n7") != taken || (c.Role == RoleNode) != (taken || role == RoleNode) {
			t.Errorf("from a %s: %t, %+v", role, got, c)
		}
	}
}

func TestAnOriginWithItsUser(t *testing.T) {
	h := http.Header{}
	PassOn(h, Caller{Role: RoleLogin, From: "l/1", User: model.Identity{UID: 5, User: "ada"}})
	c := Caller{Role: RoleController, From: "c1"}
	if !c.passedOn(h) || c.Machine || c.Role != RoleLogin || c.From != "l/1" || h.Get(headerUID) != "5" {
		t.Errorf("%+v, %v", c, h)
	}
	PassOn(h, Caller{User: model.Identity{UID: 6, User: "eve"}})
	local := c
	if c.passedOn(h) || h.Get(headerUID) != "6" || !reflect.DeepEqual(c, local) {
		t.Errorf("what was passed on before stays: %+v, %v", c, h)
	}
}
