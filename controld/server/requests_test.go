package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
)

// audit returns the audit log as a role sees it.
func (c *testCluster) audit(role access.Role, query string) []api.AuditEntry {
	c.t.Helper()
	status, text := c.ask(role, "GET", "/v1/audit?"+query, "")
	var list api.AuditList
	if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK {
		c.t.Fatalf("audit: %d %s", status, text)
	}
	return list.Items
}

// TestTheAuditLog: what changes something, what is refused, and reads that are denied are in it with
// caller, origin, object and result; other reads and the nodes' own requests are not. Users see
// their own requests and no others.
func TestTheAuditLog(t *testing.T) {
	c := startCluster(t)
	running := fmt.Sprintf("/v1/jobs/%d", c.ids["running"])
	c.ask(access.User, "POST", running+"/cancel", "{}")
	c.ask(access.User, "GET", running+"/logs?attempt=1", "")
	c.ask(access.User, "GET", "/v1/jobs", "")
	c.ask(access.User, "POST", "/v1/nodes/n1/drain", "{}")
	c.ask(access.Operator, "POST", "/v1/nodes/n1/resume", "{}")
	c.ask(access.Node, "POST", "/v1/nodes/n2/report", "{}") // of another node
	c.ask(access.Owner, "POST", "/v1/jobs", `{"name":"x","account":"other"}`)
	c.bearing("forged", "POST", "/v1/jobs", "{}")
	token := c.token(access.Owner, `{"scope":"all"}`)
	c.bearing(token.Token, "POST", running+"/update", `{"priority":51}`)
	type line struct {
		user, action, jobs, object, code string
	}
	has := func(list []api.AuditEntry, want line) bool {
		return slices.ContainsFunc(list, func(e api.AuditEntry) bool {
			return line{e.User, e.Action, e.Jobs, e.Object, e.Code} == want && e.Controller == "c1" && e.From != "" &&
				e.At != nil && (e.Status < 400) == (e.Code == "ok")
		})
	}
	all := c.audit(access.Admin, "")
	id := fmt.Sprint(c.ids["running"])
	for _, want := range []line{
		{"52001", "POST /v1/jobs", id, "", "ok"},
		{"52005", "POST /v1/jobs/{id}/cancel", id, "", "denied"},
		{"52005", "GET /v1/jobs/{id}/logs", id, "", "denied"},
		{"52005", "POST /v1/nodes/{name}/drain", "", "n1", "denied"},
		{"52003", "POST /v1/nodes/{name}/resume", "", "n1", "ok"},
		{"", "POST /v1/nodes/{name}/report", "", "n2", "denied"},
		{"", "POST /v1/jobs", "", "", "unauthorised"},
		{"52001", "POST /v1/tokens", "", token.ID, "ok"},
		{"52001", "POST /v1/jobs/{id}/update", id, "", "ok"},
	} {
		if !has(all, want) {
			t.Errorf("no entry %+v", want)
		}
	}
	for i, e := range all {
		switch {
		case e.Action == "GET /v1/jobs" || e.Action == "POST /v1/nodes/{name}/report" && e.Code == "ok" ||
			e.Action == "POST /v1/nodes/{name}/register":
			t.Errorf("an entry that does not belong there: %+v", e)
		case e.Action == "POST /v1/jobs/{id}/update" && e.Token != token.ID:
			t.Errorf("the token is not named: %+v", e)
		case i > 0 && e.At.After(all[i-1].At.Time):
			t.Errorf("entry %d is out of order", i)
		}
	}
	own := c.audit(access.User, "")
	if len(own) != 3 || slices.ContainsFunc(own, func(e api.AuditEntry) bool { return e.User != "52005" }) {
		t.Errorf("a user sees %+v", own)
	}
	if other := c.audit(access.User, "user=52001"); len(other) != 0 {
		t.Errorf("a user names another one, and sees %+v", other)
	}
	if got := c.audit(access.Admin, "user=52005&denied=true&job="+id); len(got) != 2 {
		t.Errorf("by user, job and refusal: %+v", got)
	}
	if status, text := c.ask(access.User, "GET", "/v1/audit?uid=52001", ""); status != http.StatusBadRequest {
		t.Errorf("a user selects by uid: %d %s", status, text)
	}
	for _, e := range all {
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, secret) || strings.Contains(text, "forged") {
			t.Errorf("an entry has what a user sent: %s", text)
		}
	}
}

// TestReadsOfPrivateJobsAreInTheAuditLog: a private job answers as if there were none, and the log
// has that it was asked for.
func TestReadsOfPrivateJobsAreInTheAuditLog(t *testing.T) {
	c := startCluster(t)
	c.private(cluster.PrivateJobs)
	status, _ := c.ask(access.User, "GET", fmt.Sprintf("/v1/jobs/%d", c.ids["running"]), "")
	got := c.audit(access.Admin, fmt.Sprintf("denied=true&job=%d", c.ids["running"]))
	if status != http.StatusNotFound || len(got) != 1 || got[0].User != "52005" {
		t.Errorf("%d, and the log has %+v", status, got)
	}
}

// TestForeignAccountsOverHTTP: a job for an account of others is refused at submit and by plan, with
// those that its user may name, and the first job of a group makes its account.
func TestForeignAccountsOverHTTP(t *testing.T) {
	c := startCluster(t)
	j := job("charged")
	for account, want := range map[string]int{"physics": 200, "both": 200, "": 200, "other": 403, "absent": 403,
		"default": 403} {
		j.Account = account
		body, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		status, text := c.ask(access.Owner, "POST", "/v1/jobs", string(body))
		if status != want || want == 403 && !strings.Contains(text, "name one of: gid-52001, both, physics") {
			t.Errorf("account %q: %d %s", account, status, text)
		}
		status, text = c.ask(access.Owner, "POST", "/v1/plan", `{"job":`+string(body)+`}`)
		if status != want {
			t.Errorf("plan with account %q: %d %s", account, status, text)
		}
	}
	if text := c.owner("GET", "/v1/jobs?account=gid-52001", ""); !strings.Contains(text, "charged") {
		t.Errorf("the job without an account: %s", text)
	}
}
