package oci

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/template"
)

// element is the example as task 4 of array 40.
func element() Input {
	in := example(nil)
	in.Alloc.Spec.Array = &jobspec.Array{Indices: "0-8:2,20"}
	index := 4
	in.Alloc.Array = &api.ArrayPlace{Job: 40, Index: &index, Size: 6,
		Params: map[string]string{"lr": "1e-3", "opt": "adam"}}
	return in
}

func environ(t *testing.T, in Input) map[string]string {
	t.Helper()
	plan, err := Plan(in)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, v := range append(plan.Env, plan.Ranks[0].Env...) {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	return env
}

func wantEnv(t *testing.T, env map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if env[name] != value {
			t.Errorf("%s is %q, want %q", name, env[name], value)
		}
	}
}

func TestArrayEnvironment(t *testing.T) {
	wantEnv(t, environ(t, element()), map[string]string{
		"ROTA_ARRAY_JOB_ID": "40", "ROTA_ARRAY_INDEX": "4", "ROTA_ARRAY_COUNT": "6", "ROTA_PARAM_LR": "1e-3",
		"ROTA_PARAM_OPT":     "adam",
		"SLURM_ARRAY_JOB_ID": "40", "SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "6",
		"SLURM_ARRAY_TASK_MIN": "0",
		"SLURM_ARRAY_TASK_MAX": "20", "SLURM_ARRAY_TASK_STEP": "2", "ROTA_JOB_ID": "42",
	})
	in := element()
	in.Alloc.Spec.Array = &jobspec.Array{} // a matrix, without its parameters
	wantEnv(t, environ(t, in), map[string]string{"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "5",
		"SLURM_ARRAY_TASK_STEP": "1", "ROTA_ARRAY_COUNT": "6"})
	if _, ok := environ(t, example(nil))["SLURM_ARRAY_TASK_ID"]; ok {
		t.Error("a job that is no array task has an index")
	}
}

// gang is worker 3 of a job with a parameter server and three workers: the last of these.
func gang() Input {
	in := example(&jobspec.Launch{Type: "slurm", Nproc: 2})
	ps := in.Alloc.Spec.Groups[0]
	ps.Name = "ps-0"
	in.Alloc.Spec.Groups[0].Name = "worker"
	in.Alloc.Spec.Groups = []jobspec.Group{ps, in.Alloc.Spec.Groups[0]}
	in.Alloc.Group, in.Alloc.Worker, in.Alloc.GroupWorker, in.Alloc.Nodes = 1, 3, 2, []string{"gpu01", "gpu02", "gpu02"}
	in.Alloc.Hosts = []api.GroupHosts{
		{Group: "ps-0", Nodes: []string{"gpu01"}, Addrs: []string{"10.0.0.1"}, Ports: []int{20001}},
		{Group: "worker", Nodes: in.Alloc.Nodes, Addrs: []string{"10.0.0.1", "fd00::2", "fd00::2"},
			Ports: []int{20002, 20003, 20004}},
	}
	return in
}

// TestWhichArray: the array job is named, or is the job that this one is a member of. A place in an array without an
// index is that of no task.
func TestWhichArray(t *testing.T) {
	in := element()
	in.Alloc.Array.Job, in.Alloc.Record = 0, 41
	wantEnv(t, environ(t, in), map[string]string{"ROTA_ARRAY_JOB_ID": "41", "SLURM_ARRAY_JOB_ID": "41"})
	in.Alloc.Array.Index = nil
	for _, name := range []string{"ROTA_ARRAY_JOB_ID", "SLURM_ARRAY_JOB_ID", "ROTA_PARAM_LR"} {
		if value, set := environ(t, in)[name]; set {
			t.Errorf("a job that is no task of an array has %s=%s", name, value)
		}
	}
}

func TestGangEnvironment(t *testing.T) {
	wantEnv(t, environ(t, gang()), map[string]string{
		"ROTA_GROUP": "worker", "ROTA_HOSTS_PS_0": "10.0.0.1:20001",
		"ROTA_HOSTS_WORKER": "10.0.0.1:20002,[fd00::2]:20003,[fd00::2]:20004",
		"TF_CONFIG": `{"cluster":{"ps-0":["10.0.0.1:20001"],` +
			`"worker":["10.0.0.1:20002","[fd00::2]:20003","[fd00::2]:20004"]},"task":{"type":"worker","index":2}}`,
		"SLURM_HET_SIZE": "2", "SLURM_JOB_NODELIST_HET_GROUP_0": "gpu01", "SLURM_JOB_NUM_NODES_HET_GROUP_1": "2",
		"SLURM_JOB_ID_HET_GROUP_1": "42", "SLURM_NTASKS_HET_GROUP_0": "2", "SLURM_NTASKS_HET_GROUP_1": "6",
		"SLURM_TASKS_PER_NODE_HET_GROUP_1": "2,4", "SLURM_JOB_CPUS_PER_NODE_HET_GROUP_1": "8,16",
		"SLURM_PROCID": "4", "SLURM_NTASKS": "6", "WORLD_SIZE": "6", "RANK": "4", "SLURM_NODEID": "1",
		"SLURM_JOB_NODELIST_HET_GROUP_1": "gpu[01-02]", "SLURM_NODELIST": "gpu[01-02]", "SLURM_NNODES": "2",
		"SLURM_TASKS_PER_NODE": "2,4", "SLURM_JOB_CPUS_PER_NODE": "8,16", "SLURM_NTASKS_PER_NODE": "2",
		"SLURM_GTIDS": "2,3,4,5", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1", "SLURM_TOPOLOGY_ADDR": "gpu02",
		"ROTA_WORKER": "3", "ROTA_WORKERS": "3",
		"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20002", "ROTA_MASTER_PORT": "20002",
	})
	if _, ok := environ(t, example(nil))["TF_CONFIG"]; ok {
		t.Error("a job of one group has TF_CONFIG")
	}
}

// TestWorkersOfOneNode notices workers of a gang on one node that are told the same number, or that
// reach for each other's GPUs: each is a host of its own to torchrun and to NCCL, and the node is one to
// Slurm's variables.
func TestWorkersOfOneNode(t *testing.T) {
	place := func(launch *jobspec.Launch, worker int) map[string]string {
		in := example(launch)
		in.Alloc.Nodes, in.Alloc.Worker, in.Alloc.GroupWorker = []string{"gpu02", "gpu02"}, worker, worker
		return environ(t, in)
	}
	for worker, number := range []string{"0", "1"} {
		node := map[string]string{"ROTA_WORKER": number, "ROTA_WORKERS": "2", "ROTA_NODELIST": "gpu02",
			"SLURM_NODELIST": "gpu02", "SLURM_NNODES": "1", "SLURM_NODEID": "0", "CUDA_VISIBLE_DEVICES": "0,1",
			"NCCL_HOSTID": "gpu02." + number}
		ranks := func(local string, all, first string) map[string]string {
			want := map[string]string{"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": local, "NODE_RANK": number, "GROUP_RANK": number,
				"WORLD_SIZE": all, "SLURM_NTASKS": all, "SLURM_TASKS_PER_NODE": all, "SLURM_LOCALID": "0", "RANK": first,
				"SLURM_PROCID": first}
			maps.Copy(want, node)
			return want
		}
		static := map[string]string{"PET_NNODES": "2", "PET_NODE_RANK": number, "PET_NPROC_PER_NODE": "2"}
		maps.Copy(static, node)
		wantEnv(t, place(&jobspec.Launch{Type: "torchrun", Nproc: 2, Rdzv: "static"}, worker), static)
		wantEnv(t, place(&jobspec.Launch{Type: "per_gpu"}, worker), ranks("2", "4", itoa(worker*2)))
		wantEnv(t, place(&jobspec.Launch{Type: "slurm", Nproc: 3}, worker), ranks("3", "6", itoa(worker*3)))
		wantEnv(t, place(nil, worker), ranks("1", "2", number))
	}
	beside := gang() // with a parameter server elsewhere, and a worker beside it
	wantEnv(t, environ(t, beside), map[string]string{"NCCL_HOSTID": "gpu02.3"})
	for name, edit := range map[string]func(*Input){
		"alone on its node": func(*Input) {},
		"without GPUs":      func(in *Input) { in.Alloc.Nodes[0], in.Alloc.GPUs = "gpu02", nil },
	} {
		in := example(nil)
		if edit(&in); environ(t, in)["NCCL_HOSTID"] != "" {
			t.Errorf("a worker %s has NCCL_HOSTID", name)
		}
	}
}

func TestExpanded(t *testing.T) {
	in := element()
	task := &in.Alloc.Spec.Groups[0].Tasks[0]
	task.Template = true
	task.Command = []string{"train.py", "--lr=${array.lr}", "$${array.index}", "${HOME}"}
	task.Env = map[string]string{"OUT": "${job.id}.${job.attempt}/${worker.index}-${worker.count}@${node.name}"}
	task.Mounts = []jobspec.Mount{{Source: "/shared/${array.index}", Target: "/data"}}
	task.Log = &jobspec.Log{Stdout: "%x-${array.opt}.%A_%a"}
	task.Secrets = []jobspec.Secret{{Name: "key", Source: "/home/ada/${array.opt}.key"}}
	task.Progress = &jobspec.Progress{File: "p-${array.index}"}
	filled, err := in.Expanded()
	if err != nil {
		t.Fatal(err)
	}
	got := filled.Alloc.Spec.Groups[0].Tasks[0]
	texts := append(slices.Clone(got.Command), got.Env["OUT"], got.Mounts[0].Source, got.Log.Stdout,
		got.Secrets[0].Source, got.Progress.File)
	want := []string{"train.py", "--lr=1e-3", "${array.index}", "${HOME}", "42.2/1-2@gpu02", "/shared/4",
		"%x-adam.%A_%a", "/home/ada/adam.key", "p-4"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
	if task.Command[1] != "--lr=${array.lr}" || task.Env["OUT"] == got.Env["OUT"] || task.Log.Stdout == got.Log.Stdout {
		t.Error("the job itself was changed")
	}
	if path, err := LogPath(filled, got.Log.Stdout); err != nil || path != "/home/ada/run/train-adam.40_4" {
		t.Errorf("log path %q, %v", path, err)
	}
	in.Alloc.Array = nil
	missing := &template.NoValueError{}
	if _, err := in.Expanded(); !errors.As(err, &missing) || missing.Name != "array.lr" {
		t.Errorf("outside of an array: %v", err)
	}
}

func TestLiteralTasksStay(t *testing.T) {
	in := element()
	in.Alloc.Spec.Groups[0].Tasks[0].Command = []string{"echo", "$${array.index}", "${array.nothing}"}
	filled, err := in.Expanded()
	if err != nil || filled.Alloc.Spec != in.Alloc.Spec {
		t.Errorf("a task that is no template was changed: %v", err)
	}
}

// FuzzExpanded shows that literal text in a task reaches the program unchanged.
func FuzzExpanded(f *testing.F) {
	f.Add("$${array.index}", "v")
	f.Add("$${job.id}$", "${array.lr}")
	f.Fuzz(func(t *testing.T, text, value string) {
		in := element()
		in.Alloc.Array.Params["lr"] = value
		task := &in.Alloc.Spec.Groups[0].Tasks[0]
		task.Template = true
		var b template.Builder
		b.Literal(text)
		b.Reference("array.lr")
		task.Command = []string{template.Escape(text), b.String()}
		filled, err := in.Expanded()
		if err != nil {
			t.Fatal(err)
		}
		if got := filled.Alloc.Spec.Groups[0].Tasks[0].Command; got[0] != text || got[1] != text+value {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

func TestUlimitsAndRDMA(t *testing.T) {
	in := example(nil)
	task := &in.Alloc.Spec.Groups[0].Tasks[0]
	task.Ulimits = &jobspec.Ulimits{Nofile: 4096, Core: -1, Stack: 16 * jobspec.MiB}
	task.Resources.RDMA = "all"
	in.Node.RDMA = []Device{{"/dev/infiniband/uverbs0", 231, 192}, {"/dev/infiniband/rdma_cm", 10, 58}}
	spec, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rlimits", spec.Process.Rlimits)
	var devices []string
	for _, d := range spec.Linux.Devices {
		devices = append(devices, d.Path)
	}
	if !slices.Contains(devices, "/dev/infiniband/uverbs0") || !slices.Contains(devices, "/dev/infiniband/rdma_cm") {
		t.Errorf("devices %v", devices)
	}
	if rules := spec.Linux.Resources.Devices; len(rules) != len(devices)+1 || rules[0].Allow {
		t.Errorf("%d rules for %d devices", len(rules), len(devices))
	}
	in.Node.MaxMemlock = jobspec.GiB // a default keeps to the node's bound
	if spec, err = Spec(in); err != nil || spec.Process.Rlimits[1].Hard != 1<<30 {
		t.Errorf("got %v, %v", spec.Process.Rlimits, err)
	}
}

func TestSecretsStandInNoBundle(t *testing.T) {
	in := example(nil)
	in.Alloc.Spec.Groups[0].Tasks[0].Secrets = []jobspec.Secret{{Name: "wandb", Source: "/home/ada/key",
		Env: "WANDB_API_KEY"}, {Name: "tls", Source: "/home/ada/tls", File: "/run/rota/secrets/cert"}}
	plan, err := Plan(in)
	if err != nil || len(plan.Secrets) != 1 || plan.Secrets[0].File != "/run/rota/secrets/wandb" ||
		plan.Secrets[0].Env != "WANDB_API_KEY" {
		t.Errorf("got %+v, %v", plan.Secrets, err)
	}
	spec, err := Spec(in)
	if err != nil || !slices.ContainsFunc(spec.Mounts,
		func(m specs.Mount) bool { return m.Destination == "/run/rota/secrets" && m.Type == "tmpfs" }) {
		t.Errorf("no private directory: %v", err)
	}
	for _, file := range []string{"/tmp/x", "/run/rota/secrets/../plan", "/run/rota/secrets"} {
		in.Alloc.Spec.Groups[0].Tasks[0].Secrets[1].File = file
		if _, err := Plan(in); err == nil {
			t.Errorf("a secret at %s is not refused", file)
		}
	}
}

// TestTasksOfAWorker shows that limits are the worker's, and that each task has the GPUs that it
// asked for.
func TestTasksOfAWorker(t *testing.T) {
	in := example(nil)
	in.Alloc.Request.Active.Cores, in.Alloc.Request.Active.Memory = 10, 40*jobspec.GiB
	in.Alloc.GPUs = []int{0, 1, 3}
	g := &in.Alloc.Spec.Groups[0]
	main := g.Tasks[0]
	setup, side, other := main, main, main
	setup.Name, setup.Lifecycle, setup.Resources.GPUs = "setup", &jobspec.Lifecycle{Hook: "prestart"}, 1
	side.Name, side.Lifecycle, side.Resources.GPUs = "side", &jobspec.Lifecycle{Hook: "prestart", Sidecar: true}, 0
	other.Name, other.Resources.GPUs = "other", 1
	g.Tasks = []jobspec.Task{setup, side, main, other}
	in.Node.ShmDir = "/var/lib/rota/c/42.2.1/shm"
	for i, want := range []string{"0", "", "0,1", "3"} {
		in.Task = i
		spec, err := Spec(in)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Linux.Resources.Memory != nil || spec.Linux.Resources.CPU.Cpus != "" {
			t.Errorf("task %d has limits of its own", i)
		}
		if env := environ(t, in); env["SLURM_JOB_GPUS"] != want {
			t.Errorf("task %d sees GPUs %q, want %q", i, env["SLURM_JOB_GPUS"], want)
		}
	}
	if got := ShmSize(in.Alloc.Spec.Groups[in.Alloc.Group].Tasks); got != 3*16*jobspec.GiB {
		t.Errorf("/dev/shm has %v", got)
	}
	if l := Limits(in); *l.Memory.Limit != 40<<30 || l.CPU.Cpus != "4-7,12-15" || *l.Pids.Limit != 4096+5120 {
		t.Errorf("limits of the worker: %+v %+v", l.Memory, l.CPU)
	}
}

func TestPortOfTheTask(t *testing.T) {
	in := gang()
	in.Alloc.Spec.Groups[1].Tasks = slices.Clone(in.Alloc.Spec.Groups[1].Tasks)
	in.Alloc.Spec.Groups[1].Tasks[0].Launch = &jobspec.Launch{Type: "torchrun", Nproc: 2, Port: 4711}
	wantEnv(t, environ(t, in), map[string]string{"MASTER_PORT": "4711", "ROTA_MASTER_PORT": "4711",
		"PET_MASTER_PORT": "4711", "MASTER_ADDR": "10.0.0.1"})
	plan, err := Plan(in)
	if err != nil || !slices.Contains(plan.Ranks[0].Args, "--master_port=4711") {
		t.Errorf("got %v, %v", plan, err)
	}
}

// TestElasticWorkers shows that the workers of an elastic group get their number and the range in
// which it may change. torchrun gets the exact number: a group of another size is another attempt.
func TestElasticWorkers(t *testing.T) {
	in := example(&jobspec.Launch{Type: "torchrun", Nproc: 2})
	in.Alloc.Spec.Groups[0].Count, in.Alloc.Spec.Groups[0].Elastic = 0, &jobspec.Elastic{Min: 1, Max: 6}
	plan, err := Plan(in)
	if err != nil {
		t.Fatal(err)
	}
	env := plan.Env
	for _, want := range []string{"ROTA_WORKERS=2", "ROTA_WORKERS_MIN=1", "ROTA_WORKERS_MAX=6", "ROTA_RANKS=4",
		"PET_NNODES=2", "PET_NODE_RANK=1", "SLURM_NNODES=2"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
}
