package views

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
)

func TestAudit(t *testing.T) {
	a := rotatest.NewAnswers(t)
	at := &api.Time{Time: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	later := &api.Time{Time: at.Add(time.Minute)}
	list := api.AuditList{Unreachable: []string{"c3"}}
	list.Items = []api.AuditEntry{
		{At: later, Controller: "c1", UID: -1, From: "10.0.0.9", Action: "POST /v1/jobs", Status: 401, Code: "unauthorised",
			Times: 812},
		{At: at, Controller: "c2", User: "ann", UID: 7, Token: "00112233aabb", From: "gpu01",
			Action: "POST /v1/jobs/{id}/cancel", Jobs: "5-9", Status: 200, Code: "ok", Times: 1},
	}
	a.Give("GET /v1/audit", list)
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	got := s.Run("audit", "--utc")
	want := "TIME                 USER FROM     ACTION                JOBS OBJECT RESULT       TIMES\n" +
		"2026-11-20T08:00:00Z ann  gpu01    POST jobs/{id}/cancel 5-9  -      ok               1\n" +
		"2026-11-20T08:01:00Z -    10.0.0.9 POST jobs             -    -      unauthorised   812\n"
	if got.Code != 0 || got.Stdout != want ||
		!strings.Contains(got.Stderr, "because they are unreachable: c3") {
		t.Errorf("%+v, want\n%s", got, want)
	}
	narrow := strings.Fields("audit --user ann --job 7 --denied --since now-1day --limit 5")
	if got := s.Run(narrow...); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	for i, want := range []string{"limit=1000&since=2026-11-14T12%3A00%3A00.000Z",
		"denied=true&job=7&limit=5&since=2026-11-20T12%3A00%3A00.000Z&user=ann"} {
		if asked := a.Requests(); asked[i].What != "GET /v1/audit?"+want {
			t.Errorf("asked %s, want %s", asked[i].What, want)
		}
	}
	for _, args := range []string{"audit x", "audit --limit 0", "audit --limit 10001", "audit --since never",
		"audit --user="} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}
