package system

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
)

// TestTheAuditLogOfAllControllers joins what each has, the newest first, and says which did not answer.
func TestTheAuditLogOfAllControllers(t *testing.T) {
	s, o := following(t)
	s.Audit.For, s.Audit.Most, s.Audit.History = time.Hour, 1000, s.History
	now := model.UnixMS(time.Now().UnixMilli())
	for i, user := range []string{"ann", "bob", "ann"} {
		s.Audit.Add(&history.AuditEntry{At: now + model.UnixMS(10*i), UID: int64(7 + i%2), User: user, Method: "POST",
			Route: fmt.Sprint("/own", i), Status: 200, Times: 1})
	}
	theirs := []history.AuditEntry{{At: now + 15, UID: 7, User: "ann", Method: "GET", Route: "/theirs", Status: 403,
		Code: "denied", Times: 3}}
	o.Says(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(theirs) })
	list := func(query string, roles access.Role) (*api.AuditList, string) {
		t.Helper()
		x := s.Request("/v1/audit", "", query, "")
		x.Roles = roles
		got, err := s.listAudit(x)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, e := range got.Items {
			text += e.Controller + " " + e.Action + " " + e.Code + "; "
		}
		return got, text
	}
	admin := access.User | access.Operator | access.Admin
	all, text := list("", admin)
	if want := "c9 POST /own2 ok; c1 GET /theirs denied; c9 POST /own1 ok; c9 POST /own0 ok; "; text != want ||
		len(all.Unreachable) != 0 || all.Items[1].Times != 3 || all.Items[1].Status != 403 {
		t.Errorf("%s, unreachable %v", text, all.Unreachable)
	}
	asked, _ := o.Heard()
	if u := asked[0].URL; u.Path != peers.AuditPath || u.Query().Get("limit") != "1000" || u.Query().Has("uid") {
		t.Errorf("the other one is asked %s", u)
	}
	if _, text := list("limit=2&denied=false", admin); text != "c9 POST /own2 ok; c1 GET /theirs denied; " {
		t.Errorf("the last two: %s", text)
	}
	asked, _ = o.Heard()
	if q := asked[1].URL.Query(); q.Get("limit") != "2" || q.Get("denied") != "false" {
		t.Errorf("the other one is asked %v", q)
	}
	if _, text := list("", access.User); strings.Contains(text, "own1") || !strings.Contains(text, "own2") {
		t.Errorf("a user sees %s", text)
	}
	asked, _ = o.Heard()
	if q := asked[2].URL.Query(); q.Get("uid") != "7" {
		t.Errorf("the other one is asked %v for a user", q)
	}
	o.Says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	if got, _ := list("", admin); !slices.Equal(got.Unreachable, []string{"c1"}) || len(got.Items) != 3 {
		t.Errorf("while the other one fails: %d entries, unreachable %v", len(got.Items), got.Unreachable)
	}
	s.Peers = &peers.Peers{}
	if got, _ := list("", admin); !slices.Equal(got.Unreachable, []string{"c1"}) {
		t.Errorf("while the other one is not heard of: unreachable %v", got.Unreachable)
	}
	x := s.Request("/v1/audit", "", "uid=8&limit=5", "")
	if got, err := s.internalAudit(x); err != nil || len(got.([]history.AuditEntry)) != 1 {
		t.Errorf("of user 8: %v, %v", got, err)
	}
	x = s.Request("/v1/audit", "", "user=carol", "")
	if got, err := s.internalAudit(x); err != nil || got.([]history.AuditEntry) == nil {
		t.Errorf("of a user without entries: %#v, %v", got, err)
	}
	f := auditFilter(s.Request("/v1/audit", "",
		"user=ann&job=12&denied=true&since=1970-01-01T00:00:05Z&until=1970-01-01T00:00:06Z&"+
			"limit=3", ""))
	if f.User != "ann" || f.Job != 12 || !f.Denied || f.Since != 5000 || f.Until != 6000 || f.Limit != 3 || f.UID != nil {
		t.Errorf("the filter is %+v", f)
	}
}

// TestHowAnAuditEntryIsShown, with a word for each part.
func TestHowAnAuditEntryIsShown(t *testing.T) {
	got := presentAudit("c2", []history.AuditEntry{{At: 5000, UID: -9, User: "ann", Token: "t", Origin: "n1",
		Method: "POST", Route: "/v1/x", Jobs: ranges.Span(3, 5), Account: "a", Object: "o", Status: 403, Code: "denied",
		Times: 2}, {UID: 7, Status: 200}})
	e := got[0]
	if e.At.UnixMilli() != 5000 || e.Controller != "c2" || e.UID != history.UIDStranger || e.User != "ann" ||
		e.Token != "t" || e.From != "n1" || e.Action != "POST /v1/x" || e.Jobs != "3-5" || e.Account != "a" ||
		e.Object != "o" || e.Status != 403 || e.Code != "denied" || e.Times != 2 {
		t.Errorf("%+v", e)
	}
	if e := got[1]; e.UID != 7 || e.Code != "ok" {
		t.Errorf("%+v", e)
	}
}
