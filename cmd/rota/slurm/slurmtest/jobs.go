package slurmtest

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Jobs returns a job that runs on two nodes, a pending array with one running task, a pending job,
// and an ended job.
func Jobs() []api.Job {
	at := func(minute int) *api.Time {
		return &api.Time{Time: time.Date(2026, 11, 21, 12, minute, 0, 0, time.Local)}
	}
	three := 3
	mine := uint32(os.Getuid())
	return []api.Job{
		{ID: 7, Name: "train", User: "ann", UID: mine, Account: "physics", Queue: "gpu", Class: "be", State: "RUNNING",
			Code: model.Running, Priority: 50, Submitted: at(0), Started: at(1), Elapsed: 3661, TimeLimit: 2 * 86400,
			Nodes: []string{"n1", "n2"}, Workers: 2, Cores: 16, Memory: 64 * jobspec.GiB, GPUs: 8, Attempt: 2,
			Workdir: "/home/ann"},
		{ID: 8, Name: "sweep", User: "bob", UID: mine + 1, Queue: "gpu", State: "RUNNING", Code: model.Running, Workers: 1,
			Elapsed: 5, Memory: 1500 * jobspec.MiB, Cores: 1, TimeLimit: 60,
			Array: api.ArrayPlace{Indices: "4-9%2", Size: 10}, Reason: api.Reason{Code: "Resources", Text: "no"}},
		{ID: 12, Name: "sweep", User: "bob", UID: mine + 1, Queue: "gpu", State: "RUNNING", Code: model.Running, Workers: 1,
			Cores: 1, Memory: jobspec.GiB, Nodes: []string{"n3"}, Started: at(2), TimeLimit: 60, Elapsed: 5,
			Array: api.ArrayPlace{Job: 8, Index: &three}},
		{ID: 20, Name: "a-long-name", User: "ann", UID: mine, Queue: "gpu", State: "PENDING", Code: model.Pending, Workers: 1,
			Reason: api.Reason{Code: "Dependency"}},
		{ID: 21, Name: "done", User: "ann", UID: mine, Queue: "gpu", State: "COMPLETED", Code: model.Completed},
	}
}

// Queue returns a controller that serves Jobs.
func Queue(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var list []api.Job
		for _, j := range Jobs() {
			if ids := r.URL.Query()["id"]; len(ids) == 0 || slices.Contains(ids, fmt.Sprint(j.ID)) {
				list = append(list, j)
			}
		}
		rotatest.StreamOf(list)(w, r)
	})
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab", Policy: "rota", Controllers: []api.Controller{{Name: "c1"}}})
	a.Give("GET /v1/jobs/7", Jobs()[0])
	a.Give("GET /v1/jobs/8_3", Jobs()[2])
	done := api.ControlResponse{Items: []api.ControlItem{{ID: 7}}}
	for _, verb := range []string{"requeue", "hold", "release", "update"} {
		a.Give("POST /v1/jobs/7/"+verb, done)
		a.Give("POST /v1/jobs/8_3/"+verb, done)
		a.Refuse("POST /v1/jobs/9/"+verb, api.Problem{Status: 403, Code: api.CodeDenied,
			Detail: "from inside a job only its own job can be changed", Hint: "do it outside"})
	}
	return a
}
