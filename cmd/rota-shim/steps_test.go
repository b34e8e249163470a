package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// place starts a worker beside which steps run, and returns what steps need to know of it.
func (n *node) place(t *testing.T, id container.ID, script string) oci.Input {
	t.Helper()
	dir := n.shims.Path(id)
	in := n.input(id, script)
	in.Alloc.Request.Active = model.Vector{Cores: 1, Memory: 256 * jobspec.MiB}
	in.Alloc.Spec.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
	in.Node.ShmDir, in.Node.TmpDir = container.ShmDir(dir), container.TmpDir(dir)
	at := in
	task := container.TaskDir(dir, 0)
	at.Node.RunDir, at.Node.Progress = container.RunDir(task), container.ProgressPath(task)
	at.Node.CgroupPath = filepath.Join(in.Node.CgroupPath, "main")
	spec, err := oci.Spec(at)
	check(t, err)
	plan, err := oci.Plan(at)
	check(t, err)
	limits := oci.Limits(in)
	if os.Getenv(insideV2) != "" {
		bareResources(limits)
		editResources(spec)
	}
	check(t, container.WriteBundle(dir, container.Bundle{
		Tasks: []container.TaskBundle{{Config: spec, Plan: plan, Script: script}}, Limits: limits,
		Settings: container.Settings{
			ID: id, User: container.User{UID: testUID, GID: testGID}, Cgroup: in.Node.CgroupPath, LeaseGrace: 500,
			Shm: 16 << 20, Place: true, Tmp: 16 << 20,
			Tasks: []container.Task{{Name: "main", KillSignal: int(unix.SIGTERM), Log: container.LogFiles{Join: true}}},
		},
	}))
	n.begin(id, dir)
	return in
}

// step starts a part of a step beside a worker.
func (n *node) step(t *testing.T, in oci.Input, id container.ID, argv ...string) {
	t.Helper()
	n.stepOf(t, in, id, func(*oci.Step) {}, argv...)
}

// stepOf is step for one that asks for something.
func (n *node) stepOf(t *testing.T, in oci.Input, id container.ID, edit func(*oci.Step), argv ...string) {
	t.Helper()
	dir := n.shims.Path(id)
	in.Node.RunDir, in.Node.Progress = container.RunDir(dir), container.ProgressPath(dir)
	in.Node.CgroupPath = container.StepCgroup(in.Node.CgroupPath, id.Step-1)
	s := oci.Step{Number: id.Step - 1, Programs: []api.StepProgram{{Argv: argv}}, Nodes: []string{"n1"}, Counts: []int{1},
		Tasks: []int{0}, Cores: 1, CoresPerTask: 1}
	edit(&s)
	spec, err := oci.StepSpec(in, s)
	check(t, err)
	plan, err := oci.StepPlan(in, s)
	check(t, err)
	if os.Getenv(insideV2) != "" {
		editResources(spec)
	}
	pid := n.status(id.OfWorker()).Pid
	check(t, container.WriteBundle(dir, container.Bundle{
		Tasks: []container.TaskBundle{{Config: spec, Plan: plan}},
		Settings: container.Settings{
			ID: id, User: container.User{UID: testUID, GID: testGID}, Cgroup: in.Node.CgroupPath, LeaseGrace: 500,
			IPC:   "/proc/" + strconv.Itoa(pid) + "/ns/ipc",
			Tasks: []container.Task{{Name: "main", KillSignal: int(unix.SIGTERM), Log: container.LogFiles{Join: true}}},
		},
	}))
	n.begin(id, dir)
}

var batch = container.ID{Job: 7, Attempt: 1}

// TestAStepSharesWithItsWorker notices a step that does not see what the program that has started it has
// written to /tmp and /dev/shm, that has other IPC, or a cgroup beside that of its worker.
func TestAStepSharesWithItsWorker(t *testing.T) {
	n := newNode(t, 0)
	in := n.place(t, batch, "echo one > /tmp/a; echo two > /dev/shm/b; readlink /proc/self/ns/ipc; echo ready; sleep 1000")
	eventually(t, "the program is ready", func() bool { return strings.Contains(n.said(batch, "main"), "ready") })
	id := batch.OfStep(0)
	n.step(t, in, id, "sh", "-c", "cat /tmp/a /dev/shm/b; readlink /proc/self/ns/ipc; "+
		"echo x > /tmp/c; cp /bin/true /tmp/; "+
		"/tmp/true && [ $SLURM_TASK_PID = $$ ] && "+inCgroup())
	if e := n.exit(id); e.Code != 0 || e.Signal != 0 {
		t.Fatalf("%+v: %s", e, n.output(id))
	}
	ipc := strings.Split(n.said(batch, "main"), "\n")[0]
	if want := "one\ntwo\n" + ipc + "\n" + cgroupRoot + "/7.1.0/step.0\n"; n.output(id) != want {
		t.Errorf("it says %q, not %q", n.output(id), want)
	}
	if of, ok := n.shims.ContainerOf(n.status(batch).Pid); of != batch || !ok {
		t.Errorf("a process of the worker is of %v", of)
	}
}

// TestStepsEndWithTheirWorker notices a step that goes on when its worker was killed or has lost its shim, one
// that is killed when its worker ends by itself, and one whose end is not recorded.
func TestStepsEndWithTheirWorker(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *node){
		"it ends":          func(*testing.T, *node) {},
		"it is killed":     func(t *testing.T, n *node) { check(t, n.shims.Kill(t.Context(), batch)) },
		"its shim is lost": func(t *testing.T, n *node) { n.killShim(t, batch) },
		"it is killed while it is frozen": func(t *testing.T, n *node) {
			check(t, n.shims.Switch(t.Context(), batch, container.SwitchOrder{Number: 1}))
			eventually(t, "it is frozen", func() bool { return n.status(batch).Switch.Done == 1 })
			check(t, n.shims.Kill(t.Context(), batch))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, 0)
			script := "sleep 1000"
			if name == "it ends" {
				script = "until [ -e " + n.shared + "/go ]; do sleep 0.05; done; exit 3"
			}
			in := n.place(t, batch, script)
			id := batch.OfStep(4)
			n.step(t, in, id, "sh", "-c", "trap '' TERM; echo ready; sleep 1000; sleep 1000")
			eventually(t, "the step is ready", func() bool { return strings.Contains(n.output(id), "ready") })
			if of, ok := n.shims.ContainerOf(n.status(id).Pid); of != id || !ok {
				t.Errorf("a process of the step is of %v", of)
			}
			check(t, os.WriteFile(n.shared+"/go", nil, 0o644))
			end(t, n)
			n.await(batch)
			if name == "it ends" {
				if s := n.status(id); s.Exit != nil {
					t.Errorf("the step has ended with its worker: %+v", s.Exit)
				}
				check(t, n.shims.Kill(t.Context(), id))
			}
			if e := n.exit(id); e.Signal != int(unix.SIGKILL) {
				t.Errorf("the step has ended with %+v", e)
			}
			check(t, n.shims.Remove(t.Context(), id))
			if _, err := os.Lstat(n.shims.Path(id)); !os.IsNotExist(err) {
				t.Errorf("its directory is left: %v", err)
			}
		})
	}
}

// TestStepsAreFrozenWithTheirWorker notices a step that computes while its worker is suspended, and one
// that does not go on.
func TestStepsAreFrozenWithTheirWorker(t *testing.T) {
	n := newNode(t, 0)
	in := n.place(t, batch, "sleep 1000")
	id := batch.OfStep(0)
	n.step(t, in, id, "sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > "+n.shared+"/count; sleep 0.01; done")
	count := func() string {
		b, _ := os.ReadFile(n.shared + "/count") // absent at first
		return string(b)
	}
	goesOn := func() {
		t.Helper()
		before := count()
		eventually(t, "it counts", func() bool { return count() != before })
	}
	frozen := func() bool {
		for _, dir := range cgroupsAt(cgroupRoot + "/7.1.0/step.0") {
			v1, _ := os.ReadFile(dir + "/freezer.state") // one of the two does not exist
			v2, _ := os.ReadFile(dir + "/cgroup.events")
			if strings.TrimSpace(string(v1)) == "FROZEN" || strings.Contains(string(v2), "frozen 1") {
				return true
			}
		}
		return false
	}
	goesOn()
	check(t, n.shims.Switch(t.Context(), batch, container.SwitchOrder{Number: 1}))
	eventually(t, "the worker is frozen", func() bool { return n.status(batch).Switch.Done == 1 })
	if !frozen() {
		t.Error("the step is not frozen")
	}
	check(t, n.shims.Switch(t.Context(), batch, container.SwitchOrder{Number: 2}))
	eventually(t, "the worker goes on", func() bool { return n.status(batch).Switch.Done == 2 })
	goesOn()
	stay := container.SwitchOrder{Number: 3, NoFreeze: "its GPU memory must not stay"}
	check(t, n.shims.Switch(t.Context(), batch, stay))
	eventually(t, "the worker says why it goes on", func() bool { return n.status(batch).Switch.Problem != "" })
}
