package submit

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

func TestJobCodes(t *testing.T) {
	for _, c := range []struct {
		job  api.Job
		want int
	}{
		{api.Job{Code: model.Completed}, 0},
		{api.Job{Code: model.Failed, ExitCode: 3}, 3},
		{api.Job{Code: model.Failed, ExitCode: 255}, 255},
		{api.Job{Code: model.Failed, Signal: 11}, 139},
		{api.Job{Code: model.Failed}, exit.OwnFailed},
		{api.Job{Code: model.OutOfMemory, Signal: model.SignalOOM}, exit.OutOfMemory},
		{api.Job{Code: model.TimedOut, Signal: 15}, exit.OwnTimeout},
		{api.Job{Code: model.TimedOut}, exit.OwnTimeout},
		{api.Job{Code: model.NodeFailed}, exit.OwnFailed},
		{api.Job{Code: model.BootFailed}, exit.OwnFailed},
		{api.Job{Code: model.Cancelled}, exit.OwnFailed},
		{api.Job{Code: model.Cancelled, Signal: 15}, 143},
	} {
		code, note := jobCode(&c.job)
		if code != c.want {
			t.Errorf("%s %d:%d gives %d, want %d", c.job.Code, c.job.ExitCode, c.job.Signal, code, c.want)
		}
		if quiet := c.job.Code == model.Completed || c.job.Code == model.Failed &&
			c.want != exit.OwnFailed; quiet != (note == "") {
			t.Errorf("%s %d:%d says %q", c.job.Code, c.job.ExitCode, c.job.Signal, note)
		}
	}
}

func TestWait(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs/1", rotatest.WhenAsked(1, api.Job{ID: 1, State: "RUNNING", Code: model.Running},
		api.Job{ID: 1, State: "FAILED", Code: model.Failed, ExitCode: 4}))
	a.Give("GET /v1/jobs/2", api.Job{ID: 2, State: "COMPLETED", Code: model.Completed})
	a.Give("GET /v1/jobs/3", api.Job{ID: 3, State: "RUNNING", Code: model.Running})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	if got := s.Run("wait", "1", "2"); got.Code != 4 || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	polls := 0
	for _, r := range a.Requests() {
		if strings.HasPrefix(r.What, "GET /v1/jobs/1?") && strings.Contains(r.What, "after=42") &&
			strings.Contains(r.What, "wait=") {
			polls++
		}
	}
	if polls != 1 {
		t.Errorf("the second look at job 1 is no long poll: %v", a.Requests())
	}
	if got := s.Run("wait", "--any", "3", "2", "-o", "name"); got.Code != exit.OwnUsage {
		t.Errorf("%+v", got)
	}
	if got := s.Run("wait", "--any", "3", "2"); got.Code != 0 || got.Stderr != "" {
		t.Errorf("%+v", got)
	}
	if got := s.Run("wait", "3", "--timeout", "50ms"); got.Code != exit.OwnTimeout {
		t.Errorf("%+v", got)
	}
}

// TestWaitForAJobThatIsNotThere: it is said at once, not when the others have ended.
func TestWaitForAJobThatIsNotThere(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, State: "RUNNING", Code: model.Running}) // for ever
	a.Refuse("GET /v1/jobs/8", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 8"})
	if got := (rotatest.Session{Commands: groups, T: t, Addr: a.URL}).Run("wait", "7",
		"8"); got.Code != exit.OwnNotFound || got.Stderr != "rota: there is no job 8\n" {
		t.Errorf("%+v", got)
	}
}

// TestWhatAWaitShows: a terminal shows what a job does for which it is waited, but not at once.
func TestWhatAWaitShows(t *testing.T) {
	running := api.Job{ID: 1, State: "RUNNING", Code: model.Running, Nodes: []string{"n1"}}
	ended := api.Job{ID: 1, State: "COMPLETED", Code: model.Completed}
	for looks, want := range map[int]string{0: "", 1: "", 3: "job 1 RUNNING on n1\n"} {
		a := rotatest.NewAnswers(t)
		a.On("GET /v1/jobs/1", rotatest.WhenAsked(looks, running, ended))
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Terminal: true, Env: []string{"NO_COLOR=1"}}
		if got := s.Run("wait", "1"); got.Code != 0 || got.Stderr != want || got.Stdout != "" {
			t.Errorf("after %d looks: %+v", looks, got)
		}
		if all := a.Requests(); looks > 0 && !strings.Contains(all[len(all)-looks].What, "wait=1s") {
			t.Errorf("the second look is not after a second: %+v", all)
		}
	}
}
