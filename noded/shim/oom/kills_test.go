package oom

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// kernelSays is the log of a kernel: each read is a record, and what was overwritten is EPIPE.
type kernelSays []string

func (k *kernelSays) Read(b []byte) (int, error) {
	if len(*k) == 0 {
		return 0, unix.EAGAIN
	}
	record := (*k)[0]
	*k = (*k)[1:]
	if record == "" {
		return 0, unix.EPIPE
	}
	return copy(b, record), nil
}

func (k *kernelSays) Close() error { return nil }

// Records of Linux 6.18 with cgroup version 1. The score of a process is 100, or that of one beside it.
const (
	killsTail = "3,1523,11321132740,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=6.1.0,mems_allowed=0," +
		"oom_memcg=/lab/n1/6.1.0,task_memcg=/lab/n1/6.1.0,task=tail,pid=475,uid=65534\n SUBSYSTEM=x\n"
	tailIsDead = "3,1524,11321132760,-;Memory cgroup out of memory: Killed process 475 (tail) total-vm:66124kB, " +
		"anon-rss:63232kB, file-rss:1548kB, shmem-rss:0kB, UID:65534 pgtables:168kB oom_score_adj:100\n"
	killsOther = "3,1525,11321132780,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=7.1.0,mems_allowed=0," +
		"oom_memcg=/lab/n1/7.1.0,task_memcg=/lab/n1/7.1.0,task=other,pid=476,uid=65534\n"
	killsOdd = "3,1526,11321132780,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=6.1.0,mems_allowed=0," +
		"oom_memcg=/lab/n1,task_memcg=/lab/n1/6.1.0,task=a,pid=1,task=b,pid=477,uid=65534\n"
	killsShell = "3,1527,11321132780,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0," +
		"global_oom,task_memcg=/lab/n1/6.1.0,task=bash,pid=478,uid=65534\n"
	shellIsDead = "3,1528,11321132760,-;Out of memory: Killed process 478 (bash) total-vm:1kB, UID:65534 pgtables:1kB " +
		"oom_score_adj:101\n"
	noise = "6,1529,11323346503,-;p1: left allmulticast mode\n"
)

// TestWhatTheKernelSaysOfAKill notices a process that was killed for memory and is not named, another job's
// that is, a limit that was not reached, and a person's shell that decides how a job ends.
func TestWhatTheKernelSaysOfAKill(t *testing.T) {
	const killed = "the kernel killed "
	const tail = killed + "tail (process 475) for memory; "
	for name, c := range map[string]struct {
		kills        string
		log          []string
		path         string // "": /lab/n1/6.1.0
		own, above   string // limits
		want, beside string
	}{
		"nothing": {kills: "0", log: []string{killsTail, tailIsDead}},
		"one": {kills: "1", log: []string{noise, killsTail, tailIsDead, killsOther}, own: "209715200",
			want: tail + "the limit is 200MiB"},
		"one of two": {kills: "2", log: []string{"", killsTail, tailIsDead}, own: "209715200",
			want: killed + "2 processes, first tail (process 475), for memory; the limit is 200MiB"},
		"another's": {kills: "1", log: []string{killsOther}, own: "1024",
			want: killed + "a process for memory; the limit is 1KiB"},
		"no log": {kills: "3", own: "1024", want: killed + "3 processes for memory; the limit is 1KiB"},
		"no limit known": {kills: "1", own: "9223372036854771712", above: "max",
			want: killed + "a process for memory; a memory limit was reached"},
		"of a task": {kills: "1", log: []string{strings.Replace(killsTail, "task_memcg=/lab/n1/6.1.0",
			"task_memcg=/lab/n1/6.1.0/main", 1)}, path: "/lab/n1/6.1.0/main", own: "max", above: "1048576",
			want: tail + "the limit of its worker is 1MiB"},
		"of a step": {kills: "1", log: []string{strings.ReplaceAll(killsTail, "/lab/n1/6.1.0", "/lab/n1/6.1.0/step.0")},
			path: "/lab/n1/6.1.0/step.0", own: "1048576", above: "2097152",
			want: tail + "the step's limit is 1MiB"},
		"of a step, the worker's limit": {kills: "1", log: []string{strings.Replace(killsTail, "task_memcg=/lab/n1/6.1.0",
			"task_memcg=/lab/n1/6.1.0/step.0", 1)}, path: "/lab/n1/6.1.0/step.0", own: "1048576", above: "2097152",
			want: tail + "the limit of its worker is 2MiB"},
		"an odd name": {kills: "1", log: []string{killsOdd}, own: "1024",
			want: killed + "a,pid=1,task=b (process 477) for memory; the memory limit for all jobs of the node was reached"},
		"a shell": {kills: "1", log: []string{killsShell, shellIsDead}, own: "1024",
			beside: killed + "bash (process 478) for memory; the node had run out of memory"},
		"a shell and one": {kills: "2", log: []string{killsShell, shellIsDead, killsTail, tailIsDead}, own: "1024",
			want:   tail + "the limit is 1KiB",
			beside: killed + "bash (process 478) for memory; the node had run out of memory"},
		"of a step that is not named": {kills: "1", path: "/lab/n1/6.1.0/step.0", own: "1048576", above: "2097152",
			want: killed + "a process for memory; the step's limit is 1MiB"},
		"without a limit of its own, and not named": {kills: "1", own: "max", above: "2097152",
			want: killed + "a process for memory; the limit of its worker is 2MiB"},
		"two that are named": {kills: "2", log: []string{killsTail, tailIsDead, strings.ReplaceAll(killsTail, "475", "479")},
			own: "1024", want: killed + "2 processes, first tail (process 475), for memory; the limit is 1KiB"},
		"a cgroup whose name ends like it": {kills: "1", log: []string{strings.Replace(killsTail, "task_memcg=/lab/n1/6.1.0",
			"task_memcg=/lab/n1/16.1.0", 1)}, own: "1024", want: killed + "a process for memory; the limit is 1KiB"},
		"two shells and none of its own": {kills: "2", log: []string{killsShell, shellIsDead,
			strings.ReplaceAll(killsShell, "478", "480"), strings.ReplaceAll(shellIsDead, "478", "480")}, own: "1024",
			beside: killed + "2 processes, first bash (process 480), for memory; the node had run out of memory"},
		"more shells than are counted": {kills: "1", log: []string{killsShell, shellIsDead,
			strings.ReplaceAll(killsShell, "478", "480"), strings.ReplaceAll(shellIsDead, "478", "480")}, own: "1024",
			beside: killed + "2 processes, first bash (process 480), for memory; the node had run out of memory"},
		"a shell of an old kernel": {kills: "1", log: []string{killsShell}, own: "1024",
			want: killed + "bash (process 478) for memory; the node had run out of memory"},
	} {
		dir := filepath.Join(t.TempDir(), "6.1.0", "x")
		check(t, os.MkdirAll(dir, 0o700))
		write := func(path, text string) { check(t, os.WriteFile(path, []byte(text+"\n"), 0o600)) }
		write(dir+"/memory.events", "oom 9\noom_kill "+c.kills)
		write(dir+"/memory.max", c.own)
		write(filepath.Dir(dir)+"/memory.max", c.above)
		k := &Kills{score: 100}
		if c.log != nil {
			says := kernelSays(c.log)
			k.log = io.ReadCloser(&says)
		}
		if c.path == "" {
			c.path = "/lab/n1/6.1.0"
		}
		k.Watch(c.path, map[string]string{"": dir})
		if got := k.Text(); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
		if got := k.Any(); got != (c.want != "") {
			t.Errorf("%s: killed is %t", name, got)
		}
		if own, beside := k.Sayings(); own != c.want || beside != c.beside {
			t.Errorf("%s: it says %q and %q", name, own, beside)
		}
		if own, beside := k.Sayings(); own+beside != "" {
			t.Errorf("%s: it says twice %q and %q", name, own, beside)
		}
	}
}

// TestTheLogOfThisKernel notices a log from before a container was made.
func TestTheLogOfThisKernel(t *testing.T) {
	needsRoot(t)
	log := openKernelLog()
	if log == nil {
		t.Skip("the kernel's log cannot be read here")
	}
	b := make([]byte, 8<<10)
	for range 1000 { // others may write meanwhile, but not so much
		if _, err := log.Read(b); err != nil {
			check(t, log.Close())
			return
		}
	}
	t.Error("it has a thousand records")
}

// TestWhatIsSaidOnce: a kill is told once, and the next one again. Without the log none is named.
func TestWhatIsSaidOnce(t *testing.T) {
	dir := t.TempDir()
	kills := func(n string) { check(t, os.WriteFile(dir+"/memory.events", []byte("oom_kill "+n+"\n"), 0o600)) }
	says := kernelSays{killsTail, tailIsDead}
	k := &Kills{score: 100, log: io.ReadCloser(&says)}
	k.Watch("/lab/n1/6.1.0", map[string]string{"": dir})
	for _, c := range []struct{ kills, want string }{
		{"0", ""}, {"1", "tail (process 475)"}, {"1", ""}, {"2", "2 processes, first tail"}, {"2", ""},
	} {
		kills(c.kills)
		if got, _ := k.Sayings(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("after %s kills it says %q, not %q", c.kills, got, c.want)
		}
	}
	k.Close()
	k.Close() // the log is closed once
	kills("3")
	if got, _ := k.Sayings(); !strings.Contains(got, "3 processes, first tail") {
		t.Errorf("when the log is closed it says %q", got)
	}
	for text, want := range map[string]jobspec.Bytes{"": 0, "max": 0, "0": 0, "1024": 1024,
		"4611686018427387902": 1<<62 - 2,
		"4611686018427387903": 0, "9223372036854771712": 0} {
		check(t, os.WriteFile(dir+"/limit", []byte(text+"\n"), 0o600))
		if got := limitIn(dir + "/limit"); got != want {
			t.Errorf("%q is a limit of %d bytes", text, got)
		}
	}
	if limitIn(dir+"/none") != 0 {
		t.Error("what is not there is a limit")
	}
	v1 := &Kills{path: "/x", cgroups: map[string]string{"memory": dir}}
	check(t, os.WriteFile(dir+"/memory.limit_in_bytes", []byte("3072\n"), 0o600))
	if got := v1.limit("", false); got != "the limit is 3KiB" {
		t.Errorf("with version 1: %q", got)
	}
	for _, text := range []string{"oom-kill:task_memcg=/x", "oom-kill:a,task_memcg=/x,task=y",
		"oom-kill:a,task_memcg=/x,task=y,pid=z",
		"oom:a,task_memcg=/x,task=y,pid=1"} {
		if _, _, ok := parseKill(text); ok {
			t.Errorf("%q is a kill", text)
		}
	}
	for _, text := range []string{"a: Killed process x (y) oom_score_adj:1", "a: Killed process 1 (y) oom_score_adj:x",
		"a: Killed process 1 (y)", "Killed process 1 (y) oom_score_adj:1"} {
		if _, _, ok := parseScore(text); ok {
			t.Errorf("%q has a score", text)
		}
	}
}

// TestWhoseScoreItIs notices processes beside the ranks that have the same score as the ranks.
func TestWhoseScoreItIs(t *testing.T) {
	if launch.BesideScore(100) == 100 {
		t.Error("processes beside the ranks cannot be told from them")
	}
}

// TestHowManyWereKilled reads the counters of both versions of cgroups, beside the others in their files.
func TestHowManyWereKilled(t *testing.T) {
	v1, v2, none := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "none")
	write := func(path, text string) { check(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(v1+"/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
	write(v2+"/memory.events", "low 0\nhigh 7\nmax 9\noom 5\noom_kill 3\noom_group_kill 4\n")
	for _, c := range []struct {
		v1, v2 string
		kills  int64
	}{{v1, none, 2}, {none, v2, 3}, {none, none, 0}} {
		k := &Kills{}
		k.Watch("/x", map[string]string{"memory": c.v1, "": c.v2})
		if kills := k.counted(); kills != c.kills {
			t.Errorf("%+v: %d kills", c, kills)
		}
	}
}
