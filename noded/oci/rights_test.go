package oci

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

func mustSpec(t *testing.T, in Input) *specs.Spec {
	t.Helper()
	s, err := Spec(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSecretsAreInMemoryAndPrivate notices a secret outside of its directory in memory, in which
// others may not write.
func TestSecretsAreInMemoryAndPrivate(t *testing.T) {
	in := example(nil)
	task := &in.Alloc.Spec.Groups[0].Tasks[0]
	isTheirs := func(m specs.Mount) bool { return m.Destination == launch.SecretsDir }
	if slices.ContainsFunc(mustSpec(t, in).Mounts, isTheirs) {
		t.Error("a job without secrets has a directory for them")
	}
	task.Secrets = []jobspec.Secret{{Name: "key", Source: "/home/ada/key", Env: "KEY"},
		{Name: "cert", Source: "/home/ada/cert", File: launch.SecretsDir + "/other"}}
	mounts := mustSpec(t, in).Mounts
	i := slices.IndexFunc(mounts, isTheirs)
	above := slices.IndexFunc(mounts, func(m specs.Mount) bool { return m.Destination == launch.Dir })
	if i < above || mounts[i].Type != "tmpfs" || !slices.Equal(mounts[i].Options,
		[]string{"nosuid", "nodev", "noexec", "mode=0711", "size=8m"}) {
		t.Errorf("mount %d of %+v", i, mounts)
	}
	for _, file := range []string{"/tmp/key", launch.SecretsDir, launch.SecretsDir + "/../x", launch.SecretsDir + "/a/b",
		launch.SecretsDir + "//key", "key", launch.SecretsDir + "/./key"} {
		if got, err := SecretFile(jobspec.Secret{Name: "k", File: file}); err == nil {
			t.Errorf("%s becomes %s", file, got)
		}
	}
	plan, err := Plan(in)
	if err != nil || !slices.Equal(plan.Secrets, []launch.Secret{{Env: "KEY", File: launch.SecretsDir + "/key"}}) {
		t.Errorf("the plan has %+v, %v", plan.Secrets, err)
	}
	if slices.ContainsFunc(plan.Env, func(v string) bool { return strings.HasPrefix(v, "KEY=") }) {
		t.Error("the plan, which lies on a disk, has the secret's variable")
	}
}

// TestLimitsOfANodeAreKept notices a bound that is off by one, that "unlimited" gets around, or that
// another limit gets.
func TestLimitsOfANodeAreKept(t *testing.T) {
	for _, c := range []struct {
		limits  jobspec.Ulimits
		memlock jobspec.Bytes // of the node
		nofile  int64
		rdma    bool
		want    map[string]uint64 // nil: refused
	}{
		{jobspec.Ulimits{}, 0, 0, false, map[string]uint64{}},
		{jobspec.Ulimits{}, 10, 10, false, map[string]uint64{"RLIMIT_MEMLOCK": 10, "RLIMIT_NOFILE": 10}},
		{jobspec.Ulimits{}, 9 << 20, 65_537, false,
			map[string]uint64{"RLIMIT_MEMLOCK": 8 << 20, "RLIMIT_NOFILE": 65_536}},
		{jobspec.Ulimits{Memlock: 10, Nofile: 10}, 10, 10, false,
			map[string]uint64{"RLIMIT_MEMLOCK": 10, "RLIMIT_NOFILE": 10}},
		{jobspec.Ulimits{Memlock: 11}, 10, 10, false, nil}, {jobspec.Ulimits{Nofile: 11}, 10, 10, false, nil},
		{jobspec.Ulimits{Memlock: -1}, 10, 10, false, nil},
		{jobspec.Ulimits{Memlock: -1, Stack: 3, Core: 4}, 0, 0, false,
			map[string]uint64{"RLIMIT_MEMLOCK": math.MaxUint64, "RLIMIT_STACK": 3, "RLIMIT_CORE": 4}},
		{jobspec.Ulimits{}, 10, 0, true, map[string]uint64{"RLIMIT_MEMLOCK": 10}},
		{jobspec.Ulimits{}, 0, 0, true, map[string]uint64{"RLIMIT_MEMLOCK": math.MaxUint64}},
		{jobspec.Ulimits{Memlock: 5}, 0, 0, true, map[string]uint64{"RLIMIT_MEMLOCK": 5}},
	} {
		in := example(nil)
		task := &in.Alloc.Spec.Groups[0].Tasks[0]
		task.Ulimits, in.Node.MaxMemlock, in.Node.MaxNofile = &c.limits, c.memlock, c.nofile
		if c.rdma {
			task.Resources.RDMA, in.Node.RDMA = "all", []Device{{"/dev/infiniband/uverbs0", 231, 192}}
		}
		s, err := Spec(in)
		if err != nil || c.want == nil {
			if (err == nil) != (c.want != nil) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		for _, l := range s.Process.Rlimits {
			if want, ok := c.want[l.Type]; !ok || l.Hard != want || l.Soft != want {
				t.Errorf("%+v: %+v", c, l)
			}
		}
		if len(s.Process.Rlimits) != len(c.want) {
			t.Errorf("%+v: %+v", c, s.Process.Rlimits)
		}
	}
}

// TestLimitsOfAWorker notices a job that may use more cores or memory than it was granted: without
// core numbers, with several tasks, or by swapping.
func TestLimitsOfAWorker(t *testing.T) {
	in := example(nil)
	in.Node.Cores = nil
	r := mustSpec(t, in).Linux.Resources
	if *r.CPU.Quota != 800_000 || *r.CPU.Period != 100_000 || r.CPU.Cpus != "" || *r.CPU.Shares != 8192 ||
		*r.Memory.Limit != 32<<30 || *r.Memory.Swap != 32<<30 || *r.Pids.Limit != 4096+8*512 {
		t.Errorf("limits %+v %+v %+v", r.CPU, r.Memory, r.Pids)
	}
	in.Node.NoSwapLimit = true
	if r := mustSpec(t, in).Linux.Resources; r.Memory.Swap != nil {
		t.Error("swap is limited where it cannot be")
	}
	in = gang()
	in.Alloc.Request.Active.Cores, in.Alloc.Request.Active.Memory, in.Node.Cores = 3, 5*jobspec.GiB, []int{1, 2, 4}
	r = Limits(in)
	if r.CPU.Cpus != "1-2,4" || r.CPU.Quota != nil || *r.Memory.Limit != 5<<30 || *r.Pids.Limit != 4096+3*512 ||
		*r.CPU.Shares != 3072 {
		t.Errorf("limits of all tasks %+v %+v", r.CPU, r.Memory)
	}
}

// TestOnlyGrantedDevices notices a device that was not granted, and one that a job may make itself.
func TestOnlyGrantedDevices(t *testing.T) {
	in := example(nil)
	in.Alloc.Spec.Groups[0].Tasks[0].Resources.RDMA = "all"
	in.Node.RDMA = []Device{{"/dev/infiniband/uverbs0", 231, 192}}
	s := mustSpec(t, in)
	var got []string
	for _, d := range s.Linux.Devices {
		got = append(got, d.Path)
	}
	if want := []string{"/dev/nvidia1", "/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm",
		"/dev/infiniband/uverbs0"}; !slices.Equal(got, want) {
		t.Errorf("devices %v", got)
	}
	rules := s.Linux.Resources.Devices
	if len(rules) != 6 || rules[0].Allow || rules[0].Access != "rwm" || rules[0].Major != nil || rules[0].Type != "" {
		t.Errorf("rules %+v", rules)
	}
	for i, r := range rules[1:] {
		if d := s.Linux.Devices[i]; !r.Allow || r.Access != "rw" || r.Type != "c" || *r.Major != d.Major ||
			*r.Minor != d.Minor {
			t.Errorf("rule %+v of %s", r, d.Path)
		}
	}
	in.Alloc.GPUs, in.Alloc.Spec.Groups[0].Tasks[0].Resources.RDMA = nil, ""
	if s := mustSpec(t, in); len(s.Linux.Devices) != 0 || len(s.Linux.Resources.Devices) != 1 {
		t.Errorf("a job without GPUs has %+v", s.Linux.Devices)
	}
	for _, i := range []int{-1, 4} {
		in.Alloc.GPUs = []int{i}
		if _, err := Spec(in); err == nil {
			t.Errorf("GPU %d of four is granted", i)
		}
	}
}

// TestTasksSeeTheirOwnGPUs notices two tasks that run side by side on one GPU.
func TestTasksSeeTheirOwnGPUs(t *testing.T) {
	in := example(nil)
	in.Alloc.GPUs = []int{0, 1, 3}
	task := func(gpus int, l *jobspec.Lifecycle) jobspec.Task {
		return jobspec.Task{Name: "t", Command: []string{"x"}, Resources: jobspec.Resources{GPUs: gpus}, Lifecycle: l}
	}
	in.Alloc.Spec.Groups[0].Tasks = []jobspec.Task{task(1, &jobspec.Lifecycle{Hook: "prestart"}), task(2, nil),
		task(1, &jobspec.Lifecycle{Hook: "poststart", Sidecar: true}), task(9, &jobspec.Lifecycle{Hook: "poststop"}),
		task(1, nil)}
	for i, want := range [][]int{{0}, {0, 1}, {3}, {0, 1, 3}, {}} {
		in.Task = i
		got, err := in.findTask()
		if err != nil || !slices.Equal(got.taskGPUs, want) {
			t.Errorf("task %d sees %v, %v", i, got.taskGPUs, err)
		}
	}
	tasks := in.Alloc.Spec.Groups[0].Tasks
	for i, shm := range []jobspec.Bytes{7, 2, 3, 4, 0} {
		tasks[i].Resources.Shm = shm
	}
	if got := ShmSize(tasks); got != 7 {
		t.Errorf("/dev/shm of all has %d bytes", got)
	}
	tasks[4].Resources.Shm = 5
	if got := ShmSize(tasks); got != 10 {
		t.Errorf("/dev/shm of all has %d bytes", got)
	}
}

// TestMountsOfAJob notices a mount without the options that keep it harmless, and options or targets
// that no job may choose.
func TestMountsOfAJob(t *testing.T) {
	for _, c := range []struct {
		mount jobspec.Mount
		want  string // options, or what the refusal says
	}{
		{jobspec.Mount{Source: "/shared/a", Target: "/a"}, "rbind nosuid nodev rw"},
		{jobspec.Mount{Source: "/shared", Target: "/a", ReadOnly: true}, "rbind nosuid nodev ro"},
		{jobspec.Mount{Source: "/shared/a", Target: "/a", Options: []string{"noexec", "ro"}},
			"rbind nosuid nodev rw noexec ro"},
		{jobspec.Mount{Target: "/a", Type: "tmpfs", Options: []string{"size=1g", "noexec"}},
			"nosuid nodev mode=1777 size=1g noexec"},
		{jobspec.Mount{Target: "/a", Type: "tmpfs", Options: []string{"suid"}}, `"suid" is not supported`},
		{jobspec.Mount{Target: "/a", Type: "tmpfs", Options: []string{"mode=4777"}}, `"mode=4777" is not supported`},
		{jobspec.Mount{Source: "/shared/a", Target: "/a", Options: []string{"dev"}}, `"dev" is not supported`},
		{jobspec.Mount{Source: "/shared/a/", Target: "/a"}, "is not below a shared path"},
		{jobspec.Mount{Source: "/shared/a/../../etc", Target: "/a"}, "is not below a shared path"},
		{jobspec.Mount{Source: "shared/a", Target: "/a"}, "is not below a shared path"},
		{jobspec.Mount{Source: "/shared/a", Target: "/run/rota/init"}, "is not allowed"},
		{jobspec.Mount{Source: "/shared/a", Target: "/proc"}, "is not allowed"},
		{jobspec.Mount{Target: "/dev/x", Type: "tmpfs"}, "is not allowed"},
		{jobspec.Mount{Source: "/shared/a", Target: "a"}, "is not allowed"},
		{jobspec.Mount{Source: "/shared/a", Target: "/a/../etc"}, "is not allowed"},
		{jobspec.Mount{Target: "/shared/a", Type: "tmpfs"}, "it lies in /shared"},
		{jobspec.Mount{Source: "/shared/a", Target: "/shared"}, "rbind nosuid nodev rw"},
	} {
		in := example(nil)
		in.Alloc.Spec.Groups[0].Tasks[0].Mounts = []jobspec.Mount{c.mount}
		s, err := Spec(in)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c.mount, err)
			}
			continue
		}
		if got := s.Mounts[len(s.Mounts)-1]; strings.Join(got.Options, " ") != c.want || got.Destination != c.mount.Target {
			t.Errorf("%+v: %+v", c.mount, got)
		}
	}
	for _, m := range mustSpec(t, example(nil)).Mounts {
		if !slices.Contains(m.Options, "nosuid") {
			t.Errorf("programs of %s may change their user", m.Destination)
		}
		if m.Type == "bind" && !slices.Contains(m.Options, "nodev") {
			t.Errorf("devices of %s may be used", m.Destination)
		}
	}
}

// TestTheJobIsFencedIn notices a root that a job may write to, and files of the kernel that it may
// change or read.
func TestTheJobIsFencedIn(t *testing.T) {
	s := mustSpec(t, example(nil))
	if !s.Root.Readonly || !s.Process.NoNewPrivileges || s.Process.Cwd != "/" ||
		!slices.Equal(s.Process.Args, []string{launch.InitFile}) || *s.Process.OOMScoreAdj <= 0 {
		t.Errorf("root %+v, process %+v", s.Root, s.Process)
	}
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"} {
		if !slices.Contains(s.Linux.ReadonlyPaths, path) {
			t.Errorf("%s may be written to", path)
		}
	}
	for _, path := range []string{"/proc/kcore", "/proc/keys", "/sys/firmware", "/proc/timer_list"} {
		if !slices.Contains(s.Linux.MaskedPaths, path) {
			t.Errorf("%s may be read", path)
		}
	}
	for _, kind := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.MountNamespace, specs.IPCNamespace} {
		if !slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == kind }) {
			t.Errorf("it shares the machine's %s namespace", kind)
		}
	}
}

// TestCommandsOfJobs: the node's command stands in PATH, which a job may have set, before what the system has
// and behind what the job has. Where the node has none, nothing is said of it.
func TestCommandsOfJobs(t *testing.T) {
	isTheirs := func(m specs.Mount) bool { return m.Destination == launch.RotaFile }
	for _, own := range []string{"", "/opt/bin:/bin"} {
		in := example(nil)
		if own != "" {
			in.Alloc.Spec.Groups[0].Tasks[0].Env = map[string]string{"PATH": own}
		}
		for _, path := range []string{"", "/usr/libexec/rota/rota"} {
			in.Node.RotaPath = path
			mounts := mustSpec(t, in).Mounts
			i := slices.IndexFunc(mounts, isTheirs)
			plan, err := Plan(in)
			if err != nil {
				t.Fatal(err)
			}
			want := "PATH=" + cmp.Or(own, launch.DefaultPath)
			if path != "" {
				want = map[string]string{
					"":              "PATH=/run/rota/bin:" + launch.DefaultPath,
					"/opt/bin:/bin": "PATH=/opt/bin:/run/rota/bin:/bin",
				}[own]
				above := slices.IndexFunc(mounts, func(m specs.Mount) bool { return m.Destination == launch.Dir })
				if i < above || mounts[i].Source != path || !slices.Contains(mounts[i].Options, "ro") ||
					!slices.Contains(mounts[i].Options, "nosuid") {
					t.Errorf("mount %d of %+v", i, mounts)
				}
			} else if i >= 0 {
				t.Errorf("a node without the command mounts %+v", mounts[i])
			}
			if !slices.Contains(plan.Env, want) || !slices.Contains(plan.Env, "ROTA_ADDR=unix:/run/rota/rota.sock") {
				t.Errorf("%q with %q: want %s in %q", own, path, want, plan.Env)
			}
		}
	}
}
