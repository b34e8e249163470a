package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// part is one task of a worker under test.
type part struct {
	container.Task
	script string
}

func mainTask(name, script string) part { return part{container.Task{Name: name}, script} }

func hook(name, when, script string) part {
	return part{container.Task{Name: name, Hook: when}, script}
}

func sidecar(name, when, script string) part {
	return part{container.Task{Name: name, Hook: when, Sidecar: true, KillTimeout: 300}, script}
}

// tasks writes the bundle of a worker of several tasks.
func (n *node) tasks(id container.ID, success string, parts ...part) string {
	n.t.Helper()
	dir := n.shims.Path(id)
	in := n.input(id, "")
	in.Alloc.Request.Active = model.Vector{Cores: 2, Memory: 256 * jobspec.MiB}
	in.Node.Cores = n.cores
	only := in.Alloc.Spec.Groups[0].Tasks[0]
	in.Alloc.Spec.Groups[0].Tasks = nil
	b := container.Bundle{Settings: container.Settings{
		ID: id, User: container.User{UID: testUID, GID: testGID}, Cgroup: in.Node.CgroupPath, LeaseGrace: 500,
		Success: success, Shm: 16 << 20,
		Policies: n.policies,
	}}
	for _, p := range parts {
		task := only
		task.Name, task.Script = p.Name, p.script
		in.Alloc.Spec.Groups[0].Tasks = append(in.Alloc.Spec.Groups[0].Tasks, task)
	}
	for i, p := range parts {
		at := in
		at.Task, at.Node.RunDir, at.Node.ShmDir = i, container.RunDir(container.TaskDir(dir, i)), container.ShmDir(dir)
		at.Node.Progress = container.ProgressPath(container.TaskDir(dir, i))
		at.Node.CgroupPath = filepath.Join(in.Node.CgroupPath, p.Name)
		spec, err := oci.Spec(at)
		check(n.t, err)
		plan, err := oci.Plan(at)
		check(n.t, err)
		b.Tasks = append(b.Tasks, container.TaskBundle{Config: spec, Plan: plan, Script: p.script})
		p.KillSignal, p.Log.Join = cmp.Or(p.KillSignal, int(unix.SIGTERM)), true
		b.Settings.Tasks = append(b.Settings.Tasks, p.Task)
	}
	limits := oci.Limits(in)
	if os.Getenv(insideV2) != "" {
		bareResources(limits)
		for i := range b.Tasks {
			editResources(b.Tasks[i].Config)
		}
	}
	b.Limits = limits
	check(n.t, container.WriteBundle(dir, b))
	return dir
}

// begin creates and starts a worker.
func (n *node) begin(id container.ID, dir string) {
	n.t.Helper()
	check(n.t, n.shims.Create(n.t.Context(), id, dir, time.Now().Add(time.Hour)))
	check(n.t, n.shims.Start(n.t.Context(), id))
}

func (n *node) exit(id container.ID) container.Exit {
	n.t.Helper()
	s := n.await(id)
	if s.Exit == nil {
		n.t.Fatalf("container %s: %+v", id, s)
	}
	return *s.Exit
}

// said returns the output of a task.
func (n *node) said(id container.ID, task string) string {
	// absent before the task is created
	b, _ := os.ReadFile(filepath.Join(container.LogDir(n.shims.Path(id)), task, "stdout"))
	return string(b)
}

// order returns a file to which every task adds its name.
func (n *node) order() []string {
	b, _ := os.ReadFile(filepath.Join(n.shared, "order")) // absent before the first
	return strings.Fields(string(b))
}

// TestTasksInOrder shows what runs before, beside and after the main tasks, with one memory limit
// and one network.
func TestTasksInOrder(t *testing.T) {
	n := newNode(t, 0)
	dir := n.tasks(one, "",
		hook("clean", "poststop", "echo clean >> order; cat /dev/shm/x"),
		sidecar("watch", "prestart", "trap 'echo watch-ends >> order; exit 3' TERM; echo watch >> order; touch "+
			"/dev/shm/up; while :; do sleep 0.05; done"),
		hook("first", "prestart", "until [ -e /dev/shm/up ]; do sleep 0.02; done; echo first >> order; echo "+
			"shared > /dev/shm/x"),
		hook("second", "prestart", "echo second >> order"),
		mainTask("train", "echo train >> order; cat /dev/shm/x; "+inCgroup()+"; "+
			"sleep 0.3; echo train-ends >> order"),
		hook("after", "poststart", "echo after >> order"),
	)
	n.begin(one, dir)
	exit := n.exit(one)
	if exit.Code != 0 || exit.Signal != 0 || len(exit.Tasks) != 6 || exit.PeakMem < 1<<20 && os.Getenv(insideV2) == "" {
		t.Errorf("exit %+v", exit)
	}
	got := n.order()
	at := func(s string) int { return slices.Index(got, s) }
	if !(at("watch") < at("first") && at("first") < at("second") && at("second") < at("train") &&
		at("second") < at("after") &&
		at("train") < at("train-ends") && at("after") < at("watch-ends") && at("train-ends") < at("watch-ends") &&
		at("watch-ends") < at("clean") && at("clean") == len(got)-1) {
		t.Errorf("order %v", got)
	}
	if out := n.said(one, "train"); !strings.HasPrefix(out, "shared\n") ||
		!strings.Contains(out, cgroupRoot+"/1.1.0/train\n") {
		t.Errorf("output %q", out)
	}
	if out := n.said(one, "clean"); out != "shared\n" {
		t.Errorf("output of the last %q", out)
	}
}

// TestEndsOfTasks shows which tasks decide how a worker ends.
func TestEndsOfTasks(t *testing.T) {
	n := newNode(t, 0)
	const forever = "echo ready; exec sleep 1000"
	leader := func(p part) part { p.Leader = true; return p }
	for i, c := range []struct {
		name    string
		success string
		parts   []part
		code    int
		signal  int
		why     string
		begun   string // the tasks that ran
	}{
		{"all well", "", []part{mainTask("a", "true"), mainTask("b", "exit 0")}, 0, 0, "", "ab"},
		{"one fails", "", []part{mainTask("a", "exit 7"), mainTask("b", forever)}, 7, 0, "", "ab"},
		{"setup fails", "", []part{hook("s", "prestart", "exit 3"), mainTask("a", forever),
			hook("c", "poststop", "true")}, 3, 0, "prestart task s ended with exit code 3", "sc"},
		{"the leader ends it", "leader", []part{mainTask("a", forever), leader(mainTask("b", "exit 0"))}, 0, 0, "",
			"ab"},
		{"any will do", "any", []part{mainTask("a", "exit 4"), mainTask("b", "sleep 0.2"), mainTask("c", forever)}, 0,
			0, "", "abc"},
		{"none did", "any", []part{mainTask("a", "exit 4"), mainTask("b", "exit 5")}, 5, 0, "", "ab"},
		{"a sidecar does not matter", "", []part{mainTask("a", "sleep 0.2"), sidecar("s", "poststart", "exit 9")}, 0, 0,
			"", "as"},
		{"cleaning fails", "", []part{mainTask("a", "true"), hook("c", "poststop", "kill -SEGV $$")}, 0, 11,
			"poststop task c ended with SIGSEGV", "ac"},
		{"what follows the start fails", "", []part{mainTask("a", forever), hook("p", "poststart", "exit 6")}, 6, 0,
			"poststart task p ended with exit code 6", "ap"},
	} {
		id := container.ID{Job: int64(100 + i), Attempt: 1}
		n.begin(id, n.tasks(id, c.success, c.parts...))
		exit := n.exit(id)
		begun := ""
		for _, task := range exit.Tasks {
			if task.Begun {
				begun += task.Name
			}
		}
		if exit.Code != c.code || exit.Signal != c.signal || !strings.Contains(exit.Why, c.why) || c.why == "" &&
			exit.Why != "" || begun != c.begun {
			t.Errorf("%s: %+v, begun %s", c.name, exit, begun)
		}
		check(t, n.shims.Remove(t.Context(), id))
	}
}

// TestTasksStop shows that the main tasks are stopped first, and the sidecars when these have
// ended. Tasks that have not started never start.
func TestTasksStop(t *testing.T) {
	n := newNode(t, 0)
	saves := "trap 'echo saved >> order; exit 85' TERM; touch up; while :; do sleep 0.02; done"
	stubborn := sidecar("side", "prestart", "trap 'echo side >> order' TERM; while :; do sleep 0.02; done")
	dir := n.tasks(one, "", stubborn, mainTask("main", saves), hook("clean", "poststop", "echo clean >> order"))
	n.begin(one, dir)
	eventually(t, "it runs", func() bool { _, err := os.Stat(filepath.Join(n.shared, "up")); return err == nil })
	check(t, n.shims.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}))
	if e := n.exit(one); e.Code != 85 || e.Signal != 0 {
		t.Errorf("exit %+v", e)
	}
	if got := strings.Join(n.order(), " "); got != "saved side clean" {
		t.Errorf("order %q", got)
	}
	three := container.ID{Job: 3, Attempt: 1}
	check(t, os.Remove(filepath.Join(n.shared, "up")))
	polite := mainTask("b", "trap 'exit 7' INT; echo ready; while :; do sleep 0.02; done")
	polite.KillSignal = int(unix.SIGINT)
	n.begin(three, n.tasks(three, "", mainTask("a",
		"trap 'exit 5' USR1; trap 'exit 6' TERM; echo ready; while :; do sleep 0.02; done"), polite))
	eventually(t, "both run", func() bool { return n.said(three, "a") != "" && n.said(three, "b") != "" })
	check(t, n.shims.Signal(t.Context(), three, container.Signal{Number: int(unix.SIGTERM)}))
	if e := n.exit(three); e.Tasks[0].Code != 6 || e.Tasks[1].Code != 7 {
		t.Errorf("each with its own signal: %+v", e)
	}
	two := container.ID{Job: 2, Attempt: 1}
	n.begin(two, n.tasks(two, "", hook("setup", "prestart",
		"trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done"), mainTask("main", "touch never")))
	eventually(t, "it is being set up", func() bool { return strings.Contains(n.said(two, "setup"), "ready") })
	check(t, n.shims.Signal(t.Context(), two, container.Signal{Number: int(unix.SIGTERM)}))
	if e := n.exit(two); e.Signal != int(unix.SIGTERM) || e.Tasks[1].Begun {
		t.Errorf("stopped before its main task: %+v", e)
	}
	if _, err := os.Stat(filepath.Join(n.shared, "never")); err == nil {
		t.Error("the main task ran after the stop")
	}
}

// TestTasksOutliveTheDaemon shows that a worker goes on without a daemon in every phase.
func TestTasksOutliveTheDaemon(t *testing.T) {
	n := newNode(t, 0)
	wait := func(file string) string {
		return fmt.Sprintf("touch in-%[1]s; until [ -e go-%[1]s ]; do sleep 0.02; done", file)
	}
	dir := n.tasks(one, "", hook("setup", "prestart", wait("setup")), mainTask("main", wait("main")),
		hook("clean", "poststop", wait("clean")))
	n.begin(one, dir)
	for i, phase := range []string{"setup", "main", "clean"} {
		check(t, n.shims.Close())
		eventually(t, phase, func() bool { _, err := os.Stat(filepath.Join(n.shared, "in-"+phase)); return err == nil })
		if i%2 == 0 { // found in the middle of a phase
			n.open(0)
			if s := n.status(one); s.State != container.Running {
				t.Errorf("in %s it is %+v", phase, s)
			}
			check(t, n.shims.Close())
		}
		check(t, os.WriteFile(filepath.Join(n.shared, "go-"+phase), nil, 0o644))
	}
	n.open(0)
	if e := n.exit(one); e.Code != 0 || e.Signal != 0 {
		t.Errorf("exit %+v", e)
	}
}

func (n *node) status(id container.ID) container.Status {
	list, err := n.shims.List(n.t.Context())
	check(n.t, err)
	for _, s := range list {
		if s.ID == id {
			return s
		}
	}
	return container.Status{}
}

// TestTasksEndWithTheirShim shows that all tasks end with their shim, with the lease, and by a
// kill.
func TestTasksEndWithTheirShim(t *testing.T) {
	n := newNode(t, 0)
	parts := []part{
		sidecar("side", "prestart", "trap '' TERM; exec sleep 1000"),
		mainTask("main", "trap '' TERM; echo ready; exec sleep 1000"), hook("clean", "poststop", "touch cleaned"),
	}
	for i, end := range []func(container.ID){
		func(id container.ID) { n.killShim(t, id) },
		func(id container.ID) { check(t, n.shims.Renew(t.Context(), id, time.Now())) },
		func(id container.ID) { check(t, n.shims.Kill(t.Context(), id)) },
	} {
		id := container.ID{Job: int64(i + 1), Attempt: 1}
		n.begin(id, n.tasks(id, "", parts...))
		eventually(t, "it runs", func() bool { return strings.Contains(n.said(id, "main"), "ready") })
		end(id)
		s := n.await(id)
		switch {
		case i == 0 && s.State != container.Lost, i > 0 && (s.Exit == nil || s.Exit.Signal != 9):
			t.Errorf("case %d: %+v", i, s)
		case i == 1 && !s.Exit.Lease:
			t.Errorf("not by its lease: %+v", s.Exit)
		}
		check(t, n.shims.Remove(t.Context(), id))
	}
	if _, err := os.Stat(filepath.Join(n.shared, "cleaned")); err == nil {
		t.Error("something began after the end")
	}
}

// TestTasksThatCannotBeCreated shows that the error names the task, and that all tasks are removed.
func TestTasksThatCannotBeCreated(t *testing.T) {
	n := newNode(t, 0)
	broken := mainTask("broken", "true")
	broken.Guards = []container.Guard{{Source: "/nowhere", Target: "/x"}}
	err := n.shims.Create(t.Context(), one, n.tasks(one, "", mainTask("good", "true"), broken),
		time.Now().Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "task broken") || !container.IsFinal(err) {
		t.Errorf("got %v", err)
	}
	check(t, n.shims.Remove(t.Context(), one))
}

// TestLimitOfTasks shows that the memory limit is the worker's, whichever task uses the memory.
func TestLimitOfTasks(t *testing.T) {
	needsLimits(t)
	n := newNode(t, 0)
	n.cores = []int{1}
	two := container.ID{Job: 2, Attempt: 1}
	n.begin(two, n.tasks(two, "", mainTask("a", "nproc"), mainTask("b", "nproc")))
	n.exit(two)
	if got := n.said(two, "a") + n.said(two, "b"); got != "1\n1\n" {
		t.Errorf("with one core the tasks see %q", got)
	}
	dir := n.tasks(one, "", mainTask("hungry", `exec python3 -c "x = b'x' * (400 << 20)"`),
		mainTask("modest", "sleep 1000"))
	n.begin(one, dir)
	if e := n.exit(one); !e.OOM || e.Signal != 9 || e.PeakMem > 256<<20 || e.PeakMem < 200<<20 {
		t.Errorf("exit %+v", e)
	}
}

// TestFindings shows that policies scan the streams they name, and that progress is read from the
// output.
func TestFindings(t *testing.T) {
	n := newNode(t, 0)
	n.policies = []container.Policy{{Name: "ecc", Pattern: "uncorrectable (ECC|memory)"},
		{Name: "err", Pattern: "^oops", Stream: "stderr"}, {Name: "out", Pattern: "oops", Stream: "stdout"}}
	n.steps = &container.StepPattern{Pattern: `step=(?P<step>\d+) loss=(?P<loss>\S+)`, AtStep: 50, Metric: "loss"}
	exit, out := n.run(one, `echo oops >&2; head -c 100000 /dev/zero | tr '\0' x; echo uncorrectable
printf 'GPU 3: uncorrectable ECC error\r\nuncorrectable ECC again\n'
i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo "step=$i loss=0.$i"; done; printf 'step=201 loss=0.5'`)
	if exit.Code != 0 || !strings.Contains(out, "oops\n") {
		t.Errorf("exit %+v", exit)
	}
	var found []string
	b, err := os.ReadFile(container.FindingsPath(n.shims.Path(one)))
	check(t, err)
	for line := range strings.Lines(string(b)) {
		var f container.Finding
		check(t, json.Unmarshal([]byte(line), &f))
		found = append(found, f.Policy+": "+f.Line)
	}
	slices.Sort(found)
	if want := []string{"ecc: GPU 3: uncorrectable ECC error", "err: oops"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	b, err = os.ReadFile(container.StepsPath(n.shims.Path(one)))
	check(t, err)
	steps := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(steps) < 3 || len(steps) > 8 || !strings.Contains(string(b), `"metrics":{"loss":0.5},"step":50,`) ||
		!strings.Contains(steps[len(steps)-1], `"step":201`) {
		t.Errorf("steps:\n%s", b)
	}
}

// TestSecrets shows that secrets are read with the user's rights, visible to that user alone, and
// written to no disk.
func TestSecrets(t *testing.T) {
	n := newNode(t, 0)
	const text = "s3cr3t-of-the-user"
	key := filepath.Join(n.shared, "key")
	check(t, os.WriteFile(key, []byte(text+"\n"), 0o400))
	check(t, os.Chown(key, testUID, testGID))
	n.secrets = []container.Secret{{Name: "wandb", Source: key, Target: "/run/rota/secrets/wandb"}}
	n.task(func(task *jobspec.Task) {
		task.Secrets = []jobspec.Secret{{Name: "wandb", Source: key, Env: "WANDB_API_KEY"}}
	})
	exit, out := n.run(one, `[ "$WANDB_API_KEY" = "`+"s3cr3t-of"+
		`-the-user" ] && echo right; stat -c '%a %u %g' /run/rota/secrets/wandb; stat -f -c %T `+
		`/run/rota/secrets; wc -c < /run/rota/secrets/wandb; touch /run/rota/secrets/x 2>/dev/null || echo fenced`)
	if exit.Code != 0 {
		t.Errorf("exit %+v", exit)
	}
	want(t, out, "right", fmt.Sprintf("400 %d %d", testUID, testGID), "tmpfs", fmt.Sprint(len(text)+1), "fenced")
	check(t, filepath.WalkDir(n.shims.Path(one), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(path) != "script" {
			if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
				t.Errorf("%s has the secret", path)
			}
		}
		return nil
	}))
	for name, spoil := range map[string]func(){
		"permission denied": func() { check(t, os.Chown(key, 0, 0)) },
		"larger than 65536": func() {
			check(t, os.WriteFile(key, make([]byte, 70<<10), 0o400))
			check(t, os.Chown(key, testUID, testGID))
		},
		"regular file": func() {
			check(t, os.Remove(key))
			check(t, unix.Mkfifo(key, 0o666))
			check(t,
				os.Chmod(key, 0o666))
		},
		"NUL byte": func() { check(t, os.Remove(key)); check(t, os.WriteFile(key, []byte(text+"\x00"), 0o444)) },
	} {
		check(t, os.RemoveAll(key))
		check(t, os.WriteFile(key, []byte(text), 0o400))
		spoil()
		two := container.ID{Job: 2, Attempt: 1}
		err := n.shims.Create(t.Context(), two, n.bundle(two, "true"), time.Now().Add(time.Hour))
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "wandb") ||
			strings.Contains(err.Error(), text) || !container.IsFinal(err) {
			t.Errorf("%s: %v", name, err)
		}
		check(t, n.shims.Remove(t.Context(), two))
	}
}

func TestUlimits(t *testing.T) {
	n := newNode(t, 0)
	n.task(func(task *jobspec.Task) {
		task.Ulimits = &jobspec.Ulimits{Nofile: 777, Core: 1 << 20, Stack: 4 * jobspec.MiB, Memlock: 64 * jobspec.KiB}
	})
	_, out := n.run(one, `echo "$(ulimit -n) $(ulimit -Hn) $(ulimit -c) $(ulimit -s) $(ulimit -l)"`)
	want(t, out, "777 777 1024 4096 64")
	two := container.ID{Job: 2, Attempt: 1}
	n.task(func(task *jobspec.Task) { task.Ulimits = &jobspec.Ulimits{Memlock: -1} })
	err := n.shims.Create(t.Context(), two, n.bundle(two, "ulimit -l"), time.Now().Add(time.Hour))
	if err != nil { // this machine's root may lack the privilege
		if !strings.Contains(err.Error(), "RLIMIT_MEMLOCK of unlimited is above the node daemon's own") {
			t.Errorf("got %v", err)
		}
		check(t, n.shims.Remove(t.Context(), two))
		return
	}
	check(t, n.shims.Start(t.Context(), two))
	n.await(two)
	want(t, n.output(two), "unlimited")
}
