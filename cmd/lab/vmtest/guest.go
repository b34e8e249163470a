package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// consolePath is the machine's second serial line, which the host reads.
const consolePath = "/dev/ttyS1"

// mounts are those of a machine that systemd has booted, as far as tests meet them. Nothing has been
// done to the cgroups.
var mounts = []struct{ target, kind, options string }{
	{"/proc", "proc", ""}, {"/sys", "sysfs", ""}, {"/dev", "devtmpfs", ""},
	{"/dev/pts", "devpts", "mode=620,ptmxmode=666"}, {"/dev/shm", "tmpfs", "mode=1777"},
	{"/run", "tmpfs", "mode=755"}, {"/tmp", "tmpfs", "mode=1777"}, {"/sys/fs/cgroup", "cgroup2", "nsdelegate"},
}

// firstProcess is /init. It makes the machine usable, runs the tests in a process of its own, reaps
// orphans, and turns the machine off.
func firstProcess() {
	if err := errors.Join(leaveFirstRoot(), mountAll(), raiseLoopback()); err != nil {
		turnOff(err)
	}
	console, err := os.OpenFile(consolePath, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		turnOff(err)
	}
	cmd := exec.Command("/init", guestArg)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.Env = []string{"PATH=" + searchPath, "HOME=/root", "LANG=C.UTF-8",
		"TMPDIR=/tmp", testPrograms + "=" + programsDir}
	if err := cmd.Start(); err != nil {
		turnOff(err)
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid == cmd.Process.Pid || err != nil && !errors.Is(err, unix.EINTR) {
			turnOff(err)
		}
	}
}

func turnOff(err error) {
	if err != nil {
		fmt.Println("vmtest:", err) // to the kernel's console
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	os.Exit(1) // the kernel panics when its first process ends, and the machine ends then
}

// leaveFirstRoot mounts the first root onto itself: pivot_root, which every container needs, is
// refused where the root is the kernel's first mount.
func leaveFirstRoot() error {
	const at = "/root"
	if err := unix.Mount("/", at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind the root: %w", err)
	}
	err := errors.Join(unix.Chdir(at), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/"))
	if err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") // as systemd does
}

func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.target, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		_ = os.Symlink(fmt.Sprintf("/proc/self/fd/%d", i), "/dev/"+name) // some kernels make them
	}
	_ = os.Symlink("/proc/self/fd", "/dev/fd")
	return unix.Sethostname([]byte("vmtest"))
}

// raiseLoopback makes 127.0.0.1 usable.
func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// guest runs the tests of each package and says on its output what report reads.
func guest() {
	var p plan
	b, err := os.ReadFile(planPath)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		fmt.Println("vmtest:", err)
		return
	}
	var lanes sync.WaitGroup
	packages := make(chan string)
	for range max(p.Lanes, 1) {
		lanes.Go(func() {
			for name := range packages {
				runPackage(name, p.Run)
			}
		})
	}
	for _, name := range p.Packages {
		packages <- name
	}
	close(packages)
	lanes.Wait()
	fmt.Printf("%s\n", doneMark)
}

// runPackage runs the tests of a package and passes on what they print, a line at a time.
func runPackage(name, pattern string) {
	say := func(mark, text string) { fmt.Printf("%s%s %s\n", mark, name, text) } // one write each
	say(beginMark, "")
	begun := time.Now()
	err := runTests(name, pattern, func(line string) { say(lineMark, line) })
	end, _ := json.Marshal(packageEnd{MS: time.Since(begun).Milliseconds(), Error: errorText(err)}) // it holds strings
	say(endMark, string(end))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func runTests(name, pattern string, say func(line string)) error {
	at := filepath.Join(sourceDir, name)
	args := []string{"-test.v=test2json", "-test.timeout=10m"}
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	cmd := exec.Command(at+testProgram, args...)
	cmd.Dir, cmd.WaitDelay = at, 10*time.Second // a process that a test left may hold the pipe
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				say(strings.TrimRight(line, "\n"))
			}
			if err != nil {
				return
			}
		}
	}()
	err := cmd.Run()
	err = errors.Join(err, in.Close())
	<-read
	return err
}
