package views

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// effJob is a job of two workers that has run for 1,000 s twice, and has ended.
func effJob(id model.JobID) api.Job {
	return api.Job{ID: id, Name: "train", State: "COMPLETED", Code: model.Completed, Workers: 2, Cores: 8,
		Memory: 64 << 30, GPUs: 4, Attempt: 2, Attempts: []api.Attempt{
			{N: 1, Start: rotatest.At("2026-03-01T12:00:00Z"), End: rotatest.At("2026-03-01T12:16:40Z"), Nodes: []string{"g1"},
				Workers: 2, Usage: &api.Usage{CPUSeconds: 80, Workers: 1, Memory: 1 << 30, PeakMemory: 1 << 30}},
			{N: 2, Start: rotatest.At("2026-03-01T13:00:00Z"), End: rotatest.At("2026-03-01T13:33:20Z"), SuspendedSeconds: 1000,
				Nodes: []string{"g1", "g2"}, Workers: 2, Usage: &api.Usage{CPUSeconds: 2480, SystemSeconds: 100, PeakCores: 6.24,
					Workers: 2, Memory: 40 << 30, PeakMemory: 24 << 30, GPUUtil: 71, PeakGPUUtil: 99, PeakGPUMemory: 200 << 30,
					Extern: &api.ExternUsage{CPUSeconds: 90.5, SystemSeconds: 1, PeakMemory: 1 << 30}}},
		}}
}

// TestEfficiency shows what jobs have used of what they had: ended ones, running ones, tasks of
// arrays, and what is not known.
func TestEfficiency(t *testing.T) {
	a := rotatest.NewAnswers(t)
	done, waits := effJob(7), api.Job{ID: 8, Name: "waits", State: "PENDING", Code: model.Pending, Workers: 1}
	runs := effJob(9)
	runs.State, runs.Code, runs.Attempts[1].End, runs.Attempts[1].Usage = "RUNNING", model.Running, nil, nil
	runs.Attempts[1].SuspendedSeconds = 0
	cpuOnly := effJob(10)
	cpuOnly.GPUs, cpuOnly.Attempts = 0, cpuOnly.Attempts[:1]
	gone := effJob(11)
	gone.Attempts[1].Usage = nil
	array := api.Job{ID: 20, Name: "sweep", State: "RUNNING", Code: model.Running,
		Array: api.ArrayPlace{Size: 3, Indices: "2"}}
	empty := array
	empty.ID = 30
	task := func(j api.Job, index int) api.Job {
		j.ID, j.Array = model.JobID(21+index), api.ArrayPlace{Job: 20, Index: &index}
		return j
	}
	for _, j := range []api.Job{done, waits, runs, cpuOnly, gone, array, empty} {
		a.Give("GET /v1/jobs/"+show.ID(j.ID), j)
	}
	live := api.JobUsage{Job: 9, Attempt: 2, Live: true, Missing: 1, Error: "worker 1 on node g2: it does not answer",
		Usage:   &api.Usage{CPUSeconds: 4000, PeakCores: 4, Workers: 1, Memory: 8 << 30, PeakMemory: 8 << 30},
		Workers: []api.WorkerUsage{{}, {Worker: 1}}}
	a.Give("GET /v1/jobs/9/usage", live)
	a.Refuse("GET /v1/jobs/22/usage", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 22 is private"})
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("id") == "30" {
			rotatest.PagesOf([]api.Job{empty})(w, r)
			return
		}
		rotatest.PagesOf([]api.Job{array, task(runs, 1), task(done, 0)})(w, r)
	})
	a.On("GET /v1/history", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("id") == "30" {
			rotatest.PagesOf([]api.Job{empty})(w, r)
			return
		}
		rotatest.PagesOf([]api.Job{task(done, 0)})(w, r)
	})
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL,
		Now: func() time.Time { return rotatest.At("2026-03-01T13:16:40Z").Time }}
	var all strings.Builder
	for _, args := range []string{"eff 7 8", "eff 7 --attempt 1", "eff 9", "eff 10", "eff 11", "eff 20", "eff 30",
		"eff 7 9 -o json", "eff 30 -o json"} {
		got := s.Run(strings.Fields(args)...)
		if got.Code != exit.OK || got.Stderr != "" {
			t.Errorf("rota %s: %+v", args, got)
		}
		all.WriteString("$ rota " + args + "\n" + got.Stdout)
	}
	rotatest.Golden(t, *update, "eff.txt", all.String())
	used := "  used         41:20 of processor time (1:30 by rota exec and rota shell), at most 24G of memory in a " +
		"worker, GPUs 71% busy, at most 200G of their memory\n"
	if got := s.Run("status", "7"); got.Code != exit.OK || !strings.Contains(got.Stdout, used) {
		t.Errorf("rota status 7: %+v", got)
	}
	for args, want := range map[string]int{"eff 7 --attempt 3": exit.NotFound, "eff 7 --attempt 0": exit.Usage,
		"eff": exit.Usage} {
		if got := s.Run(strings.Fields(args)...); got.Code != want || got.Stdout != "" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}
