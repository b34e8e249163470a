package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// site is a leader with node n1, which answers as a test says, and jobs in several states.
type site struct {
	*Server
	t *testing.T

	mu     sync.Mutex
	status int    // that the node answers with
	body   string // of its answer
	asked  []string
	other  func(w http.ResponseWriter, path string) bool // answers in place of these, if it is set and says so

	gang, pending, ended, array, leaving, steps model.JobID
}

// newSite starts the node, and has the gang and the steps job run, leaving be asked to stop.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Server: leading(t, 1, &links{}), t: t, status: http.StatusNoContent}
	s.Name = "c1"
	dir := t.TempDir()
	member := func(name string, make func(dir string) error) *pki.Credential {
		at := filepath.Join(dir, name)
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		c, err := pki.Load(at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s.Credential = member("c1", func(dir string) error { _, err := pki.Init(dir, "c1"); return err })
	node := member("n1", func(dir string) error { return s.Credential.Issue(dir, pki.Node, "n1", nil) })
	s.Nodes = &http.Client{Transport: &http.Transport{TLSClientConfig: s.Credential.Client(pki.Node)}}
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), text))
		status, body, other := s.status, s.body, s.other
		s.mu.Unlock()
		if other != nil && other(w, r.URL.Path) {
			return
		}
		if status == http.StatusSwitchingProtocols {
			s.stream(w)
			return
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	listener.TLS = node.Server(pki.Controller)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	store, err := history.Open(filepath.Join(dir, "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.History, s.Samples, s.metrics = store, &telemetry.Samples{}, newMetrics(prometheus.NewRegistry(), s.Replica)
	for name, addr := range map[string]string{"n1": strings.TrimPrefix(listener.URL, "https://"),
		"n2": strings.TrimPrefix(listener.URL, "https://"), "n3": ""} {
		s.do(fsm.RegisterNode{Node: model.Node{Name: name, Addr: addr, BootID: "b" + name, Cores: 8,
			Memory: 32 * jobspec.GiB}})
	}
	s.gang = s.submit(func(j *jobspec.Job) { j.Groups[0].Count, j.Groups[0].MaxWorkersPerNode = 2, 2 })
	s.pending = s.submit(func(j *jobspec.Job) { j.Hold = true })
	s.ended, s.leaving = s.submit(nil), s.submit(nil)
	s.steps = s.submit(func(j *jobspec.Job) {
		j.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
		j.Groups[0].Count, j.Groups[0].MaxWorkersPerNode = 2, 2
	})
	s.array = s.submit(func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "5-7"} })
	s.begin(s.gang, "n1", "n1")
	s.begin(s.steps, "n1", "n1")
	s.begin(s.leaving, "n1")
	for _, id := range []model.JobID{s.ended, s.leaving} {
		s.do(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: id}}, By: 7})
	}
	return s
}

// stream is a stream of the node: it says what it has heard, until that is "end".
func (s *site) stream(w http.ResponseWriter) {
	conn, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", stream.Protocol)
	for {
		line, err := rest.ReadString('\n')
		if err != nil || line == "end\n" {
			return
		}
		io.WriteString(conn, "node heard "+line)
	}
}

func (s *site) do(c fsm.Command) any {
	s.t.Helper()
	got, err := s.Replica.Propose(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("%s: %v", c.Kind(), err)
	}
	return got
}

// submit submits a job of ann.
func (s *site) submit(edit func(*jobspec.Job)) model.JobID {
	s.t.Helper()
	spec := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Name: "main", Count: 1, Tasks: []jobspec.Task{{Name: "main",
		Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	if edit != nil {
		edit(spec)
	}
	return s.do(fsm.SubmitJobs{Owner: model.Identity{UID: 7, User: "ann"}, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
}

// begin has all workers of a job run.
func (s *site) begin(id model.JobID, nodes ...string) {
	s.t.Helper()
	var places []model.Place
	for _, n := range nodes {
		places = append(places, model.Place{Node: n})
	}
	if errs := s.do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id,
		Places: places}}}).([]error); errs[0] != nil {
		s.t.Fatal(errs)
	}
	s.all(id, model.WorkerRunning)
}

// all reports a state of all workers of a job's attempt.
func (s *site) all(id model.JobID, state model.WorkerState) {
	a := s.Replica.View().Job(id).Live()
	for i := range a.Workers {
		s.do(fsm.NodeReport{Node: a.Workers[i].Node, BootID: "b" + a.Workers[i].Node, Workers: []model.WorkerReport{{Job: id,
			Attempt: a.N, Worker: i, State: state}}})
	}
}

// request is one of ann to a route, about {id}.
func (s *site) request(path, id, query, body string) *exchange {
	x := ask(http.MethodPost, "/v1/x?"+query, named("ann", 7))
	x.s, x.view, x.roles = s.Server, s.Replica.View(), access.User
	for _, rt := range routes() {
		if rt.Path == path {
			x.rt = &rt
		}
	}
	x.r = httptest.NewRequestWithContext(s.t.Context(), x.rt.Method, "/v1/x?"+query, strings.NewReader(body))
	x.r.SetPathValue("id", id)
	return x
}

// answers says what the node answers, and forgets what it was asked.
func (s *site) answers(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body, s.asked, s.other = status, body, nil, nil
}

// answersOtherwise has f answer where it says so.
func (s *site) answersOtherwise(f func(w http.ResponseWriter, path string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = f
}

// heard returns what the node was asked since.
func (s *site) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// statuses are those that a code may come with, as api.go documents them; others say more of what went wrong.
var statuses = map[string][]int{api.CodeInvalid: {400, 415, 422}, api.CodeInvalidJob: {422}, api.CodeNotFound: {404},
	api.CodeDenied: {403, 421}, api.CodeUnauthorised: {401}, api.CodeKeyReused: {409}, api.CodeWrongState: {409},
	api.CodeTooLarge: {413}, api.CodeNoLeader: {503}, api.CodeGeneration: {421}, api.CodeUnsettled: {503},
	api.CodeInternal: {400, 404, 500, 502}, api.CodeUncertain: {503}, api.CodeTimeout: {504}, api.CodeBusy: {503},
	api.CodeLimit: {429}}

// codeOf is the code of a refusal, "" of none. A refusal that has no text, or another status than its code comes
// with, has none of the codes.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	p := problem.Of(err)
	if !slices.Contains(statuses[p.Code], p.Status) || p.Detail == "" {
		return fmt.Sprintf("%s with status %d and %q", p.Code, p.Status, p.Detail)
	}
	return p.Code
}

// TestRequestsThatNodesAnswer goes through what is passed on to the node of a worker, and what is not.
func TestRequestsThatNodesAnswer(t *testing.T) {
	s := newSite(t)
	t.Run("streams", s.streams)
	t.Run("logs", s.logs)
	t.Run("usage", s.usage)
	t.Run("steps", s.stepsOfJobs)
	t.Run("signals", s.signals)
	t.Run("kept folders", s.kept)
	s.Peers = &peers.Peers{}
	s.Replica.StopLeading() // what may be newer on the leader is passed on to it
	for id, code := range map[model.JobID]string{s.ended: api.CodeWrongState, s.pending: api.CodeNoLeader,
		s.array: api.CodeInvalid} {
		x := s.request("/v1/jobs/{id}/steps", fmt.Sprint(id), "", "")
		if _, err := jobSteps(x); codeOf(err) != code {
			t.Errorf("the steps of job %d, asked of a follower: %v, want %s", id, err, code)
		}
		x = s.request("/v1/jobs/{id}/exec", fmt.Sprint(id), "", "{}")
		api.RequestStream(x.r)
		if _, err := execJob(x); codeOf(err) != code {
			t.Errorf("a process in job %d, asked of a follower: %v, want %s", id, err, code)
		}
		x.r.Header.Set(headerForwarded, "c2")
		if _, err := execJob(x); codeOf(err) == api.CodeNoLeader {
			t.Errorf("job %d: what was passed on is passed on again", id)
		}
	}
}

func (s *site) streams(t *testing.T) {
	minus := int64(-1)
	for name, c := range map[string]struct {
		verb   string
		id     model.JobID
		body   any
		plain  bool // it does not ask for a stream
		status int
		code   string
		asked  string
	}{
		"a process": {"exec", s.gang, api.ExecRequest{Worker: 1, Argv: []string{"x"}}, false, 409,
			api.CodeWrongState, ".1.1"},
		"a shell":              {"exec", s.gang, api.ExecRequest{}, false, 500, api.CodeInternal, ".1.0"},
		"no name of a program": {"exec", s.gang, api.ExecRequest{Argv: []string{"", "x"}}, false, 409, api.CodeInvalid, ""},
		"an empty argument": {"exec", s.gang, api.ExecRequest{Argv: []string{"x", ""}}, false, 409, api.CodeWrongState,
			".1.0"},
		"worker -1":          {"exec", s.gang, api.ExecRequest{Worker: -1}, false, 409, api.CodeNotFound, ""},
		"worker 2 of 2":      {"exec", s.gang, api.ExecRequest{Worker: 2}, false, 409, api.CodeNotFound, ""},
		"no stream":          {"exec", s.gang, api.ExecRequest{}, true, 409, api.CodeInvalid, ""},
		"one that waits":     {"exec", s.pending, api.ExecRequest{}, false, 409, api.CodeWrongState, ""},
		"one that has ended": {"exec", s.ended, api.ExecRequest{}, false, 409, api.CodeWrongState, ""},
		"one that leaves":    {"exec", s.leaving, api.ExecRequest{}, false, 409, api.CodeWrongState, ""},
		"an array":           {"exec", s.array, api.ExecRequest{}, false, 409, api.CodeInvalid, ""},
		"its terminal":       {"attach", s.leaving, api.AttachRequest{}, false, 500, api.CodeInternal, ".1.0"},
		"from the beginning": {"attach", s.gang, api.AttachRequest{From: new(int64)}, false, 500, api.CodeInternal,
			".1.0"},
		"from before that":      {"attach", s.gang, api.AttachRequest{From: &minus}, false, 500, api.CodeInvalid, ""},
		"a terminal that waits": {"attach", s.pending, api.AttachRequest{}, false, 500, api.CodeWrongState, ""},
	} {
		s.answers(c.status, `{"detail":"the node says"}`)
		body, _ := json.Marshal(c.body)
		x := s.request("/v1/jobs/{id}/"+c.verb, fmt.Sprint(c.id), "", string(body))
		if !c.plain {
			api.RequestStream(x.r)
		}
		_, err := x.rt.handle(x)
		heard := strings.Join(s.heard(), "")
		want := ""
		if c.asked != "" {
			want = fmt.Sprintf("POST /v1/%s/%d%s %s", c.verb, c.id, c.asked, body)
		}
		if codeOf(err) != c.code || heard != want || want != "" && !strings.Contains(err.Error(), "the node says") {
			t.Errorf("%s: %v, the node heard %q, want %q", name, err, heard, want)
		}
	}
}

func (s *site) logs(t *testing.T) {
	for name, c := range map[string]struct {
		id     model.JobID
		query  string
		status int
		code   string
		asked  string
	}{
		"output": {s.gang, "", 200, "", ".1.0?follow=false&stream=stdout"},
		"of a worker": {s.gang, "worker=1&stream=both&tail=5&task=main", 200, "",
			".1.1?follow=false&stream=both&tail=5&task=main"},
		"of an attempt":         {s.gang, "attempt=1&stream=stderr", 200, "", ".1.0?follow=false&stream=stderr"},
		"followed, one attempt": {s.gang, "attempt=1&follow=true", 200, "", ".1.0?follow=true&stream=stdout"},
		"an odd stream":         {s.gang, "stream=out", 200, api.CodeInvalid, ""},
		"an odd task":           {s.gang, "task=x", 200, api.CodeNotFound, ""},
		"worker 2 of 2":         {s.gang, "worker=2", 200, api.CodeNotFound, ""},
		"attempt 2 of 1":        {s.gang, "attempt=2", 200, api.CodeNotFound, ""},
		"one that waits":        {s.pending, "", 200, api.CodeWrongState, ""},
		"one that never ran":    {s.ended, "", 200, api.CodeWrongState, ""},
		"an array":              {s.array, "", 200, api.CodeInvalid, ""},
		"the node has none":     {s.gang, "", 404, api.CodeNotFound, ".1.0?follow=false&stream=stdout"},
		"the node fails":        {s.gang, "", 500, api.CodeInternal, ".1.0?follow=false&stream=stdout"},
	} {
		s.answers(c.status, "all that it said")
		x := s.request("/v1/jobs/{id}/logs", fmt.Sprint(c.id), c.query, "")
		_, err := x.rt.handle(x)
		want := ""
		if c.asked != "" {
			want = fmt.Sprintf("GET /v1/logs/%d%s ", c.id, c.asked)
		}
		if heard := strings.Join(s.heard(), ""); codeOf(err) != c.code || heard != want {
			t.Errorf("%s: %v, the node heard %q, want %q", name, err, heard, want)
		}
		w := x.w.(*httptest.ResponseRecorder)
		if x.sent != (c.code == "") || x.sent && (w.Body.String() != "all that it said" ||
			w.Header().Get("Content-Type") != "application/octet-stream") {
			t.Errorf("%s: sent %t, %q", name, x.sent, w.Body)
		}
	}
	if got := refusalText("500 x", []byte(`{"detail":""}`)); got != `500 x: {"detail":""}` {
		t.Errorf("a refusal without a detail: %q", got)
	}
	pipeline := &model.Job{ID: 9, Spec: &jobspec.Job{Groups: []jobspec.Group{{Name: "first"}}}}
	if a, b := memberName(s.Replica.View().Job(s.array)), memberName(pipeline); a != fmt.Sprintf("%d_5", s.array) ||
		b != "9.first" {
		t.Errorf("members are called %s and %s", a, b)
	}
}

func (s *site) usage(t *testing.T) {
	good := api.NodeUsage{Usage: model.Usage{CPUMS: 70, SystemMS: 20, PeakMemory: 5}, Memory: 3,
		Steps: []api.NodeStepUsage{
			{Step: 2, GPUs: jobspec.MaxGPUs, Usage: model.Usage{CPUMS: 7}}, {Step: 0, Usage: model.Usage{CPUMS: 9}}}}
	with := func(edit func(*api.NodeUsage)) string {
		u := good
		u.Steps = slices.Clone(good.Steps)
		edit(&u)
		text, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ask := func(id model.JobID, query string) (*api.JobUsage, error) {
		return getUsage(s.request("/v1/jobs/{id}/usage", fmt.Sprint(id), query, ""))
	}
	for name, c := range map[string]struct {
		status  int
		body    string
		missing int
	}{
		"good":              {200, with(func(*api.NodeUsage) {}), 0},
		"refused":           {500, "no", 2},
		"no JSON":           {200, "x", 2},
		"memory below 0":    {200, with(func(u *api.NodeUsage) { u.Memory = -1 }), 2},
		"no memory":         {200, with(func(u *api.NodeUsage) { u.Memory = 0 }), 0},
		"system above all":  {200, with(func(u *api.NodeUsage) { u.SystemMS = 71 }), 2},
		"step -1":           {200, with(func(u *api.NodeUsage) { u.Steps[1].Step = -1 }), 2},
		"GPUs below 0":      {200, with(func(u *api.NodeUsage) { u.Steps[1].GPUs = -1 }), 2},
		"too many GPUs":     {200, with(func(u *api.NodeUsage) { u.Steps[0].GPUs = jobspec.MaxGPUs + 1 }), 2},
		"an impossible one": {200, with(func(u *api.NodeUsage) { u.Steps[0].GPU = 1001 }), 2},
	} {
		s.answers(c.status, c.body)
		out, err := ask(s.gang, "")
		if err != nil || out.Missing != c.missing || (out.Error != "") != (c.missing > 0) || !out.Live ||
			len(out.Workers) != 2 ||
			(out.Usage != nil) != (c.missing == 0) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
		if c.missing > 0 && !strings.HasPrefix(out.Error, "worker 0 on node n1: ") {
			t.Errorf("%s: %q", name, out.Error)
		}
		if name == "good" && (len(out.Steps) != 2 || out.Steps[0].Step != 0 || out.Steps[1].Step != 2 ||
			out.Steps[0].PeakNode != "n1" || out.Workers[1].Worker != 1 || out.Workers[1].MemoryNow != 3 ||
			out.Workers[0].Usage == nil) {
			t.Errorf("%+v", out)
		}
	}
	if out, err := ask(s.pending, ""); err != nil || len(out.Workers) != 0 || out.Live {
		t.Errorf("one that waits: %+v, %v", out, err)
	}
	if _, err := ask(s.gang, "attempt=2"); codeOf(err) != api.CodeNotFound {
		t.Errorf("attempt 2 of 1: %v", err)
	}
	if out, err := ask(s.gang, "attempt=1"); err != nil || out.Attempt != 1 {
		t.Errorf("attempt 1: %+v, %v", out, err)
	}
	peaks := func(first, second jobspec.Bytes) string {
		part := func(peak jobspec.Bytes) *api.NodeUsage {
			return &api.NodeUsage{Steps: []api.NodeStepUsage{{Usage: model.Usage{PeakMemory: peak}}}}
		}
		list := usageOfSteps(&model.Attempt{Workers: []model.Worker{{Place: model.Place{Node: "a"}}, {},
			{Place: model.Place{Node: "c"}}}}, []*api.NodeUsage{part(first), nil, part(second)})
		return list[0].PeakNode
	}
	if peaks(5, 4) != "a" || peaks(5, 5) != "a" || peaks(5, 6) != "c" || peaks(0, 0) != "a" {
		t.Error("another node had the most memory")
	}
}

func (s *site) stepsOfJobs(t *testing.T) {
	for name, c := range map[string]struct {
		id     model.JobID
		path   string
		step   string
		status int
		code   string
		asked  string
	}{
		"all":                {s.steps, "", "", 200, "", ""},
		"a step":             {s.steps, "/{step}/signal", "7", 200, "", "/7/signal"},
		"step 0":             {s.steps, "/{step}/signal", "0", 200, "", "/0/signal"},
		"step -1":            {s.steps, "/{step}/signal", "-1", 200, api.CodeInvalid, "-"},
		"a name":             {s.steps, "/{step}/signal", "x", 200, api.CodeInvalid, "-"},
		"one that waits":     {s.pending, "", "", 200, api.CodeWrongState, "-"},
		"one that has ended": {s.ended, "", "", 200, api.CodeWrongState, "-"},
		"an array":           {s.array, "", "", 200, api.CodeInvalid, "-"},
		"without steps":      {s.gang, "", "", 200, api.CodeWrongState, "-"},
		"refused":            {s.steps, "", "", 409, api.CodeWrongState, ""},
		"refused oddly":      {s.steps, "", "", 400, api.CodeInternal, ""},
	} {
		body := "the list"
		if c.status == 409 {
			body = `{"status":409,"code":"wrong_state","detail":"the node says"}`
		}
		s.answers(c.status, body)
		x := s.request("/v1/jobs/{id}/steps", fmt.Sprint(c.id), "", "")
		rt := *x.rt
		x.rt = &rt
		x.rt.Path = "/v1/jobs/{id}/steps" + c.path
		x.r.SetPathValue("step", c.step)
		_, err := jobSteps(x)
		want := ""
		if c.asked != "-" {
			want = fmt.Sprintf("%s /v1/job-steps/%d.1.0%s ", x.r.Method, c.id, c.asked)
		}
		code := codeOf(err)
		if c.status == 409 && err != nil && strings.Contains(err.Error(), "the node says") {
			code = api.CodeWrongState
		}
		if heard := strings.Join(s.heard(), ""); code != c.code || heard != want {
			t.Errorf("%s: %v, the node heard %q, want %q", name, err, heard, want)
		}
		if w := x.w.(*httptest.ResponseRecorder); x.sent != (c.code == "") || x.sent && w.Body.String() != "the list" {
			t.Errorf("%s: sent %t, %q", name, x.sent, w.Body)
		}
	}
}

func (s *site) signals(t *testing.T) {
	for name, c := range map[string]struct {
		id       model.JobID
		sig, to  string
		status   int
		code     string
		requests int
	}{
		"to all":               {s.gang, "SIGUSR1", "", 204, "", 2},
		"to the script":        {s.gang, "SIGUSR1", jobspec.SignalScript, 204, "", 2},
		"of a steps job":       {s.steps, "SIGUSR1", jobspec.SignalScript, 204, "", 1},
		"to its programs":      {s.steps, "SIGUSR1", jobspec.SignalPrograms, 204, "", 2},
		"to something else":    {s.gang, "SIGUSR1", "x", 204, api.CodeInvalid, 0},
		"no signal":            {s.gang, "SIGKILL", "", 204, api.CodeInvalid, 0},
		"one that waits":       {s.pending, "SIGUSR1", "", 204, api.CodeWrongState, 0},
		"an array that waits":  {s.array, "SIGUSR1", "", 204, api.CodeWrongState, 0},
		"nothing runs there":   {s.gang, "SIGUSR1", "", 409, api.CodeWrongState, 2},
		"the node fails":       {s.gang, "SIGUSR1", "", 500, api.CodeInternal, 2},
		"another good answer":  {s.gang, "SIGUSR1", "", 200, api.CodeInternal, 2},
		"there is no such job": {99_999, "SIGUSR1", "", 204, api.CodeNotFound, 0},
	} {
		s.answers(c.status, "")
		x := s.request("/v1/jobs/{id}/signal", fmt.Sprint(c.id), "", "")
		resp, err := signalJob(x, &api.SignalRequest{Signal: c.sig, To: c.to})
		if codeOf(err) != c.code || len(s.heard()) != c.requests || c.code == "" && (len(resp.Items) != 1 ||
			resp.Items[0].ID != c.id || resp.Items[0].Error != nil) {
			t.Errorf("%s: %+v, %v, %q", name, resp, err, s.heard())
		}
	}
}

func (s *site) kept(t *testing.T) {
	many := make([]string, maxReports+1)
	for name, c := range map[string]struct {
		node   string
		ids    []string
		status int
		body   string
		code   string
		asked  int
	}{
		"one":         {"n1", []string{"1.1.0"}, 200, `{"items":[{"id":"1.1.0"}]}`, "", 1},
		"as many":     {"n1", many[:maxReports], 200, `{"items":[]}`, "", 1},
		"too many":    {"n1", many, 200, `{}`, api.CodeInvalid, 0},
		"none":        {"n1", nil, 200, `{}`, api.CodeInvalid, 0},
		"no node":     {"n9", []string{"1.1.0"}, 200, `{}`, api.CodeNotFound, 0},
		"no address":  {"n3", []string{"1.1.0"}, 200, `{}`, api.CodeInternal, 0},
		"another one": {"n2", []string{"1.1.0"}, 200, `{}`, api.CodeInternal, 1},
		"it fails":    {"n1", []string{"1.1.0"}, 500, `{"detail":"the node says"}`, api.CodeInternal, 1},
		"no content":  {"n1", []string{"1.1.0"}, 204, ``, api.CodeInternal, 1},
		"no JSON":     {"n1", []string{"1.1.0"}, 200, `x`, api.CodeInternal, 1},
	} {
		s.answers(c.status, c.body)
		x := s.request("/v1/nodes/{name}/kept/drop", "", "", "")
		x.r.SetPathValue("name", c.node)
		out, err := dropKept(x, &api.DropFolders{IDs: c.ids})
		if codeOf(err) != c.code || len(s.heard()) != c.asked || (out == nil) != (c.code != "") {
			t.Errorf("%s: %+v, %v, the node heard %d", name, out, err, len(s.heard()))
		}
	}
	s.answers(200, `{"items":[{"id":"1.1.0"}]}`)
	x := s.request("/v1/nodes/{name}/kept", "", "", "")
	x.r.SetPathValue("name", "n1")
	if out, err := listKept(x); err != nil || len(out.Items) != 1 || s.heard()[0] != "GET "+api.KeptPath+" null" {
		t.Errorf("%+v, %v, %q", out, err, s.heard())
	}
}
