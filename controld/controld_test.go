package controld

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func startOne(t *testing.T) *running {
	t.Helper()
	s := start(t, controller(t, "c1"))
	leaderOf(t, []*running{s})
	return s
}

func TestSubmitListAndGet(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	id, err := c.Submit(t.Context(), api.NewKey(), job("first"))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := c.SubmitAll(t.Context(), "", []*jobspec.Job{job("second"), job("third")})
	if err != nil {
		t.Fatal(err)
	}
	if id != 1 || len(ids) != 2 || ids[0] != 2 || ids[1] != 3 {
		t.Fatalf("ids are %d, %v; want 1, [2 3]", id, ids)
	}
	got, a, err := c.Job(t.Context(), 1, api.Read{Consistent: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "first" || got.State != "PENDING" || got.User != "u1000" || got.Spec == nil || a.Index == 0 ||
		got.Reason.Text == "" {
		t.Errorf("job 1 is %+v at index %d", got, a.Index)
	}
	list, _, err := c.Jobs(t.Context(), api.JobFilter{User: "u1000", Limit: 2}, api.Read{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 2 || list.Next != "2" {
		t.Fatalf("page 1 has %d items and next %q", len(list.Items), list.Next)
	}
	list, _, err = c.Jobs(t.Context(), api.JobFilter{Limit: 2, Page: list.Next}, api.Read{})
	if err != nil || len(list.Items) != 1 || list.Items[0].ID != 3 || list.Next != "" {
		t.Fatalf("page 2 is %+v, %v", list, err)
	}
	for _, f := range []api.JobFilter{{User: "nobody"}, {States: []string{"R"}}, {Name: "x"}, {Class: "te"},
		{IDs: []model.JobID{9}}} {
		if list, _, err := c.Jobs(t.Context(), f, api.Read{}); err != nil || len(list.Items) != 0 {
			t.Errorf("filter %+v selects %d jobs, %v", f, len(list.Items), err)
		}
	}
	if list, _, err := c.Jobs(t.Context(), api.JobFilter{States: []string{"pending"}, IDs: []model.JobID{2, 3}},
		api.Read{}); err != nil || len(list.Items) != 2 {
		t.Errorf("ids and state select %d jobs, %v", len(list.Items), err)
	}
}

func TestASubmissionIsRepeatedWithoutEffect(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	for range 3 {
		if id, err := c.Submit(t.Context(), "key-1", job("once")); err != nil || id != 1 {
			t.Fatalf("submit: %d, %v", id, err)
		}
	}
	_, err := c.Submit(t.Context(), "key-1", job("other"))
	wantProblem(t, err, api.CodeKeyReused)
	if id, err := s.client(user(1001)).Submit(t.Context(), "key-1", job("other")); err != nil || id != 2 {
		t.Fatalf("another user's key: %d, %v", id, err)
	}
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.node.SharedPath = []string{"/elsewhere"} // the job could not be submitted now
	n.run(t.Context())
	_, err = c.Submit(t.Context(), "key-2", job("once"))
	wantProblem(t, err, api.CodeInvalidJob)
	if id, err := c.Submit(t.Context(), "key-1", job("once")); err != nil || id != 1 {
		t.Errorf("repeated after the nodes have changed: %d, %v", id, err)
	}
	_, err = c.Submit(t.Context(), strings.Repeat("k", 65), job("long"))
	wantProblem(t, err, api.CodeInvalid)
	_, err = c.Submit(t.Context(), "a b", job("space"))
	wantProblem(t, err, api.CodeInvalid)
}

// send posts text as it is and returns the problem.
func send(t *testing.T, s *running, method, path, body string, header http.Header) (*api.Problem, *http.Response) {
	t.Helper()
	at, transport := "http://"+s.addrs.Loopback, http.DefaultTransport
	if strings.HasPrefix(path, "/v1/nodes/n1/") { // as that node
		node := machineOf(t, s.addrs.HTTP, pki.Node, "n1")
		at, transport = "https://"+s.addrs.HTTP, &http.Transport{DialTLSContext: pki.Dialer(node.Client(pki.Controller)),
			DisableKeepAlives: true}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := (&http.Client{Transport: &contract{t, transport}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	p := &api.Problem{}
	if resp.StatusCode >= 400 {
		if err := json.Unmarshal(b, p); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	return p, resp
}

func TestBadRequestsSayWhatIsWrong(t *testing.T) {
	s := startOne(t)
	text := func(j *jobspec.Job) string {
		b, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	unsupported := job("x")
	unsupported.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: "mpi"}
	badName := job("no good/name")
	badQueue := job("x")
	badQueue.Queue = "nowhere"
	for _, c := range []struct{ what, method, path, body, code, says string }{
		{"not JSON", "POST", "/v1/jobs", "{", api.CodeInvalid, "EOF"},
		{"unknown field", "POST", "/v1/jobs", `{"name":"a","gruops":[]}`, api.CodeInvalid, `"gruops"`},
		{"unknown field in a list", "POST", "/v1/jobs", `{"jobs":[{"name":"a","gpu":1}]}`, api.CodeInvalid, `"gpu"`},
		{"wrong type", "POST", "/v1/jobs", `{"name":5}`, api.CodeInvalid, "string"},
		{"trailing data", "POST", "/v1/jobs", text(job("x")) + "{}", api.CodeInvalid, "after its end"},
		{"empty list", "POST", "/v1/jobs", `{"jobs":[]}`, api.CodeInvalid, "at least one"},
		{"null job", "POST", "/v1/jobs", `{"jobs":[null]}`, api.CodeInvalid, "null"},
		{"no groups", "POST", "/v1/jobs", `{"name":"a"}`, api.CodeInvalidJob, ""},
		{"bad name", "POST", "/v1/jobs", text(badName), api.CodeInvalidJob, "name"},
		{"no such queue", "POST", "/v1/jobs", text(badQueue), api.CodeInvalidJob, "nowhere"},
		{"not honoured yet", "POST", "/v1/jobs", text(unsupported), api.CodeUnsupported, "not supported yet"},
		{"no such job", "GET", "/v1/jobs/77", "", api.CodeNotFound, "77"},
		{"not an id", "GET", "/v1/jobs/x", "", api.CodeInvalid, `"x"`},
		{"no such route", "GET", "/v1/nothing", "", api.CodeNotFound, "/v1/nothing"},
		{"no such parameter", "GET", "/v1/jobs?usr=a", "", api.CodeInvalid, `"usr"`},
		{"no such state", "GET", "/v1/jobs?state=XX", "", api.CodeInvalid, `"XX"`},
		{"bad wait", "GET", "/v1/jobs?after=1&wait=soon", "", api.CodeInvalid, "60s"},
		{"bad limit", "GET", "/v1/jobs?limit=0", "", api.CodeInvalid, "limit"},
		{"cancel of nothing", "POST", "/v1/jobs/99/cancel", "", api.CodeNotFound, "99"},
		{"empty filter", "POST", "/v1/jobs/cancel", "{}", api.CodeInvalid, "every job"},
		{"why of nothing", "GET", "/v1/jobs/99/why", "", api.CodeNotFound, "99"},
		{"logs of nothing", "GET", "/v1/jobs/99/logs", "", api.CodeNotFound, "99"},
		{"other name in the body", "POST", "/v1/nodes/n1/register", `{"node":{"name":"n2"}}`, api.CodeInvalid, "n2"},
		{"unregistered node", "GET", "/v1/nodes/n1/allocs?boot_id=b", "", api.CodeNotFound, "n1"},
		{"report of an unregistered node", "POST", "/v1/nodes/n1/report", `{"boot_id":"b"}`, api.CodeNotFound, "n1"},
		{"empty plan", "POST", "/v1/plan", "{}", api.CodeInvalid, "job"},
	} {
		p, _ := send(t, s, c.method, c.path, c.body, nil)
		if p.Code != c.code || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%s: got %q %q, want %q with %q", c.what, p.Code, p.Detail, c.code, c.says)
		}
	}
}

func TestTooMuchIsRefused(t *testing.T) {
	s := startOne(t)
	many := make([]*jobspec.Job, model.MaxJobsPerCall+1)
	for i := range many {
		many[i] = job("j" + strconv.Itoa(i))
	}
	_, err := s.client(user(1000)).SubmitAll(t.Context(), "k", many)
	wantProblem(t, err, api.CodeTooLarge)
	ids, err := s.client(user(1000)).SubmitAll(t.Context(), "k", many[1:])
	if err != nil || len(ids) != model.MaxJobsPerCall {
		t.Fatalf("%d jobs in one request: %d ids, %v", len(many)-1, len(ids), err)
	}
}

func TestALongPollWakes(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	list, _, err := c.Jobs(t.Context(), api.JobFilter{}, api.Read{})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		list *api.List[api.Job]
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		l, _, err := c.Jobs(t.Context(), api.JobFilter{}, api.Read{After: list.Index, Wait: time.Minute})
		got <- answer{l, err}
	}()
	if _, err := c.Submit(t.Context(), "", job("wake")); err != nil {
		t.Fatal(err)
	}
	select {
	case a := <-got:
		if a.err != nil || len(a.list.Items) != 1 || a.list.Index <= list.Index {
			t.Errorf("woke with %+v, %v", a.list, a.err)
		}
	case <-time.After(deadline):
		t.Error("the poll was not woken")
	}
	before := time.Now()
	if _, _, err := c.Jobs(t.Context(), api.JobFilter{},
		api.Read{After: 1 << 40, Wait: 50 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if d := time.Since(before); d < 50*time.Millisecond {
		t.Errorf("the poll did not wait, but %v", d)
	}
	events, _, err := c.Events(t.Context(), 0, 0)
	if err != nil || !slices.ContainsFunc(events.Items, func(e api.Event) bool {
		return e.Type == "submitted" &&
			e.Job == 1
	}) {
		t.Errorf("events: %+v, %v", events, err)
	}
}

func TestOnlyTheOwnerCancels(t *testing.T) {
	s := startOne(t)
	owner, other := s.client(user(1000)), s.client(user(1001))
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := owner.Submit(t.Context(), "", job(name)); err != nil {
			t.Fatal(err)
		}
	}
	p := wantProblem(t, other.Cancel(t.Context(), 1, ""), api.CodeDenied)
	if p.Status != http.StatusForbidden {
		t.Errorf("status %d", p.Status)
	}
	for what, err := range map[string]error{
		"hold":           controlled(owner.Control(t.Context(), "1", model.VerbHold, "")),
		"release":        controlled(owner.Control(t.Context(), "1", model.VerbRelease, "")),
		"cancel":         owner.Cancel(t.Context(), 1, "enough"),
		"cancel by root": s.client(user(0)).Cancel(t.Context(), 2, ""),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p := wantProblem(t, owner.Cancel(t.Context(), 1, ""),
		api.CodeWrongState); p.Detail != "job 1 has ended: it is CANCELLED" {
		t.Errorf("a job that has ended: %s", p.Detail)
	}
	_, err := owner.Control(t.Context(), "3", model.VerbRequeue, "")
	if p := wantProblem(t, err, api.CodeWrongState); p.Detail != "job 3 is already pending" {
		t.Errorf("requeueing a job that waits: %s", p.Detail)
	}
	_, err = owner.Control(t.Context(), "3", model.VerbRelease, "")
	if p := wantProblem(t, err, api.CodeWrongState); p.Detail != "job 3 is not held: it is PENDING" {
		t.Errorf("releasing a job that is not held: %s", p.Detail)
	}
	resp, err := other.CancelMany(t.Context(), api.CancelRequest{User: "u1000"})
	if err != nil || len(resp.Items) != 0 {
		t.Errorf("another user cancelled %+v, %v", resp, err)
	}
	resp, err = other.CancelMany(t.Context(), api.CancelRequest{IDs: []model.JobID{3, 99}})
	if err != nil || len(resp.Items) != 2 || resp.Items[0].Error.Code != api.CodeDenied ||
		resp.Items[1].Error.Code != api.CodeNotFound {
		t.Errorf("named ids: %+v, %v", resp, err)
	}
	resp, err = owner.CancelMany(t.Context(), api.CancelRequest{User: "u1000", States: []string{"PD"}})
	if err != nil || len(resp.Items) != 2 || resp.Items[0].Error != nil {
		t.Errorf("the owner cancelled %+v, %v", resp, err)
	}
}

// TestNewNamesAreNames as in job files: they become parts of paths and of tables.
func TestNewNamesAreNames(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	if _, err := c.Submit(t.Context(), "", job("a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "../x", "a\nb", "-a", strings.Repeat("a", 64)} {
		_, err := c.Update(t.Context(), "1", api.UpdateRequest{Name: &name})
		wantProblem(t, err, api.CodeInvalid)
	}
	name := "b.2_c"
	if _, err := c.Update(t.Context(), "1", api.UpdateRequest{Name: &name}); err != nil {
		t.Fatal(err)
	}
}

// TestCancelByStateMeansElements cancels what waits of an array that has begun, and what runs of
// another.
func TestCancelByStateMeansElements(t *testing.T) {
	s := startOne(t)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.hold = make(chan struct{})
	n.run(t.Context())
	c := s.client(user(1000))
	spec := job("sweep")
	spec.Array = &jobspec.Array{Indices: "0-5", MaxParallel: 2}
	if _, err := c.Submit(t.Context(), "", spec); err != nil {
		t.Fatal(err)
	}
	family := func(want api.ArrayPlace) {
		t.Helper()
		eventually(t, fmt.Sprintf("the array as %+v", want), func() error {
			j, _, err := c.Job(t.Context(), 1, api.Read{})
			if err != nil {
				return err
			}
			if a := j.Array; a.Live != want.Live || a.Cancelled != want.Cancelled || a.Indices != want.Indices {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	cancel := func(req api.CancelRequest) {
		t.Helper()
		resp, err := c.CancelMany(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range resp.Items {
			if item.Error != nil {
				t.Errorf("%+v", item)
			}
		}
	}
	eventually(t, "two elements that run", func() error {
		list, _, err := c.Jobs(t.Context(), api.JobFilter{Refs: []string{"1_[0-1]"}, States: []string{"R"}}, api.Read{})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("%d", len(list.Items))
		}
		return err
	})
	family(api.ArrayPlace{Live: 2, Indices: "2-5%2"})
	list, _, err := c.Jobs(t.Context(), api.JobFilter{User: "u1000", States: []string{"PD"}}, api.Read{})
	if err != nil || len(list.Items) != 1 || list.Items[0].ID != 1 ||
		list.Items[0].Reason.Code != string(model.ReasonArrayLimit) {
		t.Errorf("what waits: %+v, %v", list, err)
	}
	if why, _, err := c.WhyBy(t.Context(), "7"); err != nil || why.Reason.Code != string(model.ReasonArrayLimit) { // 1_5
		t.Errorf("an element waits because of %+v, %v", why, err)
	}
	_, err = c.Logs(t.Context(), 1, api.LogOptions{Follow: true})
	if p := wantProblem(t, err, api.CodeInvalid); !strings.Contains(p.Detail, "1_0") {
		t.Errorf("output of an array: %s", p.Detail)
	}
	priority := 10
	_, err = c.Update(t.Context(), "1_5", api.UpdateRequest{Priority: &priority})
	wantProblem(t, err, api.CodeWrongState)
	cancel(api.CancelRequest{Refs: []string{"1_[0-2]"}, States: []string{"PD"}})
	family(api.ArrayPlace{Live: 2, Indices: "3-5%2", Cancelled: 1})
	cancel(api.CancelRequest{Refs: []string{"1_0"}, States: []string{"R"}})
	family(api.ArrayPlace{Live: 2, Indices: "4-5%2", Cancelled: 2})
	cancel(api.CancelRequest{User: "u1000", States: []string{"PD"}})
	family(api.ArrayPlace{Live: 2, Cancelled: 4})
	cancel(api.CancelRequest{User: "u1000"})
	family(api.ArrayPlace{Cancelled: 6})
}

func TestHoldAndRelease(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	if _, err := c.Submit(t.Context(), "", job("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Control(t.Context(), "1", model.VerbHold, ""); err != nil {
		t.Fatal(err)
	}
	newNode(t, s.addrs.HTTP, "n1", 0).run(t.Context())
	why, _, err := c.WhyBy(t.Context(), "1")
	if err != nil || why.Reason.Code != string(model.ReasonHeldUser) {
		t.Fatalf("why: %+v, %v", why, err)
	}
	if _, err := c.Control(t.Context(), "1", model.VerbRelease, ""); err != nil {
		t.Fatal(err)
	}
	waitState(t, c, 1, model.Completed)
}

func waitState(t *testing.T, c *api.Client, id model.JobID, want model.JobState) *api.Job {
	t.Helper()
	var last *api.Job
	eventually(t, fmt.Sprintf("job %d in state %s", id, want), func() error {
		j, _, err := c.Job(t.Context(), id, api.Read{})
		if err != nil {
			return err
		}
		if last = j; j.Code != want {
			return fmt.Errorf("it is %s: %+v", j.Code, j.Reason)
		}
		return nil
	})
	return last
}

func TestAGangRunsToCompletionAndIntoTheHistory(t *testing.T) {
	cfg := controller(t, "c1")
	cfg.KeepRecords, cfg.KeepFor = 0, time.Hour
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	c := s.client(user(1000))
	nodes := []*fakeNode{newNode(t, s.addrs.HTTP, "n1", 8), newNode(t, s.addrs.HTTP, "n2", 8)}
	for _, n := range nodes {
		n.run(t.Context())
	}
	gang := job("gang")
	gang.Groups[0].Count, gang.Groups[0].Tasks[0].Resources.GPUs = 2, 8
	plan, err := c.Plan(t.Context(), gang)
	if err != nil || !plan.Starts || len(plan.Places) != 2 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	if _, err := c.Submit(t.Context(), "", gang); err != nil {
		t.Fatal(err)
	}
	waitState(t, c, 1, model.Completed)
	eventually(t, "the job in the history only", func() error {
		if list, _, err := c.Jobs(t.Context(), api.JobFilter{All: true}, api.Read{}); err != nil || len(list.Items) != 0 {
			return fmt.Errorf("the state has %d jobs, %w", len(list.Items), err)
		}
		return nil
	})
	j := waitState(t, c, 1, model.Completed)
	if len(j.Attempts) != 1 || len(j.Nodes) != 2 || j.GPUs != 16 || j.Spec == nil {
		t.Errorf("from the history: %+v", j)
	}
	hist, _, err := c.History(t.Context(), api.HistoryFilter{User: "u1000", States: []string{"COMPLETED"},
		Since: time.Now().Add(-time.Hour)}, api.Read{})
	if err != nil || len(hist.Items) != 1 || hist.Items[0].Name != "gang" {
		t.Errorf("history: %+v, %v", hist, err)
	}
	wantProblem(t, c.Cancel(t.Context(), 1, ""), api.CodeWrongState)
	for _, n := range nodes {
		if len(n.starts) != 1 {
			t.Errorf("node %s was given %v", n.node.Name, n.starts)
		}
	}
	for what, get := range map[string]func() error{
		"nodes":   func() error { _, _, err := c.Nodes(t.Context(), api.Read{}); return err },
		"shares":  func() error { _, _, err := c.Shares(t.Context(), api.Read{}); return err },
		"config":  func() error { _, _, err := c.Config(t.Context(), api.Read{}); return err },
		"cluster": func() error { _, _, err := c.Cluster(t.Context()); return err },
		"check": func() error {
			ch, _, err := c.Check(t.Context())
			if err == nil && !ch.OK {
				err = fmt.Errorf("violations: %v", ch.Violations)
			}
			return err
		},
	} {
		if err := get(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatNoNodeCouldRunIsRefused(t *testing.T) {
	s := startOne(t)
	newNode(t, s.addrs.HTTP, "n1", 4).run(t.Context())
	c := s.client(user(1000))
	huge := job("huge")
	huge.Groups[0].Tasks[0].Resources.GPUs = 16
	_, err := c.Submit(t.Context(), "", huge)
	p := wantProblem(t, err, api.CodeImpossible)
	if !strings.Contains(p.Detail, "n1") {
		t.Errorf("the nearest node is not named: %s", p.Detail)
	}
	choosy := job("choosy")
	choosy.Groups[0].Tasks[0].Resources.GPUs = 1
	choosy.Groups[0].Tasks[0].Resources.GPU = &jobspec.GPU{Model: "H900*"}
	_, err = c.Submit(t.Context(), "", choosy)
	if p = wantProblem(t, err, api.CodeImpossible); !strings.Contains(p.Detail,
		"no node has gpu.model H900*; there are ") {
		t.Errorf("what there is instead is not said: %s", p.Detail)
	}
	elsewhere := job("elsewhere")
	elsewhere.Workdir = "/nowhere/shared"
	_, err = c.Submit(t.Context(), "", elsewhere)
	p = wantProblem(t, err, api.CodeInvalidJob)
	if !strings.Contains(p.Detail, "/tmp") {
		t.Errorf("the shared paths are not listed: %s", p.Detail)
	}
}

func TestRootIsRefusedUnlessAllowed(t *testing.T) {
	cfg := controller(t, "c1")
	cfg.AllowRootJobs = false
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	_, err := s.client(user(0)).Submit(t.Context(), "", job("root"))
	wantProblem(t, err, api.CodeDenied)
	s.stop()
	cfg = s.cfg
	cfg.RootJobsAs = "nobody"
	s = start(t, cfg)
	leaderOf(t, []*running{s})
	runAs := ""
	client := dialTold(t, s.addrs.HTTP, user(0), signerOf(t, s.addrs.HTTP), func(user string) { runAs = user })
	exports := job("root")
	exports.ExportEnv = map[string]string{"HOME": "/root", "USER": "root", "LOGNAME": "root", "LR": "1"}
	id, err := client.Submit(t.Context(), "", exports)
	if err != nil || runAs != "nobody" {
		t.Fatal(runAs, err)
	}
	j, _, err := s.client(user(0)).Job(t.Context(), id, api.Read{})
	if err != nil || j.User != "nobody" || j.UID == 0 || fmt.Sprint(j.Spec.ExportEnv) != "map[LR:1]" {
		t.Errorf("the job belongs to %+v, %v", j, err)
	}
}

func TestTheSocketKnowsItsPeer(t *testing.T) {
	cfg := controller(t, "c1")
	cfg.Socket = filepath.Join(t.TempDir(), "rota.sock")
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	c, err := api.Dial("unix:" + cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id, err := c.Submit(t.Context(), "", job("mine"))
	if err != nil {
		t.Fatal(err)
	}
	j, _, err := c.Job(t.Context(), id, api.Read{})
	if err != nil || j.UID != uint32(os.Getuid()) {
		t.Errorf("the job belongs to uid %d, %v", j.UID, err)
	}
	second := cfg2(t, cfg.Socket)
	makeMember(t, second)
	if err := Run(t.Context(), second); err == nil || !strings.Contains(err.Error(), cfg.Socket) {
		t.Errorf("a second daemon on the socket: %v", err)
	}
}

func cfg2(t *testing.T, socket string) Config {
	cfg := controller(t, "c2")
	cfg.Socket = socket
	return cfg
}

func TestAStateDirectoryHasOneOwner(t *testing.T) {
	s := startOne(t)
	cfg := controller(t, "c1")
	cfg.DataDir = s.cfg.DataDir
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second daemon in the directory: %v", err)
	}
	cfg = controller(t, "c3")
	makeMember(t, cfg)
	cfg.HTTP = s.addrs.HTTP
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "port in use") {
		t.Errorf("a second daemon on the port: %v", err)
	}
}

func TestARestartKeepsEverything(t *testing.T) {
	s := startOne(t)
	for i := range 20 {
		if _, err := s.client(user(1000)).Submit(t.Context(), "", job(fmt.Sprint("j", i))); err != nil {
			t.Fatal(err)
		}
	}
	s.stop()
	s = start(t, s.cfg)
	leaderOf(t, []*running{s})
	list, _, err := s.client(user(1000)).Jobs(t.Context(), api.JobFilter{}, api.Read{Consistent: true})
	if err != nil || len(list.Items) != 20 {
		t.Errorf("after the restart there are %d jobs, %v", len(list.Items), err)
	}
}

// TestARestartedControllerDeniesNoJob: a terminal is attached again while a controller has not read its log
// yet. Told that there is no such job, it would give up.
func TestARestartedControllerDeniesNoJob(t *testing.T) {
	s := startOne(t)
	if _, err := s.client(user(1000)).Submit(t.Context(), "", job("waits")); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s = start(t, s.cfg)
	_, err := s.client(user(1000)).Attach(t.Context(), "1", api.AttachRequest{})
	wantProblem(t, err, api.CodeWrongState)
}

func TestSettingsTellEveryProblem(t *testing.T) {
	err := Config{Name: "a/b", HTTP: "x", Raft: "127.0.0.1:99999", Gossip: "x:y", Loopback: "0.0.0.0:1"}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"--name", "--data-dir", "--http", "--raft", "--gossip", "--loopback-http"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in: %v", want, err)
		}
	}
}

func TestASilentNodeGoesDownAndComesBack(t *testing.T) {
	cfg := controller(t, "c1")
	policy := cluster.DefaultConfig()
	policy.NodeDownMS = 300
	cfg.Cluster = &policy
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	c := s.client(user(1000))
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	if _, err := n.c.Register(t.Context(), "n1", api.RegisterRequest{Node: n.node}); err != nil {
		t.Fatal(err)
	}
	state := func(want string) func() error {
		return func() error {
			list, _, err := c.Nodes(t.Context(), api.Read{})
			if err == nil && (len(list.Items) != 1 || list.Items[0].State != want) {
				err = fmt.Errorf("nodes: %+v", list.Items)
			}
			return err
		}
	}
	eventually(t, "the node down", state("down"))
	n.run(t.Context())
	eventually(t, "the node up", state("idle"))
}

func TestOperatorsDrainNodes(t *testing.T) {
	s := startOne(t)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.run(t.Context())
	root, somebody := s.client(user(0)), s.client(user(1000))
	wantProblem(t, somebody.SetNode(t.Context(), "n1", "drain", "mine"), api.CodeDenied)
	wantProblem(t, root.SetNode(t.Context(), "n1", "drain", ""), api.CodeInvalid)
	wantProblem(t, root.SetNode(t.Context(), "n2", "drain", "fan"), api.CodeNotFound)
	state := func() string {
		list, _, err := somebody.Nodes(t.Context(), api.Read{})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		return list.Items[0].State + " " + list.Items[0].Reason
	}
	if err := root.SetNode(t.Context(), "n1", "drain", "fan"); err != nil || state() != "drain fan" {
		t.Errorf("%v, %s", err, state())
	}
	id, err := somebody.Submit(t.Context(), "", job("waits"))
	if err != nil {
		t.Fatal(err)
	}
	if j, _, err := somebody.Job(t.Context(), id, api.Read{}); err != nil || j.Code != model.Pending ||
		j.Reason.Code != "ReqNodeNotAvail" {
		t.Errorf("%+v, %v", j, err)
	}
	if err := root.SetNode(t.Context(), "n1", "resume", ""); err != nil || strings.TrimSpace(state()) == "drain fan" {
		t.Errorf("%v, %s", err, state())
	}
	eventually(t, "the job's end", func() error {
		j, _, err := somebody.Job(t.Context(), id, api.Read{})
		if err == nil && j.Code != model.Completed {
			err = errors.New(string(j.Code))
		}
		return err
	})
}

func TestTheDocumentIsServed(t *testing.T) {
	s := startOne(t)
	resp, err := http.Get("http://" + s.addrs.Loopback + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Paths["/v1/jobs"]["post"] == nil || doc.Paths["/v1/jobs/{id}/cancel"]["post"] == nil {
		t.Errorf("document %s has paths %v", doc.OpenAPI, doc.Paths)
	}
	for path := range doc.Paths {
		if strings.HasPrefix(path, "/v1/internal/") {
			t.Errorf("%s is documented", path)
		}
	}
	resp, err = http.Get("http://" + s.addrs.Loopback + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(b, []byte("rota_leader 1")) {
		t.Errorf("metrics: %v: %s", err, b)
	}
}

// A node's daemon signs what its users send. They may not use what only machines may.
func TestUsersOfANodeDoNotSpeakForMachines(t *testing.T) {
	s := startOne(t)
	someone := user(uint32(os.Getuid()) + 4711)
	c := s.client(someone)
	_, err := c.Report(t.Context(), "n1", api.ReportRequest{BootID: "boot-n1"})
	wantProblem(t, err, api.CodeDenied)
	node := model.Node{Name: "n2", BootID: "b", Cores: 1, Memory: 1 << 30}
	_, err = c.Register(t.Context(), "n2", api.RegisterRequest{Node: node})
	wantProblem(t, err, api.CodeDenied)
	_, err = c.Allocs(t.Context(), "n1", "boot-n1", 0, 0, api.Echo{})
	wantProblem(t, err, api.CodeDenied)
}

func TestEnvironmentsAreForTheOwner(t *testing.T) {
	s := startOne(t)
	owner := user(uint32(os.Getuid()) + 4711)
	spec := job("secret")
	spec.ExportEnv = map[string]string{"TOKEN": "s3cret"}
	spec.Groups[0].Tasks[0].Env = map[string]string{"KEY": "s3cret"}
	id, err := s.client(owner).Submit(t.Context(), "k", spec)
	if err != nil {
		t.Fatal(err)
	}
	for uid, sees := range map[uint32]bool{owner.UID: true, owner.UID + 1: false, 0: true} {
		j, _, err := s.client(user(uid)).Job(t.Context(), id, api.Read{})
		if err != nil {
			t.Fatal(err)
		}
		if got := j.Spec != nil && len(j.Spec.ExportEnv) == 1 && len(j.Spec.Groups[0].Tasks[0].Env) == 1; got != sees ||
			(j.Spec != nil) != sees || j.Name != "secret" {
			t.Errorf("uid %d sees %v", uid, j.Spec)
		}
	}
}

// A lease counts for the next leader only from when the log had the node up.
func TestANodeThatWasDownIsUpBeforeItsLeasesAreRenewed(t *testing.T) {
	cfg := controller(t, "c1")
	policy := cluster.DefaultConfig()
	policy.NodeDownMS = 200
	cfg.Cluster = &policy
	s := start(t, cfg)
	leaderOf(t, []*running{s})
	c := s.client(user(1000))
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	if _, err := n.c.Register(t.Context(), "n1", api.RegisterRequest{Node: n.node}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var before uint64
		eventually(t, "the node down", func() error {
			list, _, err := c.Nodes(t.Context(), api.Read{})
			if err == nil && (len(list.Items) != 1 || list.Items[0].State != "down") {
				err = fmt.Errorf("nodes: %+v", list.Items)
			}
			before = list.Index
			return err
		})
		allocs, err := n.c.Allocs(t.Context(), "n1", n.node.BootID, 0, 0, api.Echo{})
		if err != nil {
			t.Fatal(err)
		}
		if allocs.Index <= before {
			t.Errorf("answered at index %d, when the log of index %d had the node down", allocs.Index, before)
		}
	}
}
