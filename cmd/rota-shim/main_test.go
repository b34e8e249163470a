package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/container/containertest"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

var (
	binaries   string // directory with rota-shim and rota-init
	cgroupRoot string
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envDoomed); dir != "" {
		fmt.Fprintln(os.Stderr, doomed(dir))
		os.Exit(1)
	}
	if os.Getenv(withoutKeyctl) != "" {
		if err := refuseKeyctl(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP) // as rota-noded does: under nohup shims would ignore it
	code, err := withBinaries(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withBinaries builds the programs under test once, unless ROTA_TEST_PROGRAMS names a directory with
// them: on a machine without a compiler.
func withBinaries(run func() int) (int, error) {
	cgroupRoot = fmt.Sprintf("/rota-test-%d", os.Getpid())
	if binaries = os.Getenv("ROTA_TEST_PROGRAMS"); binaries == "" {
		dir, err := os.MkdirTemp("", "rota-shim-test")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		if err := buildPrograms(dir); err != nil {
			return 1, err
		}
		binaries = dir
	}
	code := run()
	return code, removeCgroups()
}

func buildPrograms(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for program, cgo := range map[string]string{"cmd/rota-shim": "1", "cmd/rota-init": "0", "examples/trainer": "0"} {
		// make build has compiled nearly all packages with these flags
		build := exec.Command("go", "build", "-trimpath", "-tags", "seccomp", "-o", dir, "github.com/rota-hpc/rota/"+program)
		build.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
	}
	return nil
}

// removeCgroups removes the parent of the tests' cgroups; a cgroup of a container that is left in it
// is a fault.
func removeCgroups() error {
	var errs []error
	for _, dir := range cgroupsAt(cgroupRoot) {
		err := os.Remove(dir)
		for deadline := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(deadline); err = os.Remove(dir) {
			_ = os.Remove(filepath.Join(dir, container.ShimsGroup)) // a shim of the last test may be about to end
			time.Sleep(time.Millisecond)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cgroupsAt lists the cgroups at a path below the root of each hierarchy. The path may be a pattern.
func cgroupsAt(path string) []string {
	found, _ := filepath.Glob("/sys/fs/cgroup/*" + path) // the patterns are well formed
	unified, _ := filepath.Glob("/sys/fs/cgroup" + path)
	return append(found, unified...)
}

// countsProcesses returns the directory of a cgroup in the hierarchy that counts processes, or in the
// only one of cgroup version 2.
func countsProcesses(path string) string {
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err == nil {
		return "/sys/fs/cgroup/pids" + path
	}
	return "/sys/fs/cgroup" + path
}

// inCgroup returns a command that prints the path of the container's own cgroup.
func inCgroup() string {
	line := ":pids:"
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err != nil {
		line = "^0::"
	}
	return "grep " + line + " /proc/self/cgroup | cut -d: -f3"
}

// needsLimits skips a test where memory and cores cannot be limited: in a hierarchy of version 2 that
// stands beside those of version 1.
func needsLimits(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		return
	}
	if b, _ := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); !strings.Contains(string(b), "memory") {
		t.Skip("needs cgroups that limit memory")
	}
}

// node is a machine for tests: directories, and a runtime on them.
type node struct {
	t      testing.TB
	dir    string
	shared string
	root   container.Root
	shims  *container.Shims
	mutate func(*oci.Input)
	log    container.LogFiles
	guards []container.Guard
	cores  []int // of the workers of several tasks

	secrets  []container.Secret
	policies []container.Policy
	steps    *container.StepPattern

	io       *container.IO
	terminal *launch.Terminal // of the first rank

	asRoot  bool // jobs run as root
	restore *container.Restore
}

const testUID, testGID = 23456, 23457

func newNode(t testing.TB, warm int) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
	base := t.TempDir()
	for dir := base; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) // the job's user must reach the shared directory
	}
	n := &node{t: t, dir: filepath.Join(base, "c"), shared: filepath.Join(base, "shared"),
		log: container.LogFiles{Join: true, Keep: 2}}
	check(t, os.Mkdir(n.shared, 0o755))
	check(t, os.Chown(n.shared, testUID, testGID))
	root, err := container.PrepareHostRoot(filepath.Join(base, "root"), []string{n.shared})
	check(t, err)
	n.root = root
	n.open(warm)
	t.Cleanup(n.clean)
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) open(warm int) {
	shims, err := container.NewShims(container.Config{Dir: n.dir, ShimPath: filepath.Join(binaries, "rota-shim"),
		Warm: warm, CgroupRoot: cgroupRoot})
	check(n.t, err)
	n.shims = shims
}

// clean ends everything and checks that nothing is left.
func (n *node) clean() {
	ctx := context.Background()
	list, err := n.shims.List(ctx)
	check(n.t, err)
	for _, s := range list {
		_ = n.shims.Kill(ctx, s.ID)
	}
	for _, s := range list {
		n.await(s.ID)
		check(n.t, n.shims.Remove(ctx, s.ID))
	}
	check(n.t, n.shims.Close())
	if left := cgroupsAt(cgroupRoot + "/[0-9]*"); len(left) > 0 {
		n.t.Errorf("cgroups left: %v", left)
	}
	if mounts, _ := os.ReadFile("/proc/self/mounts"); strings.Contains(string(mounts), filepath.Dir(n.dir)) {
		n.t.Errorf("mounts left below %s", filepath.Dir(n.dir))
	}
}

// await waits for the end of a container.
func (n *node) await(id container.ID) container.Status {
	n.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		list, err := n.shims.List(context.Background())
		check(n.t, err)
		for _, s := range list {
			if s.ID == id && (s.State == container.Exited || s.State == container.Lost) {
				return s
			}
		}
		select {
		case <-n.shims.Changes():
		case <-deadline:
			n.t.Fatalf("container %s did not end: %+v\nlog:\n%s", id, list, n.output(id))
		}
	}
}

func (n *node) input(id container.ID, script string) oci.Input {
	return oci.Input{
		Alloc: api.Alloc{
			Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: 0, Nodes: []string{"n1"},
			Owner: model.Identity{UID: testUID, GID: testGID, GIDs: []uint32{24000}, User: "tester", Home: n.shared},
			Spec: &jobspec.Job{Name: "test", Workdir: n.shared,
				Groups: []jobspec.Group{{Name: "main", Tasks: []jobspec.Task{{
					Name: "main", Script: script,
					Resources: jobspec.Resources{Cores: 1, Memory: 256 * jobspec.MiB, Shm: 16 * jobspec.MiB,
						Tmp: 16 * jobspec.MiB},
				}}}}},
		},
		Node: oci.Node{
			Name: "n1", SharedPaths: []string{n.shared}, RunDir: container.RunDir(n.shims.Path(id)),
			Progress: container.ProgressPath(n.shims.Path(id)),
			InitPath: filepath.Join(binaries, "rota-init"), CgroupPath: cgroupRoot + "/" + id.String(),
			Root: n.root,
		},
	}
}

// bundle writes the bundle of a container that runs script.
func (n *node) bundle(id container.ID, script string) string {
	n.t.Helper()
	in := n.input(id, script)
	user := container.User{UID: testUID, GID: testGID, GIDs: []uint32{24000}}
	if n.asRoot {
		in.Alloc.Owner.UID, in.Alloc.Owner.GID, in.Alloc.Owner.GIDs = 0, 0, nil
		user = container.User{}
	}
	if n.mutate != nil {
		n.mutate(&in)
	}
	spec, err := oci.Spec(in)
	check(n.t, err)
	if os.Getenv(insideV2) != "" {
		bareResources(spec.Linux.Resources)
	}
	plan, err := oci.Plan(in)
	check(n.t, err)
	plan.Ranks[0].Terminal = n.terminal
	dir := n.shims.Path(id)
	check(n.t, container.WriteBundle(dir, container.Bundle{
		Tasks: []container.TaskBundle{{Config: spec, Plan: plan, Script: in.Alloc.Spec.Groups[0].Tasks[0].Script}},
		Settings: container.Settings{
			ID: id, User: user, Cgroup: in.Node.CgroupPath, Restore: n.restore,
			Tasks: []container.Task{{
				KillSignal: int(unix.SIGTERM), Log: n.log, Guards: n.guards, Secrets: n.secrets, Leader: true,
			}},
			LeaseGrace: 500, Policies: n.policies, Steps: n.steps, IO: n.io,
		},
	}))
	return dir
}

// run runs a script to its end and returns its exit and output.
func (n *node) run(id container.ID, script string) (container.Exit, string) {
	n.t.Helper()
	check(n.t, n.shims.Create(context.Background(), id, n.bundle(id, script), time.Now().Add(time.Hour)))
	check(n.t, n.shims.Start(context.Background(), id))
	s := n.await(id)
	if s.Exit == nil {
		n.t.Fatalf("container %s: %+v", id, s)
	}
	return *s.Exit, n.output(id)
}

func (n *node) output(id container.ID) string {
	// absent before the container is created
	b, _ := os.ReadFile(filepath.Join(container.LogDir(n.shims.Path(id)), "stdout"))
	return string(b)
}

func (n *node) ready(t testing.TB, id container.ID) {
	t.Helper()
	eventually(t, "the command is ready", func() bool {
		said := n.output(id) + n.said(id, "main")
		return strings.Contains(said, "ready") || strings.Contains(said, "step ") // of the trainer
	})
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		}
	}
}

// shimPid returns the process of the shim of a container.
func (n *node) shimPid(t *testing.T, id container.ID) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.shims.Path(id), "shim.pid"))
	check(t, err)
	var pid int
	_, err = fmt.Sscanf(string(b), `{"pid":%d`, &pid)
	check(t, err)
	return pid
}

// killShim ends a shim as the kernel's memory killer would.
func (n *node) killShim(t *testing.T, id container.ID) {
	t.Helper()
	check(t, unix.Kill(n.shimPid(t, id), unix.SIGKILL))
}

var scripts = map[containertest.Kind]string{
	containertest.Exits0: "exit 0", containertest.Exits7: "exit 7", containertest.DiesBy11: "kill -SEGV $$",
	containertest.Runs:    "echo ready; exec sleep 1000",
	containertest.Saves:   "trap 'exit 85' TERM; sleep 1000 & echo ready; wait",
	containertest.Ignores: "trap '' TERM; echo ready; exec sleep 1000",
	containertest.Pauses:  "exec ./trainer -steps 100000000 -pause 1ms -dir .",
	containertest.Stuck:   "exec ./trainer -steps 100000000 -pause 1h -log 1",
}

// installTrainer puts the example of a training program where the containers' commands start.
func (n *node) installTrainer() {
	b, err := os.ReadFile(filepath.Join(binaries, "trainer"))
	check(n.t, err)
	check(n.t, os.WriteFile(filepath.Join(n.shared, "trainer"), b, 0o755))
}

// program returns the bundle of one of the contract's programs.
func (n *node) program(id container.ID, k containertest.Kind) string {
	switch k {
	case containertest.Pauses, containertest.Stuck:
		n.installTrainer()
	case containertest.Unsavable:
		return n.bundle(id, n.connects())
	case containertest.TasksFail:
		return n.tasks(id, "", hook("setup", "prestart", "exit 3"), mainTask("main", scripts[containertest.Runs]))
	case containertest.TasksSave:
		return n.tasks(id, "", mainTask("main", scripts[containertest.Saves]),
			sidecar("side", "poststart", "exec sleep 1000"))
	}
	return n.bundle(id, scripts[k])
}

func TestContract(t *testing.T) {
	for _, warm := range []int{0, 2} {
		t.Run(fmt.Sprintf("warm=%d", warm), func(t *testing.T) {
			containertest.Contract(t, func(t *testing.T) *containertest.Harness {
				n := newNode(t, warm)
				return &containertest.Harness{
					Runtime: n.shims,
					Bundle: func(_ *testing.T, id container.ID,
						k containertest.Kind) string {
						return n.program(id, k)
					},
					Ready: func(t *testing.T, id container.ID) { n.ready(t, id) },
					Restart: func(t *testing.T) container.Runtime {
						check(t, n.shims.Close())
						n.open(warm)
						return n.shims
					},
					KillShim: n.killShim,
					Saves:    n.saves,
					BundleFrom: func(_ *testing.T, id container.ID, k containertest.Kind, r container.Restore) string {
						n.restore = &r
						defer func() { n.restore = nil }()
						return n.program(id, k)
					},
				}
			})
		})
	}
}
