package main

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// sampleElastic is a job that others have made shrink, and one that waits for its fewest workers.
func sampleElastic() []api.Job {
	base := api.Job{User: "ada", UID: 1000, Account: "vision", Queue: "default", Class: jobspec.BE, Priority: 50, TimeLimit: 3600, Submitted: at("2026-11-21T08:00:00Z")}
	shrunk, waiting := base, base
	shrunk.ID, shrunk.Name, shrunk.State, shrunk.Code, shrunk.Started = 7, "stretch", "RUNNING", cluster.Running, at("2026-11-21T08:00:05Z")
	shrunk.Workers, shrunk.GPUs, shrunk.Nodes, shrunk.Attempt, shrunk.Resizes = 2, 2, []string{"gpu01"}, 2, 1
	shrunk.Elastic = &api.Elastic{Workers: 2, Min: 1, Max: 4, MultipleOf: 1, Text: "it has shrunk from 4 to make room for job 8"}
	shrunk.Attempts = []api.Attempt{
		{N: 1, Start: at("2026-11-21T08:00:05Z"), End: at("2026-11-21T09:00:00Z"), Nodes: []string{"gpu01", "gpu02"}, ExitCode: 85, Cause: cluster.CauseShrink, Workers: 4},
		{N: 2, Start: at("2026-11-21T09:00:01Z"), Nodes: []string{"gpu01"}, Workers: 2},
	}
	waiting.ID, waiting.Name, waiting.State, waiting.Code, waiting.Workers, waiting.GPUs = 9, "wide", "PENDING", cluster.Pending, 16, 16
	waiting.Elastic = &api.Elastic{Min: 16, Max: 128, MultipleOf: 8, Text: "it starts when there is room for 16"}
	waiting.Reason = api.Reason{Code: "Resources", Text: "no node has enough free for one worker"}
	return []api.Job{shrunk, waiting}
}

func TestElasticJobsAreShownWithTheirWorkers(t *testing.T) {
	a := newAnswers(t)
	jobs := sampleElastic()
	a.on("GET /v1/jobs", streamOf(jobs))
	a.give("GET /v1/jobs/7", jobs[0])
	a.give("GET /v1/jobs/9", jobs[1])
	s := session{t: t, addr: a.URL}
	var all strings.Builder
	for _, c := range []string{"queue", "queue --columns id,workers,gpus --sort -workers", "status 7", "status 9"} {
		got := s.run(append(strings.Fields(c), "--utc")...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("rota %s: code %d, stderr %q", c, got.code, got.stderr)
		}
		all.WriteString("$ rota " + c + "\n" + got.stdout + "\n")
	}
	golden(t, "elastic.txt", all.String())
}
