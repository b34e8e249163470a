package slurm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// The goldens have times of day and numbers that follow from them.
func init() { time.Local = time.UTC }

// minute is a time of the tests' day, at which the clock stands at 13:00.
func minute(n int) *api.Time {
	return &api.Time{Time: time.Date(2026, 11, 21, 12, n, 0, 0, time.Local)}
}

// Jobs of the tests are of user ann, whose number and group are those that no machine has.
func jobOf(id model.JobID, name string, code model.JobState, state string, edit func(*api.Job)) api.Job {
	j := api.Job{ID: id, Name: name, User: "ann", UID: 4_000_001, GID: 4_000_002, Account: "physics", Queue: "gpu",
		Class: jobspec.BE, Code: code, State: state, Priority: 50, Submitted: minute(0), TimeLimit: 7200, Workers: 1,
		Cores:  8,
		Memory: 16 * jobspec.GiB, GPUs: 2, Workdir: "/home/ann", Flags: []string{}, Nodes: []string{}}
	if edit != nil {
		edit(&j)
	}
	return j
}

// liveJobs are one that runs, an array of which some wait, one runs and some were cancelled before
// they began, one that is held, and one that has just ended.
func liveJobs() []api.Job {
	ran := func(j *api.Job) {
		j.Attempt, j.Started, j.Elapsed, j.Nodes = 1, minute(1), 3540, []string{"gpu01"}
		j.Attempts = []api.Attempt{{N: 1, Start: j.Started, Nodes: j.Nodes,
			Usage: &api.Usage{CPUSeconds: 61.5, PeakMemory: 1537 * jobspec.KiB}}}
	}
	return []api.Job{
		jobOf(7, "train", model.Running, "RUNNING", func(j *api.Job) {
			ran(j)
			j.Comment, j.Nodes, j.Workers = "https://ci/7", []string{"gpu01", "gpu02"}, 2
			j.Spec = &jobspec.Job{Name: j.Name, Workdir: j.Workdir, Features: []string{"nvlink"},
				ExcludeNodes: []string{"gpu09"}, Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
					Launch: &jobspec.Launch{Type: "slurm", Nproc: 4}, Log: &jobspec.Log{Stdout: "logs/%x-%j.out"}}}}}}
		}),
		jobOf(8, "sweep", model.Running, "RUNNING", func(j *api.Job) {
			j.Array = api.ArrayPlace{Indices: "4-9%2", Dropped: "2,11", Size: 10, MaxParallel: 2, Live: 1}
			j.Reason = api.Reason{Code: "JobArrayTaskLimit", Text: "as many run as may"}
		}),
		jobOf(12, "sweep", model.Checkpointing, "CHECKPOINTING", func(j *api.Job) {
			ran(j)
			j.Array = api.ArrayPlace{Job: 8, Index: new(3)}
		}),
		jobOf(20, "buildkite", model.Pending, "PENDING", func(j *api.Job) {
			j.Comment, j.Flags, j.TimeLimit, j.GPUs = "https://ci/20", []string{"held"}, 0, 0
			j.Reason = api.Reason{Code: "JobHeldUser"}
			j.Dependencies = []api.Dependency{{Type: "afterok", Jobs: []model.JobID{7}}}
		}),
		jobOf(21, "other", model.Pending, "PENDING", func(j *api.Job) {
			j.User, j.UID, j.Queue, j.Reason = "bob", 4_000_003, "default", api.Reason{Code: "Resources"}
		}),
		jobOf(30, "done", model.Completed, "COMPLETED", func(j *api.Job) { ran(j); j.Ended = minute(58) }),
		jobOf(31, "old", model.Completed, "COMPLETED", func(j *api.Job) { ran(j); j.Ended = minute(50) }),
	}
}

// endedJobs are the history: the newest first.
func endedJobs() []api.Job {
	ended := func(at int, code, signal int) func(*api.Job) {
		return func(j *api.Job) {
			j.Attempt, j.Started, j.Ended, j.Elapsed, j.Nodes = 1, minute(1), minute(at), 60*jobspec.Seconds(at-1),
				[]string{"gpu02"}
			j.ExitCode, j.Signal = code, signal
			j.Attempts = []api.Attempt{{N: 1, Start: j.Started, End: j.Ended, Nodes: j.Nodes,
				Usage: &api.Usage{CPUSeconds: 4000, PeakMemory: 2 * jobspec.GiB}}}
		}
	}
	return []api.Job{
		liveJobs()[5], liveJobs()[6],
		jobOf(9, "sweep", model.Completed, "COMPLETED", func(j *api.Job) {
			ended(40, 0, 0)(j)
			j.Attempts[0].Steps = []api.Step{{ID: 0, Name: "one", Nodes: j.Nodes, Tasks: 1, Cores: 1, Start: minute(2),
				End: minute(3)}}
			j.Array = api.ArrayPlace{Job: 8, Index: new(0)}
		}),
		jobOf(5, "oom", model.OutOfMemory, "OUT_OF_MEMORY", ended(30, 0, 9)),
		jobOf(4, "bad", model.Failed, "FAILED", func(j *api.Job) {
			ended(20, 1, 0)(j)
			one, two := []string{"gpu02"}, []string{"gpu02", "gpu03"}
			j.Attempts[0].Steps = []api.Step{
				{ID: 10, Name: "late", Nodes: one, Tasks: 1, Cores: 2, Start: minute(9), End: minute(10), Signal: 9,
					Why: api.StepTimedOut},
				{ID: 0, Name: "prepare", Nodes: one, Tasks: 1, Cores: 8, GPUs: 2, Start: minute(2), End: minute(3),
					Usage: &api.Usage{CPUSeconds: 30, PeakMemory: jobspec.GiB, Memory: jobspec.GiB, Workers: 1}},
				{ID: 1, Name: "train", Nodes: two, Tasks: 4, Cores: 16, Start: minute(4), End: minute(5), ExitCode: 3,
					Usage: &api.Usage{CPUSeconds: 600, PeakMemory: 3 * jobspec.GiB, Workers: 2}},
				{ID: 2, Name: "large", Nodes: one, Tasks: 1, Cores: 1, Start: minute(6), End: minute(7), Signal: 9, OOM: true},
				{ID: 3, Name: "cancelled", Nodes: one, Tasks: 1, Cores: 1, Start: minute(7), End: minute(8), Signal: 15},
			}
		}),
		jobOf(3, "gone", model.Cancelled, "CANCELLED", func(j *api.Job) { j.Ended = minute(10) }),
	}
}

// lab is a controller with jobs, nodes and queues.
func lab(t testing.TB) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	named := func(r *http.Request, j *api.Job) bool {
		q := r.URL.Query()
		ids := q["id"]
		family := slices.Contains(ids, fmt.Sprint(j.Array.Job))
		return (len(ids) == 0 || family || slices.Contains(ids, fmt.Sprint(j.ID))) &&
			(q.Get("user") == "" || q.Get("user") == j.User) && (q.Get("name") == "" || q.Get("name") == j.Name) &&
			(q.Get("queue") == "" || q.Get("queue") == j.Queue || q.Get("queue") == "short" && j.Queue == "gpu")
	}
	withSteps := func(r *http.Request, j api.Job) api.Job {
		for i := range j.Attempts {
			if r.URL.Query().Get("steps") != "true" {
				j.Attempts[i].Steps = nil
			}
		}
		return j
	}
	a.On("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var list []api.Job
		for _, j := range liveJobs() {
			if named(r, &j) && (!j.Code.Final() || r.URL.Query().Get("all") == "true") {
				list = append(list, withSteps(r, j))
			}
		}
		rotatest.StreamOf(list)(w, r)
	})
	a.On("GET /v1/history", func(w http.ResponseWriter, r *http.Request) {
		var list []api.Job
		for _, j := range endedJobs() {
			since, err := time.Parse(time.RFC3339, r.URL.Query().Get("since"))
			if named(r, &j) && (err != nil || !j.Ended.Before(since)) {
				list = append(list, withSteps(r, j))
			}
		}
		_ = json.NewEncoder(w).Encode(rotatest.List("JobList", list...))
	})
	a.Give("GET /v1/jobs/7", liveJobs()[0])
	a.Give("GET /v1/jobs/8", liveJobs()[1])
	a.Give("GET /v1/jobs/7/steps", api.StepList{Items: []api.StepStatus{
		{StepBegun: api.StepBegun{Job: 7, Attempt: 1, Step: 2, Nodes: []string{"gpu01", "gpu02"}, Tasks: []int{2, 1}},
			Name: "python", Cores: 6, GPUs: 2, Started: model.UnixMS(minute(30).UnixMilli())},
		{StepBegun: api.StepBegun{Job: 7, Attempt: 1, Step: 3}, Name: "waits", Waits: "Requested nodes are busy"}}})
	a.Give("GET /v1/jobs/7/usage", api.JobUsage{Job: 7, Attempt: 1, Live: true, Usage: &api.Usage{CPUSeconds: 4000,
		PeakMemory: 3 * jobspec.GiB, Memory: 4 * jobspec.GiB, Workers: 2}, Workers: []api.WorkerUsage{{Node: "gpu01",
		Usage: &api.Usage{PeakMemory: jobspec.GiB}}, {Node: "gpu02", Usage: &api.Usage{PeakMemory: 3 * jobspec.GiB}}},
		Steps: []api.StepUsage{{Step: 2, PeakNode: "gpu02", Usage: &api.Usage{CPUSeconds: 90, Workers: 2,
			PeakMemory: 3 * jobspec.GiB, Memory: 3*jobspec.GiB + 2*jobspec.MiB}}}})
	a.Give("GET /v1/jobs/8_3/usage", api.JobUsage{Job: 12, Attempt: 1, Live: true, Usage: &api.Usage{CPUSeconds: 1,
		PeakMemory: jobspec.GiB, Memory: jobspec.GiB, Workers: 1}, Missing: 1, Error: "worker 1 on node gpu02: it is down",
		Workers: []api.WorkerUsage{{Node: "gpu01", Usage: &api.Usage{PeakMemory: jobspec.GiB}}, {Node: "gpu02"}}})
	a.Give("GET /v1/jobs/4/usage", api.JobUsage{Job: 4, Attempt: 1})
	a.Refuse("GET /v1/jobs/21/usage", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 21 is another user's"})
	a.Refuse("GET /v1/jobs/12/steps", api.Problem{Status: 403, Code: api.CodeDenied, Detail: "job 12 is of another user"})
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab", Policy: "rota", Controllers: []api.Controller{{Name: "c1"},
		{Name: "c2"}}})
	config := model.DefaultConfig()
	config.Queues = map[string]model.Queue{
		"default": {DefaultTime: 3600},
		"gpu":     {MaxTime: 2 * 86400, DefaultTime: 3600, MaxGrace: 30, Aliases: []string{"short"}},
	}
	a.Give("GET /v1/config", config)
	a.Give("GET /v1/nodes", api.NodeList{List: rotatest.List("NodeList", labNodes()...)})
	for _, verb := range []string{"hold", "release", "requeue"} {
		a.Give("POST /v1/jobs/7/"+verb, api.ControlResponse{Items: []api.ControlItem{{ID: 7}}})
	}
	for _, verb := range []string{"drain", "resume"} {
		a.Give("POST /v1/nodes/gpu01/"+verb, struct{}{})
	}
	return a
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

// oodFields are the fields that Open OnDemand asks squeue for.
var oodFields = strings.Fields(`Account JobID BatchHost MinCpus NumCPUs MinTmpDisk NumNodes EndTime Dependency Feature
	ArrayJobID GroupName GroupID OverSubscribe Sockets JobArrayID Cores Name Threads Comment ArrayTaskID TimeLimit TimeLeft
	MinMemory TimeUsed ReqNodes NodeList Command Contiguous QOS Partition PriorityLong Reason StartTime StateCompact State
	UserName UserID Reservation SubmitTime WCKey Licenses ExcNodes CoreSpec Nice SchedNodes SCT WorkDir tres-alloc
	tres-per-node`)

// oodFormat is how Open OnDemand asks for them.
func oodFormat() string { return strings.Join(oodFields, ":\x1f,") + ":\x1f," }

const oodAcct = "User,Group,JobId,JobName,Elapsed,ReqMem,AllocCPUS,ReqCPUS,Timelimit,State,TotalCPU,MaxRSS,Partition," +
	"Submit,Start,End,ReqTRES,AllocTRES"

// TestClients has the command lines of Slurm's clients as they call them, and what they get.
func TestClients(t *testing.T) {
	a := lab(t)
	lines := [][]string{
		// submitit
		{"sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", "7", "-j", "8", "-j", "4", "-j", "99"},
		// snakemake
		{"sacct", "-X", "--parsable2", "--clusters", "all", "--noheader", "--format=JobIdRaw,State", "--starttime",
			"2026-11-21T12:00", "--endtime", "now", "--name", "sweep", "-a"},
		{"squeue", "--format=%i|%T", "--states=all", "--noheader", "--name", "done"},
		{"scontrol", "show", "config"},
		{"sacct", "-j", "7", "-n", "-X", "-o", "nodelist%-256"},
		{"sacct", "-j", "7.batch", "--format=JobID,Reason,MaxRSS,TotalCPU", "--noheader"},
		{"sinfo", "-o", "%P"},
		{"sacct", "-nu", "ann", "-o", "Account%256"},
		// nextflow
		{"squeue", "--noheader", "-o", "%i %t", "-t", "all", "-p", "gpu", "-u", "ann"},
		{"squeue", "--noheader", "-o", "%i %t", "-t", "all", "--only-job-state"},
		// batchspawner
		{"squeue", "-h", "-j", "7", "-o", "%T %B"},
		{"squeue", "-h", "-j", "20", "-o", "%T %B"},
		// Open OnDemand
		{"squeue", "--all", "--states=all", "--noconvert", "-O", oodFormat(), "-u", "ann"},
		{"squeue", "--all", "--states=all", "--noconvert", "-O", oodFormat(), "-j", "8", "-M", "lab"},
		{"sacct", "-P", "--delimiter", "\x1f", "-n", "--units", "G", "--allocations", "-o", oodAcct, "--state",
			"COMPLETED,FAILED", "-j", "4,7,8", "-S", "now-86400", "-E", "now+1"},
		{"sinfo", "-aho %F/%C"},
		{"sinfo", "-ahNO", "nodehost:100,gres:512,gresused:512,statelong"},
		{"sinfo", "-ho", "\x1e%c\x1f%n\x1f%f"},
		{"scontrol", "show", "part", "-o"},
		{"scontrol", "hold", "7"},
		{"scontrol", "release", "7"},
		// steps
		{"sacct", "-j", "4", "-o", "JobID,JobName,AllocCPUS,NTasks,NNodes,NodeList,State,ExitCode,Elapsed,Start,End,MaxRSS," +
			"AveRSS,TotalCPU,AllocTRES%40", "-P"},
		{"sacct", "-j", "7", "-o", "JobID,JobName,AllocCPUS,NTasks,NNodes,NodeList,State,ExitCode,Elapsed,Start,End,MaxRSS," +
			"AveRSS,TotalCPU", "-P"},
		{"sstat", "-j", "7"}, {"sstat", "-a", "-P", "-j", "7"}, {"sstat", "-n", "-j", "7.batch"}, {"sstat", "-j", "8_3"},
		{"sstat", "-n", "-P", "-j", "7.2", "-o", "jobid%20,avecpu,MaxRSSTask,TRESUsageInTot", "--noconvert"},
		{"sacct", "-n", "-j", "4.0,8_0.0,7.2,7.1", "-o", "jobid,jobname,state"},
		{"sacct", "-n", "-j", "8_3.0,4.extern", "-o", "jobid"}, {"sacct", "-n", "-X", "-j", "4.0", "-o", "jobid"},
		// parsl
		{"sacct", "-X", "-a"},
		{"sacct", "-X", "--noheader", "--format=jobid,state%20", "--job", "4,5,7"},
		{"squeue", "--noheader", "--format=%i %t", "--job", "7,12"},
		// SkyPilot
		{"squeue", "-h", "-o", "%i", "--states", "pending,running", "--name", "train"},
		{"squeue", "-h", "--only-job-state", "--jobs", "7", "-o", "%T"},
		{"squeue", "-h", "--jobs", "20", "--states", "all", "-o", "%r"},
		{"squeue", "-h", "--jobs", "7", "-o", "%N"},
		{"squeue", "-h", "--nodelist", "gpu01", "-o", "%b"},
		{"sinfo", "-h", "--Node", "-o", "%N\x1f%t\x1f%G\x1f%c\x1f%m\x1f%P"},
		{"scontrol", "show", "node", "gpu01"},
		{"scontrol", "show", "partitions", "-o"},
		// slurm-buildkite
		{"squeue", "--name=buildkite", "--noheader", "--format=%k,%A"},
		// people
		{"squeue"}, {"squeue", "-l", "-S", "-i"}, {"squeue", "-r", "-j", "8", "-t", "PD,CA", "-o", "%i %F %K %t"},
		{"squeue", "-h", "-j", "8_5", "-o", "%i %T"}, {"squeue", "-h", "-j", "8_3,8_[5-6]", "-o", "%i %T"},
		{"squeue", "--start"}, {"squeue", "-O", "JobID:10,Name:.6,State:|,TimeLimit:12|"},
		{"sacct", "-a", "-S", "12:00"}, {"sacct", "-b", "-j", "4"}, {"sacct", "-a", "-s", "F", "-S", "12:00", "-E",
			"12:25", "-X"},
		{"sacct", "-lp", "-j", "5"}, {"sacct", "-a", "-X", "-s", "R"}, {"sacct", "-X", "-j", "8", "-o",
			"jobid,jobidraw,start"},
		{"sinfo"}, {"sinfo", "-N", "-l"}, {"sinfo", "-s"}, {"sinfo", "-R"}, {"sinfo", "-t", "idle,drained", "-o", "%n %T"},
		{"sinfo", "-p", "gpu", "-n", "gpu[01-03]", "-o", "%R %D %t %G"}, {"sinfo", "-e", "-o", "%D %c"}, {"sinfo", "-V"},
		{"scontrol", "show", "job", "7"}, {"scontrol", "-o", "show", "job", "8"}, {"scontrol", "show", "partition", "gpu"},
		{"scontrol", "show", "nodes", "cpu01,gpu02", "-o"},
		{"scontrol", "update", "NodeName=gpu01", "State=DRAIN", "Reason=new disk"},
		{"scontrol", "update", "nodename=gpu01", "state=resume"},
	}
	var all strings.Builder
	for _, args := range lines {
		code, out, said := run(t, a.URL, []string{"HOME=/"}, args...)
		fmt.Fprintf(&all, "$ %q\n%s%s", args, out, said)
		if code != 0 {
			t.Errorf("%q: exit code %d: %s", args, code, said)
		}
	}
	rotatest.Golden(t, *update, "clients.txt", all.String())
}

// TestOnDemandReads: each of the fields is there, and the header is passed over as the client does.
func TestOnDemandReads(t *testing.T) {
	a := lab(t)
	for _, more := range [][]string{nil, {"-M", "lab"}} {
		args := append([]string{"squeue", "--all", "--states=all", "--noconvert", "-O", oodFormat(), "-j", "7"}, more...)
		_, out, _ := run(t, a.URL, []string{"SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S%z"}, args...)
		_, out, found := strings.Cut(out, "\x1f\n")
		values := strings.Split(strings.TrimSuffix(out, "\n"), "\x1f")
		if !found || len(values) != len(oodFields)+1 {
			t.Fatalf("%d values for %d fields:\n%q", len(values), len(oodFields), out)
		}
		got := map[string]string{}
		for i, name := range oodFields {
			got[name] = values[i]
		}
		if _, err := time.Parse("2006-01-02T15:04:05-0700", got["SubmitTime"]); err != nil {
			t.Error(err)
		}
		if got["JobID"] != "7" || got["StateCompact"] != "R" || got["NodeList"] != "gpu[01-02]" || got["NumCPUs"] != "8" ||
			got["tres-per-node"] != "gres/gpu:1" || got["tres-alloc"] != "cpu=8,mem=16G,node=2,billing=8,gres/gpu=2" ||
			got["MinMemory"] != "8192M" || got["Feature"] != "nvlink" || got["TimeLeft"] != "1:01:00" {
			t.Errorf("%q", got)
		}
	}
	_, out, _ := run(t, a.URL, nil, "scontrol", "show", "part", "-o")
	pair := regexp.MustCompile(`^(\w+)=(.+)$`)
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		for _, word := range strings.Fields(line) {
			if !pair.MatchString(word) {
				t.Errorf("%q is no key with a value", word)
			}
		}
	}
	_, out, _ = run(t, a.URL, nil, "sinfo", "-ahNO", "nodehost:100,gres:512,gresused:512,statelong")
	number := regexp.MustCompile(`gpu[s:]*[\w()-]*[=:]?(\d+)(?:[(,]|$)`)
	total, used := "", ""
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if words := strings.Fields(line); words[3] != "drained" {
			total += number.FindStringSubmatch(words[1])[1]
			used += number.FindStringSubmatch(words[2])[1]
		}
	}
	if total != "444" || used != "240" {
		t.Errorf("GPUs %s, used %s of\n%s", total, used, out)
	}
}

// TestSubmititReads reads the states of jobs as submitit does.
func TestSubmititReads(t *testing.T) {
	a := lab(t)
	_, out, _ := run(t, a.URL, nil, "sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", "8", "-j", "4")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	names := strings.Split(lines[0], "|")
	id := regexp.MustCompile(`^(\d+)_\[([^\]]*)\]$`)
	got := map[string]string{}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, value := range strings.Split(line, "|") {
			row[names[i]] = value
		}
		if strings.Contains(row["JobID"], ".") {
			continue
		}
		ids := []string{row["JobID"]}
		if m := id.FindStringSubmatch(row["JobID"]); m != nil {
			spans, _, _ := strings.Cut(m[2], "%")
			runs, err := jobspec.ParseIndices(spans)
			if err != nil {
				t.Fatal(err)
			}
			ids = nil
			for _, r := range runs {
				for n := r.First; n <= r.Last; n += r.Step {
					ids = append(ids, fmt.Sprintf("%s_%d", m[1], n))
				}
			}
		}
		for _, name := range ids {
			got[name] = strings.Fields(row["State"])[0]
		}
	}
	want := map[string]string{"4": "FAILED", "8_0": "COMPLETED", "8_2": "CANCELLED", "8_3": "COMPLETING", "8_4": "PENDING",
		"8_9": "PENDING", "8_11": "CANCELLED"}
	for name, state := range want {
		if got[name] != state {
			t.Errorf("%s is %q, want %s, in\n%s", name, got[name], state, out)
		}
	}
	if len(got) != 11 {
		t.Errorf("%d states: %v", len(got), got)
	}
}

// TestJSON reads what clients read of the JSON of data_parser v0.0.42.
func TestJSON(t *testing.T) {
	a := lab(t)
	var all strings.Builder
	for _, args := range []string{"squeue --json -u ann -t all", "sacct --json -j 4,7,8", "sinfo --json",
		"scontrol show job 7 --json",
		"scontrol show node gpu01 --json", "scontrol show partitions --json", "squeue --json --name nothing"} {
		code, out, said := run(t, a.URL, nil, strings.Fields(args)...)
		var tree any
		if err := json.Unmarshal([]byte(out), &tree); code != 0 || err != nil {
			t.Fatalf("%s: %d %s %v\n%s", args, code, said, err, out)
		}
		text, err := json.MarshalIndent(tree, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "$ %s\n%s\n", args, text)
	}
	rotatest.Golden(t, *update, "json.txt", all.String())

	_, out, _ := run(t, a.URL, nil, "squeue", "--json", "-j", "7")
	var list struct {
		Meta struct {
			Plugin struct {
				DataParser string `json:"data_parser"`
			} `json:"plugin"`
			Slurm struct{ Cluster, Release string }
		}
		Errors, Warnings []any
		Jobs             []struct {
			JobID     int      `json:"job_id"`
			State     []string `json:"job_state"`
			TimeLimit number   `json:"time_limit"`
			Start     number   `json:"start_time"`
			Array     number   `json:"array_job_id"`
			TRES      string   `json:"tres_alloc_str"`
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Jobs) != 1 {
		t.Fatalf("%v in\n%s", err, out)
	}
	if j := list.Jobs[0]; j.JobID != 7 || j.State[0] != "RUNNING" || j.TimeLimit != (number{Set: true, Number: 120}) ||
		j.Start != (number{Set: true, Number: minute(1).Unix()}) || j.Array != (number{Set: true}) ||
		list.Meta.Slurm.Cluster != "lab" || list.Meta.Plugin.DataParser != "data_parser/v0.0.42" || list.Errors == nil {
		t.Errorf("%+v", list)
	}
}

// TestQueriesRefused: what is not there is refused by name, with exit code 1 and nothing in the output.
func TestQueriesRefused(t *testing.T) {
	a := lab(t)
	for args, want := range map[string]string{
		"squeue -O Account,Nonsense":   "squeue: error: Invalid job format specification: Nonsense: JobArrayID",
		"squeue -S s":                  "squeue: error: Invalid sort specification: s: %",
		"squeue -i 0":                  "squeue: error: --iterate=0:",
		"squeue -t":                    "squeue: error: flag needs an argument: 't'",
		"squeue -j 99":                 "slurm_load_jobs error: Invalid job id specified\n",
		"squeue -w ,":                  "squeue: error: --nodelist is empty\n",
		"squeue -L matlab":             "squeue: error: unknown shorthand flag: 'L'",
		"squeue -j 8_10":               "slurm_load_jobs error: Invalid job id specified\n",
		"squeue -j 8_x":                "squeue: error: Invalid job id: 8_x\n",
		"sacct -o jobid,nonsense":      "sacct: error: Invalid field requested: \"nonsense\"\n",
		"sacct -o jobid%x":             "sacct: error: Invalid field width: \"jobid%x\"\n",
		"sacct -S soon":                "sacct: error: Invalid time specification (pos=0): soon",
		"sacct -S now -E now-1hour":    "sacct: error: Start time (",
		"sacct -s NOPE":                "sacct: error: Invalid job state specified: NOPE: valid job states are BOOT_FAIL,",
		"sacct -j x":                   "sacct: error: Invalid job id: x\n",
		"sacct -j 4,7.batch":           "sacct: error: jobs and steps cannot be named together",
		"sacct --units=X":              "sacct: error: Invalid unit type X",
		"sacct -D":                     "sacct: error: unknown shorthand flag: 'D'",
		"sacct 7":                      "sacct: error: Unrecognized option: 7\n",
		"sacct -M elsewhere":           "sacct: error: 'elsewhere' can't be reached now",
		"sstat":                        "sstat: error: You didn't give me any jobs to stat.\n",
		"sstat -n -j 4":                "sstat: error: problem getting step_layout for 4: Invalid job id specified\n",
		"sstat -n -j 7.0":              "sstat: error: problem getting step_layout for 7.0: Invalid job id specified\n",
		"sstat -n -j 7.x":              "sstat: error: problem getting step_layout for 7.x: Invalid job id specified\n",
		"sstat -n -j 21.0":             "sstat: error: problem getting step_layout for 21.0: Access/permission denied\n",
		"sstat -j x":                   "sstat: error: Invalid job id: x\n",
		"sstat -o Watts -j 7":          "sstat: error: Unknown field 'Watts': there are JobID,",
		"sstat -i -j 7":                "sstat: error: unknown shorthand flag: 'i'",
		"sinfo -t busy":                "sinfo: error: Bad state string: \"busy\": valid node states are all,",
		"sinfo -o %k":                  "sinfo: error: %k of the format \"%k\" is not supported",
		"sinfo -T":                     "sinfo: error: unknown shorthand flag: 'T'",
		"scontrol show node gpu99":     "Node gpu99 not found\n",
		"scontrol show partition nope": "Partition nope not found\n",
		"scontrol hold 99":             "scontrol: error: Invalid job id specified for job 99\n",
		"scontrol show reservation":    "scontrol: error: invalid entity: reservation",
		"scontrol update NodeName=gpu01 State=DRAIN":  "scontrol: error: You must specify a reason when DRAINING a node.",
		"scontrol update NodeName=gpu01 State=FAIL":   "scontrol: error: Invalid node state specified: FAIL",
		"scontrol update NodeName=gpu01 Weight=2":     "scontrol: error: update of Weight of a node is not supported",
		"scontrol update NodeName=gpu01 Reason=stuck": "scontrol: error: no update specified",
	} {
		code, out, said := run(t, a.URL, nil, strings.Fields(args)...)
		if code != 1 || out != "" || !strings.HasPrefix(said, want) {
			t.Errorf("%s: %d\n%s%s\nwant\n%s", args, code, out, said, want)
		}
	}
	for _, args := range []string{"squeue", "sacct", "sinfo", "scontrol show node", "scontrol show config",
		"scontrol show partition", "squeue --json", "scontrol -M lab show job"} {
		if code, out, said := run(t, "unix:/nowhere/at/all", nil, strings.Fields(args)...); code != 1 || out != "" ||
			!strings.Contains(said, " error: Unable to contact slurm controller") {
			t.Errorf("%s: %d %q %q", args, code, out, said)
		}
	}
}

// TestAliases: a partition by its alias is that which it stands for.
func TestAliases(t *testing.T) {
	a := lab(t)
	for args, want := range map[string]string{
		"squeue -h -p short -o %i,%P -j 7":          "7,gpu\n",
		"sacct -nXP -a -r short -o JobID -j 7":      "7\n",
		"sinfo -h -p short -o %R":                   "gpu\n",
		"scontrol -o show partition short":          "PartitionName=gpu ",
		"squeue -h --partitions=short -o %i -j 7,8": "7\n8_[4-9%2]\n",
	} {
		environ := []string{"SQUEUE_PARTITION=default", "SQUEUE_FORMAT2=UserName"}
		code, out, said := run(t, a.URL, environ, strings.Fields(args)...)
		if code != 0 || !strings.HasPrefix(out, want) || said != "" {
			t.Errorf("%s: %d %q %s, want %q", args, code, out, said, want)
		}
	}
	if code, _, said := run(t, a.URL, []string{"SQUEUE_ALL=x"}, "squeue"); code != 1 ||
		said != "squeue: error: Unrecognized SQUEUE_ALL value: x: write yes or no\n" {
		t.Errorf("%d %q", code, said)
	}
}

// TestSpecOfAJob: what a job asks for is written as its submission has it.
func TestSpecOfAJob(t *testing.T) {
	r := &jobRow{source: &source{}, Job: &api.Job{Priority: 40, Spec: &jobspec.Job{Features: []string{"a", "b|c"},
		Licenses: map[string]int{"matlab": 2}, Meta: map[string]string{"wckey": "k"}}}}
	got := ""
	for _, name := range []string{"Feature", "WCKey", "Licenses", "Nice"} {
		i := slices.IndexFunc(jobFields, func(f field[*jobRow]) bool { return f.long == name })
		got += jobFields[i].text(r) + " "
	}
	if want := "a&(b|c) k matlab:2 10 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWhoseJobsSacctShows: those of the caller, unless it is root, asks for all or names jobs.
func TestWhoseJobsSacctShows(t *testing.T) {
	a := lab(t)
	if os.Getuid() != 0 {
		if _, out, _ := run(t, a.URL, nil, "sacct", "-n", "-X"); out != "" {
			t.Errorf("jobs of others:\n%s", out)
		}
	}
	for args, want := range map[string]string{
		"-a -S 12:00":            "3 4 5 7 8_[4-9%2] 8_[2,11] 8_0 8_3 20 21 30 31",
		"-a -S 12:30":            "5 7 8_[4-9%2] 8_[2,11] 8_0 8_3 20 21 30 31",
		"-a -u bob":              "21",
		"-u 4000003":             "21",
		"-j 4":                   "4",
		"-j 4,99 -j 5":           "4 5",
		"-j 8_4":                 "8_4",
		"-j 8_[4,5,2],8_3,8_0":   "8_[4-5%2] 8_2 8_0 8_3",
		"-j 8_5,8,4":             "4 8_[4-9%2] 8_[2,11] 8_0 8_3",
		"-j 8 -j 8_5":            "8_[4-9%2] 8_[2,11] 8_0 8_3",
		"-j 8_10":                "",
		"-a -N gpu02 -S 12:45":   "7",
		"-a -S now -s PD":        "8_[4-9%2] 20 21",
		"-a -s OOM,F -S 2026-11": "",
		"-a -s OOM,F -S 11/21":   "4 5",
		"-a -r default":          "21",
		"-a -A maths":            "",
		"-a --name oom -S 12:00": "5",
	} {
		_, out, said := run(t, a.URL, nil, append([]string{"sacct", "-n", "-X", "-P", "-o", "jobid"},
			strings.Fields(args)...)...)
		if got := strings.Join(strings.Fields(out), " "); got != want {
			t.Errorf("sacct %s: %q %s, want %q", args, got, said, want)
		}
	}
}

// TestSacctAsksForStepsWhereItShowsThem: and for those that run of so many jobs only.
func TestSacctAsksForStepsWhereItShowsThem(t *testing.T) {
	a := lab(t)
	asked := func(args ...string) string {
		before := len(a.Requests())
		if code, _, said := run(t, a.URL, nil, args...); code != 0 {
			t.Errorf("%q: %s", args, said)
		}
		var all strings.Builder
		for _, r := range a.Requests()[before:] {
			all.WriteString(r.What + "\n")
		}
		return all.String()
	}
	if got := asked("sacct", "-X", "-j", "7"); strings.Contains(got, "steps") {
		t.Errorf("without steps it asks for\n%s", got)
	}
	got := asked("sacct", "-j", "7")
	if strings.Count(got, "steps=true") != 2 || !strings.Contains(got, "/v1/jobs/7/steps\n") {
		t.Errorf("with steps it asks for\n%s", got)
	}
	var many []api.Job
	for i := range maxAsked + 1 {
		many = append(many, jobOf(model.JobID(i+100), "x", model.Running, "RUNNING", func(j *api.Job) {
			j.Started, j.Nodes = minute(1), []string{"n1"}
		}))
	}
	a.On("GET /v1/jobs", rotatest.StreamOf(many))
	code, out, said := run(t, a.URL, nil, "sacct", "-a", "-n")
	if code != 0 || strings.Count(out, "RUNNING") != 2*len(many) ||
		!strings.HasPrefix(said, "sacct: error: 101 jobs run: steps that run are shown of up to 100.") {
		t.Errorf("of many jobs: %d %s\n%s", code, said, out)
	}
}

// TestTimesOfSacct has the forms of times that clients write.
func TestTimesOfSacct(t *testing.T) {
	now := time.Date(2026, 11, 21, 13, 0, 0, 0, time.Local)
	for text, want := range map[string]string{
		"now": "2026-11-21T13:00:00", "midnight": "2026-11-21T00:00:00", "noon": "2026-11-21T12:00:00",
		"now-2days": "2026-11-19T13:00:00", "now+60": "2026-11-21T13:01:00", "now-3600": "2026-11-21T12:00:00",
		"now-1hour": "2026-11-21T12:00:00", "08:30": "2026-11-21T08:30:00", "2026-11-20": "2026-11-20T00:00:00",
		"2026-11-20T07:00": "2026-11-20T07:00:00", "11/20/26": "2026-11-20T00:00:00", "1120": "2026-11-20T00:00:00",
		"tomorrow": "2026-11-22T00:00:00", "11/20/26-07:15": "2026-11-20T07:15:00",
	} {
		if got, err := readTime(text, now); err != nil || got.Format("2006-01-02T15:04:05") != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "now*2", "now-", "now-2fortnights", "13/20/26"} {
		if got, err := readTime(text, now); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestValuesOfJSON: what is written without reflection is what encoding/json writes.
func TestValuesOfJSON(t *testing.T) {
	for _, v := range []any{"", "plain",
		`a"b\c`, "<&>", "é\n\x00\xff", true, 7, int64(-1), uint32(9), model.JobID(3), numberOf(5),
		number{Infinite: true}, []string{"a"}, map[string]any{"b": nil}} {
		got, err := appendValue(nil, v)
		want, _ := json.Marshal(v)
		if err != nil || string(got) != string(want) {
			t.Errorf("%#v is %s, %v; want %s", v, got, err, want)
		}
	}
}

// FuzzFormats reads any text as a format. What can be read can be written.
func FuzzFormats(f *testing.F) {
	for _, seed := range []string{queueFormat, "%", "%.", "%#", "%#.5", "%é", "a%20ib", "%99999999999i",
		"Name:.5x,State", ":", ",",
		"Name:", "State%20", "JobID%-", "%P%%"} {
		f.Add(seed)
	}
	job := liveJobs()[0]
	src := &source{never: "N/A", groups: map[uint32]string{}}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func() ([]column[*jobRow], error){
			func() ([]column[*jobRow], error) { return parseLetters(jobFields, text) },
			func() ([]column[*jobRow], error) { return parseNames(jobFields, text) },
			func() ([]column[*jobRow], error) { return acctColumns(text, true) },
		} {
			columns, err := read()
			if err != nil {
				continue
			}
			var out bytes.Buffer
			l := lines[*jobRow]{columns, bufio.NewWriter(&out)}
			l.header()
			l.row(&jobRow{Job: &job, source: src})
			if err := l.out.Flush(); err != nil || strings.Count(out.String(), "\n") < 2 {
				t.Errorf("%q: %v %q", text, err, out.String())
			}
		}
	})
}

// TestFields: no name, letter or member is there twice, and what is cut from the wire is what is read.
func TestFields(t *testing.T) {
	checkFields(t, jobFields)
	checkFields(t, nodeFields)
	whole := jobOf(7, "train", model.Running, "RUNNING", func(j *api.Job) {
		*j = liveJobs()[0]
		j.Ended, j.Deadline, j.Eligible, j.Signal = minute(30), minute(40), minute(2), 9
		j.Reason = api.Reason{Code: "Resources", Text: "text"}
	})
	src := &source{past: true, never: "never", cluster: "lab", groups: map[uint32]string{}}
	tag := map[string]bool{}
	text, _ := json.Marshal(whole)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		tag[name] = true
	}
	for i := range jobFields {
		f := &jobFields[i]
		some := map[string]json.RawMessage{}
		for _, name := range strings.Fields(f.needs) {
			if members[name] != nil {
				some[name] = members[name]
			}
		}
		cut, _ := json.Marshal(some)
		var less api.Job
		if err := json.Unmarshal(cut, &less); err != nil {
			t.Fatal(err)
		}
		for _, past := range []bool{false, true} {
			src.past = past
			want, got := &jobRow{Job: &whole, source: src}, &jobRow{Job: &less, source: src}
			if f.text(want) != f.text(got) {
				t.Errorf("field %s%s%s needs more than %q: %q, %q", f.long, f.acct, f.key, f.needs, f.text(want), f.text(got))
			}
		}
	}
}

func checkFields[T any](t *testing.T, fields []field[T]) {
	t.Helper()
	seen := map[string]bool{}
	once := func(kind, name string) {
		if name = strings.ToLower(name); name != "" && seen[kind+name] {
			t.Errorf("%s %s is there twice", kind, name)
		}
		seen[kind+name] = true
	}
	for i := range fields {
		f := &fields[i]
		if f.letter != 0 {
			once("letter", strconv.Itoa(int(f.letter)))
		}
		once("long", f.long)
		once("acct", f.acct)
		once("key", f.key)
		once("json", f.json)
		once("past", f.past)
		if f.text == nil {
			t.Errorf("field %d has no text", i)
		}
	}
}

// Benchmark lists 10,000 jobs that wait, as squeue and sacct print them.
func Benchmark(b *testing.B) {
	a := rotatest.NewAnswers(b)
	var list []api.Job
	for i := range 10_000 {
		list = append(list, jobOf(model.JobID(i+1), "train", model.Pending, "PENDING", nil))
	}
	a.On("GET /v1/jobs", rotatest.StreamOf(list))
	a.Give("GET /v1/history", rotatest.List[api.Job]("JobList"))
	a.Give("GET /v1/cluster", api.Cluster{Name: "lab"})
	for _, args := range []string{"squeue", "squeue -S i", "squeue --json", "sacct -a"} {
		b.Run(args, func(b *testing.B) {
			for b.Loop() {
				if code, out, said := run(b, a.URL, nil, strings.Fields(args)...); code != 0 || strings.Count(out, "\n") < 10_000 {
					b.Fatalf("%d %s", code, said)
				}
			}
		})
	}
}
