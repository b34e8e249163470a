package script

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// give returns flags that are written NAME or NAME=VALUE.
func give(flags ...string) []Flag {
	var list []Flag
	for _, f := range flags {
		name, value, has := strings.Cut(f, "=")
		list = append(list, Flag{Name: name, Value: value, Has: has})
	}
	return list
}

// read reads a script that may have warnings but no other problems.
func read(t *testing.T, src string, opts Options) *jobspec.Job {
	t.Helper()
	opts.Name, opts.Dir, opts.Clock = "x.sh", "/home/ada", clock()
	r := Read([]byte(src), opts)
	if r.Job == nil || r.Problems.Has(Refused) {
		t.Fatalf("%q:\n%s", src, r.Problems.Format("x.sh"))
	}
	return r.Job
}

func task(j *jobspec.Job) *jobspec.Task { return &j.Groups[0].Tasks[0] }

func TestPrecedence(t *testing.T) {
	src := "#!/bin/sh\n#SBATCH -p script -t 10\n#SBATCH --partition=later --mem=1G\n#SBATCH --gres=gpu:a100:4\n./x\n"
	env := map[string]string{"SBATCH_PARTITION": "env", "SBATCH_MEM_PER_CPU": "2G", "SBATCH_REQUEUE": "1"}
	getenv := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for _, test := range []struct {
		name   string
		opts   Options
		queue  string
		memory jobspec.Bytes
		gpus   int
		model  string
	}{
		{"directives", Options{}, "later", jobspec.GiB, 4, "*a100*"},
		{"environment", Options{Getenv: getenv}, "env", 2 * jobspec.GiB, 4, "*a100*"},
		{"command line", Options{Getenv: getenv,
			Flags: give("queue=cli", "mem=3G", "gpus=2")}, "cli", 3 * jobspec.GiB, 2, "*a100*"},
	} {
		j := read(t, src, test.opts)
		r := task(j).Resources
		model := ""
		if r.GPU != nil {
			model = r.GPU.Model
		}
		if j.Queue != test.queue || r.Memory != test.memory || r.GPUs != test.gpus || model != test.model ||
			j.TimeLimit != 600 {
			t.Errorf("%s: %s, %v, %d %q, %v", test.name, j.Queue, r.Memory, r.GPUs, model, j.TimeLimit)
		}
	}
	own := read(t, "#!/bin/sh\n#ROTA -p mine\n#SBATCH -p theirs\n./x\n", Options{})
	if own.Queue != "mine" {
		t.Errorf("#ROTA does not win over #SBATCH: %s", own.Queue)
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]jobspec.Seconds{
		"30": 1800, "10:30": 630, "1:00:00": 3600, "100:00:00": 360000, "2-12": 216000, "2-12:30": 217800,
		"2-12:30:15": 217815, "1-0": 86400, "0-00:05": 300,
		"30m": 1800, "2d12h": 216000, "90s": 90, "0:90": 90, "1:75:00": 8100,
	} {
		if j := read(t, "#!/bin/sh\n#SBATCH -t"+text+"\n./x\n", Options{}); j.TimeLimit != want {
			t.Errorf("%s: got %d, want %d", text, j.TimeLimit, want)
		}
	}
}

func TestMoments(t *testing.T) { // it is 2026-11-21T10:00:00+02:00
	for text, want := range map[string]string{
		"now": "2026-11-21T08:00:00Z", "now+90": "2026-11-21T08:01:30Z", "now+1hour": "2026-11-21T09:00:00Z",
		"now+30minutes": "2026-11-21T08:30:00Z", "now+2days": "2026-11-23T08:00:00Z",
		"now+1week": "2026-11-28T08:00:00Z", "16:00": "2026-11-21T14:00:00Z", "09:30": "2026-11-22T07:30:00Z",
		"4:00PM": "2026-11-21T14:00:00Z", "12:15 AM": "2026-11-21T22:15:00Z",
		"midnight": "2026-11-21T22:00:00Z", "noon": "2026-11-21T10:00:00Z", "teatime": "2026-11-21T14:00:00Z",
		"tomorrow": "2026-11-21T22:00:00Z", "today": "2026-11-21T08:00:00Z",
		"2027-01-15": "2027-01-14T22:00:00Z", "2027-01-15T08:30": "2027-01-15T06:30:00Z",
		"2027-01-15T08:30:20": "2027-01-15T06:30:20Z", "01/15/27": "2027-01-14T22:00:00Z",
		"011527": "2027-01-14T22:00:00Z", "12/24": "2026-12-23T22:00:00Z", "12/24-20:00": "2026-12-24T18:00:00Z",
		"2027-01-15T08:30:00Z":      "2027-01-15T08:30:00Z",
		"2027-01-15T08:30:00+01:00": "2027-01-15T07:30:00Z",
	} {
		if j := read(t, "#!/bin/sh\n#SBATCH --begin='"+text+"'\n./x\n", Options{}); j.Begin != want {
			t.Errorf("%s: got %s, want %s", text, j.Begin, want)
		}
	}
	r := Read([]byte("#!/bin/sh\n#SBATCH -b now+1hour --deadline=now+2days\n./x\n"), Options{Name: "x", Clock: clock()})
	if r.BeginsAhead != 3600 || r.DeadlineAhead != 2*86400 {
		t.Errorf("got %v and %v", r.BeginsAhead, r.DeadlineAhead)
	}
}

func TestDependencies(t *testing.T) {
	for text, want := range map[string][]jobspec.Dependency{
		"afterok:1:2,afterany:3": {{Type: "afterok", Jobs: []string{"1", "2"}}, {Type: "afterany", Jobs: []string{"3"}}},
		"afterok:1,afterok:2":    {{Type: "afterok", Jobs: []string{"1", "2"}}},
		"after:1+5:2":            {{Type: "after", Jobs: []string{"1"}, Delay: 300}, {Type: "after", Jobs: []string{"2"}}},
		"afterok:1_4:7_*":        {{Type: "afterok", Jobs: []string{"1_4", "7"}}},
		"afterany:1?afterany:2":  {{Type: "afterany", Jobs: []string{"1", "2"}, Match: "any"}},
		"singleton":              {{Type: "singleton"}},
		"afternotok:9,singleton": {{Type: "afternotok", Jobs: []string{"9"}}, {Type: "singleton"}},
	} {
		j := read(t, "#!/bin/sh\n#SBATCH -d "+text+"\n./x\n", Options{})
		for i := range want {
			if want[i].Match == "" {
				want[i].Match = "all"
			}
		}
		if !reflect.DeepEqual(j.Dependencies, want) {
			t.Errorf("%s: got %+v", text, j.Dependencies)
		}
	}
}

func TestShapes(t *testing.T) {
	for flags, want := range map[string]struct{ nodes, procs, cores, gpus int }{
		"-N2":                                  {2, 1, 1, 0},
		"-N2 -n8":                              {2, 4, 4, 0},
		"-N2 -n8 -c3":                          {2, 4, 12, 0},
		"-n8 --ntasks-per-node=4":              {2, 4, 4, 0},
		"-n9 --ntasks-per-node=3 -c 2":         {3, 3, 6, 0},
		"-n8":                                  {1, 8, 8, 0},
		"-N2 --ntasks-per-node=8 -G16":         {2, 8, 8, 8},
		"-N2 -n4 --gpus-per-task=2":            {2, 2, 2, 4},
		"-G8 --gpus-per-task=1":                {1, 8, 8, 8},
		"-G8 --gpus-per-task=1 -N2":            {2, 4, 4, 4},
		"-G4 --ntasks-per-gpu=2":               {1, 8, 8, 4},
		"--gpus-per-node=4 --ntasks-per-gpu=1": {1, 4, 4, 4},
		"-N2 --gres=gpu:4 --cpus-per-gpu=6":    {2, 1, 24, 4},
		"-N2 --gres=gpu":                       {2, 1, 1, 1},
		"-n4 --mincpus=16":                     {1, 4, 16, 0},
		"-N4 -n2":                              {2, 1, 1, 0},
		"-N2-2 -n2":                            {2, 1, 1, 0},
	} {
		j := read(t, "#!/bin/sh\n#SBATCH "+flags+"\nsrun ./x\n", Options{})
		k := task(j)
		if g := j.Groups[0]; g.Count != want.nodes || k.Launch.Nproc != want.procs || k.Resources.Cores != want.cores ||
			k.Resources.GPUs != want.gpus {
			t.Errorf("%s: %d workers of %+v with %+v", flags, g.Count, *k.Launch, k.Resources)
		}
		if k.Launch.Type != jobspec.LaunchSteps {
			t.Errorf("%s: %+v", flags, k.Launch)
		}
	}
}

func TestFilesOfDOS(t *testing.T) {
	for _, src := range []string{"\uFEFF#!/bin/sh\r\n#SBATCH -c 2\r\necho\r\n", "#!/bin/sh\r\n#SBATCH -c 2\r\necho\r\n",
		"\uFEFF#!/bin/sh\n#SBATCH -c 2\necho\n"} {
		r := Read([]byte(src), Options{Name: "x.sh"})
		if r.Job == nil || task(r.Job).Script != "#!/bin/sh\n#SBATCH -c 2\necho\n" || task(r.Job).Resources.Cores != 2 ||
			len(r.Problems) != 1 {
			t.Errorf("%q: %+v", src, r)
		}
	}
}

func TestArguments(t *testing.T) {
	j := read(t, "#!/bin/bash\n#SBATCH -c 2\necho $1\n", Options{Args: []string{"a b", "it's", "", "-x"}})
	want := "#!/bin/bash\n#SBATCH -c 2\nset -- 'a b' 'it'\\''s' '' '-x'\necho $1\n"
	if got := task(j).Script; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	j = read(t, "#!/bin/sh", Options{Args: []string{"a"}})
	if got, want := task(j).Script, "#!/bin/sh\nset -- 'a'\n"; got != want {
		t.Errorf("a script of one line: got %q, want %q", got, want)
	}
}

func TestWrap(t *testing.T) {
	r := Read(Wrap("srun hostname; date"), Options{Name: "wrap", Clock: clock(),
		Flags: []Flag{{Name: "wrap", Value: "srun hostname; date", Has: true}}})
	if r.Job == nil || r.Job.Name != "wrap" || task(r.Job).Script != "#!/bin/sh\nsrun hostname; date\n" {
		t.Errorf("got %+v, %v", r.Job, r.Problems)
	}
}

// TestVariablesAsSlurmSetsThem: a variable with an amount says that it was asked for. The right side is
// what a batch script of Slurm 24.11 printed.
func TestVariablesAsSlurmSetsThem(t *testing.T) {
	names := []string{"NTASKS", "NPROCS", "NTASKS_PER_NODE", "CPUS_PER_TASK", "MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU",
		"GPUS", "GPUS_PER_NODE"}
	for flags, want := range map[string]string{
		"":                               "",
		"-N2":                            "",
		"-n4":                            "NTASKS=4 NPROCS=4",
		"-n3 -N2":                        "NTASKS=3 NPROCS=3",
		"--ntasks-per-node=2":            "NTASKS=2 NPROCS=2 NTASKS_PER_NODE=2",
		"-N2 --ntasks-per-node=3":        "NTASKS=6 NPROCS=6 NTASKS_PER_NODE=3",
		"-c3":                            "CPUS_PER_TASK=3",
		"--gres=gpu:2 -c8":               "CPUS_PER_TASK=8",
		"-n2 -c2 --gpus-per-task=1":      "NTASKS=2 NPROCS=2 CPUS_PER_TASK=2",
		"-G2":                            "GPUS=2",
		"--gpus-per-node=2":              "GPUS_PER_NODE=2",
		"--mem=1G":                       "MEM_PER_NODE=1024",
		"--mem-per-cpu=100":              "MEM_PER_CPU=100",
		"--mem-per-gpu=100 -G1":          "MEM_PER_GPU=100 GPUS=1",
		"--ntasks-per-gpu=2 -G2":         "NTASKS=4 NPROCS=4 GPUS=2",
		"--cpus-per-gpu=3 -G2":           "GPUS=2",
		"--exclusive --gres=gpu:1":       "",
		"--exclusive --gres=gpu:1 -c 12": "CPUS_PER_TASK=12",
	} {
		r := Read([]byte("#!/bin/sh\n#SBATCH "+flags+"\nsrun ./x\n"), Options{Name: "x", Clock: clock()})
		if r.Job == nil {
			t.Errorf("%s: %v", flags, r.Problems)
			continue
		}
		env := maps.Clone(r.Variables)
		if env == nil {
			env = map[string]string{}
		}
		maps.Copy(env, task(r.Job).Env)
		var got []string
		for _, name := range names {
			if value, set := env["SLURM_"+name]; set {
				got = append(got, name+"="+value)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", flags, text, want)
		}
	}
}

// TestVariablesForSteps: what flags say of the tasks of steps is in variables, which srun reads.
func TestVariablesForSteps(t *testing.T) {
	for flags, want := range map[string]string{
		"-n 4 --gpus-per-task=1":                        "map[SLURM_GPUS_PER_TASK:1 SLURM_NPROCS:4 SLURM_NTASKS:4]",
		"-N 2 -n 4 --gpus-per-node=4 --gpus-per-task=2": "map[SLURM_GPUS_PER_TASK:2 SLURM_NPROCS:4 SLURM_NTASKS:4]",
		"-G 2 --ntasks-per-gpu=1":                       "map[SLURM_GPUS_PER_TASK:1 SLURM_NPROCS:2 SLURM_NTASKS:2]",
		"-G 2 --ntasks-per-gpu=2":                       "map[SLURM_NPROCS:4 SLURM_NTASKS:4]",
		"-n 2 --gpus-per-task=1 --gpu-bind=none":        "map[SLURM_GPUS_PER_TASK: SLURM_NPROCS:2 SLURM_NTASKS:2]",
		"-n 4 --gpus-per-node=4":                        "map[SLURM_NPROCS:4 SLURM_NTASKS:4]",
		"-N 3 -n 7":                                     "map[SLURM_NPROCS:7 SLURM_NTASKS:7 SLURM_TASKS_PER_NODE:3,2(x2)]",
		"-N 2 -n 3":                                     "map[SLURM_NPROCS:3 SLURM_NTASKS:3 SLURM_TASKS_PER_NODE:2,1]",
		"-K --open-mode=append -m cyclic:block": "" +
			"map[SLURM_DISTRIBUTION:cyclic SLURM_KILL_BAD_EXIT:1 SLURM_OPEN_MODE:a]",
		"-K0 --open-mode=t --overlap":        "map[SLURM_KILL_BAD_EXIT:0 SLURM_OPEN_MODE:t SLURM_OVERLAP:1]",
		"--container-image=/i":               "map[" + slurm.ImageVariable + ":/i]",
		"--export=SLURM_OVERLAP=0 --overlap": "map[SLURM_OVERLAP:0]",
	} {
		j := read(t, "#!/bin/sh\n#SBATCH "+flags+"\nsrun ./x\n", Options{})
		if got := fmt.Sprint(task(j).Env); got != want {
			t.Errorf("%s: %s, want %s", flags, got, want)
		}
	}
}

// TestTheScriptStaysAsItIs: the text of a script is what the job runs, once, whatever it starts.
func TestTheScriptStaysAsItIs(t *testing.T) {
	for _, text := range []string{"srun ./x\nsrun ./y\n", "for i in 1 2; do srun -n1 ./x $i & done\nwait\n",
		"mpirun ./x\n", "srun hostname | sort\n./after\n", "L='srun -n2'\n$L ./x\n", "./x\n",
		"srun --container-image=/i ./x\n"} {
		src := "#!/bin/bash\n#SBATCH -N 2 -n 4\n" + text
		j := read(t, src, Options{})
		k := task(j)
		if k.Script != src || k.Launch.Type != jobspec.LaunchSteps || k.Log.Stdout != "slurm-%j.out" {
			t.Errorf("%q: %+v %+v", text, k, k.Log)
		}
	}
}

// TestImageOfAProgram: a flag of the program that srun starts is not srun's.
func TestImageOfAProgram(t *testing.T) {
	for line, want := range map[string]string{"srun -n 2 python run.py --container-image=/i": "",
		"srun -l --container-image /i python": "/i", "srun --exact -u --container-image='/i' a": "/i"} {
		if got := task(read(t, "#!/bin/bash\n#SBATCH -n 2\n"+line+"\n", Options{})).Image; got != want {
			t.Errorf("%s: the job's image is %q, not %q", line, got, want)
		}
	}
}

// TestHostileScripts reads large scripts whose cost must not grow with the square of their size.
func TestHostileScripts(t *testing.T) {
	for _, unit := range []string{"`", "$(", "((", "srun ./x\n", "srun -N2 ./x &\n", "A=1 ", "a<<A\n", "\"", "${",
		"srun $A x\nA=1\n", "(", "{ ", "if ", "x;", "\\\n", "#SBATCH -H\n", "#SBATCH --frobnicate=1\n", "rm x\n"} {
		for _, head := range []string{"#!/bin/bash\n", "#!/bin/bash\n#SBATCH -N 2\n"} {
			src := head + strings.Repeat(unit, 300_000/len(unit))
			r := Read([]byte(src), Options{Name: "x.sh", Clock: clock()})
			if (r.Job == nil) != r.Problems.Has(Mistake) || len(r.Problems) > maxProblems {
				t.Errorf("%q: %d problems", unit, len(r.Problems))
			}
		}
	}
	for _, flag := range []string{"--export=" + strings.Repeat("A,", 400_000), "-C " + strings.Repeat("a&", 400_000),
		"-d afterok" + strings.Repeat(":1", 400_000), "--gres=" + strings.Repeat("gpu:1,", 150_000),
		"--container-mounts=" + strings.Repeat("/a:/b,", 150_000), "-w " + strings.Repeat("n,",
			400_000), "--array=" + strings.Repeat("1,", 400_000), "-" + strings.Repeat("H", 900_000)} {
		r := Read([]byte("#!/bin/sh\n#SBATCH "+flag+"\n./x\n"), Options{Name: "x.sh", Clock: clock()})
		if (r.Job == nil) != r.Problems.Has(Mistake) {
			t.Errorf("%.20s: %v", flag, r.Problems)
		}
	}
}

func TestOverride(t *testing.T) {
	job := &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"x"},
		Resources: jobspec.Resources{Cores: 2}}}}}}
	job.Default()
	r := Override(job, Options{Clock: clock(), Dir: "/d", Flags: give("nodes=2", "cpus-per-task=4", "gpus=8",
		"array=0-3%2",
		"dependency=afterok:5",
		"output=%x.out", "signal=USR2@10", "exclusive", "begin=now+1hour", "chdir=sub",
		"hold", "class=te", "time=10")})
	if r.Job == nil || r.Problems.Has(Refused) {
		t.Fatal(r.Problems.Format("x"))
	}
	k := task(job)
	if job.Groups[0].Count != 2 || k.Resources.Cores != 4 || k.Resources.Memory != 4*jobspec.GiB ||
		k.Resources.GPUs != 4 || job.Array.MaxParallel != 2 || k.Log.Stdout != "%x-%n.out" ||
		job.Preemption.Signal != "SIGUSR2" || job.Checkpoint.BeforeLimit != 10 || !job.Groups[0].Exclusive ||
		job.Workdir != "/d/sub" || !job.Hold || job.Class != jobspec.TE || job.TimeLimit != 600 ||
		k.Resources.Shm != 2*jobspec.GiB {
		t.Errorf("got %+v of %+v", job, k)
	}
	two := &jobspec.Job{Name: "a", Array: &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1"}}}},
		GangScope: jobspec.ScopeJob, Groups: []jobspec.Group{
			{Name: "g", Tasks: []jobspec.Task{{Name: "t", Command: []string{"x"}}}}, {Name: "h",
				Tasks: []jobspec.Task{{Name: "t", Command: []string{"x"}}}}}}
	r = Override(two, Options{Clock: clock(),
		Flags: give("mem=1G", "array=1-2", "ntasks=4", "time=5")})
	golden(t, "testdata/override.txt", r.Problems.Format("job.hcl"))
	if two.TimeLimit != 300 || two.Array.Indices != "" {
		t.Errorf("got %+v", two)
	}
}

// TestOverrideWorkersOfANode notices --nodes that puts several workers on a node, and flags after which
// workers keep a default that was that of other flags.
func TestOverrideWorkersOfANode(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		group jobspec.Group
		flag  Flag
		want  int
	}{
		"nodes":          {jobspec.Group{}, Flag{Name: "nodes", Value: "3", Has: true}, 1},
		"more nodes":     {jobspec.Group{Count: 2, MaxWorkersPerNode: 2}, Flag{Name: "nodes", Value: "4", Has: true}, 1},
		"workers alone":  {jobspec.Group{Count: 2, Gang: &no}, Flag{Name: "nodes", Value: "4", Has: true}, 4},
		"whole nodes":    {jobspec.Group{Count: 2}, Flag{Name: "exclusive", Value: "", Has: false}, 1},
		"other flags":    {jobspec.Group{Count: 2}, Flag{Name: "mem", Value: "1G", Has: true}, 2},
		"what was meant": {jobspec.Group{Count: 4, MaxWorkersPerNode: 2}, Flag{Name: "mem", Value: "1G", Has: true}, 2},
	} {
		c.group.Tasks = []jobspec.Task{{Name: "t", Command: []string{"x"}}}
		job := &jobspec.Job{Name: "a", Groups: []jobspec.Group{c.group}}
		job.Default()
		r := Override(job, Options{Clock: clock(), Flags: []Flag{c.flag}})
		if got := job.Groups[0].MaxWorkersPerNode; got != c.want || len(r.Problems) > 0 {
			t.Errorf("%s: %d on a node, want %d; %v", name, got, c.want, r.Problems)
		}
	}
}

// TestComponents notices components of a command line that are not those of the script, or that get what
// is another one's.
func TestComponents(t *testing.T) {
	flags, rest, bad := SbatchFlags(strings.Fields("-c2 -x n9 : -N3 --mem=2G -C big : -G4 -w n[1-2] x.sh : y"))
	if len(bad) > 0 || strings.Join(rest, " ") != "x.sh : y" {
		t.Fatal(rest, bad)
	}
	src := "#!/bin/bash\n#SBATCH -n2 --mem=1G\n#SBATCH hetjob\n#SBATCH -c3 --mem=9G\n#SBATCH hetjob\n#SBATCH -n1\n" +
		"#SBATCH hetjob\n#SBATCH -x n8\n"
	r := Read([]byte(src), Options{Name: "x.sh", Dir: "/d", Flags: flags, Clock: clock(),
		Getenv: func(name string) (string, bool) { return "4", name == "SBATCH_CPUS_PER_GPU" }})
	if len(r.Problems.Of(Mistake, Refused)) != 1 { // cores for GPUs, and components without any
		t.Error(r.Problems.Format("x.sh"))
	}
	r = Read([]byte(src), Options{Name: "x.sh", Dir: "/d", Flags: flags, Clock: clock()})
	if r.Job == nil || r.Problems.Has(Refused) {
		t.Fatal(r.Problems.Format("x.sh"))
	}
	var got []string
	for i := range r.Job.Groups {
		g := &r.Job.Groups[i]
		t := &g.Tasks[0]
		text := fmt.Sprint(g.Name, " ", g.Count, "x", t.Resources.Cores, "/", t.Resources.Memory, "/", t.Resources.GPUs, " ",
			t.Launch.Nproc, " ", len(t.Script) > 0)
		for _, c := range g.Constraints {
			text += " " + c.String()
		}
		got = append(got, text)
	}
	want := []string{`het-0 1x4/1GiB/0 2 true node.name not_in "n9"`,
		`het-1 3x3/2GiB/0 1 false node.label.big is_set node.name not_in "n9"`,
		`het-2 1x1/4GiB/4 1 false node.name in "n1", "n2" node.name not_in "n9"`,
		`het-3 1x1/4GiB/0 1 false node.name not_in "n8"`}
	if !slices.Equal(got, want) || r.Job.GangScope != jobspec.ScopeJob || len(r.Job.ExcludeNodes) > 0 {
		t.Errorf("got %q", got)
	}
}

// TestOverrideGPUs changes how many GPUs a job file asks for. Other requirements stay.
func TestOverrideGPUs(t *testing.T) {
	for _, c := range []struct {
		flag Flag
		want jobspec.Resources
	}{
		{Flag{Name: "gpus-per-node", Value: "2", Has: true}, jobspec.Resources{GPUs: 2,
			GPU: &jobspec.GPU{Model: "H100*", MinMemory: 80 * jobspec.GiB}}},
		{Flag{Name: "gpus", Value: "8", Has: true}, jobspec.Resources{GPUs: 4,
			GPU: &jobspec.GPU{Model: "H100*", MinMemory: 80 * jobspec.GiB}}},
		{Flag{Name: "gres", Value: "gpu:a100:2", Has: true}, jobspec.Resources{GPUs: 2,
			GPU: &jobspec.GPU{Model: "*a100*", MinMemory: 80 * jobspec.GiB}}},
		{Flag{Name: "gres", Value: "none", Has: true}, jobspec.Resources{}},
		{Flag{Name: "gres", Value: "gpu:0", Has: true}, jobspec.Resources{}},
		{Flag{Name: "mem", Value: "8G", Has: true}, jobspec.Resources{GPUs: 1,
			GPU: &jobspec.GPU{Model: "H100*", MinMemory: 80 * jobspec.GiB}}},
	} {
		job := &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Count: 2,
			Tasks: []jobspec.Task{{Name: "t", Command: []string{"x"}, Resources: jobspec.Resources{
				GPUs: 1, GPU: &jobspec.GPU{Model: "H100*", MinMemory: 80 * jobspec.GiB}}}}}}}
		job.Default()
		r := Override(job, Options{Clock: clock(), Flags: []Flag{c.flag}})
		if len(r.Problems) > 0 {
			t.Errorf("%v: %v", c.flag, r.Problems)
			continue
		}
		if got := task(job).Resources; got.GPUs != c.want.GPUs || !reflect.DeepEqual(got.GPU, c.want.GPU) {
			t.Errorf("%v: got %d of %+v, want %d of %+v", c.flag, got.GPUs, got.GPU, c.want.GPUs, c.want.GPU)
		}
	}
	part := &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Name: "t", Command: []string{"x"},
		Resources: jobspec.Resources{GPUs: 1, GPU: &jobspec.GPU{Model: "H100*", Share: 500, MaxMemory: jobspec.GiB}}}}}}}
	part.Default()
	Override(part, Options{Clock: clock(), Flags: give("gpus-per-node=2")})
	if r := task(part).Resources; r.GPUs != 2 || *r.GPU != (jobspec.GPU{Model: "H100*"}) {
		t.Errorf("2 GPUs instead of a part of one: %d of %+v", r.GPUs, r.GPU)
	}
	job := &jobspec.Job{Name: "a", Groups: []jobspec.Group{{Elastic: &jobspec.Elastic{Min: 2, Max: 4},
		Tasks: []jobspec.Task{{Name: "t", Command: []string{"x"}}}}}}
	if r := Override(job, Options{Clock: clock(), Flags: give("gpus=8")}); !r.Problems.Has(Refused) {
		t.Errorf("8 GPUs for 2 to 4 workers: %v", r.Problems)
	}
}

// TestSpellings reads values that sbatch accepts in more than one spelling.
func TestSpellings(t *testing.T) {
	for flags, right := range map[string]func(j *jobspec.Job) bool{
		"--export=all": func(j *jobspec.Job) bool { return slices.Equal(j.Export, []string{"*"}) },
		"--export=ALL,A,all": func(j *jobspec.Job) bool {
			return slices.Equal(j.Export,
				[]string{"*", "A"})
		},
		"-N1 --gpus=a100:2 --gpus-per-node=2": func(j *jobspec.Job) bool { return task(j).Resources.GPU.Model == "*a100*" },
		"--export=none":                       func(j *jobspec.Job) bool { return len(j.Export) == 0 },
		"-o %J-%%J-%%n.out":                   func(j *jobspec.Job) bool { return task(j).Log.Stdout == "%j-%%J-%%n.out" },
		"--gres=gpu:nvidia_a100-sxm4_3g:2": func(j *jobspec.Job) bool {
			return task(j).Resources.GPU.Model == "*nvidia?a100?sxm4?3g*"
		},
	} {
		if j := read(t, "#!/bin/bash\n#SBATCH "+flags+"\n./x\n", Options{}); !right(j) {
			t.Errorf("%s: got %+v, %+v", flags, j, task(j))
		}
	}
	j := read(t, "#!/bin/bash\n#SBATCH -N 2 -o %%n-%3n.out -e %%n\nsrun ./x\n", Options{})
	if l := task(j).Log; l.Stdout != "%%n-%3n.out" || l.Stderr != "%%n" {
		t.Errorf("the script writes %s and %s", l.Stdout, l.Stderr)
	}
}

// TestQOS reads classes of service: normal is what Slurm gives all jobs, and never trial and error.
func TestQOS(t *testing.T) {
	for qos, class := range map[string]jobspec.Class{
		"normal": jobspec.BE, "be": jobspec.BE, "te": jobspec.TE, "TE": jobspec.TE, "long": "",
	} {
		if j := read(t, "#!/bin/sh\n#SBATCH --qos="+qos+"\n./x\n", Options{}); j.Class != class {
			t.Errorf("--qos=%s has class %q, want %q", qos, j.Class, class)
		}
	}
	p := Read([]byte("#!/bin/sh\n#SBATCH --qos=long\n./x\n"), Options{Name: "x.sh", Dir: "/", Clock: clock()}).Problems
	if text := p.Format("x.sh"); strings.Contains(text, "te ") {
		t.Errorf("an unknown class of service is told of another one:\n%s", text)
	}
}
