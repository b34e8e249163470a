package submit

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

func TestJobCodes(t *testing.T) {
	for _, c := range []struct {
		job  api.Job
		want int
	}{
		{api.Job{Code: cluster.Completed}, 0},
		{api.Job{Code: cluster.Failed, ExitCode: 3}, 3},
		{api.Job{Code: cluster.Failed, ExitCode: 255}, 255},
		{api.Job{Code: cluster.Failed, Signal: 11}, 139},
		{api.Job{Code: cluster.Failed}, exit.OwnFailed},
		{api.Job{Code: cluster.OutOfMemory, Signal: 9}, exit.OutOfMemory},
		{api.Job{Code: cluster.TimedOut, Signal: 15}, exit.OwnTimeout},
		{api.Job{Code: cluster.TimedOut}, exit.OwnTimeout},
		{api.Job{Code: cluster.NodeFailed}, exit.OwnFailed},
		{api.Job{Code: cluster.BootFailed}, exit.OwnFailed},
		{api.Job{Code: cluster.Cancelled}, exit.OwnFailed},
		{api.Job{Code: cluster.Cancelled, Signal: 15}, 143},
	} {
		code, note := jobCode(&c.job)
		if code != c.want {
			t.Errorf("%s %d:%d gives %d, want %d", c.job.Code, c.job.ExitCode, c.job.Signal, code, c.want)
		}
		if quiet := c.job.Code == cluster.Completed || c.job.Code == cluster.Failed &&
			c.want != exit.OwnFailed; quiet != (note == "") {
			t.Errorf("%s %d:%d says %q", c.job.Code, c.job.ExitCode, c.job.Signal, note)
		}
	}
}

func TestWait(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs/1", rotatest.WhenAsked(1, api.Job{ID: 1, State: "RUNNING", Code: cluster.Running},
		api.Job{ID: 1, State: "FAILED", Code: cluster.Failed, ExitCode: 4}))
	a.Give("GET /v1/jobs/2", api.Job{ID: 2, State: "COMPLETED", Code: cluster.Completed})
	a.Give("GET /v1/jobs/3", api.Job{ID: 3, State: "RUNNING", Code: cluster.Running})
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
	a.Give("GET /v1/jobs/7", api.Job{ID: 7, State: "RUNNING", Code: cluster.Running}) // for ever
	a.Refuse("GET /v1/jobs/8", api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "there is no job 8"})
	if got := (rotatest.Session{Commands: groups, T: t, Addr: a.URL}).Run("wait", "7",
		"8"); got.Code != exit.OwnNotFound || got.Stderr != "rota: there is no job 8\n" {
		t.Errorf("%+v", got)
	}
}
