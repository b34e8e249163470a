package submit

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// fileOf is a file with text in it, opened.
func fileOf(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// pipeOf is the end of a pipe with text in it.
func pipeOf(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() { r.Close() })
	return r
}

// TestSubmitReadsWhatIsPipedIn: a script may be piped in without a dash, as sbatch has it.
func TestSubmitReadsWhatIsPipedIn(t *testing.T) {
	const text = "#!/bin/sh\n#SBATCH -J piped\ntrue\n"
	for _, in := range []*os.File{fileOf(t, text), pipeOf(t, text)} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
		if got := (rotatest.Session{Commands: groups, T: t, Addr: a.URL, File: in}).Run("submit", "-t",
			"5"); got.Code != 0 || got.Stdout != "Submitted batch job 7\n" {
			t.Fatalf("%+v", got)
		}
		if body := a.Requests()[0].Body; !strings.Contains(body, `"piped"`) {
			t.Errorf("sent %s", body)
		}
	}
	if got := (rotatest.Session{Commands: groups, T: t, Stdin: "#!/bin/sh\n"}).Run("submit"); got.Code != exit.Usage {
		t.Errorf("at a terminal: %+v", got)
	}
}

// TestRunSaysThatInputIsNotPassedOn: what is piped into rota run is not lost in silence.
func TestRunSaysThatInputIsNotPassedOn(t *testing.T) {
	for _, c := range []struct {
		in    *os.File
		warns int
	}{{nil, 0}, {pipeOf(t, ""), 0}, {pipeOf(t, "data"), 1}, {fileOf(t, ""), 0}, {fileOf(t, "data"), 1}} {
		a := rotatest.NewAnswers(t)
		a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
		runningJob(a, 1, 0)
		a.On("GET /v1/jobs/7/logs", func(http.ResponseWriter, *http.Request) {})
		got := rotatest.Session{Commands: groups, T: t, Addr: a.URL, File: c.in}.Run("run", "cat")
		if got.Code != 0 || strings.Count(got.Stderr, "is not passed to the command") != c.warns {
			t.Errorf("%+v, want %d warnings", got, c.warns)
		}
	}
}

// TestOutputWithoutReader: a job does not go on when what shows its output was cut off, as "rota
// run yes | head" does.
func TestOutputWithoutReader(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, Workers: 1, State: "RUNNING", Code: cluster.Running, Attempt: 1})
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "y\n") })
	a.Give("POST /v1/jobs/7/cancel", api.ControlResponse{})
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	reader.Close()
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Out: out}.Run("run", "yes")
	cancels := func(r rotatest.Request) bool { return r.What == "POST /v1/jobs/7/cancel" }
	if got.Code != exit.Pipe || !slices.ContainsFunc(a.Requests(), cancels) {
		t.Errorf("%+v", got)
	}
}

// TestAConnectionThatBreaksIsNoReaderThatHasGone: the system tells of both by the same signal, and
// a controller may go away at any time.
func TestAConnectionThatBreaksIsNoReaderThatHasGone(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []cluster.JobID{7}})
	runningJob(a, 1, 3)
	a.On("GET /v1/jobs/7/logs", func(http.ResponseWriter, *http.Request) {
		ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err == nil {
			err = syscall.Close(ends[0])
		}
		if err != nil {
			t.Error(err)
		}
		if _, err := syscall.Write(ends[1], []byte("GET")); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		os.NewFile(uintptr(ends[1]), "connection").Close()
	})
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer out.Close()
	if got := (rotatest.Session{Commands: groups, T: t, Addr: a.URL, Out: out}).Run("run", "true"); got.Code != 3 ||
		got.Stderr != "" {
		t.Errorf("%+v", got)
	}
}

// TestInterruptedWhileSubmitting: Ctrl-C before the job's id is known cancels the job once it is.
func TestInterruptedWhileSubmitting(t *testing.T) {
	a := rotatest.NewAnswers(t)
	cancelled := make(chan struct{})
	a.On("POST /v1/jobs", func(w http.ResponseWriter, _ *http.Request) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(api.SubmitResponse{IDs: []cluster.JobID{7}})
	})
	a.On("POST /v1/jobs/7/cancel", func(w http.ResponseWriter, _ *http.Request) {
		close(cancelled)
		_ = json.NewEncoder(w).Encode(api.ControlResponse{})
	})
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		<-cancelled
		_ = json.NewEncoder(w).Encode(api.Job{ID: 7, State: "CANCELLED", Code: cluster.Cancelled})
	})
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run("run", "true")
	if got.Code != exit.OwnFailed || !strings.HasSuffix(got.Stderr,
		"rota: cancelling job 7; press Ctrl-C again to exit at once\nrota: job 7 was cancelled\n") {
		t.Errorf("%+v", got)
	}
}
