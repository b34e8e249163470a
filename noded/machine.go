package noded

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// machine is what has been found out about this machine.
type machine struct {
	node     cluster.Node
	hostname string
	cores    *Cores // nil: by quota
}

// inspect finds out what the node has to offer.
func inspect(c Config) (machine, error) {
	var m machine
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return m, fmt.Errorf("read boot id: %w", err)
	}
	numa, err := machineCores("/sys")
	if err != nil {
		return m, err
	}
	count := 0
	for _, cores := range numa {
		count += len(cores)
	}
	cores := c.Cores
	if cores == 0 {
		cores = count
	}
	if cores <= count {
		m.cores = NewCores(atMost(numa, cores))
	}
	memory := c.Memory
	if memory == 0 {
		if memory, err = machineMemory(); err != nil {
			return m, err
		}
	}
	if m.hostname, err = os.Hostname(); err != nil {
		return m, fmt.Errorf("read host name: %w", err)
	}
	low, high, err := parsePorts(c.Ports)
	m.node = cluster.Node{
		Name: c.Name, BootID: strings.TrimSpace(string(boot)), Version: api.Build(), Cores: int64(cores), Memory: memory,
		Labels: labels(c, m.hostname), SharedPath: sharedPaths(c), PortMin: low, PortMax: high,
	}
	return m, err
}

// atMost keeps the first n cores.
func atMost(numa [][]int, n int) [][]int {
	out := make([][]int, len(numa))
	for i, cores := range numa {
		out[i] = cores[:min(n, len(cores))]
		n -= len(out[i])
	}
	return out
}

// machineMemory is the machine's memory less what the system and the daemons need: 5 %, at least 256 MiB and at most 8 GiB.
func machineMemory() (jobspec.Bytes, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read memory size: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			total := jobspec.Bytes(kib) * jobspec.KiB
			return total - min(max(total/20, 256*jobspec.MiB), 8*jobspec.GiB), err
		}
	}
	return 0, errors.New("/proc/meminfo does not tell the size of the memory; give it with --memory")
}

func labels(c Config, hostname string) map[string]string {
	out := map[string]string{"arch": runtime.GOARCH, "hostname": hostname}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		out["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	maps.Copy(out, c.Labels)
	return out
}

func sharedPaths(c Config) []string {
	var out []string
	for _, p := range slices.Concat(defaultShared, c.SharedPaths) {
		if info, err := os.Stat(p); err == nil && info.IsDir() && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// refuse tells what this machine lacks to run containers, all at once.
func refuse(c Config) error {
	if os.Geteuid() != 0 {
		return errors.New("the node daemon makes containers and must run as root: start it with sudo or by its systemd unit")
	}
	var errs []error
	for _, p := range c.SharedPaths {
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("--shared-path %s is not a directory here", p))
		}
	}
	for _, f := range []struct{ flag, path string }{{"--shim", c.ShimPath}, {"--init", c.InitPath}} {
		if info, err := os.Stat(f.path); err != nil || info.Mode()&0o111 == 0 {
			errs = append(errs, fmt.Errorf("%s: %s is not a program: build it or name where it is", f.flag, f.path))
		}
	}
	if err := tryDataDir(c.DataDir); err != nil {
		errs = append(errs, fmt.Errorf("--data-dir %s cannot be written: %w", c.DataDir, err))
	}
	return errors.Join(append(errs, tryCgroups(c.CgroupRoot))...)
}

func tryDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// neededCgroups are the hierarchies without which limits cannot be held, on machines with the first version of cgroups.
var neededCgroups = []string{"cpu", "memory", "pids", "freezer", "devices", "cpuset"}

// tryCgroups makes sure that cgroups can be made where the containers' will be.
func tryCgroups(root string) error {
	const mount = "/sys/fs/cgroup"
	var errs []error
	var fs unix.Statfs_t
	if err := unix.Statfs(mount, &fs); err != nil {
		return fmt.Errorf("cgroups cannot be used: %s: %w (mount them, or give the machine or container this runs in access)", mount, err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return tryCgroup(mount, root)
	}
	for _, name := range neededCgroups {
		errs = append(errs, tryCgroup(filepath.Join(mount, name), root))
	}
	return errors.Join(errs...)
}

func tryCgroup(hierarchy, root string) error {
	advice := "mount it writable, or choose a place that may be written with --cgroup-root"
	if _, err := os.Stat(hierarchy); err != nil {
		return fmt.Errorf("cgroups cannot be used: %s is not there: %s", hierarchy, advice)
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

// dropCgroups removes the daemon's own empty cgroups; those of running containers keep theirs.
func dropCgroups(root string) {
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		found, _ := filepath.Glob(filepath.Join(pattern, root)) // the pattern is well formed
		for _, dir := range found {
			if os.Remove(dir) == nil {
				_ = os.Remove(filepath.Dir(dir)) // /rota, when it was the last
			}
		}
	}
}
