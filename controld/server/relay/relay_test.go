package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestRequestsThatNodesAnswer goes through what is passed on to the node of a worker, and what is not.
func TestRequestsThatNodesAnswer(t *testing.T) {
	s := newSite(t)
	t.Run("streams", s.testStreams)
	t.Run("logs", s.testLogs)
	t.Run("usage", s.testUsage)
	t.Run("steps", s.testSteps)
	t.Run("signals", s.testSignals)
	t.Run("kept folders", s.testKept)
	s.Peers = &peers.Peers{}
	s.Replica.StopLeading() // what may be newer on the leader is passed on to it
	for id, code := range map[model.JobID]string{s.Ended: api.CodeWrongState, s.Pending: api.CodeNoLeader,
		s.Array: api.CodeInvalid} {
		x := s.Request("/v1/jobs/{id}/steps", fmt.Sprint(id), "", "")
		if _, err := s.jobSteps(x); servertest.CodeOf(err) != code {
			t.Errorf("the steps of job %d, asked of a follower: %v, want %s", id, err, code)
		}
		x = s.Request("/v1/jobs/{id}/exec", fmt.Sprint(id), "", "{}")
		api.RequestStream(x.Request)
		if _, err := s.execJob(x); servertest.CodeOf(err) != code {
			t.Errorf("a process in job %d, asked of a follower: %v, want %s", id, err, code)
		}
		x.Request.Header.Set(exchange.HeaderForwarded, "c2")
		if _, err := s.execJob(x); servertest.CodeOf(err) == api.CodeNoLeader {
			t.Errorf("job %d: what was passed on is passed on again", id)
		}
	}
}

func (s *site) testStreams(t *testing.T) {
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
		"a process": {"exec", s.Gang, api.ExecRequest{Worker: 1, Argv: []string{"x"}}, false, 409,
			api.CodeWrongState, ".1.1"},
		"a shell":              {"exec", s.Gang, api.ExecRequest{}, false, 500, api.CodeInternal, ".1.0"},
		"no name of a program": {"exec", s.Gang, api.ExecRequest{Argv: []string{"", "x"}}, false, 409, api.CodeInvalid, ""},
		"an empty argument": {"exec", s.Gang, api.ExecRequest{Argv: []string{"x", ""}}, false, 409, api.CodeWrongState,
			".1.0"},
		"worker -1":          {"exec", s.Gang, api.ExecRequest{Worker: -1}, false, 409, api.CodeNotFound, ""},
		"worker 2 of 2":      {"exec", s.Gang, api.ExecRequest{Worker: 2}, false, 409, api.CodeNotFound, ""},
		"no stream":          {"exec", s.Gang, api.ExecRequest{}, true, 409, api.CodeInvalid, ""},
		"one that waits":     {"exec", s.Pending, api.ExecRequest{}, false, 409, api.CodeWrongState, ""},
		"one that has ended": {"exec", s.Ended, api.ExecRequest{}, false, 409, api.CodeWrongState, ""},
		"one that leaves":    {"exec", s.Leaving, api.ExecRequest{}, false, 409, api.CodeWrongState, ""},
		"an array":           {"exec", s.Array, api.ExecRequest{}, false, 409, api.CodeInvalid, ""},
		"its terminal":       {"attach", s.Leaving, api.AttachRequest{}, false, 500, api.CodeInternal, ".1.0"},
		"from the beginning": {"attach", s.Gang, api.AttachRequest{From: new(int64)}, false, 500, api.CodeInternal,
			".1.0"},
		"from before that":      {"attach", s.Gang, api.AttachRequest{From: &minus}, false, 500, api.CodeInvalid, ""},
		"a terminal that waits": {"attach", s.Pending, api.AttachRequest{}, false, 500, api.CodeWrongState, ""},
	} {
		s.Answers(c.status, `{"detail":"the node says"}`)
		body, _ := json.Marshal(c.body)
		x := s.Request("/v1/jobs/{id}/"+c.verb, fmt.Sprint(c.id), "", string(body))
		if !c.plain {
			api.RequestStream(x.Request)
		}
		_, err := x.Route.Handle(x)
		heard := strings.Join(s.Heard(), "")
		want := ""
		if c.asked != "" {
			want = fmt.Sprintf("POST /v1/%s/%d%s %s", c.verb, c.id, c.asked, body)
		}
		if servertest.CodeOf(err) != c.code || heard != want || want != "" && !strings.Contains(err.Error(),
			"the node says") {
			t.Errorf("%s: %v, the node heard %q, want %q", name, err, heard, want)
		}
	}
}

func (s *site) testLogs(t *testing.T) {
	for name, c := range map[string]struct {
		id     model.JobID
		query  string
		status int
		code   string
		asked  string
	}{
		"output": {s.Gang, "", 200, "", ".1.0?follow=false&stream=stdout"},
		"of a worker": {s.Gang, "worker=1&stream=both&tail=5&task=main", 200, "",
			".1.1?follow=false&stream=both&tail=5&task=main"},
		"of an attempt":         {s.Gang, "attempt=1&stream=stderr", 200, "", ".1.0?follow=false&stream=stderr"},
		"followed, one attempt": {s.Gang, "attempt=1&follow=true", 200, "", ".1.0?follow=true&stream=stdout"},
		"an odd stream":         {s.Gang, "stream=out", 200, api.CodeInvalid, ""},
		"an odd task":           {s.Gang, "task=x", 200, api.CodeNotFound, ""},
		"worker 2 of 2":         {s.Gang, "worker=2", 200, api.CodeNotFound, ""},
		"attempt 2 of 1":        {s.Gang, "attempt=2", 200, api.CodeNotFound, ""},
		"one that waits":        {s.Pending, "", 200, api.CodeWrongState, ""},
		"one that never ran":    {s.Ended, "", 200, api.CodeWrongState, ""},
		"an array":              {s.Array, "", 200, api.CodeInvalid, ""},
		"the node has none":     {s.Gang, "", 404, api.CodeNotFound, ".1.0?follow=false&stream=stdout"},
		"the node fails":        {s.Gang, "", 500, api.CodeInternal, ".1.0?follow=false&stream=stdout"},
	} {
		s.Answers(c.status, "all that it said")
		x := s.Request("/v1/jobs/{id}/logs", fmt.Sprint(c.id), c.query, "")
		_, err := x.Route.Handle(x)
		want := ""
		if c.asked != "" {
			want = fmt.Sprintf("GET /v1/logs/%d%s ", c.id, c.asked)
		}
		if heard := strings.Join(s.Heard(), ""); servertest.CodeOf(err) != c.code || heard != want {
			t.Errorf("%s: %v, the node heard %q, want %q", name, err, heard, want)
		}
		w := x.Writer.(*httptest.ResponseRecorder)
		if x.Sent != (c.code == "") || x.Sent && (w.Body.String() != "all that it said" ||
			w.Header().Get("Content-Type") != "application/octet-stream") {
			t.Errorf("%s: sent %t, %q", name, x.Sent, w.Body)
		}
	}
	if got := refusalText("500 x", []byte(`{"detail":""}`)); got != `500 x: {"detail":""}` {
		t.Errorf("a refusal without a detail: %q", got)
	}
	pipeline := &model.Job{ID: 9, Spec: &jobspec.Job{Groups: []jobspec.Group{{Name: "first"}}}}
	if a, b := memberName(s.Replica.View().Job(s.Array)), memberName(pipeline); a != fmt.Sprintf("%d_5", s.Array) ||
		b != "9.first" {
		t.Errorf("members are called %s and %s", a, b)
	}
}

func (s *site) testUsage(t *testing.T) {
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
		return s.getUsage(s.Request("/v1/jobs/{id}/usage", fmt.Sprint(id), query, ""))
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
		s.Answers(c.status, c.body)
		out, err := ask(s.Gang, "")
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
	if out, err := ask(s.Pending, ""); err != nil || len(out.Workers) != 0 || out.Live {
		t.Errorf("one that waits: %+v, %v", out, err)
	}
	if _, err := ask(s.Gang, "attempt=2"); servertest.CodeOf(err) != api.CodeNotFound {
		t.Errorf("attempt 2 of 1: %v", err)
	}
	if out, err := ask(s.Gang, "attempt=1"); err != nil || out.Attempt != 1 {
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

func (s *site) testSteps(t *testing.T) {
	for name, c := range map[string]struct {
		id     model.JobID
		path   string
		step   string
		status int
		code   string
		asked  string
	}{
		"all":                {s.Steps, "", "", 200, "", ""},
		"a step":             {s.Steps, "/{step}/signal", "7", 200, "", "/7/signal"},
		"step 0":             {s.Steps, "/{step}/signal", "0", 200, "", "/0/signal"},
		"step -1":            {s.Steps, "/{step}/signal", "-1", 200, api.CodeInvalid, "-"},
		"a name":             {s.Steps, "/{step}/signal", "x", 200, api.CodeInvalid, "-"},
		"one that waits":     {s.Pending, "", "", 200, api.CodeWrongState, "-"},
		"one that has ended": {s.Ended, "", "", 200, api.CodeWrongState, "-"},
		"an array":           {s.Array, "", "", 200, api.CodeInvalid, "-"},
		"without steps":      {s.Gang, "", "", 200, api.CodeWrongState, "-"},
		"refused":            {s.Steps, "", "", 409, api.CodeWrongState, ""},
		"refused oddly":      {s.Steps, "", "", 400, api.CodeInternal, ""},
	} {
		body := "the list"
		if c.status == 409 {
			body = `{"status":409,"code":"wrong_state","detail":"the node says"}`
		}
		s.Answers(c.status, body)
		x := s.Request("/v1/jobs/{id}/steps", fmt.Sprint(c.id), "", "")
		rt := *x.Route
		x.Route = &rt
		x.Route.Path = "/v1/jobs/{id}/steps" + c.path
		x.Request.SetPathValue("step", c.step)
		_, err := s.jobSteps(x)
		want := ""
		if c.asked != "-" {
			want = fmt.Sprintf("%s /v1/job-steps/%d.1.0%s ", x.Request.Method, c.id, c.asked)
		}
		code := servertest.CodeOf(err)
		if c.status == 409 && err != nil && strings.Contains(err.Error(), "the node says") {
			code = api.CodeWrongState
		}
		if heard := strings.Join(s.Heard(), ""); code != c.code || heard != want {
			t.Errorf("%s: %v, the node heard %q, want %q", name, err, heard, want)
		}
		if w := x.Writer.(*httptest.ResponseRecorder); x.Sent != (c.code == "") || x.Sent && w.Body.String() != "the list" {
			t.Errorf("%s: sent %t, %q", name, x.Sent, w.Body)
		}
	}
}

func (s *site) testSignals(t *testing.T) {
	for id, want := range map[string]string{fmt.Sprint(s.Pending): "is PENDING", fmt.Sprint(s.Ended): "is CANCELLED",
		fmt.Sprint(s.Array): "has no running processes to signal", fmt.Sprintf("%d_[5-6]",
			s.Array): "has no running processes to signal"} {
		_, err := s.SignalJob(s.Request("/v1/jobs/{id}/signal", id, "", ""), &api.SignalRequest{Signal: "SIGUSR1"})
		if servertest.CodeOf(err) != api.CodeWrongState || !strings.Contains(err.Error(), want) {
			t.Errorf("a signal to job %s: %v, want %q", id, err, want)
		}
	}
	for name, c := range map[string]struct {
		id       model.JobID
		sig, to  string
		status   int
		code     string
		requests int
	}{
		"to all":              {s.Gang, "SIGUSR1", "", 204, "", 2},
		"to the script":       {s.Gang, "SIGUSR1", jobspec.SignalScript, 204, "", 2},
		"of a steps job":      {s.Steps, "SIGUSR1", jobspec.SignalScript, 204, "", 1},
		"to its programs":     {s.Steps, "SIGUSR1", jobspec.SignalPrograms, 204, "", 2},
		"to something else":   {s.Gang, "SIGUSR1", "x", 204, api.CodeInvalid, 0},
		"no signal":           {s.Gang, "SIGKILL", "", 204, api.CodeInvalid, 0},
		"one that waits":      {s.Pending, "SIGUSR1", "", 204, api.CodeWrongState, 0},
		"an array that waits": {s.Array, "SIGUSR1", "", 204, api.CodeWrongState, 0},
		"nothing runs there":  {s.Gang, "SIGUSR1", "", 409, api.CodeWrongState, 2},
		"the node fails":      {s.Gang, "SIGUSR1", "", 500, api.CodeInternal, 2},
		"another good answer": {s.Gang, "SIGUSR1", "", 200, api.CodeInternal, 2},
		"unknown job":         {99_999, "SIGUSR1", "", 204, api.CodeNotFound, 0},
	} {
		s.Answers(c.status, "")
		x := s.Request("/v1/jobs/{id}/signal", fmt.Sprint(c.id), "", "")
		resp, err := s.SignalJob(x, &api.SignalRequest{Signal: c.sig, To: c.to})
		if servertest.CodeOf(err) != c.code || len(s.Heard()) != c.requests || c.code == "" && (len(resp.Items) != 1 ||
			resp.Items[0].ID != c.id || resp.Items[0].Error != nil) {
			t.Errorf("%s: %+v, %v, %q", name, resp, err, s.Heard())
		}
	}
}

func (s *site) testKept(t *testing.T) {
	many := make([]string, maxFolders+1)
	for name, c := range map[string]struct {
		node   string
		ids    []string
		status int
		body   string
		code   string
		asked  int
	}{
		"one":         {"n1", []string{"1.1.0"}, 200, `{"items":[{"id":"1.1.0"}]}`, "", 1},
		"as many":     {"n1", many[:maxFolders], 200, `{"items":[]}`, "", 1},
		"too many":    {"n1", many, 200, `{}`, api.CodeInvalid, 0},
		"none":        {"n1", nil, 200, `{}`, api.CodeInvalid, 0},
		"no node":     {"n9", []string{"1.1.0"}, 200, `{}`, api.CodeNotFound, 0},
		"no address":  {"n3", []string{"1.1.0"}, 200, `{}`, api.CodeInternal, 0},
		"another one": {"n2", []string{"1.1.0"}, 200, `{}`, api.CodeInternal, 1},
		"it fails":    {"n1", []string{"1.1.0"}, 500, `{"detail":"the node says"}`, api.CodeInternal, 1},
		"no content":  {"n1", []string{"1.1.0"}, 204, ``, api.CodeInternal, 1},
		"no JSON":     {"n1", []string{"1.1.0"}, 200, `x`, api.CodeInternal, 1},
	} {
		s.Answers(c.status, c.body)
		x := s.Request("/v1/nodes/{name}/kept/drop", "", "", "")
		x.Request.SetPathValue("name", c.node)
		out, err := s.dropKept(x, &api.DropFolders{IDs: c.ids})
		if servertest.CodeOf(err) != c.code || len(s.Heard()) != c.asked || (out == nil) != (c.code != "") {
			t.Errorf("%s: %+v, %v, the node heard %d", name, out, err, len(s.Heard()))
		}
	}
	s.Answers(200, `{"items":[{"id":"1.1.0"}]}`)
	x := s.Request("/v1/nodes/{name}/kept", "", "", "")
	x.Request.SetPathValue("name", "n1")
	if out, err := s.listKept(x); err != nil || len(out.Items) != 1 || s.Heard()[0] != "GET "+api.KeptPath+" null" {
		t.Errorf("%+v, %v, %q", out, err, s.Heard())
	}
}

// TestHalfOfTheNodesAnswer: a signal that reached some workers, and an answer of a node that breaks off.
func TestHalfOfTheNodesAnswer(t *testing.T) {
	s := newSite(t)
	signal := func() error {
		_, err := s.SignalJob(s.Request("/v1/jobs/{id}/signal", fmt.Sprint(s.Gang), "", ""),
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
		s.AnswersOtherwise(func(w http.ResponseWriter, path string) bool {
			w.WriteHeader(c.statuses[int(path[len(path)-1]-'0')])
			return true
		})
		if err := signal(); servertest.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := func(w http.ResponseWriter, _ string) bool {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "the first part")
		return true
	}
	s.AnswersOtherwise(broken)
	x := s.Request("/v1/jobs/{id}/logs", fmt.Sprint(s.Gang), "", "")
	func() {
		defer func() {
			if p := recover(); p == nil || !errors.Is(p.(error), http.ErrAbortHandler) {
				t.Errorf("output that breaks off ends as if it were whole: %v", p)
			}
		}()
		_, _ = s.logs(x)
	}()
	if text := x.Writer.(*httptest.ResponseRecorder).Body.String(); text != "the first part" {
		t.Errorf("of it %q is passed on", text)
	}
	// A node's answer is read up to a bound of 16 MiB.
	long := func(size int) func(http.ResponseWriter, string) bool {
		return func(w http.ResponseWriter, _ string) bool {
			io.WriteString(w, `{"items":[]}`+strings.Repeat(" ", size-12))
			return true
		}
	}
	s.AnswersOtherwise(long(16<<20 + 1))
	x = s.Request("/v1/jobs/{id}/steps", fmt.Sprint(s.Steps), "", "")
	if _, err := s.jobSteps(x); err != nil || x.Writer.(*httptest.ResponseRecorder).Body.Len() != 16<<20 {
		t.Errorf("of 16 MiB and a byte %d bytes are passed on, %v", x.Writer.(*httptest.ResponseRecorder).Body.Len(), err)
	}
	s.AnswersOtherwise(func(w http.ResponseWriter, _ string) bool {
		io.WriteString(w, strings.Repeat(" ", 16<<20-1)+"{}")
		return true
	})
	y := s.Request("/v1/nodes/{name}/kept", "", "", "")
	y.Request.SetPathValue("name", "n1")
	if _, err := s.listKept(y); err == nil {
		t.Error("folders behind the bound are read")
	}
	s.AnswersOtherwise(func(w http.ResponseWriter, _ string) bool {
		io.WriteString(w, strings.Repeat(" ", 16<<20-2)+"{}")
		return true
	})
	if _, err := s.listKept(y); err != nil {
		t.Errorf("folders within the bound: %v", err)
	}
}

// TestOutputOfALaterAttempt follows a job from attempt to attempt, and ends with it.
func TestOutputOfALaterAttempt(t *testing.T) {
	s := newSite(t)
	id := s.Submit(nil)
	asked := make(chan string, 4)
	s.AnswersOtherwise(func(w http.ResponseWriter, path string) bool {
		io.WriteString(w, "output of "+path+"\n")
		asked <- path
		return true
	})
	x := s.Request("/v1/jobs/{id}/logs", fmt.Sprint(id), "follow=true&tail=5", "")
	ended := make(chan error, 1)
	go func() { _, err := s.logs(x); ended <- err }()
	s.Begin(id, "n1")
	want := ""
	for attempt := 1; attempt <= 2; attempt++ {
		select {
		case path := <-asked:
			want += "output of " + path + "\n"
			if path != fmt.Sprintf("/v1/logs/%d.%d.0", id, attempt) {
				t.Errorf("attempt %d is asked for by %s", attempt, path)
			}
		case <-time.After(servertest.Patience):
			t.Fatalf("attempt %d is not followed", attempt)
		}
		if attempt == 1 {
			s.Do(fsm.ControlJobs{Verb: model.VerbRequeue, Targets: []fsm.Target{{ID: id}}, By: 7})
			s.All(id, model.WorkerExited)
			s.Do(fsm.ControlJobs{Verb: model.VerbRelease, Targets: []fsm.Target{{ID: id}}, By: 7, Admin: true})
			s.Begin(id, "n1")
		}
	}
	s.All(id, model.WorkerExited)
	select {
	case err := <-ended:
		if text := x.Writer.(*httptest.ResponseRecorder).Body.String(); err != nil || text != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
	case <-time.After(servertest.Patience):
		t.Fatal("it follows a job that has ended")
	}
	gone, end := context.WithCancel(t.Context())
	end()
	y := s.Request("/v1/jobs/{id}/logs", fmt.Sprint(s.Pending), "", "")
	y.Request = y.Request.WithContext(gone)
	if a, err := s.nextAttempt(y, s.Pending, 0); a != nil || err == nil {
		t.Errorf("for a client that has left: %v, %v", a, err)
	}
	s.Alive = gone
	if a, err := s.nextAttempt(x, s.Pending, 0); a != nil || err == nil {
		t.Errorf("after the end of the daemon: %v, %v", a, err)
	}
	if a, err := s.nextAttempt(x, 777, 0); a != nil || err != nil {
		t.Errorf("of a job that has left the state: %v, %v", a, err)
	}
}

// TestWhichAttemptIsFirst: the last one, unless the job waits for another and that is to be followed.
func TestWhichAttemptIsFirst(t *testing.T) {
	s := small(t)
	gone, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		state    model.JobState
		attempts int
		follow   bool
		want     int // number of the attempt; 0: it is waited for, or refused
	}{{model.Running, 2, false, 2}, {model.Running, 2, true, 2}, {model.Pending, 2, false, 2}, {model.Pending, 2, true, 0},
		{model.Pending, 0, true, 0}, {model.Pending, 0, false, 0}, {model.Completed, 2, true, 2},
		{model.Completed, 0, true, 0}} {
		x := s.Of(servertest.Named("ann", 7), "")
		x.Request = x.Request.WithContext(gone)
		j := &model.Job{ID: s.SubmitAt("j"), State: c.state, Attempt: c.attempts}
		for n := range c.attempts {
			j.Attempts = append(j.Attempts, model.Attempt{N: n + 1})
		}
		a, err := s.firstAttempt(x, j, &logRequest{follow: c.follow})
		if (a != nil) != (c.want > 0) || a != nil && a.N != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %+v, %v", c, a, err)
		}
	}
}

// TestAStreamThroughAController passes on both ways, and ends with either side and with the daemon.
func TestAStreamThroughAController(t *testing.T) {
	s := newSite(t)
	alive, stop := context.WithCancel(t.Context())
	s.Alive = alive
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := s.Request("/v1/jobs/{id}/exec", fmt.Sprint(s.Gang), "", "")
		x.Writer = w
		r.SetPathValue("id", fmt.Sprint(s.Gang))
		x.Request = r
		if _, err := x.Route.Handle(x); err != nil && !x.Sent {
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, err.Error())
		}
	}))
	t.Cleanup(front.Close)
	s.Answers(http.StatusSwitchingProtocols, "")
	begin := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(servertest.Patience))
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: rota-stream\r\n"+
			"Content-Length: 2\r\n\r\n{}")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get(api.HeaderIndex) == "" {
			t.Fatalf("%+v, %v", resp, err)
		}
		return c, r
	}
	say := func(c net.Conn, r *bufio.Reader, text string) {
		t.Helper()
		fmt.Fprintln(c, text)
		if got, err := r.ReadString('\n'); err != nil || got != "node heard "+text+"\n" {
			t.Errorf("%q came back, %v", got, err)
		}
	}
	c, r := begin()
	say(c, r, "hello")
	if got, _ := s.Audit.Take(); len(got) != 1 || got[0].Status != 200 {
		t.Errorf("while the stream goes on the audit log has %+v", got)
	}
	fmt.Fprintln(c, "end")
	if text, err := io.ReadAll(r); err != nil || len(text) > 0 {
		t.Errorf("after the node has ended it: %q, %v", text, err)
	}
	c, r = begin()
	say(c, r, "again")
	stop()
	if text, err := io.ReadAll(r); err != nil || len(text) > 0 {
		t.Errorf("after the daemon has ended: %q, %v", text, err)
	}
}

// TestAttemptsByNumber finds those that are still known.
func TestAttemptsByNumber(t *testing.T) {
	attempts := []model.Attempt{{N: 2}, {N: 3}}
	for n, want := range map[int]bool{1: false, 2: true, 3: true, 4: false} {
		if a := attemptOf(&model.Job{Attempts: attempts}, n); (a != nil) != want || a != nil && a.N != n {
			t.Errorf("attempt %d: %+v", n, a)
		}
	}
}
