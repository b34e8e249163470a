package controld

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
)

// logNode is a node whose log listener says which log was asked for, and holds a followed one open
// until it is let go.
func logNode(t *testing.T, s *running, name string) (*fakeNode, chan struct{}) {
	t.Helper()
	release := make(chan struct{})
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".1.9") {
			http.Error(w, "no such log", http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, "%s tail=%s %s of %s\n", r.URL.Path, r.URL.Query().Get("tail"), r.URL.Query().Get("stream"),
			r.Header.Get("Rota-User"))
		if r.URL.Query().Get("follow") == "true" {
			http.NewResponseController(w).Flush()
			select {
			case <-release:
				io.WriteString(w, "end\n")
			case <-r.Context().Done():
			}
		}
	}))
	listener.TLS = machineOf(t, s.addrs.HTTP, pki.Node, name).Server(pki.Controller)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	n := newNode(t, s.addrs.HTTP, name, 0)
	n.node.Addr = strings.TrimPrefix(listener.URL, "https://")
	n.hold = make(chan struct{})
	n.run(t.Context())
	return n, release
}

func readLog(t *testing.T, c *api.Client, id model.JobID, o api.LogOptions) (string, error) {
	t.Helper()
	body, err := c.Logs(t.Context(), id, o)
	if err != nil {
		return "", err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	return string(b), err
}

func TestLogsComeFromTheNode(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	pending := job("pending")
	pending.Hold = true
	if _, err := c.Submit(t.Context(), "", pending); err != nil {
		t.Fatal(err)
	}
	_, err := readLog(t, c, 1, api.LogOptions{})
	wantProblem(t, err, api.CodeWrongState)

	if _, err := c.Submit(t.Context(), "", job("talks")); err != nil {
		t.Fatal(err)
	}
	followed := make(chan string, 1)
	go func() { // begins before the job does
		text, err := readLog(t, c, 2, api.LogOptions{Follow: true})
		followed <- fmt.Sprint(text, err)
	}()
	n, release := logNode(t, s, "n1")
	waitState(t, c, 2, model.Running)
	if text, err := readLog(t, c, 2, api.LogOptions{Tail: 5, Stream: "stderr"}); err != nil ||
		text != "/v1/logs/2.1.0 tail=5 stderr of u1000\n" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, o := range []api.LogOptions{{Stream: "all"}, {Worker: 7}, {Task: "other"}, {Attempt: 4}} {
		if _, err := readLog(t, c, 2, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	_, err = readLog(t, s.client(user(1001)), 2, api.LogOptions{})
	wantProblem(t, err, api.CodeDenied)
	close(n.hold)
	close(release)
	waitState(t, c, 2, model.Completed)
	if text, err := readLog(t, c, 2, api.LogOptions{Follow: true}); err != nil || !strings.HasSuffix(text, "end\n") {
		t.Errorf("after the end: %q, %v", text, err)
	}
	select {
	case text := <-followed:
		if text != "/v1/logs/2.1.0 tail= stdout of u1000\nend\n<nil>" {
			t.Errorf("followed: %q", text)
		}
	case <-time.After(deadline):
		t.Error("the followed log does not end")
	}
}

func TestAFollowedLogGoesOnWithTheNextAttempt(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	n, release := logNode(t, s, "n1")
	close(release)
	if _, err := c.Submit(t.Context(), "", job("again")); err != nil {
		t.Fatal(err)
	}
	waitState(t, c, 1, model.Running)
	followed := make(chan string, 1)
	go func() {
		text, err := readLog(t, c, 1, api.LogOptions{Follow: true})
		followed <- fmt.Sprint(text, err)
	}()
	if _, err := c.Control(t.Context(), "1", model.VerbRequeue, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second attempt", func() error {
		j, _, err := c.Job(t.Context(), 1, api.Read{})
		if err == nil && (j.Attempt != 2 || j.Code != model.Running) {
			err = fmt.Errorf("attempt %d is %s", j.Attempt, j.Code)
		}
		return err
	})
	close(n.hold)
	select {
	case text := <-followed:
		if !strings.Contains(text, "/v1/logs/1.2.0") || !strings.Contains(text, "<nil>") {
			t.Errorf("followed: %q", text)
		}
	case <-time.After(deadline):
		t.Error("the followed log does not end")
	}
}
