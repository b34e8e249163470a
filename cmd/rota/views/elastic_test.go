package views

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// sampleElastic is a job that others have made shrink, and one that waits for its fewest workers.
func sampleElastic() []api.Job {
	base := api.Job{User: "ada", UID: 1000, Account: "vision", Queue: "default", Class: jobspec.BE, Priority: 50,
		TimeLimit: 3600, Submitted: rotatest.At("2026-11-21T08:00:00Z")}
	shrunk, waiting := base, base
	shrunk.ID, shrunk.Name, shrunk.State, shrunk.Code, shrunk.Started = 7, "stretch", "RUNNING", cluster.Running,
		rotatest.At("2026-11-21T08:00:05Z")
	shrunk.Workers, shrunk.GPUs, shrunk.Nodes, shrunk.Attempt, shrunk.Resizes = 2, 2, []string{"gpu01"}, 2, 1
	shrunk.Elastic = &api.Elastic{Workers: 2, Min: 1, Max: 4, MultipleOf: 1,
		Text: "it has shrunk from 4 to make room for job 8"}
	shrunk.Attempts = []api.Attempt{
		{N: 1, Start: rotatest.At("2026-11-21T08:00:05Z"), End: rotatest.At("2026-11-21T09:00:00Z"),
			Nodes: []string{"gpu01", "gpu02"}, ExitCode: 85, Cause: cluster.CauseShrink, Workers: 4},
		{N: 2, Start: rotatest.At("2026-11-21T09:00:01Z"), Nodes: []string{"gpu01"}, Workers: 2},
	}
	waiting.ID, waiting.Name, waiting.State, waiting.Code, waiting.Workers, waiting.GPUs = 9, "wide", "PENDING",
		cluster.Pending, 16, 16
	waiting.Elastic = &api.Elastic{Min: 16, Max: 128, MultipleOf: 8, Text: "it starts when there is room for 16"}
	waiting.Reason = api.Reason{Code: "Resources", Text: "no node has enough free for one worker"}
	return []api.Job{shrunk, waiting}
}

func TestElasticJobsAreShownWithTheirWorkers(t *testing.T) {
	a := rotatest.NewAnswers(t)
	jobs := sampleElastic()
	a.On("GET /v1/jobs", rotatest.StreamOf(jobs))
	a.Give("GET /v1/jobs/7", jobs[0])
	a.Give("GET /v1/jobs/9", jobs[1])
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	var all strings.Builder
	for _, c := range []string{"queue", "queue --columns id,workers,gpus --sort -workers", "status 7", "status 9"} {
		got := s.Run(append(strings.Fields(c), "--utc")...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("rota %s: code %d, stderr %q", c, got.Code, got.Stderr)
		}
		all.WriteString("$ rota " + c + "\n" + got.Stdout + "\n")
	}
	rotatest.Golden(t, *update, "elastic.txt", all.String())
}
