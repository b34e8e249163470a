package slurmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// The golden files contain times of day and numbers derived from them.
func init() { time.Local = time.UTC }

// Minute returns a time on the tests' day, in minutes after midnight; the clock stands at 13:00.
func Minute(n int) *api.Time {
	return &api.Time{Time: time.Date(2026, 11, 21, 12, n, 0, 0, time.Local)}
}

// JobOf returns a job of user ann. Its user and group numbers exist on no machine.
func JobOf(id model.JobID, name string, code model.JobState, state string, edit func(*api.Job)) api.Job {
	j := api.Job{ID: id, Name: name, User: "ann", UID: 4_000_001, GID: 4_000_002, Account: "physics", Queue: "gpu",
		Class: jobspec.BE, Code: code, State: state, Priority: 50, Submitted: Minute(0), TimeLimit: 7200, Workers: 1,
		Cores:  8,
		Memory: 16 * jobspec.GiB, GPUs: 2, Workdir: "/home/ann", Flags: []string{}, Nodes: []string{}}
	if edit != nil {
		edit(&j)
	}
	return j
}

// LiveJobs returns a running job, an array with pending, running and cancelled tasks, a held job,
// and a job that ended a moment ago. The cancelled tasks never started.
func LiveJobs() []api.Job {
	ran := func(j *api.Job) {
		j.Attempt, j.Started, j.Elapsed, j.Nodes = 1, Minute(1), 3540, []string{"gpu01"}
		j.Attempts = []api.Attempt{{N: 1, Start: j.Started, Nodes: j.Nodes,
			Usage: &api.Usage{CPUSeconds: 61.5, PeakMemory: 1537 * jobspec.KiB}}}
	}
	return []api.Job{
		JobOf(7, "train", model.Running, "RUNNING", func(j *api.Job) {
			ran(j)
			j.Comment, j.Nodes, j.Workers = "https://ci/7", []string{"gpu01", "gpu02"}, 2
			j.Spec = &jobspec.Job{Name: j.Name, Workdir: j.Workdir, Features: []string{"nvlink"},
				ExcludeNodes: []string{"gpu09"}, Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
					Launch: &jobspec.Launch{Type: "slurm", Nproc: 4}, Log: &jobspec.Log{Stdout: "logs/%x-%j.out"}}}}}}
		}),
		JobOf(8, "sweep", model.Running, "RUNNING", func(j *api.Job) {
			j.Array = api.ArrayPlace{Indices: "4-9%2", Dropped: "2,11", Size: 10, MaxParallel: 2, Live: 1}
			j.Reason = api.Reason{Code: "JobArrayTaskLimit", Text: "as many run as may"}
			j.CancelledBy = new(uint32(4_000_003))
		}),
		JobOf(12, "sweep", model.Checkpointing, "CHECKPOINTING", func(j *api.Job) {
			ran(j)
			j.Array = api.ArrayPlace{Job: 8, Index: new(3)}
		}),
		JobOf(20, "buildkite", model.Pending, "PENDING", func(j *api.Job) {
			j.Comment, j.Flags, j.TimeLimit, j.GPUs = "https://ci/20", []string{"held"}, 0, 0
			j.Reason = api.Reason{Code: "JobHeldUser"}
			j.Dependencies = []api.Dependency{{Type: "afterok", Jobs: []model.JobID{7}}}
		}),
		JobOf(21, "other", model.Pending, "PENDING", func(j *api.Job) {
			j.User, j.UID, j.Queue, j.Reason = "bob", 4_000_003, "default", api.Reason{Code: "Resources"}
		}),
		JobOf(30, "done", model.Completed, "COMPLETED", func(j *api.Job) { ran(j); j.Ended = Minute(58) }),
		JobOf(31, "old", model.Completed, "COMPLETED", func(j *api.Job) { ran(j); j.Ended = Minute(50) }),
	}
}

// EndedJobs returns the history, newest first.
func EndedJobs() []api.Job {
	ended := func(at int, code, signal int) func(*api.Job) {
		return func(j *api.Job) {
			j.Attempt, j.Started, j.Ended, j.Elapsed, j.Nodes = 1, Minute(1), Minute(at), 60*jobspec.Seconds(at-1),
				[]string{"gpu02"}
			j.ExitCode, j.Signal = code, signal
			j.Attempts = []api.Attempt{{N: 1, Start: j.Started, End: j.Ended, Nodes: j.Nodes,
				Usage: &api.Usage{CPUSeconds: 4000, SystemSeconds: 400, PeakMemory: 2 * jobspec.GiB}}}
		}
	}
	return []api.Job{
		LiveJobs()[5], LiveJobs()[6],
		JobOf(9, "sweep", model.Completed, "COMPLETED", func(j *api.Job) {
			ended(40, 0, 0)(j)
			j.Attempts[0].Steps = []api.Step{{ID: 0, Name: "one", Nodes: j.Nodes, Tasks: 1, Cores: 1, Start: Minute(2),
				End: Minute(3)}}
			j.Array = api.ArrayPlace{Job: 8, Index: new(0)}
		}),
		JobOf(5, "oom", model.OutOfMemory, "OUT_OF_MEMORY", ended(30, 0, model.SignalOOM)),
		JobOf(4, "bad", model.Failed, "FAILED", func(j *api.Job) {
			ended(20, 1, 0)(j)
			j.Attempts[0].Usage.Workers = 1
			j.Attempts[0].Usage.Extern = &api.ExternUsage{CPUSeconds: 20.5, SystemSeconds: 5, PeakMemory: 3 * jobspec.MiB}
			one, two := []string{"gpu02"}, []string{"gpu02", "gpu03"}
			j.Attempts[0].Steps = []api.Step{
				{ID: 10, Name: "late", Nodes: one, Tasks: 1, Cores: 2, Start: Minute(9), End: Minute(10), Signal: 9,
					Why: api.StepTimedOut},
				{ID: 0, Name: "prepare", Nodes: one, Tasks: 1, Cores: 8, GPUs: 2, Start: Minute(2), End: Minute(3),
					Usage: &api.Usage{CPUSeconds: 30, PeakMemory: jobspec.GiB, Memory: jobspec.GiB, Workers: 1}},
				{ID: 1, Name: "train", Nodes: two, Tasks: 4, Cores: 16, Start: Minute(4), End: Minute(5), ExitCode: 3,
					Usage: &api.Usage{CPUSeconds: 600, PeakMemory: 3 * jobspec.GiB, Workers: 2}},
				{ID: 2, Name: "large", Nodes: one, Tasks: 1, Cores: 1, Start: Minute(6), End: Minute(7), OOM: true,
					Signal: model.SignalOOM},
				{ID: 3, Name: "cancelled", Nodes: one, Tasks: 1, Cores: 1, Start: Minute(7), End: Minute(8), Signal: 15},
			}
		}),
		JobOf(3, "gone", model.Cancelled, "CANCELLED", func(j *api.Job) {
			j.Ended, j.CancelledBy = Minute(10), &j.UID
		}),
	}
}

// Lab returns a controller with jobs, nodes and queues.
func Lab(t testing.TB) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	// The lists of jobs, filtered as the controller does it.
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var list []api.Job
		for _, j := range LiveJobs() {
			if matches(r, &j) && (!j.Code.Final() || r.URL.Query().Get("all") == "true") {
				list = append(list, withSteps(r, j))
			}
		}
		rotatest.StreamOf(list)(w, r)
	})
	a.On("GET /v1/history", func(w http.ResponseWriter, r *http.Request) {
		var list []api.Job
		for _, j := range EndedJobs() {
			since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
			if matches(r, &j) && (err != nil || !j.Ended.Before(since)) {
				list = append(list, withSteps(r, j))
			}
		}
		_ = json.NewEncoder(w).Encode(rotatest.List("JobList", list...))
	})
	// Single jobs, their steps and their usage.
	a.Give("GET /v1/jobs/7", LiveJobs()[0])
	a.Give("GET /v1/jobs/8", LiveJobs()[1])
	giveSteps(a)
	// The cluster, its queues and its nodes.
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab", Policy: "rota",
		Controllers: []api.Controller{{Name: "c1", HTTP: "c1:7070"}, {Name: "c2"}}})
	config := cluster.DefaultConfig()
	config.Queues = map[string]cluster.Queue{
		"default": {DefaultTime: 3600},
		"gpu":     {MaxTime: 2 * 86400, DefaultTime: 3600, MaxGrace: 30, Aliases: []string{"short"}},
	}
	a.Give("GET /v1/config", config)
	a.Give("GET /v1/nodes", api.NodeList{List: rotatest.List("NodeList", labNodes()...)})
	// Commands that change a job or a node.
	for _, verb := range []string{"hold", "release", "requeue"} {
		a.Give("POST /v1/jobs/7/"+verb, api.ControlResponse{Items: []api.ControlItem{{ID: 7}}})
	}
	for _, verb := range []string{"drain", "resume"} {
		a.Give("POST /v1/nodes/gpu01/"+verb, struct{}{})
	}
	return a
}

// matches reports whether a job passes the filters of a request for jobs.
func matches(r *http.Request, j *api.Job) bool {
	q := r.URL.Query()
	ids := q["id"]
	family := slices.Contains(ids, fmt.Sprint(j.Array.Job))
	return (len(ids) == 0 || family || slices.Contains(ids, fmt.Sprint(j.ID))) &&
		(q.Get("user") == "" || q.Get("user") == j.User) && (q.Get("name") == "" || q.Get("name") == j.Name) &&
		(q.Get("queue") == "" || q.Get("queue") == j.Queue || q.Get("queue") == "short" && j.Queue == "gpu")
}

// withSteps removes the ended steps of a job unless the request asks for them.
func withSteps(r *http.Request, j api.Job) api.Job {
	for i := range j.Attempts {
		if r.URL.Query().Get("steps") != "true" {
			j.Attempts[i].Steps = nil
		}
	}
	return j
}

// giveSteps adds the running steps and the usage of jobs. Job 7 has a running and a waiting step. A
// node of job 8_3 is down. Job 4 has no usage, and job 21 belongs to another user.
func giveSteps(a *rotatest.Answers) {
	a.Give("GET /v1/jobs/7/steps", api.StepList{Items: []api.StepStatus{
		{StepBegun: api.StepBegun{Job: 7, Attempt: 1, Step: 2, Nodes: []string{"gpu01", "gpu02"}, Tasks: []int{2, 1}},
			Name: "python", Cores: 6, GPUs: 2, Started: model.UnixMS(Minute(30).UnixMilli())},
		{StepBegun: api.StepBegun{Job: 7, Attempt: 1, Step: 3}, Name: "waits", Waits: "Requested nodes are busy"}}})
	a.Give("GET /v1/jobs/7/usage", api.JobUsage{Job: 7, Attempt: 1, Live: true, Usage: &api.Usage{CPUSeconds: 4000,
		PeakMemory: 3 * jobspec.GiB, Memory: 4 * jobspec.GiB, Workers: 2,
		Extern: &api.ExternUsage{CPUSeconds: 10, SystemSeconds: 1, PeakMemory: 5 * jobspec.MiB}},
		Workers: []api.WorkerUsage{{Node: "gpu01",
			Usage: &api.Usage{PeakMemory: jobspec.GiB}}, {Node: "gpu02", Usage: &api.Usage{PeakMemory: 3 * jobspec.GiB,
			Extern: &api.ExternUsage{CPUSeconds: 10, SystemSeconds: 1, PeakMemory: 5 * jobspec.MiB}}}},
		Steps: []api.StepUsage{{Step: 2, PeakNode: "gpu02", Usage: &api.Usage{CPUSeconds: 90, Workers: 2,
			PeakMemory: 3 * jobspec.GiB, Memory: 3*jobspec.GiB + 2*jobspec.MiB}}}})
	a.Give("GET /v1/jobs/8_3/usage", api.JobUsage{Job: 12, Attempt: 1, Live: true, Usage: &api.Usage{CPUSeconds: 1,
		PeakMemory: jobspec.GiB, Memory: jobspec.GiB, Workers: 1}, Missing: 1, Error: "worker 1 on node gpu02: it is down",
		Workers: []api.WorkerUsage{{Node: "gpu01", Usage: &api.Usage{PeakMemory: jobspec.GiB}}, {Node: "gpu02"}}})
	a.Give("GET /v1/jobs/4/usage", api.JobUsage{Job: 4, Attempt: 1})
	a.Give("GET /v1/jobs/21/usage", api.JobUsage{Job: 21, Attempt: 1, Live: true,
		Workers: []api.WorkerUsage{{Node: "n9"}}})
	a.Refuse("GET /v1/jobs/21/steps", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 21 is another user's"})
	a.Refuse("GET /v1/jobs/12/steps", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 12 is of another user"})
}

func labNodes() []api.Node {
	gpus := func(model string, used ...model.JobID) []api.NodeGPU {
		list := make([]api.NodeGPU, 4)
		for i := range list {
			if list[i] = (api.NodeGPU{Model: model}); i < len(used) {
				list[i].Job = used[i]
			}
		}
		return list
	}
	return []api.Node{
		{Name: "cpu01", State: "drain", Reason: "new disk", Cores: 32, Memory: 64 * jobspec.GiB, Version: "1"},
		{Name: "gpu01", State: "mix", Cores: 64, CoresUsed: 16, Memory: 512 * jobspec.GiB, MemoryUsed: 32 * jobspec.GiB,
			GPUs: gpus("NVIDIA H100 80GB HBM3", 7, 12), GPUsUsed: 2, Labels: map[string]string{"nvlink": "", "rack": "r1"},
			Version: "1"},
		{Name: "gpu02", State: "alloc", Cores: 64, CoresUsed: 64, Memory: 512 * jobspec.GiB, MemoryUsed: 512 * jobspec.GiB,
			GPUs: gpus("NVIDIA A100-SXM4-80GB", 7, 7, 7, 7), GPUsUsed: 4, Labels: map[string]string{"nvlink": ""}, Version: "1"},
		{Name: "gpu03", State: "idle", Cores: 64, Memory: 512 * jobspec.GiB, GPUs: gpus("NVIDIA H100 80GB HBM3"),
			Version: "1"},
	}
}
