// Package userfiles opens what a job has named of the machine's files: the directories that its
// containers show, and its secrets. It does so with the rights of the job's user alone.
package userfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// Guards holds open, for every host directory that a job chose, what its user finds there.
// libcontainer resolves the same paths as root, and a link may be changed at any moment. So what it
// has mounted is compared with these directories afterwards.
type Guards struct {
	list []container.Guard
	fds  []int
}

// OpenGuards opens every source with the rights of u, and refuses one that lies outside the
// directories that it must be below.
func OpenGuards(list []container.Guard, u container.User) (*Guards, error) {
	g := &Guards{list: list}
	if len(list) == 0 {
		return g, nil
	}
	return container.AsUser(u, func() (*Guards, error) {
		for _, one := range list {
			fd, err := openGuard(one)
			if err != nil {
				g.Close()
				return nil, err
			}
			g.fds = append(g.fds, fd)
		}
		return g, nil
	})
}

// openGuard runs on a thread that has the user's rights.
func openGuard(g container.Guard) (int, error) {
	flags := unix.O_PATH | unix.O_CLOEXEC
	if g.Target == "" {
		flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC // its entries are read
	}
	fd, err := unix.Open(g.Source, flags, 0)
	if err != nil {
		return 0, container.FinalAt(g.Source, fmt.Errorf("the job's user cannot use %s: %w",
			g.Source, err))
	}
	if err := checkBelow(g, fd); err != nil {
		_ = unix.Close(fd) // it was opened only to be checked
		return 0, err
	}
	return fd, nil
}

// checkBelow checks that a source really lies below one of the directories of its guard. Either may
// be reached through links.
func checkBelow(g container.Guard, fd int) error {
	if len(g.Below) == 0 {
		return nil
	}
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return fmt.Errorf("find the real path of %s: %w", g.Source, err)
	}
	for _, dir := range g.Below {
		if dir, err := filepath.EvalSymlinks(dir); err == nil &&
			(real == dir || strings.HasPrefix(real, strings.TrimSuffix(dir, "/")+"/")) {
			return nil
		}
	}
	return fmt.Errorf("mount source %s leads to %s, which is not below a shared path (%s)",
		g.Source, real, strings.Join(g.Below, ", "))
}

// Verify checks that the container sees the directories that were opened. pid is its first process,
// whose command has not started.
func (g *Guards) Verify(pid int) error {
	if len(g.list) == 0 {
		return nil
	}
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the container's root: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	var errs []error
	for i, one := range g.list {
		if one.Target != "" {
			errs = append(errs, checkSame(root, one, g.fds[i]))
		}
	}
	return errors.Join(errs...)
}

func checkSame(root int, g container.Guard, fd int) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	inside, err := unix.Openat2(root, strings.TrimPrefix(g.Target, "/"), &how)
	if err != nil {
		return fmt.Errorf("open %s in the container: %w", g.Target, err)
	}
	defer func() { _ = unix.Close(inside) }()
	var want, got unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &want), unix.Fstat(inside, &got)); err != nil {
		return fmt.Errorf("compare %s with %s in the container: %w", g.Source, g.Target, err)
	}
	if want.Dev != got.Dev || want.Ino != got.Ino {
		return fmt.Errorf("%s changed while it was being mounted at %s", g.Source, g.Target)
	}
	return nil
}

// Close closes the directories.
func (g *Guards) Close() {
	for _, fd := range g.fds {
		_ = unix.Close(fd) // it was opened only to be checked
	}
	g.fds = nil
}
