package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/jobspec"
)

// routed is a request of a caller by the route with a method.
func (s *site) routed(method, path string, caller *identity.Caller, id, body string) *exchange {
	s.t.Helper()
	x := s.request(path, id, "", body)
	x.caller = caller
	for _, rt := range routes() {
		if rt.Path == path && rt.Method == method {
			x.rt = &rt
		}
	}
	return x
}

// TestNoChangeIsAcknowledgedByALogThatStopped: what every route that changes something says then.
func TestNoChangeIsAcknowledgedByALogThatStopped(t *testing.T) {
	s := newSite(t)
	s.Users = &identity.Users{}
	s.Lacking = func(context.Context, *state.View) ([]string, []string) { return nil, nil }
	admin, ann := named("adm", 5), named("ann", 7)
	prio := 7
	cfg := *s.Replica.View().Config()
	request, err := pki.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	made, err := createJoinToken(s.of(admin, ""), &api.JoinTokenRequest{Role: "node"})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := pki.ParseToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	x := s.of(ann, "")
	x.rt = &route{rule: with(forUsers, partTokens)}
	token, err := createToken(x, &api.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s.do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	g := generation.Generation{Number: 1, ID: "00000000000000aa"}
	one := api.ControlRequest{}
	spec := `{"jobs":[{"name":"j","groups":[{"name":"m","count":1,"tasks":[{"name":"m","command":["true"],` +
		`"resources":{"cores":1,"memory":1073741824}}]}]}]}`
	changes := map[string]func() error{
		"a token": func() error {
			x := s.of(ann, "")
			x.rt = &route{rule: with(forUsers, partTokens)}
			_, err := createToken(x, &api.TokenRequest{})
			return err
		},
		"the end of a token": func() error {
			x := s.of(ann, "")
			x.rt = &route{rule: with(forUsers, partTokens)}
			x.r.SetPathValue("id", token.ID)
			_, err := revokeToken(x)
			return err
		},
		"a configuration": func() error {
			_, err := setConfig(s.of(admin, ""), &api.ConfigRequest{Config: &cfg})
			return err
		},
		"an old configuration": func() error {
			_, err := rollBackConfig(s.of(admin, ""), &api.RollbackRequest{Version: 1})
			return err
		},
		"a dead node": func() error {
			_, err := confirmDead(s.of(admin, ""), &api.ConfirmDeadRequest{Nodes: []string{"n3"}})
			return err
		},
		"a drained node": func() error {
			_, err := setNode(model.NodeDrained)(s.of(admin, "n2"), &api.NodeRequest{Reason: "x"})
			return err
		},
		"a new node": func() error {
			_, err := register(s.of(nil, "n7"), &api.RegisterRequest{Node: model.Node{Name: "n7", BootID: "b", Cores: 1}})
			return err
		},
		"a switch": func() error {
			_, err := steer(s.of(admin, ""), &api.SchedRequest{What: "growth", On: true})
			return err
		},
		"a hold": func() error {
			_, err := control(model.VerbHold)(s.request("/v1/jobs/{id}/hold", fmt.Sprint(s.pending), "", ""), &one)
			return err
		},
		"a filter": func() error {
			_, err := cancelMany(s.request("/v1/jobs/cancel", "", "", ""), &api.CancelRequest{User: "ann"})
			return err
		},
		"an update": func() error {
			_, err := update(s.request("/v1/jobs/{id}/update", fmt.Sprint(s.pending), "", ""),
				&api.UpdateRequest{Priority: &prio})
			return err
		},
		"a job": func() error { _, err := submit(s.routed("POST", "/v1/jobs", ann, "", spec)); return err },
		"a join token": func() error {
			_, err := createJoinToken(s.of(admin, ""), &api.JoinTokenRequest{Role: "node"})
			return err
		},
		"a machine": func() error {
			_, err := join(s.of(nil, ""), &api.JoinRequest{Secret: secret.Secret(), Role: "node", Name: "n9",
				Request: string(request.PEM)})
			return err
		},
		"a revocation": func() error {
			x := s.of(admin, "n1")
			x.r.SetPathValue("role", "node")
			_, err := revoke(x)
			return err
		},
		"a key":        func() error { _, err := rotateGossipKey(s.of(admin, "")); return err },
		"an authority": func() error { _, err := replaceAuthority(s.of(admin, "")); return err },
		"a generation": func() error {
			_, err := acceptGeneration(s.of(nil, "n1"), &api.AcceptGeneration{BootID: "bn1", Generation: g.String()})
			return err
		},
		"a report": func() error {
			_, err := report(s.of(nil, "n1"), &api.ReportRequest{BootID: "bn1", Workers: []model.WorkerReport{{Job: s.gang,
				Attempt: 1, State: model.WorkerRunning}}})
			return err
		},
		"a lease":             func() error { _, err := allocs(s.node("n1")); return err },
		"a generation's name": func() error { _, err := getGeneration(s.of(nil, "n1")); return err },
		"a copy": func() error {
			x := s.of(nil, "n1")
			x.r.SetPathValue("id", "1.1.0")
			_, err := mayCopyCheckpoint(x)
			return err
		},
		"folders to drop": func() error {
			_, err := dropCheckpoints(s.of(nil, "n1"), &api.KeptCheckpoints{BootID: "bn1"})
			return err
		},
	}
	if err := s.Replica.Abort(); err != nil {
		t.Fatal(err)
	}
	for what, change := range changes {
		if err := change(); err == nil {
			t.Errorf("%s is acknowledged by a log that has stopped", what)
		}
	}
	if len(s.Replica.View().APITokens()) != 1 {
		t.Error("the state has changed")
	}
}

// node is a request of a node for its work that does not wait.
func (s *site) node(name string) *exchange {
	x := s.of(nil, name)
	x.query = map[string][]string{"boot_id": {"b" + name}}
	return x
}

// TestNothingIsDeniedByAHistoryThatIsClosed: an unreadable history is an error. It does not make a job unknown.
func TestNothingIsDeniedByAHistoryThatIsClosed(t *testing.T) {
	s := newSite(t)
	s.do(fsm.RegisterNode{Node: model.Node{Name: "n8", BootID: "bn8", Cores: 1, Memory: jobspec.GiB}})
	if err := s.History.Close(); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() error{
		"ended jobs":   func() error { _, err := endedJobs(s.request("/v1/history", "", "", "")); return err },
		"some of them": func() error { _, err := listHistory(s.request("/v1/history", "", "fields=id", "")); return err },
		"own entries":  func() error { _, err := internalAudit(s.request("/v1/audit", "", "", "")); return err },
		"all entries":  func() error { _, err := listAudit(s.request("/v1/audit", "", "", "")); return err },
	} {
		if err := read(); err == nil {
			t.Errorf("%s are read", what)
		}
	}
}

// TestHalfOfTheNodesAnswer: a signal that reached some workers, and an answer of a node that breaks off.
func TestHalfOfTheNodesAnswer(t *testing.T) {
	s := newSite(t)
	signal := func() error {
		_, err := signalJob(s.request("/v1/jobs/{id}/signal", fmt.Sprint(s.gang), "", ""),
			&api.SignalRequest{Signal: "SIGUSR1"})
		return err
	}
	for name, c := range map[string]struct {
		statuses [2]int // of the workers
		code     string
	}{"both": {[2]int{204, 204}, ""}, "the second has ended": {[2]int{204, 409}, ""},
		"the first has":    {[2]int{409, 204}, ""},
		"the second fails": {[2]int{204, 500}, api.CodeInternal}, "the first fails": {[2]int{500, 204}, api.CodeInternal},
		"one fails, and one has ended": {[2]int{409, 500}, api.CodeWrongState}} {
		s.answersOtherwise(func(w http.ResponseWriter, path string) bool {
			w.WriteHeader(c.statuses[int(path[len(path)-1]-'0')])
			return true
		})
		if err := signal(); codeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := func(w http.ResponseWriter, _ string) bool {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "the first part")
		return true
	}
	s.answersOtherwise(broken)
	x := s.request("/v1/jobs/{id}/logs", fmt.Sprint(s.gang), "", "")
	func() {
		defer func() {
			if p := recover(); p == nil || !errors.Is(p.(error), http.ErrAbortHandler) {
				t.Errorf("output that breaks off ends as if it were whole: %v", p)
			}
		}()
		_, _ = logs(x)
	}()
	if text := x.w.(*httptest.ResponseRecorder).Body.String(); text != "the first part" {
		t.Errorf("of it %q is passed on", text)
	}
	// A node's answer is read up to a bound of 16 MiB.
	long := func(size int) func(http.ResponseWriter, string) bool {
		return func(w http.ResponseWriter, _ string) bool {
			io.WriteString(w, `{"items":[]}`+strings.Repeat(" ", size-12))
			return true
		}
	}
	s.answersOtherwise(long(16<<20 + 1))
	x = s.request("/v1/jobs/{id}/steps", fmt.Sprint(s.steps), "", "")
	if _, err := jobSteps(x); err != nil || x.w.(*httptest.ResponseRecorder).Body.Len() != 16<<20 {
		t.Errorf("of 16 MiB and a byte %d bytes are passed on, %v", x.w.(*httptest.ResponseRecorder).Body.Len(), err)
	}
	s.answersOtherwise(func(w http.ResponseWriter, _ string) bool {
		io.WriteString(w, strings.Repeat(" ", 16<<20-1)+"{}")
		return true
	})
	y := s.request("/v1/nodes/{name}/kept", "", "", "")
	y.r.SetPathValue("name", "n1")
	if _, err := listKept(y); err == nil {
		t.Error("folders behind the bound are read")
	}
	s.answersOtherwise(func(w http.ResponseWriter, _ string) bool {
		io.WriteString(w, strings.Repeat(" ", 16<<20-2)+"{}")
		return true
	})
	if _, err := listKept(y); err != nil {
		t.Errorf("folders within the bound: %v", err)
	}
}

// TestOutputOfALaterAttempt follows a job from attempt to attempt, and ends with it.
func TestOutputOfALaterAttempt(t *testing.T) {
	s := newSite(t)
	id := s.submit(nil)
	asked := make(chan string, 4)
	s.answersOtherwise(func(w http.ResponseWriter, path string) bool {
		io.WriteString(w, "output of "+path+"\n")
		asked <- path
		return true
	})
	x := s.request("/v1/jobs/{id}/logs", fmt.Sprint(id), "follow=true&tail=5", "")
	ended := make(chan error, 1)
	go func() { _, err := logs(x); ended <- err }()
	s.begin(id, "n1")
	want := ""
	for attempt := 1; attempt <= 2; attempt++ {
		select {
		case path := <-asked:
			want += "output of " + path + "\n"
			if path != fmt.Sprintf("/v1/logs/%d.%d.0", id, attempt) {
				t.Errorf("attempt %d is asked for by %s", attempt, path)
			}
		case <-time.After(patience):
			t.Fatalf("attempt %d is not followed", attempt)
		}
		if attempt == 1 {
			s.do(fsm.ControlJobs{Verb: model.VerbRequeue, Targets: []fsm.Target{{ID: id}}, By: 7})
			s.all(id, model.WorkerExited)
			s.do(fsm.ControlJobs{Verb: model.VerbRelease, Targets: []fsm.Target{{ID: id}}, By: 7, Admin: true})
			s.begin(id, "n1")
		}
	}
	s.all(id, model.WorkerExited)
	select {
	case err := <-ended:
		if text := x.w.(*httptest.ResponseRecorder).Body.String(); err != nil || text != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	case <-time.After(patience):
		t.Fatal("it follows a job that has ended")
	}
	gone, end := context.WithCancel(t.Context())
	end()
	y := s.request("/v1/jobs/{id}/logs", fmt.Sprint(s.pending), "", "")
	y.r = y.r.WithContext(gone)
	if a, err := y.nextAttempt(s.pending, 0); a != nil || err == nil {
		t.Errorf("for a client that has left: %v, %v", a, err)
	}
	s.alive = gone
	if a, err := x.nextAttempt(s.pending, 0); a != nil || err == nil {
		t.Errorf("after the end of the daemon: %v, %v", a, err)
	}
	if a, err := x.nextAttempt(777, 0); a != nil || err != nil {
		t.Errorf("of a job that has left the state: %v, %v", a, err)
	}
}

// TestWhatAReportLeaves: rows that are taken, rows that are refused, and samples of the attempt that runs.
func TestWhatAReportLeaves(t *testing.T) {
	s := newSite(t)
	s.Arrays = &earlystop.Arrays{}
	rows := []model.WorkerReport{{Job: s.gang, Attempt: 1, Worker: 0, State: model.WorkerRunning},
		{Job: s.gang, Attempt: 1, Worker: 9, State: model.WorkerRunning}}
	sample := func(id model.JobID, attempt int, step int64) api.Sample {
		return api.Sample{Job: id, Attempt: attempt, Step: step, Saved: 4, Metrics: map[string]float64{"loss": 2.5},
			Problem: "p"}
	}
	resp, err := report(s.of(nil, "n1"), &api.ReportRequest{BootID: "bn1", Workers: rows,
		Samples: []api.Sample{sample(s.gang, 1, 7), sample(s.steps, 2, 8), sample(777, 1, 9)}})
	if err != nil || resp.Index != s.Replica.View().Index() || len(resp.Refused) > 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if p := s.Samples.Of(s.gang); p.Attempt != 1 || p.Step != 7 || p.Saved != 4 || p.Metrics["loss"] != 2.5 ||
		p.Problem != "p" {
		t.Errorf("the sample of the attempt that runs: %+v", p)
	}
	for _, id := range []model.JobID{s.steps, 777} {
		if p := s.Samples.Of(id); p.Step != 0 {
			t.Errorf("a sample of another attempt of job %d is kept: %+v", id, p)
		}
	}
	before := s.Replica.View().Index()
	resp, err = report(s.of(nil, "n1"), &api.ReportRequest{BootID: "bn1", Samples: []api.Sample{sample(s.gang, 1, 9)}})
	if err != nil || s.Replica.View().Index() != before || resp.Index != before || s.Samples.Of(s.gang).Step != 9 {
		t.Errorf("samples alone: %+v, %v, the log at %d", resp, err, s.Replica.View().Index())
	}
	for name, n := range map[string]int{"as many": 20_000, "one more": 20_001} {
		for what, req := range map[string]*api.ReportRequest{"workers": {Workers: make([]model.WorkerReport, n)},
			"samples": {Samples: make([]api.Sample, n)}, "steps": {Steps: make([]model.StepReport, n)}} {
			req.BootID = "another" // so that it is refused after its length
			if _, err := report(s.of(nil, "n1"), req); (codeOf(err) == api.CodeInvalid) != (n > 20_000) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
	got, err := allocs(s.node("n1"))
	v := s.Replica.View()
	if err != nil || got.Index != v.Index() || got.LeaseMS != v.Config().LeaseMS || got.LeaseMS == 0 ||
		got.Generation != "0" || len(got.Allocs) != 5 || got.Now == 0 || got.Sent == "" {
		t.Errorf("%+v, %v", got, err)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	x := s.node("n1")
	x.query["wait"], x.query["after"] = []string{"30s"}, []string{fmt.Sprint(v.NodeModified("n1"))}
	x.r = x.r.WithContext(gone)
	if err := x.awaitNode("n1"); err == nil {
		t.Error("a node that has left is answered")
	}
	s.do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	if err := x.awaitUp("n3"); err == nil || codeOf(err) == api.CodeNoLeader {
		t.Errorf("a node that has left, and is down: %v", err)
	}
}

// TestGPUsOfHiddenJobs are shown as held, and not by which job.
func TestGPUsOfHiddenJobs(t *testing.T) {
	s := newSite(t)
	s.do(fsm.RegisterNode{Node: model.Node{Name: "g", Addr: "127.0.0.1:1", BootID: "bg", Cores: 8, Memory: 8 * jobspec.GiB,
		GPUs: []model.GPU{{UUID: "a", Memory: jobspec.GiB, Healthy: true}, {UUID: "b", Memory: jobspec.GiB, Healthy: true}}}})
	id := s.submit(func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.GPUs = 1 })
	if errs := s.do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id, Places: []model.Place{{Node: "g",
		GPUs: []int{1}}}}}}).([]error); errs[0] != nil {
		t.Fatal(errs)
	}
	s.private(cluster.PrivateJobs)
	n, at := s.Replica.View().Node("g")
	for user, c := range map[*identity.Caller]model.JobID{named("ann", 7): id, named("bob", 8): 0} {
		x := s.routed("GET", "/v1/nodes", user, "", "")
		got := x.presentNode(n, at)
		if got.GPUs[0].Job != 0 || got.GPUs[1].Job != c || got.GPUsUsed != 1 || (len(got.Jobs) == 1) != (c != 0) {
			t.Errorf("%s sees GPUs %+v of jobs %v", user.User.User, got.GPUs, got.Jobs)
		}
	}
}

// TestWhatASubmissionAnswers: ids, the same ids for the same key, and what the audit log has of it.
func TestWhatASubmissionAnswers(t *testing.T) {
	s := newSite(t)
	s.Users = &identity.Users{}
	cfg := *s.Replica.View().Config()
	cfg.Accounts = map[string]cluster.Account{"physics": {Users: map[string]cluster.Terms{"ann": {}, "daemon": {}}}}
	s.do(fsm.SetConfig{Config: cfg})
	spec := &jobspec.Job{Name: "sub", Account: "physics", Hold: true, Groups: []jobspec.Group{{Name: "m", Count: 1,
		Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1,
			Memory: jobspec.GiB}}}}}}
	body, err := json.Marshal(map[string]any{"jobs": []*jobspec.Job{spec, spec}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(key, body string) (*api.SubmitResponse, *exchange, error) {
		x := s.routed("POST", "/v1/jobs", named("ann", 7), "", body)
		if key != "" {
			x.r.Header.Set(api.HeaderIdempotencyKey, key)
		}
		resp, err := submit(x)
		return resp, x, err
	}
	first, x, err := send("k", string(body))
	if err != nil || len(first.IDs) != 2 || first.RunAs != "" || x.about.account != "physics" ||
		x.about.jobs.String() != fmt.Sprintf("%d-%d", first.IDs[0], first.IDs[1]) {
		t.Fatalf("%+v, %v, about %+v", first, err, x.about)
	}
	again, _, err := send("k", string(body))
	if err != nil || !slices.Equal(again.IDs, first.IDs) {
		t.Errorf("the same key: %+v, %v", again, err)
	}
	if other, _, err := send("", string(body)); err != nil || slices.Equal(other.IDs, first.IDs) {
		t.Errorf("without a key: %+v, %v", other, err)
	}
	if _, _, err := send("k", strings.Replace(string(body), "sub", "sob", 1)); codeOf(err) != api.CodeKeyReused {
		t.Errorf("another body under the key: %v", err)
	}
	for _, bad := range []string{`{"jobs":[]}`, `{"job":1}`, `{`} {
		if _, _, err := send("", bad); err == nil {
			t.Errorf("%s is submitted", bad)
		}
	}
	s.RootJobsAs = "daemon"
	y := s.routed("POST", "/v1/jobs", named("root", 0), "", strings.Replace(string(body), `"hold":true`,
		`"hold":true,"export_env":{"HOME":"/root","USER":"root","LOGNAME":"root","LANG":"C"}`, 2))
	resp, err := submit(y)
	if err != nil {
		t.Fatal(err)
	}
	j := s.Replica.View().Job(resp.IDs[0])
	if env := j.FullSpec().ExportEnv; resp.RunAs != "daemon" || j.Owner.User != "daemon" || len(env) != 1 ||
		env["LANG"] != "C" {
		t.Errorf("jobs of root: %+v, of %s, with %v", resp, j.Owner.User, env)
	}
}

// TestRefusalsThatAreNotExplained stay as they are: of several jobs, and for another reason than their state.
func TestRefusalsThatAreNotExplained(t *testing.T) {
	s := newSite(t)
	denied := &api.Problem{Status: 403, Code: api.CodeDenied, Detail: "denied"}
	missing := &api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "missing"}
	wrong := &api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "wrong"}
	for _, c := range []struct {
		id   string
		p    *api.Problem
		verb model.Verb
		want string
	}{
		{fmt.Sprint(s.ended), denied, model.VerbHold, "denied"},
		{fmt.Sprint(s.ended), wrong, model.VerbHold, "has ended: it is CANCELLED"},
		{fmt.Sprint(s.ended), missing, model.VerbHold, "has ended: it is CANCELLED"},
		{fmt.Sprint(s.gang), wrong, model.VerbHold, "only jobs that wait can be held"},
		{fmt.Sprint(s.gang), wrong, model.VerbCancel, "wrong"},
		{fmt.Sprintf("%d_[5-6]", s.array), wrong, model.VerbHold, "wrong"},
		{fmt.Sprintf("%d_[5-6]", s.array), missing, model.VerbHold, "missing"},
		{fmt.Sprintf("%d_5", s.array), missing, model.VerbHold, "has not begun"},
	} {
		x := s.request("/v1/jobs/{id}/hold", c.id, "", "")
		r, err := x.jobRef()
		if err != nil {
			t.Fatal(err)
		}
		if err := x.explainRefusal(c.p, r, c.verb); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of job %s, %q: %v, want %q", c.verb, c.id, c.p.Detail, err, c.want)
		}
	}
}
