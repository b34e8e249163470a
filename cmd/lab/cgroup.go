package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// removeCgroups kills what still runs in the cgroups below root, in every hierarchy, and removes
// them.
func removeCgroups(root string) error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := cgroupsBelow(root)
		if len(left) == 0 {
			return nil
		}
		for _, dir := range left {
			killAll(dir)
			os.Remove(dir) // fails while a process is still dying; the next round tries again
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroups remain: %v", cgroupsBelow(root))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// cgroupsBelow lists root and everything in it, in every mounted hierarchy, children before
// parents.
func cgroupsBelow(root string) []string {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*" + root)
	tops = append(tops, "/sys/fs/cgroup"+root)
	var dirs []string
	for _, top := range tops {
		var here []string
		_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				here = append([]string{path}, here...)
			}
			return nil
		})
		dirs = append(dirs, here...)
	}
	return dirs
}

// Processes lists the processes in the cluster's cgroups: those of every container.
func (c *Cluster) Processes() []int {
	var pids []int
	for _, dir := range cgroupsBelow(c.cgroup) {
		if filepath.Base(dir) != container.ShimsGroup {
			pids = append(pids, processes(dir)...)
		}
	}
	return pids
}

// Containers lists the cgroups of containers that exist now, by name.
func (c *Cluster) Containers() []string {
	seen := map[string]bool{}
	var names []string
	for _, dir := range cgroupsBelow(c.cgroup) {
		name := filepath.Base(dir)
		var job, attempt, worker int
		if n, err := fmt.Sscanf(name, "%d.%d.%d", &job, &attempt, &worker); n == 3 && err == nil && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func processes(dir string) []int {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, line := range bytes.Fields(b) {
		if pid, err := strconv.Atoi(string(line)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func killAll(dir string) {
	for _, pid := range processes(dir) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return
		}
	}
}
