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
				inner, _ := filepath.Glob(dir + "/*/cgroup.procs") // of the tasks of a worker
				for _, file := range inner {
					dirs = append(dirs, filepath.Dir(file))
				}
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// CPUTime returns the processor time that the processes of a container have had.
func (s *Shims) CPUTime(id ID) (time.Duration, error) {
	return cpuTime(cgroupMount, filepath.Join("/", s.cfg.CgroupRoot, id.String()))
}

// cpuTime returns the processor time of a cgroup below a mount of cgroups: of version 2, of version 1,
// or of both.
func cpuTime(mount, cgroup string) (time.Duration, error) {
	for _, pattern := range []string{mount + cgroup, mount + "/*" + cgroup} {
		found, _ := filepath.Glob(pattern) // the pattern is well formed
		for _, dir := range found {
			text, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage"))
			if ns, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
				return time.Duration(ns), nil
			}
			text, _ = os.ReadFile(filepath.Join(dir, "cpu.stat")) // version 1 has another file of that name
			for line := range strings.Lines(string(text)) {
				value, is := strings.CutPrefix(line, "usage_usec ")
				if us, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); is && err == nil {
					return time.Duration(us) * time.Microsecond, nil
				}
			}
		}
	}
	return 0, fmt.Errorf("processor time of cgroup %s: %w", cgroup, os.ErrNotExist)
}

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
	var errs []error
	for _, dir := range cgroupDirs(cgroup) {
		thaw(dir)
		killAtOnce(dir)
		pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(pids)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL) // it may be gone already
			}
		}
		if err := removeFile(dir); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
		}
	}
	return len(errs), errors.Join(errs...)
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
