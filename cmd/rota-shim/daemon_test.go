package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShimsAreNotInTheDaemonsCgroup notices a shim that a service manager would end with the daemon.
func TestShimsAreNotInTheDaemonsCgroup(t *testing.T) {
	n := newNode(t, 1)
	groups := cgroupsAt(cgroupRoot + "/shims")
	if len(groups) == 0 {
		t.Skip("no hierarchy by which a service manager knows its services")
	}
	n.begin(one, n.bundle(one, "echo ready; exec sleep 1000"))
	n.ready(t, one)
	in := fmt.Appendf(nil, "%d\n", n.shimPid(t, one))
	for _, group := range groups {
		b, err := os.ReadFile(group + "/cgroup.procs")
		if err != nil || !bytes.Contains(b, in) {
			t.Errorf("shim %s is not in %s, which has %q, %v", in, group, b, err)
		}
	}
	check(t, n.shims.Close())
	n.open(1) // another daemon
	if got := cgroupsAt(cgroupRoot + "/shims"); len(got) != len(groups) {
		t.Errorf("%v are left of %v", got, groups)
	}
}

// TestWhatTheDaemonHasIsNotTheJobs notices a job that inherits what protects or serves the daemon:
// its place in the order in which the kernel kills when memory runs out, and its resource limits.
func TestWhatTheDaemonHasIsNotTheJobs(t *testing.T) {
	n := newNode(t, 0)
	const file = "/proc/self/oom_score_adj"
	before := read(t, file)
	privileged := os.WriteFile(file, []byte("-500"), 0) == nil // else this process is as good as any other
	if privileged {
		t.Cleanup(func() { check(t, os.WriteFile(file, []byte(before), 0)) })
	}
	own := map[int]unix.Rlimit{}
	for kind, soft := range map[int]uint64{unix.RLIMIT_NOFILE: 512, unix.RLIMIT_MEMLOCK: unix.RLIM_INFINITY,
		unix.RLIMIT_CORE: unix.RLIM_INFINITY} {
		var l unix.Rlimit
		check(t, unix.Getrlimit(kind, &l))
		own[kind] = l
		t.Cleanup(func() { check(t, unix.Setrlimit(kind, &l)) })
		check(t, unix.Setrlimit(kind, &unix.Rlimit{Cur: min(soft, l.Max), Max: l.Max}))
	}
	_, out := n.run(one, `echo "score $(cat /proc/self/oom_score_adj)"; echo "locked $(ulimit -l)"
echo "core $(ulimit -c)"; echo "files $(ulimit -n)"; echo 0 > /proc/self/oom_score_adj && echo protected`)
	want(t, out, "score 100", "core 0", fmt.Sprint("locked ", min(8<<20, own[unix.RLIMIT_MEMLOCK].Max)>>10),
		fmt.Sprint("files ", min(65536, own[unix.RLIMIT_NOFILE].Max)))
	if privileged && strings.Contains(out, "protected") {
		t.Errorf("the job has protected itself:\n%s", out)
	}
}
