package follow_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/submit"
	"github.com/rota-hpc/rota/cmd/rota/views"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

var groups = rotatest.Join(submit.Commands, views.Commands)

// impatient makes the client itself give up at once.
var impatient = api.Options{RetryFor: time.Nanosecond, Unreachable: time.Nanosecond}

// session runs commands against a controller that takes job 7.
func session(t *testing.T) (*rotatest.Answers, rotatest.Session) {
	t.Helper()
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{7}})
	return a, rotatest.Session{Commands: groups, T: t, Addr: a.URL, ClientOptions: impatient}
}

// states gives a job in each of these states in turn, the last for ever.
func states(each ...api.Job) http.HandlerFunc {
	var lock sync.Mutex
	return func(w http.ResponseWriter, _ *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		_ = json.NewEncoder(w).Encode(each[0])
		if len(each) > 1 {
			each = each[1:]
		}
	}
}

// job is job 7 in a state.
func job(code model.JobState, change func(*api.Job)) api.Job {
	j := api.Job{ID: 7, Name: "seven", Workers: 1, Code: code, State: map[model.JobState]string{model.Pending: "PENDING",
		model.Running: "RUNNING", model.Completed: "COMPLETED", model.Failed: "FAILED", model.Cancelled: "CANCELLED"}[code]}
	if code != model.Pending && code != model.Cancelled {
		j.Attempt, j.Nodes = 1, []string{"gpu01", "gpu02"}
	}
	if change != nil {
		change(&j)
	}
	return j
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// TestWhatATerminalShows notices a change of state that is not shown, one that is shown twice, and
// escapes where there is no terminal.
func TestWhatATerminalShows(t *testing.T) {
	story := func() http.HandlerFunc {
		waits := func(j *api.Job) { j.Reason = api.Reason{Code: "Resources", Text: "no node is free"} }
		return states(job(model.Pending, waits), job(model.Pending, waits), job(model.Running, nil),
			job(model.Running, func(j *api.Job) { j.Steps = 40 }), job(model.Completed, nil))
	}
	lines := []string{"job 7 PENDING: Resources: no node is free", "job 7 RUNNING on gpu[01-02]",
		"job 7 RUNNING on gpu[01-02], step 40", "job 7 COMPLETED"}
	for color, dim := range map[string]bool{"auto": true, "never": false} {
		a, s := session(t)
		s.Terminal = true
		a.On("GET /v1/jobs/7", story())
		a.On("GET /v1/jobs/7/logs", text("out\n"))
		want := strings.Join(lines, "\n") + "\n"
		if dim {
			want = "\x1b[2m" + strings.Join(lines, "\x1b[0m\n\x1b[2m") + "\x1b[0m\n"
		}
		if got := s.Run("run", "--color", color, "true"); got.Code != 0 || got.Stdout != "out\n" || got.Stderr != want {
			t.Errorf("--color %s: %+v\nwant %q", color, got, want)
		}
		for _, r := range a.Requests() {
			if strings.Contains(r.What, "wait=50s") {
				t.Errorf("progress is read too rarely: %s", r.What)
			}
		}
	}
	a, s := session(t)
	a.On("GET /v1/jobs/7", story())
	a.On("GET /v1/jobs/7/logs", text("out\n"))
	if got := s.Run("run", "true"); got.Code != 0 || got.Stdout != "out\n" || got.Stderr != "" {
		t.Errorf("without a terminal: %+v", got)
	}
}

// TestBothStreams notices errors of a job among its output, and a stream that is not read.
func TestBothStreams(t *testing.T) {
	apart := false
	a, s := session(t)
	two := func(j *api.Job) {
		j.Workers, j.Spec = 2, &jobspec.Job{Groups: []jobspec.Group{{Name: "main",
			Tasks: []jobspec.Task{{Name: "t", Log: &jobspec.Log{Join: &apart}}}}}}
	}
	a.On("GET /v1/jobs/7", states(job(model.Running, two), job(model.Completed, two)))
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		fmt.Fprintf(w, "%s of %s\nend", q.Get("stream"), q.Get("worker"))
	})
	got := s.Run("run", "true")
	for _, line := range []string{"0: stdout of \n", "1: stdout of 1\n", "0: end\n", "1: end\n"} {
		if got.Code != 0 || !strings.Contains(got.Stdout, line) || strings.Contains(got.Stdout, "stderr") {
			t.Errorf("no %q: %+v", line, got)
		}
	}
	for _, line := range []string{"0: stderr of \n", "1: stderr of 1\n"} {
		if !strings.Contains(got.Stderr, line) || strings.Contains(got.Stderr, "stdout") {
			t.Errorf("no %q: %+v", line, got)
		}
	}
}

// TestOutputThatIsNotThereYet notices output that is given up too early, or waited for in vain.
func TestOutputThatIsNotThereYet(t *testing.T) {
	notFound := func(w http.ResponseWriter, _ *http.Request) {
		rotatest.WriteProblem(w, &api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "job 7 has no output"})
	}
	a, s := session(t)
	asked := 0
	var complete atomic.Bool
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		code := model.Running
		if complete.Load() {
			code = model.Completed
		}
		_ = json.NewEncoder(w).Encode(job(code, nil))
	})
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 {
			notFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "late\n")
		complete.Store(true)
	})
	if got := s.Run("logs", "7", "-f"); got.Code != 0 || got.Stdout != "late\n" || got.Stderr != "" || asked != 3 {
		t.Errorf("%+v after %d requests", got, asked)
	}
	if asked = 0; true {
		if got := s.Run("logs", "7"); got.Code != exit.NotFound || asked != 1 || got.Stderr != "rota: job 7 has no output\n" {
			t.Errorf("without -f: %+v after %d requests", got, asked)
		}
	}
	a.On("GET /v1/jobs/7", states(job(model.Cancelled, nil)))
	a.On("GET /v1/jobs/7/logs", notFound)
	if got := s.Run("logs", "7", "-f"); got.Code != exit.NotFound || got.Stderr != "rota: job 7 has no output\n" {
		t.Errorf("of a job that has ended: %+v", got)
	}
	a.On("GET /v1/jobs/7", states(job(model.Running, nil), job(model.Failed, func(j *api.Job) { j.ExitCode = 3 })))
	if got := s.Run("run", "true"); got.Code != 3 || got.Stdout != "" || got.Stderr != "" {
		t.Errorf("of a job that failed before it wrote: %+v", got)
	}
	a.On("GET /v1/jobs/7", states(job(model.Running, nil), job(model.Completed, nil)))
	if got := s.Run("run", "true"); got.Code != exit.OwnNotFound ||
		got.Stderr != "rota: job 7: read its output: job 7 has no output\n" {
		t.Errorf("lost output of a job that completed: %+v", got)
	}
}

// TestAStreamThatKeepsBreaking notices a loop without an end, and output that is shown twice.
func TestAStreamThatKeepsBreaking(t *testing.T) {
	a, s := session(t)
	asked := 0
	a.Give("GET /v1/jobs/7", job(model.Running, nil))
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		asked++
		_, _ = io.WriteString(w, "one\n")
		_ = http.NewResponseController(w).Flush()
		rotatest.Cut(w, r)
	})
	got := s.Run("logs", "7.0", "--tail", "5")
	if got.Code != exit.Failed || got.Stdout != "one\n" || asked != 1 ||
		!strings.HasPrefix(got.Stderr, "rota: the connection to the output broke: ") {
		t.Errorf("the last lines: %+v after %d requests", got, asked)
	}
	asked = 0
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			_, _ = io.WriteString(w, "one\ntwo\nthr")
			_ = http.NewResponseController(w).Flush()
			rotatest.Cut(w, r)
		}
		_, _ = io.WriteString(w, "one\n") // the attempt after it has written less
	})
	if got := s.Run("logs", "7.0"); got.Code != 0 || got.Stdout != "one\ntwo\nthr" || asked != 2 {
		t.Errorf("%+v after %d requests", got, asked)
	}
}

// TestOutputThatCannotBeWritten notices a full disk that is taken for the end of the output.
func TestOutputThatCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("needs /dev/full: %v", err)
	}
	defer full.Close()
	a, s := session(t)
	s.Out = full
	a.On("GET /v1/jobs/7", states(job(model.Running, func(j *api.Job) { j.Workers = 2 })))
	a.On("GET /v1/jobs/7/logs", text("out\n"))
	for _, args := range []string{"logs 7.0", "logs 7"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Failed || !strings.Contains(got.Stderr, "write") ||
			strings.Count(got.Stderr, "no space left") != 1 {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestOutputOfAllWorkers notices a worker whose output is missing in silence.
func TestOutputOfAllWorkers(t *testing.T) {
	a, s := session(t)
	a.On("GET /v1/jobs/7", states(job(model.Completed, func(j *api.Job) { j.Workers = 3 })))
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("worker") == "1" {
			rotatest.WriteProblem(w, &api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "worker 1 wrote nothing"})
			return
		}
		_, _ = io.WriteString(w, "hello")
	})
	for _, args := range []string{"logs 7", "logs 7 -f"} {
		got := s.Run(strings.Fields(args)...)
		if got.Code != exit.NotFound || got.Stderr != "rota: worker 1 wrote nothing\n" ||
			len(got.Stdout) != len("0: hello\n2: hello\n") ||
			!strings.Contains(got.Stdout, "0: hello\n") || !strings.Contains(got.Stdout, "2: hello\n") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestWhereTheOutputIs notices a user that waits for output which is elsewhere.
func TestWhereTheOutputIs(t *testing.T) {
	a, s := session(t)
	array := func(j *api.Job) { j.Array, j.Attempt = api.ArrayPlace{Size: 3}, 0 }
	a.On("GET /v1/jobs/7", states(job(model.Running, array), job(model.Running, array), job(model.Completed, array)))
	s.Stdin = rotatest.SmallJob
	got := s.Run("submit", "-", "--follow")
	if got.Code != 0 || got.Stdout != "Submitted batch job 7\n" ||
		got.Stderr != "rota: job 7 is an array: \"rota logs 7_INDEX\" shows the output of one task\n" {
		t.Errorf("%+v", got)
	}
}

// TestControllersThatDoNotComeBack notices a command that waits for ever, or gives up before the
// lease of its job has ended.
func TestControllersThatDoNotComeBack(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	a, s := session(t)
	var asked atomic.Int64
	s.Now = func() time.Time { return now.Add(time.Duration(max(0, asked.Load()-1)) * time.Minute) }
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			_ = json.NewEncoder(w).Encode(job(model.Running, func(j *api.Job) { j.Attempt = 0 }))
			return
		}
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		rotatest.Cut(w, r)
	})
	got := s.Run("wait", "7")
	if got.Code != exit.OwnUnreachable || strings.Count(got.Stderr, "job 7 continues; retrying for 10 minutes\n") != 1 ||
		!strings.Contains(got.Stderr, "rota: job 7: no controller reachable at ") {
		t.Errorf("%+v after %d requests", got, asked.Load())
	}
}

// TestTailGoesOnWhereItWas cuts the stream of rota logs --tail again and again. Each byte is shown
// once, and the tail is asked for once.
func TestTailGoesOnWhereItWas(t *testing.T) {
	const output = "one\ntwo\nthree\nfour\nfive\n"
	start := len("one\ntwo\nthree\n")
	for _, follows := range []bool{false, true} {
		a, s := session(t)
		asked, tails := 0, 0
		a.On("GET /v1/jobs/7", states(job(model.Running, nil), job(model.Running, nil), job(model.Completed, nil)))
		a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
			asked++
			from := 0
			if r.URL.Query().Get("tail") == "2" {
				tails++
				from = start
				w.Header().Set(api.HeaderLogStart, fmt.Sprint(start))
			}
			end := min(len(output), start+2*asked) // it breaks after two more bytes each time
			_, _ = io.WriteString(w, output[from:end])
			if end < len(output) {
				_ = http.NewResponseController(w).Flush()
				rotatest.Cut(w, r)
			}
		})
		args := []string{"logs", "7.0", "--tail", "2"}
		if follows {
			args = append(args, "-f")
		}
		if got := s.Run(args...); got.Code != 0 || got.Stdout != "four\nfive\n" || tails != 1 || asked < 5 {
			t.Errorf("-f %t: %+v after %d requests, %d for the tail", follows, got, asked, tails)
		}
	}
}

// TestWorkersThatJoin follows a job to which a worker comes while its attempt runs. All of what it
// writes is shown, even if of the others only the last lines are.
func TestWorkersThatJoin(t *testing.T) {
	a, s := session(t)
	var asked [2]atomic.Int32
	a.On("GET /v1/jobs/7", func(w http.ResponseWriter, _ *http.Request) {
		code, workers := model.Running, 1
		if asked[0].Load() > 0 {
			workers = 2
		}
		if asked[1].Load() > 0 {
			code = model.Completed
		}
		_ = json.NewEncoder(w).Encode(job(code, func(j *api.Job) {
			j.Workers, j.Elastic = workers, &api.Elastic{Workers: workers, Min: 1, Max: 2}
			j.Attempts = []api.Attempt{{N: 1, Workers: workers}}
		}))
	})
	ended := make(chan struct{})
	a.On("GET /v1/jobs/7/logs", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("worker") == "1" {
			fmt.Fprintf(w, "worker 1, tail %q\n", q.Get("tail"))
			asked[1].Add(1)
			close(ended)
			return
		}
		fmt.Fprintf(w, "worker 0, tail %q\n", q.Get("tail"))
		_ = http.NewResponseController(w).Flush()
		asked[0].Add(1)
		select { // it goes on until the job ends
		case <-ended:
		case <-r.Context().Done():
		}
	})
	got := s.Run("logs", "7", "-f", "--tail", "5")
	for _, line := range []string{"0: worker 0, tail \"5\"\n", "1: worker 1, tail \"\"\n"} {
		if got.Code != 0 || strings.Count(got.Stdout, line) != 1 {
			t.Errorf("no %q: %+v", line, got)
		}
	}
}

// TestLostOutputIsSaid notices a command that shows output of which a part is missing and keeps
// silent about it, and one that speaks of another worker's.
func TestLostOutputIsSaid(t *testing.T) {
	lost := func(j *api.Job) {
		j.Workers = 2
		j.Attempts = []api.Attempt{{N: 1, Workers: 2, OutputLost: 2097167, OutputLostBy: []api.OutputLoss{
			{Worker: 1, Node: "gpu02", Bytes: 2097152, Error: "no space left on device"}},
			Steps: []api.Step{{ID: 3, OutputLost: 15, OutputError: "disk quota exceeded"}}}}
	}
	const worker = "rota: 2097152 bytes of output of worker 1 were lost: no space left on device on node gpu02\n"
	const step = "rota: 15 bytes of output of step 7.3 were lost: disk quota exceeded where srun wrote it\n"
	for args, want := range map[string]string{"logs 7": worker + step, "logs 7 -f": worker + step, "logs 7.1": worker,
		"logs 7.0": "", "run true": worker + step} {
		a, s := session(t)
		a.On("GET /v1/jobs/7", states(job(model.Running, lost), job(model.Completed, lost)))
		a.On("GET /v1/jobs/7/logs", text("out\n"))
		if got := s.Run(strings.Fields(args)...); got.Code != 0 || got.Stderr != want {
			t.Errorf("rota %s: %+v, want %q", args, got, want)
		}
	}
}
