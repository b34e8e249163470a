package container

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ShimsGroup is the name of the cgroup of all shims of a node. It lies beside those of the
// containers, below the node's root of cgroups.
const ShimsGroup = "shims"

// shimGroup is where shims run, so that a service manager that ends every process of the daemon's own
// cgroup leaves them alone. With cgroup version 1 that is the hierarchy by which systemd knows its
// services, and shims stay in the daemon's cgroups of the others.
type shimGroup struct {
	dirs     []string // of the group, one for each hierarchy
	required bool     // a shim that cannot be moved is an error
	log      *slog.Logger
	failed   sync.Once
}

// newShimGroup makes the group below root, a path below every hierarchy's root. With root "" shims
// stay where they are started.
func newShimGroup(mount, root string, log *slog.Logger) (*shimGroup, error) {
	if root == "" {
		return nil, nil
	}
	g := &shimGroup{log: log}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	hierarchies := []string{mount}
	if g.required = isCgroup2(mount); !g.required {
		// systemd's own hierarchy, and the one of version 2 that it has beside those of version 1
		hierarchies = []string{filepath.Join(mount, "systemd"), filepath.Join(mount, "unified")}
	}
	for _, h := range hierarchies {
		if _, err := os.Stat(filepath.Join(h, "cgroup.procs")); err != nil {
			continue // there is no such hierarchy
		}
		dir := filepath.Join(h, root, ShimsGroup)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			if err = g.report(fmt.Errorf("cgroup for shims: %w", err)); err != nil {
				return nil, err
			}
			continue
		}
		g.dirs = append(g.dirs, dir)
	}
	return g, nil
}

// isCgroup2 reports whether a hierarchy of cgroup version 2 is mounted at a path.
func isCgroup2(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// add moves a process into the group.
func (g *shimGroup) add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.dirs {
		err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)
		if err == nil {
			continue
		}
		if err = g.report(fmt.Errorf("move a shim out of the node daemon's cgroup: %w", err)); err != nil {
			return err
		}
	}
	return nil
}

// report returns err where the group is required. With version 1 shims can do without: they end with
// the daemon's service only if its unit is changed to end all its processes.
func (g *shimGroup) report(err error) error {
	if g.required {
		return fmt.Errorf("%w (the daemon must be able to write below the root of its cgroups: see --cgroup-root)", err)
	}
	g.failed.Do(func() {
		g.log.Warn("shims stay in the node daemon's cgroup: the service manager must not kill them when the daemon stops",
			"error", err)
	})
	return nil
}

// leavePatience is how long an ended process may count for its cgroup.
const leavePatience = time.Second

// remove removes the group, unless shims are in it.
func (g *shimGroup) remove() {
	if g == nil {
		return
	}
	for _, dir := range g.dirs {
		for deadline := time.Now().Add(leavePatience); os.Remove(dir) != nil && time.Now().Before(deadline); {
			if procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); err != nil || len(procs) > 0 {
				break
			}
			time.Sleep(time.Millisecond) // the kernel is about to drop a process that has ended
		}
	}
}
