package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server"
	"github.com/rota-hpc/rota/controld/server/access"
)

// inJob makes a request for which a member vouches that a process of a job makes it.
func (c *testCluster) inJob(
	by access.Role, user model.Identity, job model.JobID, method, path, body string,
) (int, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, "https://"+c.addr+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	identity.VouchInJob(req.Header, user, job)
	resp, err := c.clients[by].Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestAJobChangesItselfOnly is the attack of a job's process that asks every route by the socket in
// its container: for its own job, for another one of its user, and for that of another user. The
// verbs that end its attempt come last.
func TestAJobChangesItselfOnly(t *testing.T) {
	c := startCluster(t)
	owner, own := people[access.Owner], c.ids["running"]
	_, text := c.ask(access.User, "POST", "/v1/jobs", `{"name":"foreign","account":"other","groups":[{"name":"main",`+
		`"tasks":[{"name":"main","command":["true"],"resources":{"cores":1,"memory":4194304}}]}]}`)
	var made api.SubmitResponse
	if err := json.Unmarshal([]byte(text), &made); err != nil || len(made.IDs) != 1 {
		t.Fatalf("submit: %s", text)
	}
	ending := []string{"/v1/jobs/{id}/requeue", "/v1/jobs/{id}/cancel"}
	routes := slices.Clone(ending)
	inJob := map[string]string{}
	for _, cell := range server.Cells() {
		inJob[cell.Method+" "+cell.Path] = cell.InJob
		if !slices.Contains(routes, cell.Path) {
			routes = append(routes, cell.Path)
		}
	}
	for _, path := range append(routes[len(ending):], ending...) {
		for _, method := range []string{"GET", "POST"} {
			allowed, known := inJob[method+" "+path]
			if !known || path == "/metrics" {
				continue // the metrics are open to the loopback, as this test is on
			}
			for job, id := range map[string]model.JobID{"the same user's": c.ids["held"], "a foreign": made.IDs[0],
				"the array": c.ids["array"], "its own": own} {
				if job == "its own" {
					continue // it is asked behind the others
				}
				if !strings.Contains(path, "{id}") && job != "the array" {
					continue
				}
				c.asksInJob(method, path, job, id, allowed == "yes")
			}
			if strings.Contains(path, "{id}") {
				c.asksInJob(method, path, "its own", own, allowed != "")
			}
		}
	}
	if j := c.job("running"); !slices.Contains(j.Flags, "CG") && j.Code != model.Completing {
		t.Errorf("the job asked to be cancelled, and is %s %v", j.Code, j.Flags)
	}
	if j := c.job("held"); j.Code != model.Pending || j.Name != "held" {
		t.Errorf("another job of the user was changed: %s %s", j.Code, j.Name)
	}
	for what, asks := range map[string]func() (int, string){
		"a node for a job that does not run there": func() (int, string) {
			return c.inJob(access.Node, owner, c.ids["held"], "GET", "/v1/jobs", "")
		},
		"a node for a job that there is not": func() (int, string) {
			return c.inJob(access.Node, owner, 4711, "GET", "/v1/jobs", "")
		},
		"a node for its job in the name of another user": func() (int, string) {
			return c.inJob(access.Node, people[access.Admin], own, "GET", "/v1/jobs", "")
		},
		"a login node for a job": func() (int, string) {
			return c.inJob(access.Login, owner, own, "GET", "/v1/jobs", "")
		},
	} {
		if status, text := asks(); status != http.StatusForbidden {
			t.Errorf("%s vouches: %d %.200s", what, status, text)
		}
	}
	if os.Getuid() == 0 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://x/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Rota-Job", fmt.Sprint(own))
		resp, err := bySocket(owner, c.socket).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("a user vouches for a job: %d", resp.StatusCode)
		}
	}
	// details of its user's other jobs: secrets of theirs
	for path, want := range map[string]bool{
		fmt.Sprintf("/v1/jobs/%d", own): true, fmt.Sprintf("/v1/jobs?spec=true&id=%d", own): true,
		fmt.Sprintf("/v1/jobs/%d", c.ids["held"]): false, fmt.Sprintf("/v1/jobs/%d/why", c.ids["held"]): false,
		fmt.Sprintf("/v1/jobs?spec=true&id=%d", c.ids["held"]):                       false,
		fmt.Sprintf("/v1/jobs?spec=true&all=true&stream=true&id=%d", c.ids["ended"]): false,
		fmt.Sprintf("/v1/history?id=%d", c.ids["ended"]):                             false,
	} {
		status, text := c.inJob(access.Node, owner, own, "GET", path, "")
		if status != http.StatusOK || strings.Contains(text, secret) != want {
			t.Errorf("details by %s: %d %.300s", path, status, text)
		}
	}
}

// asksInJob has a process of the running job ask a route for a job.
func (c *testCluster) asksInJob(method, path, which string, id model.JobID, allowed bool) {
	c.t.Helper()
	body := ""
	if method == "POST" {
		body = "{}"
	}
	if strings.HasSuffix(path, "/update") {
		body = `{"priority":40}`
	}
	at := strings.NewReplacer("{id}", fmt.Sprint(id), "{name}", "n1", "{role}", "node").Replace(path)
	status, text := c.inJob(access.Node, people[access.Owner], c.ids["running"], method, at, body)
	if (status != http.StatusForbidden) != allowed || status == http.StatusUnauthorized {
		c.t.Errorf("%s %s of %s job: %d %.300s, want allowed %t", method, path, which, status, text, allowed)
	}
	if strings.HasPrefix(path, "/v1/jobs/{id}/") && method == "POST" && !allowed &&
		!strings.Contains(text, "processes of a job can change only that job") {
		c.t.Errorf("%s %s of %s job is refused with %.300s", method, path, which, text)
	}
}
