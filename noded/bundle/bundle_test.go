package bundle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/logs"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/oci/launch"
	"github.com/rota-hpc/rota/noded/progress"
)

// testStore makes bundles below a directory of the test's.
func testStore(t *testing.T) (*Store, string) {
	t.Helper()
	base := t.TempDir()
	shared := filepath.Join(base, "shared")
	kept := &logs.Store{Containers: filepath.Join(base, "containers"), Dir: filepath.Join(base, "logs")}
	d := &Store{
		logs: kept, cgroupRoot: "/rota/n1", dev: base, rootJobs: true,
		node: oci.Node{Name: "n1", SharedPaths: []string{shared}, InitPath: "/bin/true", Root: container.Root{Path: "/"}},
	}
	for _, dir := range []string{kept.Dir, shared} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d, shared
}

// testAlloc is worker 3 of an attempt, the second of its group.
func testAlloc(workdir string) *api.Alloc {
	index := 7
	return &api.Alloc{
		Job: 5, Attempt: 2, Worker: 3, Group: 1, GroupWorker: 1, Nodes: []string{"n0", "n1"},
		Owner:   model.Identity{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), User: "ada"},
		Request: model.Request{Active: model.Vector{Cores: 3, Memory: jobspec.GiB}},
		Hosts: []api.GroupHosts{
			{Group: "ps", Nodes: []string{"n0", "n1"}, Addrs: []string{"a0", "a1"}, Ports: []int{1, 2}},
			{Group: "work", Nodes: []string{"n0", "n1"}, Addrs: []string{"a0", "a1"}, Ports: []int{3, 4}},
		},
		Restarts: 1,
		Array:    &api.ArrayPlace{Index: &index, Params: map[string]string{"lr": "0.1"}}, Record: 4,
		Spec: &jobspec.Job{
			Name: "j", Workdir: workdir, Array: &jobspec.Array{Indices: "0-9",
				Stop: &jobspec.ArrayStop{Metric: "loss", AtStep: 100, Keep: "top 2"}},
			LogPolicies: []jobspec.LogPolicy{{Name: "ecc", Pattern: "ECC", Action: "event", Stream: "stderr"}},
			Groups: []jobspec.Group{{Name: "ps", Tasks: []jobspec.Task{{Name: "ps", Command: []string{"true"}}}}, {
				Name: "work", Success: "leader", Tasks: []jobspec.Task{
					{Name: "setup", Command: []string{"true"}, Lifecycle: &jobspec.Lifecycle{Hook: "prestart"}},
					{
						Name: "main", Template: true,
						Command: []string{"train", "${array.lr}", "${array.index}", "${worker.index}"}, KillTimeout: 9,
						Secrets:  []jobspec.Secret{{Name: "key", Source: "/home/ada/${array.index}", Env: "KEY"}},
						Log:      &jobspec.Log{Stdout: "%A_%a.out"},
						Progress: &jobspec.Progress{Pattern: `(?P<step>\d+) (?P<loss>\S+)`},
					},
				},
			}},
		},
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTheNodesBoundsReachAWorker notices a setting of the node that the bundle of a worker does not
// have.
func TestTheNodesBoundsReachAWorker(t *testing.T) {
	base := t.TempDir()
	d, err := Open(Config{Node: "n1", Logs: &logs.Store{Containers: filepath.Join(base, "containers")},
		RootDir: filepath.Join(base, "root"), CgroupRoot: "/rota/n1", SharedPaths: []string{base}, InitPath: "/bin/true",
		MaxPids: 77, MaxNofile: 5, MaxMemlock: 6, OutputRate: 8, RootJobs: true})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, testAlloc(base), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := container.ReadSettings(dir); err != nil || s.OutputRate != 8 {
		t.Errorf("a rate of %d, %v", s.OutputRate, err)
	}
	var limits specs.LinuxResources
	readJSON(t, container.LimitsPath(dir), &limits)
	if limits.Pids == nil || *limits.Pids.Limit != 77 || d.node.MaxNofile != 5 || d.node.MaxMemlock != 6 {
		t.Errorf("got %+v, %+v", limits.Pids, d.node)
	}
}

func TestBundleOfSeveralTasks(t *testing.T) {
	d, shared := testStore(t)
	id := container.ID{Job: 5, Attempt: 2, Worker: 3}
	dir, err := d.Build(t.Context(), id, testAlloc(shared), []int{2, 3, 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tasks) != 2 || s.Tasks[0].Hook != "prestart" || s.Tasks[1].KillTimeout != 9000 || s.Success != "leader" ||
		s.Reporter != 1 {
		t.Errorf("tasks %+v, reporter %d", s.Tasks, s.Reporter)
	}
	if got := s.Tasks[1]; got.Log.Stdout != filepath.Join(shared, "4_7.out") || len(got.Secrets) != 1 ||
		got.Secrets[0].Source != "/home/ada/7" {
		t.Errorf("main task %+v", got)
	}
	if s.Steps == nil || s.Steps.AtStep != 100 || s.Steps.Metric != "loss" || s.Steps.Task != "main" ||
		len(s.Policies) != 1 || s.Policies[0].Stream != "stderr" {
		t.Errorf("steps %+v, policies %+v", s.Steps, s.Policies)
	}
	var plan launch.Plan
	readJSON(t, filepath.Join(container.RunDir(container.TaskDir(dir, 1)), "launch.json"), &plan)
	if got := plan.Ranks[0].Args; !slices.Equal(got, []string{"train", "0.1", "7", "1"}) {
		t.Errorf("command %q", got)
	}
	if got := s.Tasks[1].Log; !got.Join || got.Keep != 0 || got.Truncate {
		t.Errorf("by default logs are %+v", got)
	}
	for _, v := range []string{"ROTA_ATTEMPT=2", "ROTA_RESTARTS=1", "ROTA_HOSTS_WORK=a0:3,a1:4", "MASTER_PORT=3",
		"ROTA_ARRAY_JOB_ID=4",
		"SLURM_ARRAY_TASK_ID=7"} {
		if !slices.Contains(plan.Env, v) {
			t.Errorf("%s is missing", v)
		}
	}
	var limits specs.LinuxResources
	readJSON(t, container.LimitsPath(dir), &limits)
	if *limits.Memory.Limit != 1<<30 || limits.CPU.Cpus != "2-4" {
		t.Errorf("limits %+v %+v", limits.Memory, limits.CPU)
	}
	var spec specs.Spec
	readJSON(t, container.ConfigPath(container.TaskDir(dir, 1)), &spec)
	if spec.Linux.CgroupsPath != "/rota/n1/5.2.3/main" || spec.Linux.Resources.Memory != nil {
		t.Errorf("cgroup %s", spec.Linux.CgroupsPath)
	}
	if from := d.Progress(id); from == nil || from.Path != container.StepsPath(dir) || !from.Policies {
		t.Errorf("progress from %+v", from)
	}
	if err := d.Notice(id, container.Notice{Reason: "cancel"}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		var notice container.Notice
		readJSON(t, filepath.Join(container.RunDir(container.TaskDir(dir, n)), "notice.json"), &notice)
		if notice.Reason != "cancel" {
			t.Errorf("task %d got no notice", n)
		}
	}
}

// TestABundleIsOfItsOwner notices a job that gets group root or another user's rights. It looks at
// the container, at how log and secrets are opened, and at the files.
func TestABundleIsOfItsOwner(t *testing.T) {
	d, shared := testStore(t)
	a := testAlloc(shared)
	if os.Getuid() == 0 {
		a.Owner.UID, a.Owner.GID = 23456, 23457
	}
	a.Owner.GIDs, a.LeaseGrace = []uint32{24000, 24001}, 4321
	dir, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, a, []int{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	if err != nil || s.User.UID != a.Owner.UID || s.User.GID != a.Owner.GID ||
		!slices.Equal(s.User.GIDs, a.Owner.GIDs) || s.LeaseGrace != 4321 ||
		s.ID != (container.ID{Job: 5, Attempt: 2, Worker: 3}) || s.Cgroup != "/rota/n1/5.2.3" {
		t.Errorf("settings %+v, %v", s, err)
	}
	for i := range s.Tasks {
		var spec specs.Spec
		readJSON(t, container.ConfigPath(container.TaskDir(dir, i)), &spec)
		p := spec.Process
		if p.User.UID != a.Owner.UID || p.User.GID != a.Owner.GID || !slices.Equal(p.User.AdditionalGids, a.Owner.GIDs) {
			t.Errorf("task %d runs as %+v", i, p.User)
		}
		c := p.Capabilities
		if !p.NoNewPrivileges || len(c.Bounding)+len(c.Effective)+len(c.Permitted)+len(c.Inheritable)+len(c.Ambient) != 0 {
			t.Errorf("task %d has %+v, new privileges %v", i, c, !p.NoNewPrivileges)
		}
	}
}

// TestLogSettingsReachTheShim notices a log that is rotated, joined or emptied otherwise than its job
// says.
func TestLogSettingsReachTheShim(t *testing.T) {
	no, keep := false, 5
	d, shared := testStore(t)
	a := testAlloc(shared)
	a.Spec.Umask = jobspec.NewUmask(0o027)
	a.Spec.Groups[1].Tasks[1].Log = &jobspec.Log{Stdout: "out", Stderr: "err", Join: &no, Keep: &keep,
		Mode: "truncate", MaxSize: 77}
	dir, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	umask := uint32(0o027)
	want := container.LogFiles{Stdout: shared + "/out", Stderr: shared + "/err", Truncate: true, MaxSize: 77, Keep: 5,
		Umask: &umask}
	if err != nil || !reflect.DeepEqual(s.Tasks[1].Log, want) {
		t.Errorf("got %+v, %v", s.Tasks[1].Log, err)
	}
}

// TestMountsOfAJobAreGuarded notices a mount that the shim does not compare with the files in reach
// of the job's user. It also notices one that is not bound to the shared paths.
func TestMountsOfAJobAreGuarded(t *testing.T) {
	d, shared := testStore(t)
	a := testAlloc(shared)
	image := filepath.Join(shared, "image")
	if err := os.MkdirAll(filepath.Join(image, "usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	task := &a.Spec.Groups[1].Tasks[1]
	task.Image = image
	task.Mounts = []jobspec.Mount{{Source: shared + "/data", Target: "/data"}, {Target: "/scratch", Type: "tmpfs"},
		{Source: shared + "/more", Target: "/more", ReadOnly: true},
		{Source: shared + "/less", Target: "/mor"}} // it covers nothing of the one before
	id := container.ID{Job: 5, Attempt: 2, Worker: 3}
	dir, err := d.Build(t.Context(), id, a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range s.Tasks[1].Guards {
		got = append(got, fmt.Sprintf("%s at %q below %v", strings.TrimPrefix(g.Source, shared), g.Target,
			len(g.Below) == 1 && g.Below[0] == shared))
	}
	want := []string{`/image at "" below false`, `/image/usr at "/usr" below false`, `/data at "/data" below true`,
		`/more at "/more" below true`, `/less at "/mor" below true`}
	if !slices.Equal(got, want) {
		t.Errorf("guards %q", got)
	}
	if len(s.Tasks[0].Guards) != 0 {
		t.Errorf("a task without mounts has guards %+v", s.Tasks[0].Guards)
	}
	if _, err := os.Stat(filepath.Join(dir, rootsDir, "main", "usr")); err != nil {
		t.Error(err)
	}
	if err := d.Retire(id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, rootsDir)); !os.IsNotExist(err) {
		t.Errorf("the root of an ended task is left: %v", err)
	}
}

// TestBundleOfOneTask shows that a bundle of one task has no directories for tasks.
func TestBundleOfOneTask(t *testing.T) {
	d, shared := testStore(t)
	a := testAlloc(shared)
	a.Group, a.GroupWorker, a.Worker, a.Hosts = 0, 0, 1, nil
	id := container.ID{Job: 5, Attempt: 2, Worker: 1}
	dir, err := d.Build(t.Context(), id, a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := container.ReadSettings(dir)
	if err != nil || len(s.Tasks) != 1 || s.Cgroup != "/rota/n1/5.2.1" || s.Tasks[0].KillSignal != int(unix.SIGTERM) {
		t.Errorf("settings %+v, %v", s, err)
	}
	var plan launch.Plan
	readJSON(t, filepath.Join(container.RunDir(dir), "launch.json"), &plan)
	if !slices.Contains(plan.Env, "NODE_RANK=1") && !slices.Contains(plan.Ranks[0].Env, "NODE_RANK=1") {
		t.Error("the second worker of the only group is not its second")
	}
	if from := d.Progress(id); from == nil || from.Path != container.ProgressPath(dir) {
		t.Errorf("progress from %+v", from)
	}
}

// folders are those of a node on which a job has an image.
type folders struct{ dir, image string }

func (f folders) Files(container.ID) string { return f.dir }
func (f folders) Image(container.ID) string { return f.image }

// TestABundleFromAnImage notices a job that begins anew although its processes were saved.
func TestABundleFromAnImage(t *testing.T) {
	d, shared := testStore(t)
	a := testAlloc(shared)
	a.Hosts, a.Array, a.Group, a.GroupWorker, a.Worker = nil, nil, 0, 0, 0
	a.Spec.Array, a.Spec.Groups = nil, a.Spec.Groups[:1]
	a.Spec.Checkpoint = &jobspec.Checkpoint{Criu: true}
	id := container.ID{Job: 5, Attempt: 2}
	build := func() (*container.Restore, error) {
		dir, err := d.Build(t.Context(), id, a, nil, nil)
		if err != nil {
			return nil, err
		}
		s, err := container.ReadSettings(dir)
		return s.Restore, err
	}
	d.folders = folders{dir: t.TempDir()}
	if r, err := build(); r != nil || err != nil {
		t.Errorf("without an image: %+v, %v", r, err)
	}
	d.folders = folders{dir: t.TempDir(), image: "/data/image/1"}
	if r, err := build(); err == nil || !strings.Contains(err.Error(), "node n1 has no CRIU") {
		t.Errorf("on a node without CRIU: %+v, %v", r, err)
	}
	d.criu = container.Criu{Path: "/usr/sbin/criu", Version: "4.1"}
	if r, err := build(); err != nil || r == nil || *r != (container.Restore{Dir: "/data/image/1", Criu: d.criu}) {
		t.Errorf("got %+v, %v", r, err)
	}
	a.Spec.Checkpoint = &jobspec.Checkpoint{NodeLocal: true}
	if r, err := build(); r != nil || err != nil {
		t.Errorf("of a job whose processes are not saved: %+v, %v", r, err)
	}
}

// TestNoCriuWithTheUsersImage notices a job that CRIU saves although its user can change the root file
// system that its mounts are restored in.
func TestNoCriuWithTheUsersImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make an image of root")
	}
	d, shared := testStore(t)
	a := testAlloc(shared)
	a.Hosts, a.Array, a.Group, a.GroupWorker, a.Worker = nil, nil, 0, 0, 0
	a.Spec.Array, a.Spec.Groups = nil, a.Spec.Groups[:1]
	d.folders, d.criu = folders{dir: t.TempDir()}, container.Criu{Path: "/usr/sbin/criu", Version: "4.3.1"}
	image := t.TempDir()
	a.Spec.Groups[0].Tasks[0].Image = image
	if err := os.Mkdir(filepath.Join(image, "usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, criu := range []bool{false, true} {
		a.Spec.Checkpoint = &jobspec.Checkpoint{Criu: criu}
		for _, owner := range []int{0, 23456} {
			if err := os.Chown(image, owner, owner); err != nil {
				t.Fatal(err)
			}
			_, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2}, a, nil, nil)
			if refused := err != nil; refused != (criu && owner != 0) || refused && !container.IsFinal(err) {
				t.Errorf("criu %v with an image of user %d: %v", criu, owner, err)
			}
		}
	}
}

func TestWhatCannotBeBuiltIsFinal(t *testing.T) {
	for want, edit := range map[string]func(*api.Alloc, *jobspec.Task){
		"${array.rate} has no value": func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Command = []string{"${array.rate}"}
		},
		"image /nowhere cannot be read": func(_ *api.Alloc, t *jobspec.Task) { t.Image = "/nowhere" },
		`progress.file "/etc/p" is at /etc/p`: func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Progress = &jobspec.Progress{File: "/etc/p"}
		},
		`progress.file "../../p"`: func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Progress = &jobspec.Progress{File: "../../p"}
		},
		`/shared/../p" is at`: func(a *api.Alloc, t *jobspec.Task) {
			t.Progress = &jobspec.Progress{File: a.Spec.Workdir + "/../p"}
		},
		"unknown letter: %q": func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Log = &jobspec.Log{Stderr: "%q"}
		},
		"is not in /run/rota/secrets": func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Secrets[0].File = "/tmp/key"
		},
		"a poststop task cannot be a sidecar": func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Lifecycle = &jobspec.Lifecycle{Hook: "poststop", Sidecar: true}
		},
		"task main: launch \"per_gpu\" starts one": func(_ *api.Alloc,
			t *jobspec.Task) {
			t.Launch = &jobspec.Launch{Type: "per_gpu"}
		},
	} {
		d, shared := testStore(t)
		a := testAlloc(shared)
		edit(a, &a.Spec.Groups[1].Tasks[1])
		_, err := d.Build(t.Context(), container.ID{Job: 5, Attempt: 2, Worker: 3}, a, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !container.IsFinal(err) {
			t.Errorf("%q: got %v, final %v", want, err, container.IsFinal(err))
		}
	}
}

func TestRDMANodes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making device nodes needs root")
	}
	dir := t.TempDir()
	for name, dev := range map[string]uint64{"uverbs1": unix.Mkdev(231, 193), "uverbs0": unix.Mkdev(231, 192)} {
		if err := unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(dev)); err != nil {
			t.Skipf("device nodes cannot be made here: %v", err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "by-path"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(rdmaNodes(dir)), "[{/dev/infiniband/uverbs0 231 192} {/dev/infiniband/uverbs1 "+
		"231 193}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := rdmaNodes(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("got %v of a machine without", got)
	}
}

// TestDriverLoadedAfterTheDaemon shows that a worker gets the device nodes that exist when it is
// created. The node for CUDA is made if it is missing.
func TestDriverLoadedAfterTheDaemon(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making device nodes needs root")
	}
	d, shared := testStore(t)
	gpus := []model.GPU{{UUID: "GPU-a", Minor: 0}}
	a := testAlloc(shared)
	a.Worker, a.Group, a.Hosts, a.GPUs = 1, 0, nil, []int{0}
	for name, dev := range map[string]uint64{"nvidia0": unix.Mkdev(195, 0), "nvidiactl": unix.Mkdev(195, 255)} {
		if err := unix.Mknod(filepath.Join(d.dev, name), unix.S_IFCHR|0o666, int(dev)); err != nil {
			t.Skipf("device nodes cannot be made here: %v", err)
		}
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	modprobe := func(script string) {
		if err := os.WriteFile(filepath.Join(bin, "nvidia-modprobe"), []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	id := container.ID{Job: 12, Attempt: 2, Worker: 3}
	modprobe("echo modprobe: not found; exit 1")
	if _, err := d.Build(t.Context(), id, a, nil, gpus); err == nil || container.IsFinal(err) ||
		!strings.Contains(err.Error(), "nvidia-uvm") || !strings.Contains(err.Error(), "not found") {
		t.Fatalf("got %v without the device of CUDA", err)
	}
	modprobe("test \"$*\" = '-u -c 0' && mknod " + filepath.Join(d.dev, "nvidia-uvm") + " c 510 0")
	dir, err := d.Build(t.Context(), id, a, nil, gpus)
	if err != nil {
		t.Fatal(err)
	}
	var spec specs.Spec
	readJSON(t, filepath.Join(dir, "config.json"), &spec)
	var got []string
	for _, dev := range spec.Linux.Devices {
		got = append(got, fmt.Sprintf("%s %d:%d", dev.Path, dev.Major, dev.Minor))
	}
	if want := "[/dev/nvidia0 195:0 /dev/nvidiactl 195:255 /dev/nvidia-uvm 510:0]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestProgressFileOfTheUser(t *testing.T) {
	d, shared := testStore(t)
	a := testAlloc(filepath.Join(shared, "run"))
	a.Spec.Groups[1].Tasks[1].Progress = &jobspec.Progress{File: "p.jsonl"}
	id := container.ID{Job: 5, Attempt: 2, Worker: 3}
	if _, err := d.Build(t.Context(), id, a, nil, nil); err != nil {
		t.Fatal(err)
	}
	from := d.Progress(id)
	if from == nil || from.File == nil || from.File.Dir != shared || from.File.Path != "run/p.jsonl" {
		t.Fatalf("from %+v", from)
	}
	from.Stop = a.Spec.Array.Stop
	file := filepath.Join(shared, "run", "p.jsonl")
	write(t, file, "{\"step\":50,\"metrics\":{\"loss\":9}}\n{\"step\":101}\nnot json\n"+
		"{\"step\":102,\"metrics\":{\"loss\":0.25}}\n{\"step\":150,\"metrics\":{\"loss\":0.1}}\n{\"step\":15")
	line, tail, err := progress.Tail{}.Read(from)
	if err != nil || *line.Step != 150 || tail.Reached == nil ||
		*tail.Reached != (api.Reached{Step: 102, Value: 0.25}) {
		t.Fatalf("got %+v, %+v, %v", line, tail, err)
	}
	write(t, file, "1,\"metrics\":{\"loss\":7}}\n")
	if line, tail, err = tail.Read(from); err != nil || *line.Step != 151 || tail.Reached.Step != 102 {
		t.Errorf("then %+v, %+v, %v", line, tail, err)
	}
	outside := filepath.Join(filepath.Dir(shared), "outside")
	write(t, outside, "{\"step\":1}\n")
	for name, link := range map[string]string{"absolute": outside, "upwards": "../../outside"} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link, file); err != nil {
			t.Fatal(err)
		}
		if line, _, err := (progress.Tail{}).Read(from); err == nil {
			t.Errorf("%s: a link out of the shared path was followed: %+v", name, line)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, file, "{\"step\":1}\n")
	from.User = container.User{UID: 12345, GID: 12345}
	if line, _, err := (progress.Tail{}).Read(from); err == nil {
		t.Errorf("a file that the user may not read was read: %+v", line)
	}
}

// TestLogsOfTasks shows that each task has logs of its own, also after the worker has ended.
func TestLogsOfTasks(t *testing.T) {
	d, shared := testStore(t)
	id := container.ID{Job: 5, Attempt: 2, Worker: 3}
	a := testAlloc(shared)
	a.Spec.Groups[1].Tasks[1].Log = nil
	dir, err := d.Build(t.Context(), id, a, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{"setup", "main"} {
		write(t, filepath.Join(container.LogDir(dir), task, "stdout"), "of "+task+"\n")
	}
	server := http.NewServeMux()
	server.Handle("GET /v1/logs/{id}", &logs.Server{Store: d.logs, Live: func(container.ID) bool { return false }})
	read := func(task string) string {
		r := httptest.NewRequest("GET", "/v1/logs/5.2.3?task="+task, nil)
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r.WithContext(identity.WithCaller(r.Context(), identity.Caller{Role: "controller"})))
		if answer.Code == http.StatusOK {
			return answer.Body.String()
		}
		var p api.Problem
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		return p.Detail
	}
	for _, retired := range []bool{false, true} {
		if retired {
			if err := d.Retire(id); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		for task, want := range map[string]string{"": "of main\n", "main": "of main\n", "setup": "of setup\n",
			"other": `no stdout of 5.2.3 on this node: the worker has no task "other"`} {
			if got := read(task); got != want {
				t.Errorf("task %q, retired %v: %q", task, retired, got)
			}
		}
	}
}

// TestAJobOfRootIsRefused: controllers that let root submit, or were deceived, hand a node a job of
// root.
func TestAJobOfRootIsRefused(t *testing.T) {
	d, shared := testStore(t)
	d.rootJobs = false
	a := testAlloc(shared)
	a.Owner.UID = 0
	id := container.ID{Job: 5, Attempt: 2, Worker: 3}
	if _, err := d.Build(t.Context(), id, a, nil, nil); err == nil || container.IsFinal(err) ||
		!strings.Contains(err.Error(), "--allow-root-jobs") {
		t.Errorf("got %v: another node may allow it", err)
	}
	a.Owner.UID = 1000
	if _, err := d.Build(t.Context(), id, a, nil, nil); err != nil {
		t.Errorf("a job of another user: %v", err)
	}
}

// TestTheFilterOfSystemCalls: a job makes user namespaces only where the node's configuration lets
// it.
func TestTheFilterOfSystemCalls(t *testing.T) {
	allows := func(userNamespaces bool, name string) bool {
		t.Helper()
		filter, err := Seccomp(userNamespaces)
		if err != nil || filter.DefaultAction != specs.ActErrno {
			t.Fatalf("%+v, %v", filter, err)
		}
		if slices.Contains(filter.Architectures, specs.ArchX32) {
			t.Errorf("containers start slowly: %q", filter.Architectures)
		}
		return slices.ContainsFunc(filter.Syscalls, func(s specs.LinuxSyscall) bool {
			return s.Action == specs.ActAllow && len(s.Args) == 0 && slices.Contains(s.Names, name)
		})
	}
	for _, c := range []struct {
		name              string
		plain, namespaces bool
	}{
		{"read", true, true}, {"set_mempolicy", true, true}, {"unshare", false, true}, {"mount", false, true},
		{"clone", false, true}, {"bpf", false, false}, {"kexec_load", false, false}, {"init_module", false, false},
	} {
		if got := allows(false, c.name); got != c.plain {
			t.Errorf("%s: allowed %t", c.name, got)
		}
		if got := allows(true, c.name); got != c.namespaces {
			t.Errorf("%s with user namespaces: allowed %t", c.name, got)
		}
	}
}

// TestHostsFile: a hosts file is mounted only over the hosts file of an image. No mount point may
// be made in the image, and a link may lead anywhere.
func TestHostsFile(t *testing.T) {
	d, _ := testStore(t)
	d.hosts = func([]api.AllocNode) ([]byte, error) { return nil, nil }
	id := container.ID{Job: 5, Attempt: 2, Worker: 3}
	for kind, want := range map[string]bool{"file": true, "link": false, "none": false} {
		image := t.TempDir()
		if err := os.MkdirAll(filepath.Join(image, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch at := filepath.Join(image, "etc/hosts"); kind {
		case "file":
			err = os.WriteFile(at, nil, 0o644)
		case "link":
			err = os.Symlink("/proc/hosts", at)
		}
		if err != nil {
			t.Fatal(err)
		}
		a := testAlloc("/")
		a.Spec.Groups[1].Tasks[0].Image = image
		in, err := d.specInput(id, a, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.imageRoot(&in, id, t.TempDir(), &a.Spec.Groups[1].Tasks[0]); err != nil {
			t.Fatal(err)
		}
		in.Task = 0
		spec, err := oci.Spec(in)
		if err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == "/etc/hosts" })
		etc := slices.IndexFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == "/etc" })
		if (n >= 0) != want || want && (n < etc || spec.Mounts[n].Source != d.hostsFile(id) ||
			!slices.Contains(spec.Mounts[n].Options, "ro")) {
			t.Errorf("%s: mount %d of %+v", kind, n, spec.Mounts)
		}
	}
}
