package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// hungry is a pipe in which tail takes all memory. What comes behind it goes on.
const hungry = "head -c 600M /dev/zero | tail | wc -c"

// namesProcesses reports whether shims can read in the kernel's log which process was killed.
func namesProcesses() bool {
	f, err := os.Open("/dev/kmsg")
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// wantKilled checks what is said of a pipe in which tail was killed.
func wantKilled(t *testing.T, text, limit string) {
	t.Helper()
	which := "a process"
	if namesProcesses() {
		which = "tail (process "
	}
	if n := strings.Count(text, "the kernel killed "+which); n != 1 || strings.Count(text, "for memory; "+limit) != 1 {
		t.Errorf("%q does not say once that %s) was killed, and that %s", text, which, limit)
	}
}

// TestAScriptThatGoesOnWithoutMemory notices a process that the kernel kills for memory and that goes
// unmentioned because its script goes on.
func TestAScriptThatGoesOnWithoutMemory(t *testing.T) {
	needsLimits(t)
	n := newNode(t, 0)
	n.task(func(task *jobspec.Task) { task.Resources.Memory = 64 * jobspec.MiB })
	exit, out := n.run(one, "set +e +o pipefail; "+hungry+"; printf 'it goes on'")
	if !exit.OOM || exit.Code != 0 || exit.Signal != 0 || !exit.Own || exit.Unbegun {
		t.Errorf("%+v", exit)
	}
	wantKilled(t, exit.Killed, "the limit is 64MiB")
	wantKilled(t, out, "the limit is 64MiB")
	if !strings.HasPrefix(out, "0\nit goes on\n[rota: the kernel killed ") {
		t.Errorf("the output is %q", out)
	}
	check(t, n.shims.Remove(t.Context(), one))
	if exit, out := n.run(one, "echo well"); exit.OOM || exit.Killed != "" || !strings.HasSuffix(out, "\nwell\n") {
		t.Errorf("one of the same name has %+v, and says %q", exit, out) // the kernel's log has the first one
	}
}

// TestMemoryOfSeveralTasks notices a worker that succeeds although a process of one of its tasks was killed.
func TestMemoryOfSeveralTasks(t *testing.T) {
	needsLimits(t)
	n := newNode(t, 0)
	n.begin(one, n.tasks(one, "", mainTask("modest", "echo modest"), mainTask("hungry", hungry+" || true")))
	exit := n.exit(one)
	if !exit.OOM || exit.Code != 0 || exit.Signal != 0 || !exit.Own {
		t.Errorf("%+v", exit)
	}
	wantKilled(t, exit.Killed, "the limit of its worker is 256MiB")
	wantKilled(t, n.said(one, "hungry"), "the limit of its worker is 256MiB")
	if got := n.said(one, "modest"); got != "modest\n" || !strings.HasPrefix(exit.Killed, "task hungry: ") {
		t.Errorf("the other task says %q, and the worker has %q", got, exit.Killed)
	}
}

// TestMemoryOfAStep notices a step that succeeds although a process of it was killed, and a script that is
// judged by that: it goes by the exit code of srun.
func TestMemoryOfAStep(t *testing.T) {
	needsLimits(t)
	n := newNode(t, 0)
	in := n.place(t, batch, "echo ready; until [ -e "+n.shared+"/go ]; do sleep 0.05; done")
	eventually(t, "the program is ready", func() bool { return strings.Contains(n.said(batch, "main"), "ready") })
	for i, memory := range []jobspec.Bytes{0, 64 * jobspec.MiB} {
		id := batch.OfStep(i)
		n.stepOf(t, in, id, func(s *oci.Step) { s.Memory = memory }, "sh", "-c", hungry)
		exit := n.exit(id)
		if !exit.OOM || exit.Code != 0 || exit.Signal != 0 {
			t.Errorf("step %d: %+v", i, exit)
		}
		limit := []string{"the limit of its worker is 256MiB", "the step's limit is 64MiB"}[i]
		wantKilled(t, exit.Killed, limit)
		wantKilled(t, n.output(id), limit)
	}
	check(t, os.WriteFile(n.shared+"/go", nil, 0o666))
	if exit := n.exit(batch); exit.OOM || exit.Killed != "" || exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("the script has %+v", exit)
	}
}

// TestMemoryOfAPerson notices a job that has failed because a process in a person's shell was killed.
func TestMemoryOfAPerson(t *testing.T) {
	needsLimits(t)
	if !namesProcesses() {
		t.Skip("the kernel's log cannot be read here, so that nothing tells a person's processes from the job's")
	}
	n := newNode(t, 0)
	n.task(func(task *jobspec.Task) { task.Resources.Memory = 64 * jobspec.MiB })
	n.started(one, "echo ready; until [ -e "+n.shared+"/go ]; do sleep 0.05; done")
	n.ready(t, one)
	w := n.execute(t, one, container.Exec{Args: []string{"sh", "-c", hungry}})
	if end := w.all(); end.Code != 0 || end.Signal != 0 {
		t.Errorf("%+v", end)
	}
	check(t, os.WriteFile(n.shared+"/go", nil, 0o666))
	if exit := n.exit(one); exit.OOM || exit.Killed != "" || exit.Code != 0 {
		t.Errorf("%+v", exit)
	}
	if out := n.output(one); out != "ready\n" {
		t.Errorf("its output is %q", out)
	}
}
