package noded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
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
		return checkCgroup(mount, root)
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

// removeCgroups removes the daemon's own empty cgroups. Those of running containers stay.
func removeCgroups(root string) {
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, _ := filepath.Glob(filepath.Join(pattern, root)) // the pattern is well formed
		for _, dir := range found {
			if os.Remove(dir) == nil {
				_ = os.Remove(filepath.Dir(dir)) // /rota, if it was the last
			}
		}
	}
}
