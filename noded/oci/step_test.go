package oci

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func stepExample() (Input, Step) {
	in := example(&jobspec.Launch{Type: jobspec.LaunchSteps, Nproc: 2})
	in.Node.ShmDir, in.Node.TmpDir, in.Node.Cores = "/c/42.2.1/shm", "/c/42.2.1/tmp", []int{4, 5}
	in.Node.CgroupPath = "/rota/gpu02/42.2.1/step.3"
	return in, Step{
		Number: 3, Programs: []api.StepProgram{{Argv: []string{"worker"}}, {Tasks: []int{1}, Argv: []string{"second"}}},
		Env:   []string{"PATH=/opt/bin", "MASTER_ADDR=gpu01", "SLURM_STEP_GPUS=9", "SLURM_NODEID=7", "RANK=9", "MINE=a=b"},
		Nodes: []string{"gpu01", "gpu02"}, Counts: []int{1, 2}, Node: 1, Tasks: []int{1, 2}, Cores: 2, CoresPerTask: 1,
		GPUs: []int{3}, GPUsPerTask: 0,
	}
}

// TestAStep notices a container of a step with other limits, devices, mounts or variables.
func TestAStep(t *testing.T) {
	in, s := stepExample()
	in.Node.RotaPath = "/usr/bin/rota"
	spec, err := StepSpec(in, s)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := StepPlan(in, s)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "step-spec", spec)
	golden(t, "step-plan", plan)
}

// TestRanksOfAStep notices ranks and a rendezvous that replace the script's own, and the only task of a
// step that takes itself for a rank: Ultralytics then waits for the others.
func TestRanksOfAStep(t *testing.T) {
	const all = "LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT NODE_RANK GROUP_RANK RANK WORLD_SIZE"
	for name, c := range map[string]struct {
		script string // variables that the script exports, and Rota's own
		tasks  int
		want   string
	}{
		"of several tasks": {"", 3, "LOCAL_RANK=0 RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.0.0.1"},
		"that a script counts": {"RANK=7 WORLD_SIZE=8 MASTER_ADDR=a MASTER_PORT=1", 3,
			"RANK=7 WORLD_SIZE=8 MASTER_ADDR=a MASTER_PORT=1 LOCAL_RANK=0"},
		"of a single task":                      {"MASTER_ADDR=10.0.0.1 MASTER_PORT=20001", 1, ""},
		"of a single task that a script counts": {"RANK=0 MASTER_ADDR=a", 1, "RANK=0 MASTER_ADDR=a"},
	} {
		in, s := stepExample()
		s.Env = strings.Fields(c.script)
		if c.tasks == 1 {
			s.Nodes, s.Counts, s.Node, s.Tasks = s.Nodes[:1], []int{1}, 0, []int{0}
		}
		plan, err := StepPlan(in, s)
		if err != nil {
			t.Fatal(err)
		}
		env := slices.Concat(plan.Env, plan.Ranks[0].Env)
		for _, pair := range strings.Fields(c.want) {
			if !slices.Contains(env, pair) {
				t.Errorf("ranks %s: no %s in %q", name, pair, env)
			}
		}
		for _, pair := range env {
			is, _, _ := strings.Cut(pair, "=")
			if c.tasks == 1 && slices.Contains(strings.Fields(all), is) && !strings.Contains(c.want, pair) {
				t.Errorf("ranks %s: it has %s", name, pair)
			}
		}
	}
}

// TestLimitsOfAStep notices memory or cores beyond those that a step asked for.
func TestLimitsOfAStep(t *testing.T) {
	in, s := stepExample()
	in.Node.Cores, s.Memory, s.Exact = nil, jobspec.GiB, true
	spec, err := StepSpec(in, s)
	if err != nil {
		t.Fatal(err)
	}
	r := spec.Linux.Resources
	if r.Memory == nil || *r.Memory.Limit != 1<<30 || *r.Memory.Swap != 1<<30 || *r.CPU.Quota != 2*cpuPeriod {
		t.Errorf("%+v %+v", r.Memory, r.CPU)
	}
}

// TestTasksSeeTheirGPUs notices tasks that share GPUs although each has its own.
func TestTasksSeeTheirGPUs(t *testing.T) {
	in, s := stepExample()
	s.GPUs, s.GPUsPerTask = []int{1, 3}, 1
	plan, err := StepPlan(in, s)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range plan.Ranks {
		if want := "CUDA_VISIBLE_DEVICES=" + itoa(i); !slices.Contains(r.Env, want) {
			t.Errorf("task %d has no %s: %v", i, want, r.Env)
		}
	}
}

// TestAStepKnowsItsNodes notices a step that has the nodes which its job had when srun was given it, and lost before
// it began.
func TestAStepKnowsItsNodes(t *testing.T) {
	in, s := stepExample()
	for _, name := range []string{"SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "ROTA_NODELIST"} {
		s.Env = append(s.Env, name+"=gpu[08-09]")
	}
	s.Env = append(s.Env, "SLURM_JOB_NUM_NODES=19", "SLURM_NNODES=19", "SLURM_TASKS_PER_NODE=19",
		"SLURM_JOB_CPUS_PER_NODE=19")
	plan, err := StepPlan(in, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range plan.Env {
		if strings.HasSuffix(v, "=gpu[08-09]") || strings.HasSuffix(v, "=19") {
			t.Errorf("it has %s", v)
		}
	}
}

// TestTheProgramThatStartsSteps notices one that takes itself for a rank, and a worker beside it that
// runs something.
func TestTheProgramThatStartsSteps(t *testing.T) {
	in, _ := stepExample()
	in.Alloc.GroupWorker, in.Alloc.Worker = 0, 0
	plan, err := Plan(in)
	if err != nil || len(plan.Ranks) != 1 || plan.Hold {
		t.Fatalf("%+v, %v", plan, err)
	}
	env := slices.Concat(plan.Env, plan.Ranks[0].Env)
	for _, want := range []string{"SLURM_TASKS_PER_NODE=2(x2)", "SLURM_PROCID=0", "SLURM_NNODES=2"} {
		if !slices.Contains(env, want) {
			t.Errorf("it has no %s", want)
		}
	}
	for _, v := range env {
		for _, not := range []string{"RANK=", "LOCAL_RANK=", "WORLD_SIZE=", "SLURM_STEP_ID=", "SLURM_NTASKS=",
			"SLURM_NPROCS=", "SLURM_NTASKS_PER_NODE=", "SLURM_CPUS_PER_TASK=", "SLURM_MEM_PER_NODE="} {
			if strings.HasPrefix(v, not) {
				t.Errorf("it has %s", v)
			}
		}
	}
	spec, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	if r := spec.Linux.Resources; r.Memory != nil || r.CPU.Cpus != "" {
		t.Errorf("its container has the limits of the worker: %+v", r)
	}
	in.Alloc.GroupWorker, in.Alloc.Worker = 1, 1
	if plan, err = Plan(in); err != nil || len(plan.Ranks) != 0 || !plan.Hold {
		t.Errorf("%+v, %v", plan, err)
	}
}

// stepInGroups is a part of a step in two groups: on the first worker of the second.
func stepInGroups() (Input, Step) {
	in, s := stepExample()
	later := in.Alloc.Spec.Groups[0]
	later.Name = "het-1"
	later.Tasks = slices.Clone(later.Tasks)
	later.Tasks[0].Command, later.Tasks[0].Env = nil, map[string]string{"SLURM_NTASKS": "3", "SLURM_GPUS_PER_TASK": "1"}
	in.Alloc.Spec.Groups = append(in.Alloc.Spec.Groups, later)
	in.Alloc.Group, in.Alloc.GroupWorker, in.Alloc.Worker, in.Alloc.Nodes = 1, 0, 1, []string{"gpu02", "gpu03"}
	in.Alloc.Hosts = []api.GroupHosts{
		{Group: "main", Nodes: []string{"gpu01"}, Has: []model.Vector{{Cores: 8}}, Addrs: []string{"10.0.0.1"},
			Ports: []int{20001}},
		{Group: "het-1", Nodes: in.Alloc.Nodes, Has: []model.Vector{{Cores: 8}, {Cores: 6}},
			Addrs: []string{"10.0.0.2", "10.0.0.3"}, Ports: []int{20002, 20003}},
	}
	s.Env = []string{"MASTER_ADDR=10.0.0.1", "MASTER_PORT=20001"} // of the script
	s.Groups = []int{0, 1}
	return in, s
}

// TestStepsInGroups notices a worker of a later group that runs something, and tasks of a step in several
// groups that do not know all of its nodes.
func TestStepsInGroups(t *testing.T) {
	in, s := stepInGroups()
	plan, err := Plan(in)
	if err != nil || len(plan.Ranks) != 0 || !plan.Hold {
		t.Errorf("%+v, %v", plan, err)
	}
	if _, err := Spec(in); err != nil {
		t.Error(err)
	}
	environment := func() map[string]string {
		plan, err := StepPlan(in, s)
		if err != nil {
			t.Fatal(err)
		}
		env := map[string]string{}
		for _, v := range plan.Env {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		return env
	}
	of := map[string]string{"SLURM_HET_SIZE": "2", "SLURM_JOB_ID_HET_GROUP_1": "42", "SLURM_NTASKS": "3",
		"SLURM_JOB_NODELIST_HET_GROUP_1": "gpu[02-03]", "SLURM_NTASKS_HET_GROUP_0": "2", "SLURM_NTASKS_HET_GROUP_1": "3",
		"SLURM_GPUS_PER_TASK_HET_GROUP_1": "1", "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1": "8,6",
		"SLURM_TASKS_PER_NODE_HET_GROUP_1": "2(x2)", "SLURM_CPUS_PER_TASK_HET_GROUP_0": "4"}
	wantEnv(t, environment(), of)
	first := map[string]string{"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20001", "ROTA_MASTER_ADDR": "10.0.0.1",
		"ROTA_MASTER_PORT": "20001"}
	wantEnv(t, environment(), map[string]string{"SLURM_JOB_NODELIST": "gpu[01-03]", "SLURM_JOB_NUM_NODES": "3",
		"SLURM_STEP_NODELIST": "gpu[01-02]"})
	wantEnv(t, environment(), first)
	if _, has := environment()["TF_CONFIG"]; has {
		t.Error("a step has TF_CONFIG of groups")
	}
	s.Env = nil // with --export=NONE
	wantEnv(t, environment(), first)
	s.Groups, s.Env = nil, []string{"MASTER_ADDR=10.0.0.1", "MASTER_PORT=20001"}
	wantEnv(t, environment(), map[string]string{"SLURM_JOB_NODELIST": "gpu[02-03]", "SLURM_JOB_NUM_NODES": "2",
		"MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "20002", "ROTA_MASTER_ADDR": "10.0.0.2"})
	s.Env = []string{"MASTER_ADDR=gpu01", "MASTER_PORT=20001"} // which the script has set
	wantEnv(t, environment(), map[string]string{"MASTER_ADDR": "gpu01", "MASTER_PORT": "20001"})
}

// TestUmasks: a container has the umask of its job, or 022. The container of a step has the umask of the command
// that asked for it.
func TestUmasks(t *testing.T) {
	given := jobspec.NewUmask
	for _, c := range []struct {
		job, step     jobspec.Umask
		ofJob, ofStep uint32
	}{
		{0, 0, 0o022, 0o022}, {given(0), 0, 0, 0}, {given(0o077), 0, 0o077, 0o077}, {given(0o077), given(0), 0o077, 0},
		{0, given(0o002), 0o022, 0o002},
	} {
		in, s := stepExample()
		in.Alloc.Spec.Umask, s.Umask = c.job, c.step
		job, err := Spec(in)
		step, err2 := StepSpec(in, s)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got := [2]uint32{*job.Process.User.Umask, *step.Process.User.Umask}; got != [2]uint32{c.ofJob, c.ofStep} {
			t.Errorf("umask %q, and of the step %q: they have %04o", c.job, c.step, got)
		}
	}
}
