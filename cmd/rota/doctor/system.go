package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/requirements"
)

// system is the machine as checks see it. Tests replace its functions, and put files below another
// root.
type system struct {
	root     string // directory that stands for /
	uid      int
	home     string // home directory of the user
	now      func() time.Time
	hostname func() (string, error)
	release  func() (string, error) // release of the kernel
	addrs    func() ([]netip.Addr, error)
	lookup   func(ctx context.Context, host string) ([]string, error)
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	listen   func(network, addr string) error // tries to listen, then closes
	clone    func(flags uintptr) error        // starts a process in new namespaces
	keyring  func() error                     // requests a session keyring
	criu     func(ctx context.Context, path string) (found, version string, err error)
	timex    func() (int, unix.Timex, error) // state and offsets of the kernel's clock
	statfs   func(path string) (unix.Statfs_t, error)
	syncs    func(dir string, n int, limit time.Duration) ([]time.Duration, error)
	cgroup   func(root string) error
	gpuList  func(ctx context.Context, program string) (gpu.Inventory, error)
	output   func(ctx context.Context, program string, args ...string) ([]byte, error)
	find     func(program string) string // path of a program, "" if it is missing
}

// machine returns the real machine.
func machine() *system {
	return &system{
		root: "/", uid: os.Geteuid(), home: os.Getenv("HOME"), now: clock.Wall,
		hostname: os.Hostname, release: release, addrs: addresses,
		lookup:  net.DefaultResolver.LookupHost,
		dial:    (&net.Dialer{Timeout: patience}).DialContext,
		listen:  tryListen,
		clone:   tryClone,
		keyring: sessionKeyring,
		criu:    requirements.FindCriu,
		timex: func() (int, unix.Timex, error) {
			var t unix.Timex
			state, err := unix.Adjtimex(&t)
			return state, t, err
		},
		statfs: func(path string) (s unix.Statfs_t, err error) { return s, unix.Statfs(path, &s) },
		syncs:  timeSyncs, cgroup: requirements.ProbeCgroups, gpuList: readGPUs,
		output: func(ctx context.Context, program string, args ...string) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return exec.CommandContext(ctx, program, args...).Output()
		},
		find: findProgram,
	}
}

// path returns where a file of the machine is found below the root.
func (s *system) path(name string) string { return filepath.Join(s.root, name) }

func (s *system) read(name string) ([]byte, error) { return os.ReadFile(s.path(name)) }

// text returns a file's content without surrounding white space, or "" if it is unreadable.
func (s *system) text(name string) string {
	b, _ := s.read(name) // an unreadable file counts as empty
	return strings.TrimSpace(string(b))
}

func (s *system) exists(name string) bool {
	_, err := os.Stat(s.path(name))
	return err == nil
}

// glob returns the files of the machine that match a pattern.
func (s *system) glob(pattern string) []string {
	found, _ := filepath.Glob(s.path(pattern)) // constant patterns cannot be malformed
	for i, path := range found {
		if rel, err := filepath.Rel(s.root, path); err == nil {
			found[i] = "/" + rel
		}
	}
	return found
}

// processes returns the ids of the processes with this name, as far as this user may see them.
func (s *system) processes(name string) []string {
	var ids []string
	for _, path := range s.glob("/proc/[0-9]*/comm") {
		if s.text(path) == name {
			ids = append(ids, filepath.Base(filepath.Dir(path)))
		}
	}
	return ids
}

func release() (string, error) {
	var u unix.Utsname
	err := unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:]), err
}

func addresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	var list []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, p.Addr().Unmap())
		}
	}
	return list, err
}

func tryListen(network, addr string) error {
	if network == "udp" {
		l, err := net.ListenPacket(network, addr)
		if err != nil {
			return err
		}
		return l.Close()
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// tryClone starts this program in new namespaces. The way in which it ends does not matter.
func tryClone(flags uintptr) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "--version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if flags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		return err
	}
	return nil
}

// sessionKeyring creates a session keyring, as a container launch does. The keyring belongs to one
// thread, which ends with the call.
func sessionKeyring() error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread stays locked, so it ends with its goroutine
		_, err := unix.KeyctlJoinSessionKeyring("rota-doctor")
		result <- err
	}()
	return <-result
}

// timeSyncs writes 4 KiB to a new file in dir n times, and returns how long each fsync took. It stops
// early after limit.
func timeSyncs(dir string, n int, limit time.Duration) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".rota-doctor-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4096)
	begun := time.Now()
	for range n {
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		if time.Since(begun) > limit {
			break
		}
	}
	slices.Sort(took)
	return took, nil
}

// readGPUs queries the driver through a helper process, as the node daemon does.
func readGPUs(ctx context.Context, program string) (i gpu.Inventory, err error) {
	h := gpu.NewHelper(gpu.HelperConfig{Command: []string{program, "nvml-helper"}})
	defer func() { err = errors.Join(err, h.Close()) }()
	return h.Inventory(ctx)
}

// findProgram searches the directory of this program, PATH, and the directories of packages.
func findProgram(name string) string {
	var tried []string
	if self, err := os.Executable(); err == nil {
		tried = append(tried, filepath.Join(filepath.Dir(self), name))
	}
	if path, err := exec.LookPath(name); err == nil {
		tried = append(tried, path)
	}
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/rota/bin"} {
		tried = append(tried, filepath.Join(dir, name))
	}
	for _, path := range tried {
		if requirements.Program("", path) == nil {
			return path
		}
	}
	return ""
}

// percentile returns the value below which the given percentage of the sorted values lies.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// human formats a duration with two or three digits.
func human(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
