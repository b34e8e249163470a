package jobsteps

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

// daemonOf serves what the daemon of a node does for steps. It returns its address.
func (l *lab) daemonOf(name string, c *pki.Credential) string {
	l.t.Helper()
	mux := http.NewServeMux()
	mux.Handle(Path, (&Server{Local: l.locals[name], Ctx: l.ctx}).Handler())
	mux.Handle(JobPath, l.m.ForControllers())
	guard := &identity.Guard{Credential: c}
	s := httptest.NewUnstartedServer(guard.Handler(mux, func(w http.ResponseWriter, _ *http.Request, err error) {
		api.WriteProblem(w, http.StatusUnauthorized, api.CodeUnauthorised, err.Error())
	}))
	s.TLS, s.Config.ErrorLog = c.Server(), log.New(io.Discard, "", 0)
	s.StartTLS()
	l.t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestNodesStartPartsForEachOther notices a part that does not run, and output or an end that is
// lost, between two nodes over the network.
func TestNodesStartPartsForEachOther(t *testing.T) {
	cluster := pkitest.New(t)
	l := newLab(t, runsOn, "a", "b")
	addr := l.daemonOf("b", cluster.Member(pki.Node, "b"))
	own := cluster.Member(pki.Node, "a")
	l.m.Remote = func(name string) Node {
		return &Remote{Name: name, Addr: func(string) string { return addr }, Credential: own}
	}
	p, err := l.ask(api.StepRequest{})
	if err != nil {
		t.Fatal(err)
	}
	in := stream.NewInput(stream.AllTasks)
	if !p.read(stream.Ack) {
		t.Fatal("no input is taken")
	}
	if err := in.Resume(p.conn, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	in.End()
	for i := range 2 {
		id := container.ID{Job: 7, Attempt: 1, Worker: i}.OfStep(0)
		l.until("the input of "+id.String(), func() bool { return l.input[id] == "hello$" })
		l.endPart(i, 0, container.Exit{Code: i, UserMS: 5})
	}
	if !p.read(stream.End) || p.end.Code != 1 || len(p.got) != 4 {
		t.Errorf("it has ended with %+v, and wrote %q", p.end, p.got)
	}
	l.until("the row", func() bool { return len(l.rows) == 1 })
	if r := l.ended()[0]; r.Usage == nil || r.Usage.CPUMS != 10 || len(l.left()) != 0 {
		t.Errorf("row %+v, left %v", r, l.left())
	}
}

// until waits for something that follows.
func (l *lab) until(what string, is func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		ok := is()
		l.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("not yet: %s", what)
		}
	}
}

// TestOnlyTheNodeOfTheJobStartsParts notices a node that starts programs in jobs which it has no
// part in, or that reads their output.
func TestOnlyTheNodeOfTheJobStartsParts(t *testing.T) {
	cluster := pkitest.New(t)
	l := newLab(t, runsOn, "a", "b")
	addr := l.daemonOf("b", cluster.Member(pki.Node, "b"))
	part := container.ID{Job: 7, Attempt: 1, Worker: 1}.OfStep(0)
	as := func(role pki.Role, name string) *Remote {
		return &Remote{Name: "b", Addr: func(string) string { return addr }, Credential: cluster.Member(role, name)}
	}
	p := &Part{Programs: []api.StepProgram{{Argv: []string{"x"}}}, Nodes: l.nodes, Counts: []int{1, 1}, Node: 1,
		Share: choose.Share{Place: 1, Tasks: []int{1}}}
	for name, n := range map[string]*Remote{"another node": as(pki.Node, "c"), "the node itself": as(pki.Node, "b"),
		"a login node": as(pki.Login, "a"), "a controller": as(pki.Controller, "a")} {
		_, begun := n.Begun(t.Context(), part)
		_, remove := n.Remove(t.Context(), part)
		_, open := n.Open(t.Context(), t.Context(), part, 0)
		for what, err := range map[string]error{"start": n.Start(t.Context(), part, p), "ask": begun, "remove": remove,
			"read": open, "signal": n.Signal(t.Context(), part, "SIGKILL")} {
			if err == nil || errors.Is(err, container.ErrUnknown) {
				t.Errorf("%s may %s: %v", name, what, err)
			}
		}
	}
	own := as(pki.Node, "a")
	for _, id := range []container.ID{{Job: 8, Attempt: 1, Worker: 1, Step: 1}, {Job: 7, Attempt: 2, Worker: 1, Step: 1},
		{Job: 7, Attempt: 1, Worker: 1}} {
		if err := own.Start(t.Context(), id, p); err == nil {
			t.Errorf("%s is started", id)
		}
	}
	if len(l.left()) != 0 {
		t.Fatalf("containers %v", l.left())
	}
	if _, err := own.Begun(t.Context(), part); !errors.Is(err, container.ErrUnknown) {
		t.Errorf("a part that was not started: %v", err)
	}
	for range 2 { // a request may be repeated
		if err := own.Start(t.Context(), part, p); err != nil {
			t.Fatal(err)
		}
	}
	if begun, err := own.Begun(t.Context(), part); !begun || err != nil || len(l.left()) != 1 {
		t.Errorf("begun %v, %v, containers %v", begun, err, l.left())
	}
	if err := own.Signal(t.Context(), part, "SIGNOTHING"); err == nil {
		t.Error("there is such a signal")
	}
}

// TestRequestsOfControllers notices a caller that is no controller, and what is answered to
// requests about steps.
func TestRequestsOfControllers(t *testing.T) {
	cluster := pkitest.New(t)
	l := newLab(t, runsOn, "a")
	addr := l.daemonOf("a", cluster.Member(pki.Node, "a"))
	ask := func(role pki.Role, method, path, body string) (int, string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialTLSContext: pki.Dialer(cluster.Member(role, "c1").Client(pki.Node))}}
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+addr+JobPath+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(body, `{"programs"`) {
			api.RequestStream(req)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return resp.StatusCode, ""
		}
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if status, _ := ask(pki.Node, "GET", "7.1.0", ""); status != http.StatusForbidden {
		t.Errorf("a node gets %d", status)
	}
	p, err := l.ask(api.StepRequest{Name: "first"})
	if err != nil || !p.read(stream.Begun) {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "7.1.0", `{"programs":[{"argv":["x"]}],"tasks":5}`, 409, string(choose.TooManyTasks)},
		{"POST", "7.1.0", `{"programs":[{"argv":["x"]}],"no_wait":true}`, 409, string(choose.Busy)},
		{"POST", "7.1.0", `{"programs":[]}`, 400, "needs a program"},
		{"POST", "7.1.0", `{`, 400, "read the request"},
		{"GET", "7.1.0", "", 200, `"name":"first"`},
		{"GET", "8.1.0", "", 404, "8.1.0"},
		{"GET", "x", "", 400, "JOB.ATTEMPT.WORKER"},
		{"POST", "7.1.0/3/signal", `{"signal":"SIGTERM"}`, 404, "no running step 3"},
		{"POST", "7.1.0/0/signal", `{"signal":"TERM"}`, 400, "unknown signal"},
		{"POST", "7.1.0/0/attach", `{"from":[-1]}`, 400, "not a number of bytes"},
		{"POST", "7.1.0/0/signal", `{"signal":"SIGTERM"}`, 200, "{}"},
	} {
		status, text := ask(pki.Controller, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, text)
		}
	}
	if !p.read(stream.End) || p.end.Signal != 15 {
		t.Errorf("it has ended with %+v", p.end)
	}
	if status, _ := ask(pki.Controller, "POST", "7.1.0", `{"programs":[{"argv":["x"]}]}`); status != 101 {
		t.Errorf("a step gets %d", status)
	}
}

// TestAWatcherSeesATaskEnd notices a client that looks on and takes the place of the one that has
// asked, or that is not told how a step has ended while it came.
func TestAWatcherSeesATaskEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		p, err := l.ask(api.StepRequest{Tasks: 1})
		if err != nil || !p.read(stream.Stdout) {
			t.Fatal(err)
		}
		s := l.step(0)
		watch := func() *person {
			w := &person{l: l}
			var c *client
			w.conn, c = l.connect(watcherRoom, false)
			go s.watch(c)
			return w
		}
		w := watch()
		if !w.read(stream.Begun) || w.of.Step != 0 {
			t.Errorf("it sees %+v", w.of)
		}
		l.endPart(0, 0, container.Exit{Code: 6})
		if !p.read(stream.End) || !w.read(stream.End) || w.end.Code != 6 || p.end.Code != 6 {
			t.Errorf("they see %+v and %+v", p.end, w.end)
		}
		<-s.over
		if late := watch(); !late.read(stream.End) || late.end.Code != 6 {
			t.Errorf("one that comes late sees %+v", late.end)
		}
	})
}

// TestAPartInJSON notices a field of a part that does not arrive.
func TestAPartInJSON(t *testing.T) {
	p := Part{Programs: []api.StepProgram{{Argv: []string{"x"}}}, Env: []string{"A=b"}, Nodes: []string{"a"},
		Counts: []int{2}, Share: choose.Share{Place: 1, Tasks: []int{0, 1}, Cores: []int{2}, GPUs: []int{1}, Memory: 5},
		CoresPerTask: 2, Exact: true, GPUsPerTask: 1, Terminal: &api.TerminalSize{Rows: 2, Columns: 3}}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Part
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, runsOn, "a")
	w, err := l.locals["a"].Worker(first)
	if err != nil {
		t.Fatal(err)
	}
	s, cores, err := back.step(w, first.OfStep(4))
	if err != nil || s.Number != 4 || s.Terminal == nil || s.Memory != 5 || len(cores) != 1 || cores[0] != 12 ||
		len(s.GPUs) != 1 || s.GPUs[0] != 5 || len(s.Programs) != 1 {
		t.Errorf("%+v on %v, %v", s, cores, err)
	}
	back.Share.GPUs = []int{2}
	if _, _, err := back.step(w, first.OfStep(4)); err == nil {
		t.Error("a GPU that the job has not")
	}
}
