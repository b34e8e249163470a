package views

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// sampleJobs has what makes tables hard: long names, wide lists, reasons, other alphabets, and
// escape sequences.
func sampleJobs() []api.Job {
	base := api.Job{User: "ada", UID: 1000, Account: "vision", Queue: "default", Class: jobspec.BE, Priority: 50,
		Workers:   1,
		TimeLimit: 86400, Submitted: rotatest.At("2026-11-21T08:00:00Z")}
	running, waiting, long, done, dead := base, base, base, base, base
	running.ID, running.Name, running.State, running.Code, running.Started = 7, "train", "RUNNING", model.Running,
		rotatest.At("2026-11-21T08:00:05Z")
	running.Elapsed, running.GPUs, running.Workers, running.Steps = 3725, 32, 4, 1200
	running.Nodes, running.Attempt = []string{"gpu01", "gpu02", "gpu03", "gpu07"}, 1
	running.Attempts = []api.Attempt{{N: 1, Start: running.Started, Nodes: running.Nodes}}
	waiting.ID, waiting.Name, waiting.State, waiting.Code = 8, "größe-测试", "PENDING", model.Pending
	waiting.Reason = api.Reason{Code: "Resources", Text: "no node has enough free for one worker"}
	waiting.GPUs, waiting.Class, waiting.TimeLimit = 1, jobspec.TE, 3600
	long.ID, long.Name, long.State, long.Code = 1234567, strings.Repeat("very-", 12)+"long", "PENDING", model.Pending
	long.User, long.Account, long.GPUs, long.Workers = "a-user-with-a-long-name", "an-account-with-a-long-name", 4096, 512
	long.Reason, long.TimeLimit, long.Elapsed = api.Reason{Code: "Reservation", Text: "waits behind job 8"}, 30*86400,
		12*86400+3661
	done.ID, done.Name, done.State, done.Code, done.Ended = 3, "done\x1b[31m", "COMPLETED", model.Completed,
		rotatest.At("2026-11-21T09:00:00Z")
	done.Started, done.Elapsed, done.GPUs, done.GPUSeconds, done.Nodes,
		done.Attempt = rotatest.At("2026-11-21T08:30:00Z"), 1800, 8, 14400, []string{"gpu01"}, 2
	done.Attempts = []api.Attempt{{N: 1, Usage: &api.Usage{CPUSeconds: 60.5}},
		{N: 2, Usage: &api.Usage{CPUSeconds: 3600, PeakMemory: 5 << 30, GPUUtil: 71, PeakGPUMemory: 12 << 30}}}
	dead.ID, dead.Name, dead.State, dead.Code, dead.Ended = 4, "dead", "OUT_OF_MEMORY", model.OutOfMemory,
		rotatest.At("2026-11-21T09:10:00Z")
	dead.Signal, dead.Nodes, dead.Reason = model.SignalOOM, []string{"gpu02"},
		api.Reason{Code: "OutOfMemory", Text: "it ran out of memory: " +
			"the kernel killed tail (process 475) for memory; the limit is 200MiB"}
	return []api.Job{running, waiting, long, done, dead}
}

func sampleNodes() []api.Node {
	gpu := func(job model.JobID) api.NodeGPU {
		return api.NodeGPU{UUID: "GPU-1", Model: "NVIDIA H200", Memory: 141 * jobspec.GiB, Healthy: true, Job: job}
	}
	return []api.Node{
		{Name: "gpu01", State: "mix", Cores: 128, CoresUsed: 64, Memory: 1 << 40, MemoryUsed: 1536 * jobspec.MiB,
			GPUs:     []api.NodeGPU{gpu(7), gpu(0)},
			GPUsUsed: 1, Jobs: []model.JobID{7, 9}, Version: "0.1.0", LastSeen: rotatest.At("2026-11-21T11:59:59Z"),
			SharedPaths: []string{"/home", "/data"}},
		{Name: "a-node-with-a-very-long-name-indeed.example.com", State: "down",
			Reason: "not heard of for 20 s, and its reason is long too", Cores: 2, Memory: 4 * jobspec.GiB},
	}
}

func sampleCluster(t *testing.T) *rotatest.Answers {
	jobs := sampleJobs()
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf(jobs[:3]))
	a.Give("GET /v1/history", rotatest.List("JobList", jobs[4], jobs[3]))
	a.Give("GET /v1/nodes", rotatest.List("NodeList", sampleNodes()...))
	a.Give("GET /v1/shares", rotatest.List("ShareList", api.Share{Account: "vision", Jobs: 12, Running: 3, GPUs: 32,
		Share:    667,
		Fairness: api.Fairness{Weight: 2, Deserved: 250, Fair: 600, Alloc: 500, Borrowed: 250, Usage: 90_061, Ratio: 1204},
		Users: []api.UserShare{{User: "ann", GPUs: 24, Fairness: api.Fairness{Weight: 1, Deserved: 125, Fair: 300,
			Alloc: 375, Borrowed: 250, Usage: 90_061, Ratio: 2409}},
			{User: "bob", GPUs: 8, Fairness: api.Fairness{Weight: 1, Deserved: 0, Fair: 300, Alloc: 125, Ratio: -1}}}}))
	a.Give("GET /v1/events", rotatest.List("EventList", api.Event{Index: 5, At: rotatest.At("2026-11-21T08:00:05Z"),
		Type: "assigned", Job: 7, Attempt: 1},
		api.Event{Index: 6, At: rotatest.At("2026-11-21T08:00:06Z"), Type: "node-down", Node: "gpu01"},
		api.Event{Index: 9, At: rotatest.At("2026-11-21T08:10:06Z"), Type: "ended", Job: 7, Attempt: 1,
			Cause: model.CauseTE, For: 8}))
	one := jobs[0]
	one.Attempts = append([]api.Attempt{{N: 1, Start: rotatest.At("2026-11-20T08:00:05Z"),
		End: rotatest.At("2026-11-20T09:00:05Z"), Nodes: []string{"gpu09"}, Signal: 15,
		Cause: model.CauseTE}}, api.Attempt{N: 2, Start: one.Started, Nodes: one.Nodes})
	one.Preemptions.TE = 1
	one.Metrics = map[string]float64{"loss": 0.25, "lr": 0.001}
	one.ProgressProblem = "a metric is not a number"
	one.Spec = &jobspec.Job{Name: "train", Groups: []jobspec.Group{{Name: "main", Count: 4,
		Tasks: []jobspec.Task{{Name: "main",
			Script: "#!/bin/bash\necho hi\n", Progress: &jobspec.Progress{Metric: "loss", Goal: "min", Total: 4800},
			Launch: &jobspec.Launch{Type: "torchrun"}, Resources: jobspec.Resources{Cores: 16, Memory: 64 * jobspec.GiB,
				GPUs: 8}}}}}}
	a.Give("GET /v1/jobs/7", one)
	a.Give("GET /v1/jobs/8/why", api.Why{ID: 8, Reason: jobs[1].Reason, Ahead: 2, Advice: "ask for fewer GPUs",
		Funnel: []api.FunnelStep{{What: "are up", Nodes: 12}, {What: "have 1 free GPU", Nodes: 0}}})
	a.Give("GET /v1/check", api.Check{OK: true, Index: 42})
	return a
}

// sampleSharing is a cluster whose jobs share nodes, with a job that is suspended, and what was
// tried with it.
func sampleSharing(t *testing.T) *rotatest.Answers {
	a := rotatest.NewAnswers(t)
	nodes := sampleNodes()
	nodes[0].Load, nodes[0].Height, nodes[0].Affinity, nodes[0].Suspended = 1500, 2, 2,
		[]api.SuspendedJob{{Job: 9, Memory: 64 * jobspec.GiB}, {Memory: jobspec.GiB}}
	a.Give("GET /v1/nodes", api.NodeList{List: rotatest.List("NodeList", nodes...), Shares: true})
	j := sampleJobs()[0]
	j.State, j.Code, j.Suspensions, j.SuspendedGPUSeconds = "SUSPENDED", model.Suspended, 3, 5120
	j.Nodes = []string{"gpu03"}
	j.Attempts = []api.Attempt{{N: 1, Start: rotatest.At("2026-11-20T08:00:05Z"), End: rotatest.At("2026-11-20T09:00:05Z"),
		Nodes: []string{"gpu01"}, Workers: 4, Cause: model.CauseMigrate,
		Trials: []api.Trial{{What: model.TrialPack, With: 9, MeasuredGain: 870, Undone: true}}},
		{N: 2, Start: j.Started, Nodes: j.Nodes, Workers: 4, SuspendedSeconds: 160,
			Suspension: &api.Suspension{Since: rotatest.At("2026-11-21T12:03:00Z"), Cause: model.CauseSlice, For: 7},
			Trials: []api.Trial{{What: model.TrialMigrate, ExpectedGain: 1120, MeasuredGain: 1100},
				{What: model.TrialPack, With: 7, ExpectedGain: 1400, MeasuredGain: 1310}}}}
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{j}))
	a.Give("GET /v1/jobs/7", j)
	a.Give("GET /v1/jobs/7/why", api.Why{ID: 7, Funnel: []api.FunnelStep{}})
	pausing, evicted := j, j
	pausing.ID, pausing.State, pausing.Code, pausing.Flags = 8, "RUNNING", model.Running, []string{"suspending"}
	pausing.Attempts = []api.Attempt{{N: 1, Suspension: &api.Suspension{Cause: model.CauseSlice}}}
	evicted.Attempts = []api.Attempt{{N: 1, Suspension: &api.Suspension{Since: rotatest.At("2026-11-21T12:03:00Z"),
		Cause: model.CauseTE, For: 12}}}
	a.Give("GET /v1/jobs/8", pausing)
	a.Give("GET /v1/jobs/9", evicted)
	paused := model.Reason{Code: model.ReasonSuspended, For: 12, Node: "gpu03",
		Need: model.Vector{GPUs: 4 * model.WholeGPU}}
	a.Give("GET /v1/jobs/9/why", api.Why{ID: 9, Funnel: []api.FunnelStep{},
		Reason: api.Reason{Code: string(paused.Code), Text: paused.Sentence()}})
	at := rotatest.At("2026-11-21T08:00:05Z")
	event := func(index uint64, e model.EventType) api.Event {
		return api.Event{Index: index, At: at, Type: string(e), Job: 7, Attempt: 2, Node: "gpu03", Cause: model.CauseSlice}
	}
	tried, measured := event(7, model.EventTried), event(8, model.EventMeasured)
	tried.Cause, measured.Cause = "", ""
	tried.What, tried.With, tried.ExpectedGain = model.TrialPack, 9, 1400
	measured.What, measured.With, measured.ExpectedGain, measured.MeasuredGain, measured.Undone = model.TrialPack, 9, 1400,
		870, true
	a.Give("GET /v1/events", rotatest.List("EventList", event(5, model.EventSuspending), event(6, model.EventSuspended),
		tried, measured))
	return a
}

// TestJobsThatShareNodes: what users see of suspension, of height and affinity, and of what was
// tried.
func TestJobsThatShareNodes(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: sampleSharing(t).URL}
	var all strings.Builder
	for _, args := range [][]string{
		{"queue"}, {"queue", "--columns", "id,code,state,time,suspensions"},
		{"queue", "--filter", `code == "S"`, "-o", "name"},
		{"nodes"}, {"nodes", "-o", "csv"}, {"nodes", "--columns", "name,load,height,affinity,suspended"},
		{"nodes", "--columns", "name,gpus"}, {"nodes", "--filter", "height > 1", "-o", "name"}, {"nodes", "--summary"},
		{"status", "7"}, {"status", "8"}, {"status", "9"}, {"why", "7"}, {"why", "9"},
		{"events"}, {"events", "--type", "tried,measured", "--columns", "type,job,text"},
		{"events", "--filter", "measured_gain > 0 and undone", "--columns", "type,job,text", "--no-header"},
	} {
		got := s.Run(append(args, "--utc")...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("rota %v: code %d, stderr %q", args, got.Code, got.Stderr)
		}
		all.WriteString("$ rota " + strings.Join(args, " ") + "\n" + got.Stdout + "\n")
	}
	rotatest.Golden(t, *update, "sharing.txt", all.String())
}

// TestPlots: a job's metric in the terminal, and what is said when there is none.
func TestPlots(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs/7/series", func(w http.ResponseWriter, r *http.Request) {
		s := api.Series{Job: 7, Metric: "loss", Goal: "min", Total: 4800, Metrics: []string{"acc", "loss"},
			Points: []api.Point{}}
		switch metric := r.URL.Query().Get("metric"); metric {
		case "", "loss":
			for i := range 30 {
				s.Points = append(s.Points, api.Point{Step: int64(40 * (i + 1)), Value: 3 / float64(i+2)})
			}
		case "acc":
			s.Metric, s.Goal, s.Points = "acc", "", []api.Point{{Step: 40, Value: 0.5}}
		default:
			s.Metric = metric
		}
		_ = json.NewEncoder(w).Encode(s)
	})
	job := sampleJobs()[0]
	a.Give("GET /v1/jobs/7", job)
	a.Give("GET /v1/jobs/8", sampleJobs()[3])
	a.Give("GET /v1/jobs/8/series", api.Series{Job: 8, Metrics: []string{}, Points: []api.Point{}})
	a.Give("GET /v1/jobs/9", sampleJobs()[4])
	a.Give("GET /v1/jobs/9/series", api.Series{Job: 9, Metric: "loss", Metrics: []string{"acc"}, Points: []api.Point{}})
	a.Refuse("GET /v1/jobs/10/series", refusals[exit.Denied])
	var all strings.Builder
	for _, c := range []struct {
		args   []string
		locale string
		code   int
	}{
		{[]string{"status", "--plot", "7", "8"}, "LANG=C.UTF-8", 0}, {[]string{"status", "--plot", "7"}, "LANG=C", 0},
		{[]string{"status", "7", "--plot", "--metric", "acc"}, "LC_ALL=de_DE.utf8@euro", 0},
		{[]string{"status", "7", "--plot", "--metric", "nll"}, "LANG=C", exit.NotFound},
		{[]string{"status", "8", "--plot", "--metric", "nll"}, "LANG=C", 0},
		{[]string{"status", "9", "--plot"}, "LANG=C", 0}, {[]string{"status", "10", "--plot"}, "LANG=C", exit.Denied},
		{[]string{"status", "--plot", "7", "--metric", "acc", "-o", "json"}, "LANG=C", 0},
	} {
		got := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Env: []string{c.locale}}.Run(c.args...)
		if got.Code != c.code {
			t.Errorf("rota %v: code %d, stderr %q", c.args, got.Code, got.Stderr)
		}
		all.WriteString("$ " + c.locale + " rota " + strings.Join(c.args, " ") + "\n" + got.Stdout + got.Stderr + "\n")
	}
	rotatest.Golden(t, *update, "plots.txt", all.String())
}

func TestTables(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: sampleCluster(t).URL}
	commands := []string{
		"queue", "queue -o wide", "queue -o csv", "queue -o name", "queue --no-header", "queue -l", "nodes",
		"nodes -o wide", "nodes -o csv",
		"hist", "hist -o wide", "hist -o name", "hist --columns id,cputime,maxmem,gpuutil,gpumem", "share",
		"events", "events -j 7", "events --type node-down", "status 7",
		"why 8", "check",
	}
	var all strings.Builder
	for _, c := range commands {
		got := s.Run(append(strings.Fields(c), "--utc")...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("rota %s: code %d, stderr %q", c, got.Code, got.Stderr)
		}
		all.WriteString("$ rota " + c + "\n" + got.Stdout + "\n")
	}
	rotatest.Golden(t, *update, "tables.txt", all.String())
}

func TestJSONIsWhatTheAPISays(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: sampleCluster(t).URL}
	want := rotatest.List("JobList", sampleJobs()[:3]...)
	var got api.List[api.Job]
	out := s.Run("queue", "-o", "json")
	if err := json.Unmarshal([]byte(out.Stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, out.Stdout)
	}
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("got %s\nwant %s", b, a)
	}
}

func TestPagesAreJoined(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/history", rotatest.PagesOf(sampleJobs()[:3]))
	got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run("hist", "-o", "name")
	if got.Stdout != "1234567\n8\n7\n" {
		t.Errorf("got %q, %s", got.Stdout, got.Stderr)
	}
}

// sampleFamilies is an array that has begun, one of its elements, a job of two groups, and one that
// waits for it.
func sampleFamilies() []api.Job {
	index := 3
	base := api.Job{User: "ada", Account: "vision", Queue: "default", Class: jobspec.BE, Workers: 1, State: "PENDING",
		Code: model.Pending}
	record, element, pipeline, prep, train, after := base, base, base, base, base, base
	record.ID, record.Name, record.Code = 10, "sweep", model.Running
	record.Array = api.ArrayPlace{Indices: "4-6%2", Size: 4, MaxParallel: 2, Live: 1}
	element.ID, element.Name, element.Code, element.Nodes = 11, "sweep", model.Running, []string{"gpu01"}
	element.Array = api.ArrayPlace{Job: 10, Index: &index, Params: map[string]string{"lr": "1e-3"}}
	pipeline.ID, pipeline.Name = 20, "nightly"
	pipeline.Groups = []api.GroupState{{Name: "prep", ID: 21, Code: model.Pending},
		{Name: "train", ID: 22, Code: model.Pending}}
	prep.ID, prep.Name, prep.Group = 21, "nightly", &api.GroupPlace{Job: 20, Name: "prep"}
	train.ID, train.Name, train.Group = 22, "nightly", &api.GroupPlace{Job: 20, Name: "train"}
	train.Dependencies = []api.Dependency{{Type: "afterok", Jobs: []model.JobID{21}}}
	train.Reason = api.Reason{Code: "Dependency"}
	after.ID, after.Name, after.Reason = 30, "report", api.Reason{Code: "Dependency"}
	after.Dependencies = []api.Dependency{{Type: "afterany", Jobs: []model.JobID{10, 20}, Match: "any", Delay: 60}}
	after.Eligible = rotatest.At("2026-11-21T12:00:00Z")
	return []api.Job{record, element, pipeline, prep, train, after}
}

func TestFamiliesInTheQueue(t *testing.T) {
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf(sampleFamilies()))
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	var all strings.Builder
	for _, c := range []string{"queue", "queue --array", "queue --tree", "queue --start",
		"queue --columns id,depends,start --no-header", "queue -o name"} {
		got := s.Run(append(strings.Fields(c), "--utc")...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("rota %s: code %d, stderr %q", c, got.Code, got.Stderr)
		}
		all.WriteString("$ rota " + c + "\n" + got.Stdout + "\n")
	}
	rotatest.Golden(t, *update, "families.txt", all.String())
}

func TestViews(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Addr: sampleCluster(t).URL}
	var all strings.Builder
	for _, args := range [][]string{
		{"queue", "--columns", "id,memory,steps", "--sort", "-steps"}, {"queue", "--sort", "gpus,-id", "-o", "name"},
		{"queue", "--filter", `gpus > 1 and "gpu01" in nodes`}, {"queue", "--filter",
			`reason.code == "Reservation" or name matches "^tr"`, "-o", "name"},
		{"hist", "--filter", `ended > date("2026-11-21T09:05:00Z")`, "--columns", "id,state,reason", "--utc"},
		{"queue", "-o", "template={{.id}} {{.name}} {{if .nodes}}{{index .nodes 0}}{{end}}"}, {"share", "-o", "yaml"},
		{"nodes", "-o", "template={{.name}}: {{range .gpus}}{{.model}} {{end}}"},
		{"events", "--filter", "job == 7", "-o", "csv", "--utc"},
		{"queue", "--columns", "id,nmae"}, {"queue", "--sort", "tme"}, {"queue", "--columns", "help"},
		{"queue", "--filter", "gpsu > 4"},
		{"queue", "--filter", "gpus >"}, {"queue", "--filter", "name > 4"}, {"queue", "-o", "template={{.id}} {{.name"},
		{"queue", "-o", "template={{if .id}}{{.id}}{{end}} {{nope .id}}"}, {"queue", "-o", "template={{.id}} {{.nmae}}"},
		{"queue", "-o", "template"},
		{"queue", "-o", "yml"}, {"queue", "-i", "0"},
	} {
		got := s.Run(args...)
		all.WriteString("$ rota " + strings.Join(args, " ") + "\n" + got.Stdout + got.Stderr)
		if got.Code != 0 {
			all.WriteString("exit " + strconv.Itoa(got.Code) + "\n")
		}
		all.WriteString("\n")
	}
	rotatest.Golden(t, *update, "views.txt", all.String())
}
