package noded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// checkRequirements returns everything that this machine lacks to run containers, joined.
func checkRequirements(c Config) error {
	if os.Geteuid() != 0 {
		return errors.New("the node daemon must run as root to create containers: start it with sudo or as a " +
			"systemd service")
	}
	var errs []error
	for _, p := range c.SharedPaths {
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("--shared-path %s is not a directory here", p))
		}
	}
	for _, f := range []struct{ flag, path string }{{"--shim", c.ShimPath}, {"--init", c.InitPath}} {
		if info, err := os.Stat(f.path); err != nil || info.Mode()&0o111 == 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not a program: build it, or give its path", f.flag, f.path))
		}
	}
	err := checkDataDir(c.DataDir, c.Logger)
	if err == nil {
		err = checkWritable(c.DataDir)
	}
	errs = append(errs, err)
	return errors.Join(append(errs, checkCgroups(c.CgroupRoot))...)
}

// neededCgroups are the hierarchies that limits need, on machines with cgroup version 1.
var neededCgroups = []string{"cpu", "memory", "pids", "freezer", "devices", "cpuset"}

// checkCgroups makes sure that cgroups can be created where those of containers will be.
func checkCgroups(root string) error {
	const mount = "/sys/fs/cgroup"
	var errs []error
	var fs unix.Statfs_t
	if err := unix.Statfs(mount, &fs); err != nil {
		return fmt.Errorf("cgroups cannot be used: %s: %w (mount them, or give the container of this daemon "+
			"access to them)", mount, err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		if err := checkCgroup(mount, root); err != nil {
			return err
		}
		return enableControllers(mount, root)
	}
	for _, name := range neededCgroups {
		errs = append(errs, checkCgroup(filepath.Join(mount, name), root))
	}
	return errors.Join(errs...)
}

func checkCgroup(hierarchy, root string) error {
	advice := "mount it writable, or choose a writable place with --cgroup-root"
	if _, err := os.Stat(hierarchy); err != nil {
		return fmt.Errorf("cgroups cannot be used: %s does not exist: %s", hierarchy, advice)
	}
	dir := filepath.Join(hierarchy, root)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cgroups cannot be used: %w: %s", err, advice)
	}
	probe := filepath.Join(dir, "probe-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(probe, 0o755); err != nil {
		return fmt.Errorf("cgroups cannot be used: %w: %s", err, advice)
	}
	return os.Remove(probe)
}

// neededControllers are those that limits need, with cgroup version 2. Memory is the first: the kernel
// enables the others also where processes run, and makes such a cgroup one that can limit no memory.
var neededControllers = []string{"memory", "cpu", "pids", "cpuset"}

// enableControllers makes sure that cgroups of version 2 below root have the controllers that limits
// need. Each cgroup on the way passes them on to those below it.
func enableControllers(mount, root string) error {
	dir := mount
	for _, element := range strings.Split(root, "/") { // the first one is empty, for the mount itself
		dir = filepath.Join(dir, element)
		if err := enableIn(dir); err != nil {
			return err
		}
	}
	return nil
}

// enableIn enables the controllers for the cgroups inside of one.
func enableIn(dir string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("cgroups cannot be used: %w", err)
	}
	for _, name := range neededControllers {
		if slices.Contains(strings.Fields(string(enabled)), name) {
			continue
		}
		err := os.WriteFile(file, []byte("+"+name), 0)
		switch {
		case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EOPNOTSUPP):
			return fmt.Errorf("cgroups cannot be used: processes run in %s itself, so that no cgroup below it can have "+
				"limits: move them into a cgroup below it, or choose another place with --cgroup-root", dir)
		case err != nil:
			return fmt.Errorf("cgroups cannot be used: the controller %s cannot be enabled below %s: %w (systemd does so "+
				"for units with Delegate=yes; otherwise choose another place with --cgroup-root)", name, dir, err)
		}
	}
	return nil
}

// removeCgroups removes the daemon's own empty cgroups. Those of running containers and shims stay,
// and those that are units of systemd.
func removeCgroups(root string) {
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, _ := filepath.Glob(filepath.Join(pattern, root)) // the pattern is well formed
		for _, dir := range found {
			_ = os.Remove(filepath.Join(dir, container.ShimsGroup))
			if isUnit(root) {
				continue
			}
			if os.Remove(dir) == nil {
				_ = os.Remove(filepath.Dir(dir)) // /rota, if it was the last
			}
		}
	}
}

// isUnit reports whether a cgroup is by its name one of systemd's, which removes it itself.
func isUnit(path string) bool {
	return slices.Contains([]string{".service", ".scope", ".slice"}, filepath.Ext(path))
}
