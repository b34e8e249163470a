package noded

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/controllers"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
)

// jobWorld has the sockets of jobs of node n1, before a controller that answers with the headers that
// vouch.
type jobWorld struct {
	t       *testing.T
	dir     string
	control *controllers.Controllers
	of      func(pid int) (container.ID, bool)
	api     *jobAPI
	url     string // that is asked for; "": a job is cancelled
}

func newJobWorld(t *testing.T, own container.ID) *jobWorld {
	t.Helper()
	cluster := pkitest.New(t)
	controller := serving(t, cluster.First(), func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Rota-Uid")+" in job "+r.Header.Get("Rota-Job"))
		if strings.Contains(r.URL.Path, "steps") {
			io.WriteString(w, ": "+r.URL.Path)
		}
	})
	w := &jobWorld{t: t, dir: t.TempDir(), control: &controllers.Controllers{Credential: cluster.Member(pki.Node, "n1"),
		Static: []string{controller}, Log: slog.New(slog.DiscardHandler)}}
	if err := w.control.SetPeers(nil); err != nil {
		t.Fatal(err)
	}
	w.of = func(pid int) (container.ID, bool) { return own, pid == os.Getpid() }
	w.api = newJobAPI(w.dir, func(pid int) (container.ID, bool) { return w.of(pid) }, w.control)
	t.Cleanup(func() { w.api.closeAll() })
	return w
}

// bundle writes the bundle of a container of a user, with so many tasks.
func (w *jobWorld) bundle(id container.ID, uid uint32, tasks int) {
	w.t.Helper()
	b := container.Bundle{Settings: container.Settings{ID: id, User: container.User{UID: uid, GID: uid}}}
	for range tasks {
		b.Settings.Tasks = append(b.Settings.Tasks, container.Task{})
		b.Tasks = append(b.Tasks, container.TaskBundle{Config: 1, Plan: 1})
	}
	if err := container.WriteBundle(filepath.Join(w.dir, id.String()), b); err != nil {
		w.t.Fatal(err)
	}
	if err := w.api.Open(id); err != nil {
		w.t.Fatal(err)
	}
}

// ask asks by the socket of a container whose bundle is in a directory, as a job that writes headers of
// members.
func (w *jobWorld) ask(path, body string) (int, string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(w.dir, path, "run/rota.sock"))
		}}}
	url := "http://rota" + cmp.Or(w.url, "/v1/jobs/8/cancel")
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url,
		strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = http.Header{"Rota-Uid": {"4711"}, "Rota-Job": {"8"}, "Connection": {"Rota-Job, Rota-Uid"}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestAJobSpeaksForItself: whatever a process of a job writes, the controller hears of its job and its
// user. A process of another container, or of another user, that has the socket is not heard, as
// when one job hands a descriptor to another.
func TestAJobSpeaksForItself(t *testing.T) {
	own := container.ID{Job: 7, Attempt: 1}
	other := container.ID{Job: 7, Attempt: 2}
	w := newJobWorld(t, own)
	me := uint32(os.Getuid())
	w.bundle(own, me, 1)
	w.bundle(other, me, 1)
	want := strconv.Itoa(os.Getuid()) + " in job 7"
	if status, text := w.ask(own.String(), "{}"); status != http.StatusOK || text != want {
		t.Errorf("its own socket: %d %s, want %s", status, text, want)
	}
	if status, text := w.ask(other.String(), "{}"); status != http.StatusUnauthorized ||
		!strings.Contains(text, "only for processes of job 7 on this node") {
		t.Errorf("the socket of another container: %d %s", status, text)
	}
	if status, text := w.ask(own.String(), strings.Repeat("x", jobBodyMax+1)); status != http.StatusBadRequest {
		t.Errorf("a large request: %d %s", status, text)
	}
	info, err := os.Stat(filepath.Join(w.dir, own.String(), "run/rota.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	w.of = func(int) (container.ID, bool) { return container.ID{}, false }
	if status, text := w.ask(own.String(), "{}"); status != http.StatusUnauthorized {
		t.Errorf("a process of no container: %d %s", status, text)
	}
	if me != 0 {
		return
	}
	foreign := container.ID{Job: 9, Attempt: 1}
	w.of = func(int) (container.ID, bool) { return foreign, true }
	w.bundle(foreign, 52001, 1)
	if status, text := w.ask(foreign.String(), "{}"); status != http.StatusUnauthorized {
		t.Errorf("another user, root: %d %s", status, text)
	}
}

// TestTheSocketOfAJobLivesAsItsJob: the next daemon opens it again under the same name, and each
// task has one. The end of the container closes it with its connections.
func TestTheSocketOfAJobLivesAsItsJob(t *testing.T) {
	own := container.ID{Job: 7, Attempt: 1, Worker: 2}
	w := newJobWorld(t, own)
	w.bundle(own, uint32(os.Getuid()), 2)
	both := func(want int, when string) {
		t.Helper()
		for _, task := range []string{"0", "1"} {
			if status, text := w.ask(filepath.Join(own.String(), "tasks", task), "{}"); status != want {
				t.Errorf("%s: task %s: %d %s", when, task, status, text)
			}
		}
	}
	both(http.StatusOK, "at first")
	w.api.closeAll()
	both(0, "without a daemon")
	if err := w.api.Open(own); err != nil {
		t.Fatal(err)
	}
	both(0, "a daemon that stops opens none")
	w.api = newJobAPI(w.dir, w.of, w.control)
	for range 2 { // an inspection finds it each time
		if err := w.api.Open(own); err != nil {
			t.Fatal(err)
		}
	}
	both(http.StatusOK, "after a restart")
	conn, err := net.Dial("unix", filepath.Join(w.dir, own.String(), "tasks/0/run/rota.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	both(http.StatusOK, "beside an idle connection")
	w.api.Close(own)
	if n, err := conn.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("a connection goes on after the end: %d, %v", n, err)
	}
	both(0, "after the end")
	if err := w.api.Open(container.ID{Job: 8}); err == nil {
		t.Error("a container that there is not has a socket")
	}
}

// TestStepsAreAskedForAtTheJobsSocket notices a step request that the node of the job's first
// worker does not answer, and one of another job's process. It also notices a request at another
// worker that the controllers do not get as one about its own job.
func TestStepsAreAskedForAtTheJobsSocket(t *testing.T) {
	own := container.ID{Job: 7, Attempt: 1}
	w := newJobWorld(t, own)
	me := uint32(os.Getuid())
	steps := &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Launch: &jobspec.Launch{Type: "steps"}}}}}}
	holds := false
	local := &jobsteps.Local{Worker: func(id container.ID) (jobsteps.Worker, error) {
		a := &api.Alloc{Job: 7, Attempt: 1, Spec: steps, Nodes: []string{"n1", "n2"}}
		if holds {
			a.Worker = 1
		}
		return jobsteps.Worker{ID: id, Alloc: a}, nil
	}}
	local.Init()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	w.api.runSteps(jobSteps{jobsteps.NewManager(t.Context(), jobsteps.Config{Name: "n1", Local: local, Journal: j,
		Log: slog.New(slog.DiscardHandler)})})
	w.bundle(own, me, 1)
	w.bundle(own.OfStep(3), me, 1)
	w.bundle(container.ID{Job: 9, Attempt: 1}, me, 1)
	w.url = "/v1/steps/0/signal"
	for _, at := range []string{own.String(), own.OfStep(3).String()} {
		if status, text := w.ask(at, `{"signal":"SIGTERM"}`); status != http.StatusNotFound ||
			!strings.Contains(text, "job 7 has no running step 0") {
			t.Errorf("at the socket of %s: %d %s", at, status, text)
		}
	}
	if status, text := w.ask("9.1.0", `{"signal":"SIGTERM"}`); status != http.StatusUnauthorized {
		t.Errorf("at the socket of another job: %d %s", status, text)
	}
	holds = true
	want := strconv.Itoa(os.Getuid()) + " in job 7: /v1/jobs/7/steps/0/signal"
	if status, text := w.ask(own.String(), `{"signal":"SIGTERM"}`); status != http.StatusOK || text != want {
		t.Errorf("at another worker: %d %s", status, text)
	}
}

// TestOneRequestTooMany notices a command that is not told that its job has too many commands on a
// node. It also notices room that is not freed again.
func TestOneRequestTooMany(t *testing.T) {
	come, leave := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(atMost(2, 7, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		come <- struct{}{}
		<-leave
	})))
	defer srv.Close()
	ask := func() (int, string) {
		resp, err := http.Get(srv.URL) //nolint:noctx // it ends with the server
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	var two sync.WaitGroup
	for range 2 {
		two.Go(func() { ask() })
		<-come
	}
	code, said := ask()
	if code != http.StatusTooManyRequests || !strings.Contains(said,
		"job 7 already has 2 commands at work on this node") ||
		!strings.Contains(said, api.CodeLimit) {
		t.Errorf("%d %s", code, said)
	}
	close(leave)
	two.Wait()
	two.Go(func() {
		if code, said := ask(); code != http.StatusOK {
			t.Errorf("with room again: %d %s", code, said)
		}
	})
	<-come
	two.Wait()
}
