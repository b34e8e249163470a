package oci

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

var update = flag.Bool("update", false, "write the golden files")

// example is worker 1 of 2 with two of a node's four GPUs.
func example(l *jobspec.Launch) Input {
	in := Input{
		Alloc: api.Alloc{
			Job: 42, Attempt: 2, Worker: 1, GroupWorker: 1, GPUs: []int{1, 3}, Account: "nlp", Queue: "train",
			Class: jobspec.BE,
			Owner: model.Identity{UID: 1000, GID: 1000, GIDs: []uint32{44}, User: "ada", Home: "/home/ada"},
			Nodes: []string{"gpu01", "gpu02"}, MasterAddr: "10.0.0.1", MasterPort: 20001, Restarts: 1,
			Start: 1_800_000_000_000, Limit: 3600, Cluster: "lab",
			Spec: &jobspec.Job{
				Name: "train", Workdir: "/home/ada/run", SubmitDir: "/home/ada", SubmitHost: "login",
				Meta:       map[string]string{"run-id": "7"},
				ExportEnv:  map[string]string{"WANDB_MODE": "offline", "LANG": "de_DE.UTF-8"},
				Checkpoint: &jobspec.Checkpoint{Path: "/shared/ckpt"},
				Preemption: &jobspec.Preemption{GracePeriod: 60},
				Groups: []jobspec.Group{{Name: "main", Count: 2, Meta: map[string]string{"role": "trainer"},
					Tasks: []jobspec.Task{{
						Name: "train", Command: []string{"train.py", "--lr", "1e-3"}, Launch: l, KillTimeout: 20,
						Env: map[string]string{"NCCL_DEBUG": "WARN", "ROTA_JOB_ID": "not this"},
						Mounts: []jobspec.Mount{{Source: "/shared/data", Target: "/data", ReadOnly: true},
							{Target: "/scratch", Type: "tmpfs", Options: []string{"size=1g"}}},
						Resources: jobspec.Resources{Cores: 8, Memory: 32 * jobspec.GiB, GPUs: 2, Shm: 16 * jobspec.GiB,
							Tmp: 16 * jobspec.GiB},
					}}}},
			},
		},
		Node: Node{
			Name: "gpu02", SharedPaths: []string{"/shared", "/home"}, RunDir: "/var/lib/rota/c/42.2.1/run",
			Progress:   "/var/lib/rota/c/42.2.1/progress/progress.jsonl",
			InitPath:   "/usr/libexec/rota-init",
			CgroupPath: "/rota/gpu02/42.2.1", Cores: []int{4, 5, 6, 7, 12, 13, 14, 15},
			Nvidia: []Device{{"/dev/nvidiactl", 195, 255}, {"/dev/nvidia-uvm", 511, 0}},
			Root: container.Root{Path: "/var/lib/rota/root",
				Binds: []container.Bind{{Source: "/usr", Target: "/usr"}, {Source: "/etc", Target: "/etc"},
					{Source: "/run/nscd", Target: "/run/nscd"}}},
		},
	}
	for i, uuid := range []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"} {
		in.Node.GPUs = append(in.Node.GPUs, model.GPU{UUID: uuid, Minor: i})
	}
	return in
}

func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got)+"\n" {
		t.Errorf("%s differs; see with: go test ./noded/oci -update && git diff\n%s", file, got)
	}
}

func TestSpecGolden(t *testing.T) {
	spec, err := Spec(example(nil))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "spec", spec)
}

func TestPlanGolden(t *testing.T) {
	for name, l := range map[string]*jobspec.Launch{
		"single": nil, "per_gpu": {Type: "per_gpu"}, "slurm": {Type: "slurm", Nproc: 3},
		"torchrun":      {Type: "torchrun", NprocGPU: true},
		"torchrun-c10d": {Type: "torchrun", Nproc: 4, Rdzv: "c10d", MaxRestarts: 2},
	} {
		plan, err := Plan(example(l))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "plan-"+name, plan)
	}
}

// TestOnlyProgramIsNoRank: a program that is the only one of its job sees all its GPUs and finds no
// number of a rank, and one of several finds its own.
func TestOnlyProgramIsNoRank(t *testing.T) {
	variables := func(change func(*Input)) string {
		in := example(nil)
		in.Alloc.Spec.Groups[0].Count, in.Alloc.Nodes, in.Alloc.GroupWorker, in.Alloc.Worker = 1, in.Alloc.Nodes[:1], 0, 0
		change(&in)
		plan, err := Plan(in)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(plan.Env, plan.Ranks[0].Env...), "\n")
	}
	alone := variables(func(*Input) {})
	for _, name := range []string{"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", "NODE_RANK="} {
		if strings.Contains("\n"+alone, "\n"+name) {
			t.Errorf("a program alone finds %s", name)
		}
	}
	if !strings.Contains(alone, "CUDA_VISIBLE_DEVICES=0,1") || !strings.Contains(alone, "SLURM_PROCID=0") {
		t.Errorf("it does not see its GPUs: %s", alone)
	}
	for what, change := range map[string]func(*Input){
		"an elastic group": func(in *Input) { in.Alloc.Spec.Groups[0].Elastic = &jobspec.Elastic{Min: 1, Max: 4} },
		"several groups": func(in *Input) {
			in.Alloc.Hosts = []api.GroupHosts{{Group: "main"}, {Group: "ps"}}
			in.Alloc.Spec.Groups = append(in.Alloc.Spec.Groups, in.Alloc.Spec.Groups[0])
		},
		"ranks of one GPU": func(in *Input) { in.Alloc.Spec.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: "per_gpu"} },
		"a launch by Slurm's": func(in *Input) {
			in.Alloc.Spec.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: "slurm", Nproc: 1}
		},
	} {
		if got := variables(change); !strings.Contains(got, "\nLOCAL_RANK=0") {
			t.Errorf("%s has no LOCAL_RANK: %s", what, got)
		}
	}
}

func TestRefused(t *testing.T) {
	task := func(in *Input) *jobspec.Task { return &in.Alloc.Spec.Groups[0].Tasks[0] }
	for want, edit := range map[string]func(*Input){
		`mount source "/etc" is not below a shared path`: func(in *Input) {
			task(in).Mounts[0].Source = "/etc"
		},
		`mount source "/shared/../etc" is not below a shared path`: func(in *Input) {
			task(in).Mounts[0].Source = "/shared/../etc"
		},
		`mount source "/shared2" is not below a shared path`: func(in *Input) {
			task(in).Mounts[0].Source = "/shared2"
		},
		`mount target "/usr/x" is not allowed`: func(in *Input) {
			task(in).Mounts[0].Target = "/usr/x"
		},
		`it lies in /shared, which`: func(in *Input) {
			task(in).Mounts[0].Target = "/shared/else/new"
		},
		`it lies in /data, which`: func(in *Input) {
			task(in).Mounts[1].Target = "/data/inner"
		},
		`mount target "/" is not allowed`: func(in *Input) {
			task(in).Mounts[0].Target = "/"
		},
		`option "suid" is not supported`: func(in *Input) {
			task(in).Mounts[0].Options = []string{"suid"}
		},
		"GPU 4 was assigned, but node gpu02 has only 4": func(in *Input) {
			in.Alloc.GPUs = []int{4}
		},
		"the job has no group 1": func(in *Input) {
			in.Alloc.Group = 1
		},
		"group main has no task 1": func(in *Input) {
			in.Task = 1
		},
		"worker 2 does not exist: the group has 2": func(in *Input) {
			in.Alloc.GroupWorker = 2
		},
		"has no devices below /dev/infiniband": func(in *Input) {
			task(in).Resources.RDMA = "all"
		},
		"ulimit.memlock exceeds the 1GiB that node gpu02 allows": func(in *Input) {
			in.Node.MaxMemlock, task(in).Ulimits = jobspec.GiB, &jobspec.Ulimits{Memlock: -1}
		},
		"ulimit.nofile = 70000 exceeds the 65536 that node gpu02 allows": func(in *Input) {
			in.Node.MaxNofile, task(in).Ulimits = 65536, &jobspec.Ulimits{Nofile: 70000}
		},
	} {
		in := example(nil)
		edit(&in)
		if _, err := Spec(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	in := example(&jobspec.Launch{Type: "per_gpu"})
	in.Alloc.GPUs = nil
	if _, err := Plan(in); err == nil || !strings.Contains(err.Error(), "has no GPUs") {
		t.Errorf("per_gpu without GPUs: %v", err)
	}
}

func TestSimulatedGPUsHaveNoNodes(t *testing.T) {
	in := example(nil)
	for i := range in.Node.GPUs {
		in.Node.GPUs[i].Minor = -1
	}
	spec, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.Linux.Devices) != 0 || len(spec.Linux.Resources.Devices) != 1 {
		t.Errorf("devices %v, rules %v", spec.Linux.Devices, spec.Linux.Resources.Devices)
	}
}

func TestLogPath(t *testing.T) {
	in := example(&jobspec.Launch{Type: "slurm", Nproc: 3})
	for pattern, want := range map[string]string{
		"/shared/%x-%j.out": "/shared/train-42.out", "%4j_%n_%N_%r_%t_%u%%": "/home/ada/run/0042_1_gpu02_1_3_ada%",
		"plain": "/home/ada/run/plain", "%99999999999j": "/home/ada/run/0000000042", // no more than ten digits
		"%A_%a": "/home/ada/run/42_4294967294",
	} {
		if got, err := LogPath(in, pattern); err != nil || got != want {
			t.Errorf("LogPath(%q) = %q, %v; want %q", pattern, got, err, want)
		}
	}
	for _, bad := range []string{"%q", "x%", "x%4"} {
		if got, err := LogPath(in, bad); err == nil {
			t.Errorf("LogPath(%q) = %q, want an error", bad, got)
		}
	}
}
