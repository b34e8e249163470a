package e2e

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
)

// TestWhatAJobMayNotAskOfTheKernel runs what a job with bad intentions would try first. Each command
// must fail, and say so in the job's output; what jobs need must work.
func TestWhatAJobMayNotAskOfTheKernel(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	id := w.submit(`job "confined" {
  group "g" {
    task "t" {
      script = <<-EOS
        #!/bin/sh
        try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name: allowed"; else echo "$name: refused"; fi; }
        try "a user namespace" unshare --user true
        try "a mount namespace" unshare --mount true
        try "a mount" mount -t tmpfs none /tmp
        try "a kernel log" dmesg
        try "a host name" hostname evil
        try "a fork" sh -c true
        try "threads" sh -c 'true & wait'
        try "a file of 8 GiB beside the progress" fallocate -l 8G "$ROTA_PROGRESS_FILE"
        try "a file of 8 GiB in the folder of the notice" fallocate -l 8G "$(dirname "$ROTA_NOTICE_FILE")/x"
        try "a file of 8 GiB in /tmp" fallocate -l 8G /tmp/x
        try "a file of 8 GiB in /dev/shm" fallocate -l 8G /dev/shm/x
        try "a line of progress" sh -c 'echo "{\"step\":1}" >> "$ROTA_PROGRESS_FILE"'
        grep Seccomp: /proc/self/status
      EOS
    }
  }
}`)
	if j := w.ends(id); j.ExitCode != 0 {
		t.Errorf("the job: %+v", j)
	}
	out := w.ok("logs", id)
	for _, line := range []string{"a user namespace: refused", "a mount namespace: refused", "a mount: refused",
		"a kernel log: refused", "a host name: refused", "a fork: allowed", "threads: allowed",
		"a file of 8 GiB beside the progress: refused", "a file of 8 GiB in the folder of the notice: refused",
		"a file of 8 GiB in /tmp: refused", "a file of 8 GiB in /dev/shm: refused", "a line of progress: allowed"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("not so: %s", line)
		}
	}
	if !strings.Contains(strings.ReplaceAll(out, "\t", " "), "Seccomp: 2") {
		t.Error("the job has no filter of system calls")
	}
	if t.Failed() {
		t.Log(out)
	}
}

// TestANodeRunsNoJobOfRoot: the controllers accept jobs of root, or believe that they may; the node
// does not run them unless its own configuration says so.
func TestANodeRunsNoJobOfRoot(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1, Controld: []string{"--root-jobs-as", "", "--allow-root-jobs"}})
	id := w.submit(`job "root" {
  group "g" {
    task "t" {
      command = ["id"]
    }
  }
}`)
	j := w.until(id, "it is refused", func(j api.Job) bool {
		return strings.Contains(w.ok("why", id), "runs no job as root") || j.Code.Final()
	})
	if out := w.ok("why", id); !strings.Contains(out, "--allow-root-jobs") {
		t.Errorf("%+v\n%s", j, out)
	}
	if out, _, _ := w.rota("logs", id); strings.Contains(out, "uid=0") {
		t.Errorf("it ran: %s", out)
	}
}
