package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Term asks every daemon to end, and waits for that. Containers and shims stay.
func (c *Cluster) Term() {
	for _, d := range slices.Concat(c.Nodes, c.Controllers) {
		d.Term()
	}
}

// LeftProcesses lists the processes of the cluster: those in its cgroups, shims included, and those
// whose command line names its directory.
func (c *Cluster) LeftProcesses() []string {
	var left []string
	inCgroups := map[int]bool{}
	for _, dir := range cgroupsBelow(c.cgroup) {
		for _, pid := range processes(dir) {
			inCgroups[pid] = true
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		line, _ := os.ReadFile(path) // of a process that has just ended: nothing
		if err == nil && pid != os.Getpid() && (inCgroups[pid] || bytes.Contains(line, []byte(c.Dir))) {
			left = append(left, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return left
}

// Leftovers lists what is there of the cluster beside its files: processes, cgroups, mounts and
// network namespaces. After Stop there must be nothing.
func (c *Cluster) Leftovers() []string {
	left := c.LeftProcesses()
	for _, dir := range cgroupsBelow(c.cgroup) {
		left = append(left, "cgroup "+dir)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		left = append(left, err.Error())
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.Dir) {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	if c.nets == nil {
		return left
	}
	names := []string{c.nets.hub}
	for _, h := range c.nets.hosts {
		names = append(names, h.namespace)
	}
	for _, name := range names {
		if _, err := os.Lstat("/run/netns/" + name); err == nil {
			left = append(left, "network namespace "+name)
		}
	}
	return left
}
