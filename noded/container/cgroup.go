package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupMount = "/sys/fs/cgroup"

// cgroupDirs lists the existing directories of a cgroup, in every hierarchy, inner ones first.
func cgroupDirs(cgroup string) []string {
	if cgroup == "" || cgroup == "/" {
		return nil
	}
	var dirs []string
	for _, pattern := range []string{cgroupMount + cgroup, cgroupMount + "/*" + cgroup} {
		found, _ := filepath.Glob(pattern) // the pattern is well formed
		for _, dir := range found {
			if isDir(dir) {
				dirs = append(dirs, dirsBelow(dir)...)
			}
		}
	}
	return dirs
}

// dirsBelow lists a directory of a cgroup and those below it, of tasks and steps, inner ones first.
func dirsBelow(dir string) []string {
	var dirs []string
	inner, _ := filepath.Glob(dir + "/*/cgroup.procs") // the pattern is well formed
	for _, file := range inner {
		dirs = append(dirs, dirsBelow(filepath.Dir(file))...)
	}
	return append(dirs, dir)
}

// populated reports whether processes are in a cgroup, or below it.
func populated(cgroup string) bool {
	for _, dir := range cgroupDirs(cgroup) {
		if pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err == nil && len(pids) > 0 {
			return true
		}
	}
	return false
}

// Used is what the processes of a container have used by now; 0 is what is not known.
type Used struct {
	CPU, System        time.Duration // processor time, and the part of it that the kernel worked for them
	Memory, PeakMemory int64         // bytes, with the pages of files that are cached for them
}

// Used returns the usage of a container's processes so far. A worker's usage includes the steps in
// it.
func (s *Shims) Used(id ID) (Used, error) {
	return UsedBy(s.cgroupOf(id))
}

// UsedBy returns what the processes of a cgroup have used by now.
func UsedBy(cgroup string) (Used, error) {
	if len(cgroup) < len("/x") {
		return Used{}, errors.New("the root cgroup of a hierarchy holds all of the machine's processes")
	}
	return usedBy(cgroupMount, cgroup)
}

// usedBy returns what a cgroup below a mount of cgroups has used: one of version 2, of version 1, or
// of both. It is an error if its processor time is not known.
func usedBy(mount, cgroup string) (Used, error) {
	var dirs []string
	for _, pattern := range []string{mount + cgroup, mount + "/*" + cgroup} {
		found, _ := filepath.Glob(pattern) // the pattern is well formed
		dirs = append(dirs, found...)
	}
	// first returns the first number that is not 0, in lines that begin with a word if that is not "".
	first := func(word string, files ...string) int64 {
		for _, dir := range dirs {
			for _, file := range files {
				text, _ := os.ReadFile(filepath.Join(dir, file)) // each version lacks files of the other one
				for line := range strings.Lines(string(text)) {
					value, is := strings.CutPrefix(line, word)
					if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); is && err == nil && n != 0 {
						return n
					}
				}
			}
		}
		return 0
	}
	u := Used{
		CPU:        time.Duration(first("", "cpuacct.usage")),
		System:     time.Duration(first("system ", "cpuacct.stat")) * (time.Second / userHZ),
		Memory:     first("", "memory.usage_in_bytes", "memory.current"),
		PeakMemory: first("", "memory.max_usage_in_bytes", "memory.peak"),
	}
	if u.CPU == 0 {
		u.CPU = time.Duration(first("usage_usec ", "cpu.stat")) * time.Microsecond
		u.System = time.Duration(first("system_usec ", "cpu.stat")) * time.Microsecond
	}
	if u.CPU == 0 {
		return u, fmt.Errorf("processor time of cgroup %s: %w", cgroup, os.ErrNotExist)
	}
	return u, nil
}

// userHZ is how many units of processor time a second has in cpuacct.stat.
const userHZ = 100

// sweepPatience is how long killed processes may take to leave their cgroup.
const sweepPatience = 5 * time.Second

// sweepCgroup kills whatever is left in a cgroup and removes it. It is for containers whose shim
// has died.
func sweepCgroup(cgroup string) error {
	if len(cgroup) < len("/x") {
		return nil // settings without a cgroup: the root of every hierarchy holds all of the machine's processes
	}
	deadline := time.Now().Add(sweepPatience)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left, err := killOnce(cgroup)
		if left == 0 || time.Now().After(deadline) {
			return err
		}
		time.Sleep(wait) // a killed process leaves its cgroup later, without an event
	}
}

// EndBelow ends the steps beside the worker that has a cgroup, and removes that.
func EndBelow(cgroup string) error { return sweepCgroup(cgroup) }

// killOnce kills every process of the cgroup and removes the directories that are empty. It returns
// how many are left.
func killOnce(cgroup string) (int, error) {
	dirs := KillProcesses(cgroup)
	var errs []error
	for _, dir := range dirs {
		if err := removeFile(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
		}
	}
	return len(errs), errors.Join(errs...)
}

// KillProcesses kills every process that is in a cgroup now, by the kernel's own means alone: it writes to no
// disk and waits for nothing. It returns the directories of the cgroup.
func KillProcesses(cgroup string) []string {
	if len(cgroup) < len("/x") {
		return nil // the root of every hierarchy holds all of the machine's processes
	}
	dirs := cgroupDirs(cgroup)
	for _, dir := range dirs {
		thaw(dir)
		killAtOnce(dir)
		pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(pids)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may be gone already
			}
		}
	}
	return dirs
}

// killAtOnce has the kernel kill every process of a cgroup of version 2, those too that are being
// forked, from Linux 5.14 on.
func killAtOnce(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // where it fails they are killed one by one
}

// thaw lets frozen processes run, because only running ones can die.
func thaw(dir string) {
	_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0) // the file exists in one hierarchy only
	_ = os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte("0"), 0)
}
