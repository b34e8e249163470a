package main

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci/launch"
)

// rank is one process of the plan.
type rank struct {
	pid       int
	alive     bool
	done      bool
	sent      unix.Signal  // the last signal passed on
	signalled map[int]bool // programs of the rank's shell that got the signal too, and still run
	left      int          // the exit code of one of them that came to this process: its shell has died
	result    launch.Result
}

// runs reports whether a program of the rank runs. What has ended and was not waited for yet does not.
func (r *rank) runs(table map[int]process) bool {
	p, exists := table[r.pid]
	return !r.done && (r.alive && exists && !p.over || len(r.signalled) > 0)
}

// signal passes s on to the rank's programs, or to those of them that it is for. A kill goes to
// everything in its process group.
func (r *rank) signal(s unix.Signal, to string, table map[int]process) {
	if r.done {
		return
	}
	if s == unix.SIGKILL {
		_ = unix.Kill(-r.pid, s)
	}
	for _, pid := range r.programs(table) {
		if !r.isFor(to, pid, table) {
			continue
		}
		sent := unix.Kill
		if table[pid].shell {
			sent = killShell
		}
		if sent(pid, s) == nil && pid != r.pid {
			r.signalled[pid] = true
		}
	}
	r.sent = s
}

// killShell sends a signal to a shell. If the shell dies of it, killShell returns when it is dead. A shell
// that died only after its program would take the program's exit code from the kernel, and with it to its
// grave.
func killShell(pid int, s unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // a kernel before 5.3
		return unix.Kill(pid, s)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	dies := diesOf(pid, s)
	if err := unix.Kill(pid, s); err != nil || !dies {
		return err
	}
	for end := time.Now().Add(deathPatience); ; {
		left := time.Until(end)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, left.Milliseconds())))
		if n > 0 || left <= 0 || err != nil && err != unix.EINTR {
			return nil
		}
	}
}

// deathPatience bounds the wait for a shell that dies: the kernel may hold it, in a file system that hangs.
const deathPatience = 200 * time.Millisecond

// diesOf reports whether a process neither handles, ignores nor blocks a signal.
func diesOf(pid int, s unix.Signal) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if name == "SigBlk" || name == "SigIgn" || name == "SigCgt" {
			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil || mask&(1<<(s-1)) != 0 {
				return false
			}
		}
	}
	return s != unix.SIGCONT && s != unix.SIGWINCH && s != unix.SIGSTOP && s != unix.SIGTSTP
}

// isFor reports whether a program of the rank gets a signal that is for some: of a script, its shell
// alone or all but its shell. A rank that is no shell is a program itself.
func (r *rank) isFor(to string, pid int, table map[int]process) bool {
	switch to {
	case launch.ToScript:
		return pid == r.pid
	case launch.ToPrograms:
		return pid != r.pid || !table[pid].shell
	}
	return true
}

// programs lists the rank's process and, below shells, what they run. Shells come first, so that a
// trap is set off before the end of the program that the shell waits for.
func (r *rank) programs(table map[int]process) []int {
	var found []int
	var visit func(pid int)
	visit = func(pid int) {
		found = append(found, pid)
		if table[pid].shell {
			for child, p := range table {
				if p.parent == pid {
					visit(child)
				}
			}
		}
	}
	if r.alive {
		visit(r.pid)
	}
	for pid := range r.signalled {
		visit(pid)
	}
	return found
}

// noteExit records the end of a process. It reports whether the rank is done with that.
func (r *rank) noteExit(e exit) bool {
	switch {
	case r.done:
		return false
	case r.alive && e.pid == r.pid:
		r.alive = false
		r.note(resultOf(e.status))
		if !e.status.Signaled() || e.status.Signal() != r.sent {
			clear(r.signalled) // it ended by itself: no other program is waited for, and none decides
			r.left = 0
		}
	case r.signalled[e.pid]:
		delete(r.signalled, e.pid)
		r.left = cmp.Or(resultOf(e.status).Code, r.left)
	default:
		return false
	}
	if !r.alive {
		r.dropReaped()
		// An exit 0 does not count. A shell that was killed has not run its script to the end, and perhaps
		// the program had ended before the signal came and the shell had not waited for it yet.
		if r.left != 0 {
			r.note(launch.Result{Code: r.left})
		}
	}
	r.done = !r.alive && len(r.signalled) == 0
	return r.done
}

// note takes a result, and keeps whether the rank was asked to end before.
func (r *rank) note(result launch.Result) {
	result.Asked = r.result.Asked
	r.result = result
}

// dropReaped drops programs that the shell had reaped when it died, between one signal and the
// next: their ends are never reported to this process. Those that still exist are children of this
// process by now.
func (r *rank) dropReaped() {
	maps.DeleteFunc(r.signalled, func(pid int, _ bool) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) })
}

func resultOf(s unix.WaitStatus) launch.Result {
	if s.Signaled() {
		return launch.Result{Signal: int(s.Signal())}
	}
	return launch.Result{Code: s.ExitStatus()}
}

// process is what signal forwarding must know of a process.
type process struct {
	parent int
	shell  bool
	over   bool // it has ended, and was not waited for
}

var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "busybox"}

// processes reads the container's process table.
func processes() map[int]process { return processesBelow("/proc") }

func processesBelow(proc string) map[int]process {
	table := map[int]process{}
	files, _ := filepath.Glob(proc + "/[0-9]*/stat") // the pattern is well formed
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		text := string(b)
		open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		fields := strings.Fields(text[end+1:])
		if open < 0 || end < open || len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		table[pid] = process{parent: parent, shell: isShell(pid, text[open+1:end]),
			over: fields[0] == "Z" || fields[0] == "X"}
	}
	return table
}

// isShell goes by the program that runs, because the name of a script's process is the script's.
func isShell(pid int, name string) bool {
	if exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil {
		name = filepath.Base(exe)
	}
	return slices.Contains(shells, name)
}
