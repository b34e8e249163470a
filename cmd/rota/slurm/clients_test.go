package slurm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

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
	a := slurmtest.Lab(t)
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
		{"squeue", "--start"}, {"squeue", "--only-job-state", "-t", "all"}, {"squeue", "-w", "gpu02"},
		{"squeue", "-O", "JobID:10,Name:.6,State:|,TimeLimit:12|"},
		{"sacct", "-a", "-S", "12:00"}, {"sacct", "-b", "-j", "4"}, {"sacct", "-a", "-s", "F", "-S", "12:00", "-E",
			"12:25", "-X"},
		{"sacct", "-lp", "-j", "5"}, {"sacct", "-a", "-X", "-s", "R"}, {"sacct", "-X", "-j", "8", "-o",
			"jobid,jobidraw,start"},
		{"sinfo"}, {"sinfo", "-N", "-l"}, {"sinfo", "-s"}, {"sinfo", "-R"}, {"sinfo", "-t", "idle,drained", "-o", "%n %T"},
		{"sinfo", "-p", "gpu", "-n", "gpu[01-03]", "-o", "%R %D %t %G"}, {"sinfo", "-e", "-o", "%D %c"}, {"sinfo", "-e"},
		{"sinfo", "-V"},
		{"sacct", "-X", "-j", "5", "-o", "jobname%3,state%-20"}, {"scontrol", "ping"},
		{"sacct", "-a", "-S", "12:00", "-P", "-o", "jobid,planned,totalcpu,systemcpu,usercpu"},
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
	a := slurmtest.Lab(t)
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
	a := slurmtest.Lab(t)
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
	a := slurmtest.Lab(t)
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
	type number struct {
		Set, Infinite bool
		Number        int64
	}
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
		j.Start != (number{Set: true, Number: slurmtest.Minute(1).Unix()}) || j.Array != (number{Set: true}) ||
		list.Meta.Slurm.Cluster != "lab" || list.Meta.Plugin.DataParser != "data_parser/v0.0.42" || list.Errors == nil {
		t.Errorf("%+v", list)
	}
}

// TestQueriesRefused: what is not there is refused by name, with exit code 1 and nothing in the output.
func TestQueriesRefused(t *testing.T) {
	a := slurmtest.Lab(t)
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
		"sacct -o jobid,nonsense":      "sacct: error: Invalid field requested: \"nonsense\": there are JobID,",
		"sacct -o jobid%x":             "sacct: error: Invalid field width: \"jobid%x\"\n",
		"sacct -S soon":                "sacct: error: Invalid time specification (pos=0): soon",
		"sacct -S now -E now-1hour":    "sacct: error: Start time (",
		"sacct -s NOPE":                "sacct: error: Invalid job state specified: NOPE: valid job states are BOOT_FAIL,",
		"sacct -j x":                   "sacct: error: Bad job/step specified: x\n",
		"sacct -j 4,7.batch":           "sacct: error: jobs and steps cannot be combined",
		"sacct --units=X":              "sacct: error: Invalid unit type X",
		"sacct -D":                     "sacct: error: unknown shorthand flag: 'D'",
		"sacct 7":                      "sacct: error: Unrecognized option: 7\n",
		"sacct -M elsewhere":           "sacct: error: 'elsewhere' can't be reached now",
		"sstat":                        "sstat: error: You didn't give me any jobs to stat.\n",
		"sstat -n -j 4":                "sstat: error: problem getting step_layout for 4: Invalid job id specified\n",
		"sstat -n -j 7.0":              "sstat: error: problem getting step_layout for 7.0: Invalid job id specified\n",
		"sstat -n -j 7.x":              "sstat: error: problem getting step_layout for 7.x: Invalid job id specified\n",
		"sstat -n -j 21.0":             "sstat: error: problem getting step_layout for 21.0: Access/permission denied\n",
		"sstat -n -j 21":               "sstat: error: problem getting step_layout for 21: Access/permission denied\n",
		"squeue -w gpu02,x":            "squeue: error: Invalid node name x\n",
		"sstat -j x":                   "sstat: error: Invalid job id: x\n",
		"sstat -o Watts -j 7":          "sstat: error: Invalid field requested: \"Watts\": there are JobID,",
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
	a := slurmtest.Lab(t)
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

// Benchmark lists 10,000 jobs that wait, as squeue and sacct print them.
func Benchmark(b *testing.B) {
	a := rotatest.NewAnswers(b)
	var list []api.Job
	for i := range 10_000 {
		list = append(list, slurmtest.JobOf(model.JobID(i+1), "train", model.Pending, "PENDING", nil))
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
