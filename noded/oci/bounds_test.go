package oci

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/jobspec"
)

// mountOf returns the mount of a spec at a target.
func mountOf(t *testing.T, in Input, target string) specs.Mount {
	t.Helper()
	spec, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == target })
	if i < 0 {
		t.Fatalf("there is no mount at %s", target)
	}
	return spec.Mounts[i]
}

// TestMountsThatRootMustNotMake notices targets and options that are not checked: root mounts them,
// and follows a path with dots out of the container's root.
func TestMountsThatRootMustNotMake(t *testing.T) {
	for want, edit := range map[string]func(bind, tmpfs *jobspec.Mount){
		`mount target "/x/../etc"`:    func(b, _ *jobspec.Mount) { b.Target = "/x/../etc" },
		`mount target "/x/"`:          func(b, _ *jobspec.Mount) { b.Target = "/x/" },
		`mount target "x"`:            func(b, _ *jobspec.Mount) { b.Target = "x" },
		`mount target ""`:             func(b, _ *jobspec.Mount) { b.Target = "" },
		`mount target "/proc"`:        func(_, m *jobspec.Mount) { m.Target = "/proc" },
		`mount target "/run/rota"`:    func(_, m *jobspec.Mount) { m.Target = "/run/rota" },
		`mount source "shared"`:       func(b, _ *jobspec.Mount) { b.Source = "shared" },
		`mount source "/shared/"`:     func(b, _ *jobspec.Mount) { b.Source = "/shared/" },
		`option "suid" is not`:        func(_, m *jobspec.Mount) { m.Options = []string{"suid"} },
		`option "sizes=1" is not`:     func(_, m *jobspec.Mount) { m.Options = []string{"sizes=1"} },
		`option "dev" is not`:         func(b, _ *jobspec.Mount) { b.Options = []string{"ro", "dev"} },
		`option "exec" is not`:        func(b, _ *jobspec.Mount) { b.Options = []string{"exec"} },
		`option "remount" is not`:     func(b, _ *jobspec.Mount) { b.Options = []string{"remount"} },
		`option "size=1k" is not`:     func(b, _ *jobspec.Mount) { b.Options = []string{"size=1k"} },
		`option "mode=4777" is not`:   func(_, m *jobspec.Mount) { m.Options = []string{"mode=4777"} },
		`it lies in /shared, which`:   func(_, m *jobspec.Mount) { m.Target = "/shared/x" },
		`it lies in /data, which oth`: func(_, m *jobspec.Mount) { m.Target = "/data/x" },
	} {
		in := example(nil)
		mounts := in.Alloc.Spec.Groups[0].Tasks[0].Mounts
		edit(&mounts[0], &mounts[1])
		if _, err := Spec(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	in := example(nil)
	task := &in.Alloc.Spec.Groups[0].Tasks[0]
	task.Mounts[0].Options = []string{"ro", "noexec", "nosuid", "nodev"}
	task.Mounts[1].Options = []string{"size=1k", "noexec"}
	task.Mounts[0].ReadOnly = false
	if m := mountOf(t, in, "/data"); !slices.Equal(m.Options, []string{"rbind", "nosuid", "nodev", "rw", "ro", "noexec",
		"nosuid", "nodev"}) {
		t.Errorf("options %v", m.Options)
	}
	if m := mountOf(t, in, "/scratch"); !slices.Equal(m.Options, []string{"nosuid", "nodev", "mode=1777", "size=1k",
		"noexec"}) {
		t.Errorf("options %v", m.Options)
	}
	task.Mounts[0].Target = "/shared" // over a shared directory itself
	if _, err := Spec(in); err != nil {
		t.Errorf("at a shared directory: %v", err)
	}
}

// TestPlacesOfSecretsAndSharedMemory notices ones where set-uid programs run, or that others may list.
func TestPlacesOfSecretsAndSharedMemory(t *testing.T) {
	in := example(nil)
	g := &in.Alloc.Spec.Groups[0]
	g.Tasks[0].Secrets = []jobspec.Secret{{Name: "key", Source: "/home/ada/key"}}
	if m := mountOf(t, in, "/run/rota/secrets"); m.Type != "tmpfs" || !slices.Equal(m.Options, []string{"nosuid", "nodev",
		"noexec", "mode=0711", "size=8m"}) {
		t.Errorf("secrets: %+v", m)
	}
	if m := mountOf(t, in, "/dev/shm"); m.Type != "tmpfs" || !slices.Equal(m.Options, []string{"nosuid", "nodev",
		"mode=1777", "size=17179869184", "noexec"}) {
		t.Errorf("its own: %+v", m)
	}
	g.Tasks = append(g.Tasks, jobspec.Task{Name: "side", Command: []string{"true"},
		Lifecycle: &jobspec.Lifecycle{Hook: "prestart", Sidecar: true}})
	in.Node.ShmDir = "/var/lib/rota/c/shm"
	if m := mountOf(t, in, "/dev/shm"); m.Type != "bind" || m.Source != in.Node.ShmDir ||
		!slices.Equal(m.Options, []string{"bind", "rw", "nosuid", "nodev", "noexec"}) {
		t.Errorf("the tasks': %+v", m)
	}
}

// TestPlaceOfSimulatedGPUs notices a job without GPUs, or on a node with real ones, that has the directory in
// which jobs declare what they use of simulated GPUs.
func TestPlaceOfSimulatedGPUs(t *testing.T) {
	has := func(in Input) bool {
		spec, err := Spec(in)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == "/run/rota/gpus" })
	}
	in := example(nil)
	if has(in) {
		t.Error("its GPUs are real")
	}
	in.Node.SimGPUs = "/var/lib/rota/simulated-gpus"
	if m := mountOf(t, in, "/run/rota/gpus"); m.Source != in.Node.SimGPUs || !slices.Equal(m.Options, []string{"bind",
		"rw", "nosuid", "nodev", "noexec"}) {
		t.Errorf("%+v", m)
	}
	in.Alloc.GPUs = nil
	if has(in) {
		t.Error("it has no GPU")
	}
}

// TestBoundsOfANode notices limits that are one off, and ones that do not hold.
func TestBoundsOfANode(t *testing.T) {
	for _, c := range []struct {
		nofile, mostFiles int64
		memlock, mostLock jobspec.Bytes
		rdma              bool
		says              string
		want              uint64 // of RLIMIT_MEMLOCK
	}{
		{nofile: 100, mostFiles: 100}, {nofile: 101, mostFiles: 100, says: "ulimit.nofile = 101 exceeds the 100"},
		{nofile: 101}, {memlock: 4096, mostLock: 4096, want: 4096},
		{memlock: 4097, mostLock: 4096, says: "ulimit.memlock exceeds"}, {memlock: -1, mostLock: 4096,
			says: "ulimit.memlock exceeds"},
		{memlock: -1, want: 1<<64 - 1}, {rdma: true, want: 1<<64 - 1}, {rdma: true, mostLock: 4096, want: 4096},
		{rdma: true, memlock: 1024, mostLock: 4096, want: 1024},
	} {
		in := example(nil)
		in.Node.MaxNofile, in.Node.MaxMemlock = c.mostFiles, c.mostLock
		in.Node.RDMA = []Device{{"/dev/infiniband/uverbs0", 231, 192}}
		task := &in.Alloc.Spec.Groups[0].Tasks[0]
		task.Ulimits = &jobspec.Ulimits{Nofile: c.nofile, Memlock: c.memlock}
		if c.rdma {
			task.Resources.RDMA = "all"
		}
		spec, err := Spec(in)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		var got uint64
		for _, l := range spec.Process.Rlimits {
			if l.Type == "RLIMIT_MEMLOCK" {
				got = l.Hard
			}
			if l.Soft != l.Hard {
				t.Errorf("%+v: %+v", c, l)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %d bytes may be locked", c, got)
		}
	}
}

// TestLimitsOfProcessorAndProcesses notices a quota that is not the cores', and a worker without a
// bound on its processes.
func TestLimitsOfProcessorAndProcesses(t *testing.T) {
	in := example(nil)
	spec, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	if r := spec.Linux.Resources; *r.Pids.Limit != 4096+8*512 || r.CPU.Cpus != "4-7,12-15" || r.CPU.Quota != nil {
		t.Errorf("got %+v, %+v", *r.Pids, r.CPU)
	}
	in.Node.Cores, in.Node.NoSwapLimit = nil, true
	if spec, err = Spec(in); err != nil {
		t.Fatal(err)
	}
	if r := spec.Linux.Resources; *r.CPU.Quota != 800_000 || *r.CPU.Period != 100_000 || *r.CPU.Shares != 8*1024 ||
		r.CPU.Cpus != "" || *r.Memory.Limit != 32<<30 || r.Memory.Swap != nil {
		t.Errorf("got %+v, %+v", r.CPU, r.Memory)
	}
	in.Alloc.Spec.Groups[0].Tasks[0].Resources.Cores = 0 // still a share
	if spec, err = Spec(in); err != nil || *spec.Linux.Resources.CPU.Quota != 100_000 {
		t.Errorf("without cores: %+v, %v", spec.Linux.Resources.CPU, err)
	}
	in.Alloc.Request.Active.Cores, in.Alloc.Request.Active.Memory = 3, 5
	if r := Limits(in); *r.CPU.Quota != 300_000 || *r.Memory.Limit != 5 || *r.Pids.Limit != 4096+3*512 {
		t.Errorf("several tasks: %+v, %+v", r.CPU, r.Memory)
	}
	in.Node.MaxPids = 100
	if spec, err = Spec(in); err != nil || *spec.Linux.Resources.Pids.Limit != 100 || *Limits(in).Pids.Limit != 100 {
		t.Errorf("the node's bound: %+v and %+v, %v", spec.Linux.Resources.Pids, Limits(in).Pids, err)
	}
}

// TestGPUsThatTheNodeDoesNotHave notices an index that is not checked.
func TestGPUsThatTheNodeDoesNotHave(t *testing.T) {
	for _, n := range []int{-1, 4} {
		in := example(nil)
		in.Alloc.GPUs = []int{n}
		if _, err := Spec(in); err == nil || !strings.Contains(err.Error(), "was assigned, but node gpu02 has only 4") {
			t.Errorf("GPU %d: %v", n, err)
		}
	}
}

// TestPaddingOfLogPathsIsBounded notices a pattern that makes a path as long as the user likes.
func TestPaddingOfLogPathsIsBounded(t *testing.T) {
	for pattern, want := range map[string]string{"/l/%999999999j": "/l/0000000042", "/l/%10j": "/l/0000000042",
		"/l/%9j": "/l/000000042", "/l/%1j": "/l/42"} {
		if got, err := LogPath(example(nil), pattern); err != nil || got != want {
			t.Errorf("%s: %q, %v", pattern, got, err)
		}
	}
}

// TestTheFolderOfACheckpoint notices a job that does not find the folder of its node, or does not hear
// where it is; and one that finds it unasked.
func TestTheFolderOfACheckpoint(t *testing.T) {
	for path, want := range map[string]string{"": "/run/rota/checkpoint",
		"a/model.pt": "/run/rota/checkpoint/a/model.pt"} {
		in := example(nil)
		in.Alloc.Spec.Checkpoint = &jobspec.Checkpoint{NodeLocal: true, Path: path}
		in.Node.Checkpoint = "/var/lib/rota/checkpoints/1.1.0/files"
		if m := mountOf(t, in, "/run/rota/checkpoint"); m.Source != in.Node.Checkpoint ||
			!slices.Equal(m.Options, []string{"bind", "rw", "nosuid", "nodev"}) {
			t.Errorf("%+v", m)
		}
		plan, err := Plan(in)
		if err != nil || !slices.Contains(plan.Env, "ROTA_CHECKPOINT_FILE="+want) {
			t.Errorf("path %q: %v, %v", path, plan.Env, err)
		}
	}
	in := example(nil)
	spec, err := Spec(in)
	if err != nil || slices.ContainsFunc(spec.Mounts, func(m specs.Mount) bool {
		return m.Destination == "/run/rota/checkpoint"
	}) {
		t.Errorf("%+v, %v", spec.Mounts, err)
	}
}
