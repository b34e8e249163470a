package dev

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// stop ends the jobs, the nodes and the controllers, and removes what is left.
func (d *devCluster) stop() error {
	first := min(d.opts.controllers, len(d.daemons)) // the controllers come first
	controllers, nodes := d.daemons[:first], d.daemons[first:]
	if d.ready {
		d.endJobs()
	}
	d.end(nodes)
	d.end(controllers)
	if entries, err := os.ReadDir(d.path("shared")); err == nil && len(entries) > 0 {
		d.Notef("files that jobs wrote to %s are kept", d.path("shared"))
		d.made = false // only what this program wrote is removed
	}
	return errors.Join(d.removeStrays(d.record.Nodes), d.cleanUp())
}

// endJobs cancels all jobs and waits until their containers are removed. A signal ends the wait;
// removeStrays kills the rest.
func (d *devCluster) endJobs() {
	ctx, cancel := context.WithTimeout(context.Background(), devJobsWait)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.cancelAll(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			d.Notef("killing the jobs, because they could not be cancelled: %v", err)
		}
	case s := <-d.signals:
		d.Notef("%s: killing the jobs", s)
	}
}

func (d *devCluster) cancelAll(ctx context.Context) error {
	live := show.Words([]model.JobState{model.Pending, model.Configuring, model.Running, model.Suspended,
		model.Completing})
	client, err := api.DialWith(d.addr, api.Options{RetryFor: 5 * time.Second, Unreachable: time.Second})
	if err != nil {
		return err
	}
	if _, err := client.CancelMany(ctx, api.CancelRequest{States: live, Reason: "rota dev stops"}); err != nil {
		return err
	}
	var read api.Read
	for {
		list, answer, err := client.Jobs(ctx, api.JobFilter{Limit: 1}, read)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			break
		}
		read = api.Read{After: max(answer.Index, 1), Wait: time.Second}
	}
	return d.awaitEmpty(ctx)
}

// awaitEmpty waits until the nodes have removed all containers.
func (d *devCluster) awaitEmpty(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, devEmptyWait)
	defer cancel()
	ticker := time.NewTicker(devPoll)
	defer ticker.Stop()
	for {
		left := 0
		for _, root := range d.cgroupDirs(d.record.Nodes) {
			left += len(slices.DeleteFunc(childDirs(root), func(dir string) bool {
				return filepath.Base(dir) == container.ShimsGroup // of shims that have no container yet
			}))
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d cgroups of containers could not be removed", left)
		case <-ticker.C:
		}
	}
}

// cleanUp removes the directory if rota dev created it, otherwise what it wrote, unless --keep is
// given.
func (l *devLayout) cleanUp() error {
	_ = os.Remove(l.path("addr")) // the address is no longer valid
	defer l.lock.Close()
	switch {
	case l.record.Keep:
		return nil
	case l.made:
		return l.removeDir()
	}
	l.removeContents()
	_ = os.Remove(l.path("lock"))
	return nil
}

// removeDir removes the directory. The lock stays until the directory has another name: a cluster
// that waits for it would otherwise take a directory that is half removed.
func (l *devLayout) removeDir() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("remove the dev directory: %w", err)
	}
	for _, e := range entries {
		if e.Name() != "lock" {
			err = errors.Join(err, os.RemoveAll(l.path(e.Name())))
		}
	}
	gone := fmt.Sprintf("%s.%d", l.dir, os.Getpid())
	if err = errors.Join(err, os.Rename(l.dir, gone)); err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return fmt.Errorf("remove the dev directory: %w", err)
	}
	return nil
}

// clearWait bounds how long killed processes may take to end.
const clearWait = 10 * time.Second

// removeStrays removes what the daemons of this directory left: shims, processes in their cgroups,
// cgroups and mounts.
func (l *devLayout) removeStrays(nodes int) error {
	for deadline := time.Now().Add(clearWait); ; time.Sleep(devPoll) {
		left := killAll(l.strayProcesses())
		for _, root := range l.cgroupDirs(nodes) {
			left += killAll(processesIn(root))
			removeTree(root)
		}
		dirs := l.cgroupDirs(nodes)
		if left == 0 && len(dirs) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes and the cgroups %s could not be removed", left, strings.Join(dirs, " "))
		}
	}
	for _, mount := range cgroupMounts() {
		_ = os.Remove(filepath.Join(mount, "rota")) // fails while other clusters use it
	}
	return l.unmount()
}

// strayProcesses returns the daemons and shims of this directory that still run.
func (l *devLayout) strayProcesses() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && l.isOurs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isOurs reports whether a process is a daemon or shim of this directory: by its program, and by
// devMark or its arguments.
func (l *devLayout) isOurs(pid int) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return false
	}
	if !isDaemon(exe) {
		return false
	}
	environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
	if slices.Contains(strings.Split(string(environ), "\x00"), devMark+"="+l.dir) {
		return true
	}
	args, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
	return bytes.Contains(append([]byte{0}, args...), []byte("\x00"+l.dir+"/"))
}

// isDaemon reports whether a program is one of ours. A shim runs from a copy of its program in
// memory.
func isDaemon(exe string) bool {
	switch strings.TrimPrefix(strings.TrimSuffix(filepath.Base(exe), " (deleted)"), "memfd:") {
	case "rota-shim", "rota-noded", "rota-controld":
		return true
	}
	return false
}

func killAll(pids []int) int {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	return len(pids)
}

// cgroupDirs returns the existing cgroups of the nodes, in all hierarchies.
func (l *devLayout) cgroupDirs(nodes int) []string {
	var dirs []string
	for _, mount := range cgroupMounts() {
		for i := range nodes {
			dir := filepath.Join(mount, l.cgroupRoot(i))
			if _, err := os.Stat(dir); err == nil {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// cgroupMounts returns the mount points of cgroup hierarchies.
func cgroupMounts() []string {
	var mounts []string
	eachMount(func(point, kind string) {
		if (kind == "cgroup" || kind == "cgroup2") && strings.HasPrefix(point, "/sys/fs/cgroup") {
			mounts = append(mounts, point)
		}
	})
	return mounts
}

// eachMount calls do with the place and the file system of each mount.
func eachMount(do func(point, kind string)) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) > 4 && len(rest) > 0 {
			do(unescapeMount(fields[4]), rest[0])
		}
	}
}

// unescapeMount decodes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func childDirs(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs
}

// processesIn returns the processes of a cgroup and of those below it.
func processesIn(root string) []int {
	var pids []int
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != "cgroup.procs" {
			return nil // it may disappear meanwhile
		}
		b, _ := os.ReadFile(path)
		for _, field := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// removeTree removes a cgroup and those below it, deepest first. Busy ones stay.
func removeTree(dir string) {
	for _, child := range childDirs(dir) {
		removeTree(child)
	}
	_ = os.Remove(dir)
}

// unmount detaches the mounts below the directory, the last one first.
func (l *devLayout) unmount() error {
	var points []string
	eachMount(func(point, _ string) {
		if strings.HasPrefix(point, l.dir+"/") {
			points = append(points, point)
		}
	})
	var errs []error
	for _, point := range slices.Backward(points) {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
