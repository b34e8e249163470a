package criu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

// TestAProcessThatMayNotWrite notices a process of the group of CRIU that goes on to write, and another that may not.
func TestAProcessThatMayNotWrite(t *testing.T) {
	start := func(group bool) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 100 & echo $!; wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}
		return cmd
	}
	limits := func(pid string) string {
		b, err := os.ReadFile("/proc/" + pid + "/limits")
		check(t, err)
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, "Max file size"); ok {
				return strings.Fields(rest)[0]
			}
		}
		return ""
	}
	for _, group := range []bool{true, false} {
		cmd := start(group)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		var child string
		_, err = fmt.Fscan(out, &child)
		check(t, err)
		of := cmd.Process.Pid
		if !group {
			of = 1 << 30
		}
		forbidWriting(of)
		for _, pid := range []string{fmt.Sprint(of), child} {
			if !group {
				pid = child
			}
			if got := limits(pid); (got == "0") != group {
				t.Errorf("in the group %t: process %s may write %s bytes", group, pid, got)
			}
		}
		var number int
		_, err = fmt.Sscan(child, &number)
		check(t, errors.Join(err, unix.Kill(number, unix.SIGKILL), cmd.Process.Kill()))
		_ = cmd.Wait() // it was killed
	}
}

// TestComplaints reads logs of CRIU's. What a job may have written into one is not passed on as it is.
func TestComplaints(t *testing.T) {
	other := errors.New("exit status 1")
	long := strings.Repeat("y", complaintMax)
	const at = "(00.1) Error (criu/x.c:1): "
	for text, want := range map[string]string{
		"": other.Error(), "(00.1) Warn (criu/x.c:1): no\n": other.Error(), at + "no room\n": "no room",
		"(00.1) Error (without an end\n": "without an end", at + "tun: Unable to create tun: no\n" + at + "a\x1bb\n": "a?b",
		at + "not a tun: Unable to create tun\n": "not a tun: Unable to create tun", at + "caf\xe9\n": "caf?",
		at + long + "\n": long,
	} {
		log := filepath.Join(t.TempDir(), "dump.log")
		check(t, os.WriteFile(log, []byte(text), 0o600))
		if got := complaint(log, other); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

// TestWhatCriuComplainsOf notices a reason that is none.
func TestWhatCriuComplainsOf(t *testing.T) {
	log := filepath.Join(t.TempDir(), "dump.log")
	check(t, os.WriteFile(log, []byte("(00.029) Dumping processes\n"+
		"(00.030) Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted\n"+
		"(00.143) Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider using --tcp-established option.\n"+
		"(00.144) Error (criu/cr-dump.c:1681): Dump files (pid: 30500) failed with -1\n"), 0o600))
	other := errors.New("exit status 1")
	if got := complaint(log, other); got != "inet: Connected TCP socket, consider using --tcp-established option." {
		t.Errorf("got %q", got)
	}
	check(t, os.WriteFile(log, []byte("(00.029) Error (x): "+strings.Repeat("x", 2*complaintMax)+"\n"), 0o600))
	if got := complaint(log, other); len(got) != complaintMax {
		t.Errorf("%d bytes", len(got))
	}
	check(t, os.Remove(log))
	if got := complaint(log, other); got != other.Error() {
		t.Errorf("without a log: %q", got)
	}
}

// TestAContainerThatIsGone: its mounts are not known, so it is not saved.
func TestAContainerThatIsGone(t *testing.T) {
	if err := (Processes{Pid: 1 << 30}).checkMounts(); err == nil {
		t.Error("it shows no file system")
	}
}

// TestHelpersThatAreGivenUp takes a helper through its states. It notices one that is killed at once, and one that is
// waited for although it is over.
func TestHelpersThatAreGivenUp(t *testing.T) {
	gone, end := context.WithCancel(t.Context())
	end()
	over := make(chan struct{})
	close(over)
	const none = 1 << 30 // a group that does not exist
	synctest.Test(t, func(t *testing.T) {
		if got := watch(t.Context(), none, over); got != writing {
			t.Errorf("it ended by itself: %d", got)
		}
		begin := time.Now()
		late := make(chan struct{})
		time.AfterFunc(givenUpPatience-1, func() { close(late) })
		if got := watch(gone, none, late); got != givenUp || time.Since(begin) != givenUpPatience-1 {
			t.Errorf("it let the processes go: %d after %v", got, time.Since(begin))
		}
		begin = time.Now()
		if got := watch(gone, none, nil); got != killed || time.Since(begin) != givenUpPatience {
			t.Errorf("it hangs: %d after %v", got, time.Since(begin))
		}
	})
}

var check = shimtest.Check
