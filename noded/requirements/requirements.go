// Package requirements has the checks that say whether a machine can run containers. The node daemon does
// them when it starts, and "rota doctor" on any machine.
package requirements

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The oldest kernel that Rota is made for.
const (
	kernelMajor = 5
	kernelMinor = 10
)

// Kernel returns an error if the kernel of a release, such as 6.1.0-18-amd64, is older than Linux 5.10,
// or if the release cannot be read.
func Kernel(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("kernel release %q is not a version", release)
	}
	if major < kernelMajor || major == kernelMajor && minor < kernelMinor {
		return fmt.Errorf("Linux %s is older than %d.%d", release, kernelMajor, kernelMinor)
	}
	return nil
}

// SharedPath returns an error if a path that all nodes share is no directory here.
func SharedPath(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fmt.Errorf("--shared-path %s is not a directory here", path)
	}
	return nil
}

// Program returns an error if path is not a program. flag is the one that names the path.
func Program(flag, path string) error {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s: %s is not a program: build it, or give its path", flag, path)
	}
	return nil
}

// MPSProgram is the control daemon of NVIDIA's Multi-Process Service. The driver's packages have it.
const MPSProgram = "nvidia-cuda-mps-control"

// MPS returns an error if NVIDIA's Multi-Process Service cannot be started here.
func MPS() error {
	if _, err := exec.LookPath(MPSProgram); err != nil {
		return errors.New("--mps: nvidia-cuda-mps-control is not in the PATH: install NVIDIA's driver with its programs, " +
			"or remove --mps (mps in noded.hcl)")
	}
	return nil
}

// Beside returns the path of a program that belongs to the node daemon at daemon. That is beside
// it, as programs are built, or in ../libexec/rota, as they are installed, if it is only there.
func Beside(daemon, name string) string {
	dir := filepath.Dir(daemon)
	beside, installed := filepath.Join(dir, name), filepath.Join(dir, "../libexec/rota", name)
	if Program("", beside) != nil && Program("", installed) == nil {
		return installed
	}
	return beside
}

// Command returns the path of the command rota for jobs. Packages put one that needs no loader of
// programs into ../libexec/rota; otherwise it is the one beside the daemon.
func Command(daemon string) string {
	dir := filepath.Dir(daemon)
	if installed := filepath.Join(dir, "../libexec/rota/rota"); Program("", installed) == nil {
		return installed
	}
	return filepath.Join(dir, "rota")
}

// cgroupMount is where the hierarchies of cgroups are mounted.
const cgroupMount = "/sys/fs/cgroup"

// hierarchies are those that limits need, on machines with cgroup version 1.
var hierarchies = []string{"cpu", "memory", "pids", "freezer", "devices", "cpuset"}

// controllers are those that limits need, on machines with cgroup version 2. There devices are limited
// by a program in the kernel, and every cgroup can be frozen. Memory is the first: the kernel enables
// the others also where processes run, and makes such a cgroup one that can limit no memory.
var controllers = []string{"memory", "cpu", "pids", "cpuset"}

// CgroupVersion returns 1 or 2: the version of cgroups that is mounted. Where both are, the first
// counts, as it has the controllers.
func CgroupVersion() (int, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &fs); err != nil {
		return 0, fmt.Errorf("cgroups cannot be used: %s: %w (mount them, or give the container of this daemon "+
			"access to them)", cgroupMount, err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return 2, nil
	}
	return 1, nil
}

// Cgroups makes sure that cgroups can be created where those of containers will be: at root, an absolute
// path below each hierarchy. The directories of root are left, and with version 2 each passes on the
// controllers that limits need.
func Cgroups(root string) error {
	if err := makeCgroups(root); err != nil {
		return err
	}
	if version, err := CgroupVersion(); err != nil || version == 1 {
		return err
	}
	return enableControllers(cgroupMount, root)
}

// makeCgroups makes the directories of root, and a cgroup in each for a moment.
func makeCgroups(root string) error {
	places, err := cgroupPlaces()
	for _, place := range places {
		err = errors.Join(err, cgroup(place, root))
	}
	return err
}

// cgroupPlaces returns the directories of the hierarchies that limits need.
func cgroupPlaces() ([]string, error) {
	version, err := CgroupVersion()
	if err != nil {
		return nil, err
	}
	if version == 2 {
		return []string{cgroupMount}, missingControllers(cgroupMount)
	}
	var places []string
	for _, name := range hierarchies {
		places = append(places, filepath.Join(cgroupMount, name))
	}
	return places, nil
}

// missingControllers returns an error that names the controllers that a hierarchy of version 2 lacks.
func missingControllers(mount string) error {
	path := filepath.Join(mount, "cgroup.controllers")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cgroups cannot be used: %w", err)
	}
	var missing []string
	for _, name := range controllers {
		if !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+name+" ") {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("cgroups cannot be used: %s lacks %s: enable the controllers in the kernel, or delegate "+
			"them to the container of this daemon", path, strings.Join(missing, ", "))
	}
	return nil
}

func cgroup(hierarchy, root string) error {
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

// ProbeCgroups is [Cgroups], and leaves nothing that was not there. Each cgroup of root that is there
// already stays: it may be that of a daemon.
func ProbeCgroups(root string) error {
	places, _ := cgroupPlaces() // Cgroups reports the error
	var absent []string         // inner ones first
	for _, place := range places {
		for path := filepath.Clean(root); path != "/"; path = filepath.Dir(path) {
			dir := filepath.Join(place, path)
			if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
				absent = append(absent, dir)
			}
		}
	}
	err := makeCgroups(root)
	for _, dir := range absent {
		os.Remove(dir)
	}
	return err
}

// RemoveCgroups removes the daemon's own empty cgroups: root, and the groups inside of it that are
// named. Those in which something runs stay, and those that are units of systemd.
func RemoveCgroups(root string, inside ...string) {
	for _, pattern := range []string{cgroupMount, cgroupMount + "/*"} {
		found, _ := filepath.Glob(filepath.Join(pattern, root)) // the pattern is well formed
		for _, dir := range found {
			for _, name := range inside {
				_ = os.Remove(filepath.Join(dir, name))
			}
			if !isUnit(root) && os.Remove(dir) == nil {
				_ = os.Remove(filepath.Dir(dir)) // /rota, if it was the last
			}
		}
	}
}

// isUnit reports whether a cgroup is by its name one of systemd's, which removes it itself.
func isUnit(path string) bool {
	return slices.Contains([]string{".service", ".scope", ".slice"}, filepath.Ext(path))
}
