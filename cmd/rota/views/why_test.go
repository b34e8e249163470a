package views

import (
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// TestWhyOfWhatDoesNotWait: running and ended jobs are asked about too.
func TestWhyOfWhatDoesNotWait(t *testing.T) {
	failed := api.Reason{Code: "NonZeroExitCode", Text: "its command failed"}
	for _, c := range []struct {
		job  api.Job
		want string
	}{
		{api.Job{Code: model.Configuring, Nodes: []string{"gpu1"}}, "it is starting on gpu1\n"},
		{api.Job{Code: model.Running, Nodes: []string{"gpu1", "gpu2"}}, "it is running on gpu[1-2]\n"},
		{api.Job{Code: model.Suspended, Nodes: []string{"gpu1"}}, "it is suspended on gpu1\n"},
		{api.Job{Code: model.Completing, Nodes: []string{"gpu1"}}, "it is stopping on gpu1\n"},
		{api.Job{Code: model.Running, Array: api.ArrayPlace{Job: 7, Size: 3}},
			"it is not pending: all of its tasks have started\n"},
		{api.Job{Code: model.Completed, Attempt: 1}, "it has completed\n"},
		{api.Job{Code: model.Cancelled}, "it was cancelled\n"},
		{api.Job{Code: model.Cancelled, UID: 7, CancelledBy: new(uint32(7))}, "it was cancelled\n"},
		{api.Job{Code: model.Cancelled, UID: 7, CancelledBy: new(uint32(0)), Reason: api.Reason{Text: "wrong data"}},
			"it was cancelled by user root: wrong data\n"},
		{api.Job{Code: model.Cancelled, Reason: api.Reason{Text: "wrong data"}}, "it was cancelled: wrong data\n"},
		{api.Job{Code: model.Cancelled, Reason: api.Reason{Code: "DependencyNeverSatisfied", Text: "job 3 failed"}},
			"DependencyNeverSatisfied: job 3 failed\n"},
		{api.Job{Code: model.Failed, Attempt: 1, ExitCode: 3, Reason: failed},
			"NonZeroExitCode: its command failed, exit code 3\n\n\"rota logs 7\" shows its output\n"},
		{api.Job{Code: model.Failed, Attempt: 1, Signal: 11, Reason: failed},
			"NonZeroExitCode: its command failed, signal 11\n\n\"rota logs 7\" shows its output\n"},
		{api.Job{Code: model.Failed, ExitCode: 1, Array: api.ArrayPlace{Job: 7, Size: 3},
			Reason: api.Reason{Code: "NonZeroExitCode", Text: "2 of its 3 members failed"}},
			"NonZeroExitCode: 2 of its 3 members failed\n\n\"rota hist -j 7 -s F\" lists its failed tasks\n"},
		{api.Job{Code: model.BootFailed, Attempt: 1, Reason: api.Reason{Code: "JobLaunchFailure",
			Text: "no such directory"}}, "JobLaunchFailure: no such directory\n"},
	} {
		a := rotatest.NewAnswers(t)
		a.Give("GET /v1/jobs/7/why", api.Why{ID: 7, Reason: c.job.Reason, Funnel: []api.FunnelStep{}})
		a.Give("GET /v1/jobs/7", c.job)
		if got := (rotatest.Session{Commands: groups, T: t, Addr: a.URL}).Run("why", "7"); got.Code != 0 ||
			got.Stdout != "Job 7: "+c.want {
			t.Errorf("%s: %+v, want %q", c.job.Code, got, c.want)
		}
	}
}

// TestReasonOfACancelledJob notices a list that does not say which user has cancelled a job.
func TestReasonOfACancelledJob(t *testing.T) {
	job := api.Job{Code: model.Cancelled, UID: 7}
	for _, c := range []struct {
		by         *uint32
		text, want string
	}{{nil, "late", "late"}, {new(uint32(7)), "", ""}, {new(uint32(0)), "", "cancelled by user root"},
		{new(uint32(0)), "late", "cancelled by user root: late"}} {
		job.CancelledBy, job.Reason.Text = c.by, c.text
		if got := reasonText(&job); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
