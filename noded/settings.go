package noded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/requirements"
)

// Config has all settings of the node daemon.
type Config struct {
	Name        string   // of this node, unique in the cluster
	DataDir     string   // for the journal, containers and logs
	Gossip      string   // host:port for discovery
	HTTP        string   // host:port of the listener for logs; "": a free port on the host of Gossip
	Join        []string // gossip addresses of any daemons in the cluster
	Controllers []string // addresses of controllers, in addition to those found by gossip
	Socket      string   // unix socket through which local users reach the controllers; "" for none
	// 0: all cores of the machine; more: shares of processor time, not cores by number
	Cores       int
	Memory      jobspec.Bytes     // bytes; 0: the machine's memory less the system's needs
	GPUs        int               // number that the node must have when it starts; fewer are refused
	SimGPUs     int               // number of simulated GPUs that replace the real ones
	MPS         bool              // workers with parts of GPUs use NVIDIA's Multi-Process Service
	Labels      map[string]string // of the node
	CgroupRoot  string            // "": /rota/NAME
	SharedPaths []string          // in addition to those of /home, /shared and /data that exist
	Ports       string            // LOW-HIGH for MASTER_PORT; "": a default range
	Login       bool              // a login node: a socket for its users, and no containers
	ShimPath    string            // path of rota-shim; "": beside this program or in ../libexec/rota
	InitPath    string            // path of rota-init; "": beside this program or in ../libexec/rota
	RotaPath    string            // path of rota as jobs have it; "": in ../libexec/rota or beside this program
	NVMLHelper  []string          // command that serves NVML; empty: this program with nvml-helper
	WarmShims   int               // shims that are started in advance
	MaxMemlock  jobspec.Bytes     // bytes that ulimit.memlock may be at most; 0: no bound
	MaxNofile   int64             // files that ulimit.nofile may be at most; 0: no bound

	MaxPids       int64         // processes and threads of a worker; 0: 4,096 and 512 for each core
	MaxOutputRate jobspec.Bytes // bytes of output per second that are taken of a worker; 0: no bound
	MaxLogs       jobspec.Bytes // bytes of all logs of jobs that the node keeps; 0: no bound

	AllowRootJobs       bool // jobs may run as root
	AllowUserNamespaces bool // jobs may make user namespaces

	Criu        bool   // containers are saved by CRIU
	CriuProgram string // its path; "": found through PATH

	Logger *slog.Logger
	// Supervise, if set, runs beside the daemon until its context ends. Alive returns nil once the
	// daemon's loop has answered. It answers when it has found the containers that run here, with a
	// controller or without. It returns an error when its context ends. Status is one line for
	// people.
	Supervise func(ctx context.Context, alive func(context.Context) error, status func() string) error
}

// The least bounds, so that a job can still run, and say why it fails.
const (
	minPids       = 64
	minOutputRate = 64 * jobspec.KiB
	minLogs       = jobspec.MiB
)

// DefaultConfig returns the settings of a node on the default ports of this machine.
func DefaultConfig() Config {
	name, _ := os.Hostname() // Validate refuses an empty name
	return Config{Name: name, DataDir: "/var/lib/rota/noded", Gossip: "127.0.0.1:7072", Socket: "/run/rota/rota.sock",
		WarmShims: 2, MaxOutputRate: 64 * jobspec.MiB, MaxLogs: 20 * jobspec.GiB}
}

// withDefaults fills in the settings that follow from others.
func (c Config) withDefaults() Config {
	c.CgroupRoot = cmp.Or(c.CgroupRoot, "/rota/"+c.Name)
	if c.HTTP == "" {
		if host, _, err := net.SplitHostPort(c.Gossip); err == nil {
			c.HTTP = net.JoinHostPort(host, "0")
		}
	}
	if self, err := os.Executable(); err == nil {
		c.ShimPath = cmp.Or(c.ShimPath, requirements.Beside(self, "rota-shim"))
		c.InitPath = cmp.Or(c.InitPath, requirements.Beside(self, "rota-init"))
		c.RotaPath = cmp.Or(c.RotaPath, requirements.Command(self))
		if len(c.NVMLHelper) == 0 {
			c.NVMLHelper = []string{self, "nvml-helper"}
		}
	}
	c.Ports = cmp.Or(c.Ports, defaultPorts(c.Name, serve.Loopback(c.Gossip)))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// defaultPorts returns the range for MASTER_PORT, below the kernel's range for outgoing
// connections. Nodes that share a machine (on loopback) get ranges of their own.
func defaultPorts(name string, shared bool) string {
	if !shared {
		return "20000-29999"
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	low := 20000 + int(h.Sum32()%100)*100
	return fmt.Sprintf("%d-%d", low, low+99)
}

// Validate returns every problem of c, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	// The daemon itself: its name, directory, addresses and socket.
	if !member.ValidName(c.Name) {
		bad("--name %q: write 1 to 63 letters, digits, '-', '_' or '.'", c.Name)
	}
	if !filepath.IsAbs(c.DataDir) {
		bad("--data-dir %q: write an absolute path that only this node daemon uses", c.DataDir)
	}
	for _, l := range []struct{ flag, addr string }{{"--gossip", c.Gossip}, {"--http", c.HTTP}} {
		if _, port, err := net.SplitHostPort(l.addr); err != nil {
			bad("%s %q: write host:port", l.flag, l.addr)
		} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			bad("%s %q: write a port from 0 to 65535", l.flag, l.addr)
		}
	}
	if c.Login && c.Socket == "" {
		bad("--socket is empty: a login node needs a socket for its users")
	}
	if strings.HasPrefix(filepath.Clean(c.Socket), filepath.Clean(c.DataDir)+"/") {
		bad("--socket %s is in --data-dir, which users cannot enter: choose another place, such as %s", c.Socket,
			DefaultConfig().Socket)
	}
	c.checkResources(bad)
	c.checkContainers(bad)
	return errors.Join(errs...)
}

// checkResources reports wrong settings of the hardware, and wrong limits on jobs.
func (c Config) checkResources(bad func(format string, args ...any)) {
	// The hardware, counted or simulated.
	if c.Cores < 0 || c.Memory < 0 || c.GPUs < 0 || c.SimGPUs < 0 || c.SimGPUs > 1024 {
		bad("--cores, --memory, --gpus and --sim-gpus must not be negative, and --sim-gpus is at most 1024")
	}
	if c.MPS && c.SimGPUs > 0 {
		bad("--mps with --sim-gpus: simulated GPUs have no MPS; leave out one of them")
	}
	if c.MPS && c.Login {
		bad("--mps with --login: a login node runs no jobs; leave out --mps")
	}
	// Bounds on jobs.
	if c.MaxMemlock < 0 || c.MaxNofile < 0 {
		bad("--max-memlock and --max-nofile must not be negative; leave them out for no limit")
	}
	if c.MaxPids < 0 || c.MaxPids > 0 && c.MaxPids < minPids {
		bad("--max-pids %d: write at least %d, or leave it out for 4096 plus 512 for each core", c.MaxPids, minPids)
	}
	if r := c.MaxOutputRate; r < 0 || r > 0 && r < minOutputRate {
		bad("--max-output-rate %v: write at least %v, or 0B for no limit", r, minOutputRate)
	}
	if c.MaxLogs < 0 || c.MaxLogs > 0 && c.MaxLogs < minLogs {
		bad("--max-logs %v: write at least %v, or 0B for no limit", c.MaxLogs, minLogs)
	}
}

// checkContainers reports wrong settings of containers: cgroups, saved images, paths and ports.
func (c Config) checkContainers(bad func(format string, args ...any)) {
	if !strings.HasPrefix(c.CgroupRoot, "/") || filepath.Clean(c.CgroupRoot) != c.CgroupRoot || c.CgroupRoot == "/" {
		bad("--cgroup-root %q: write a path below the root of every hierarchy, such as /rota/%s", c.CgroupRoot, c.Name)
	}
	if _, own := c.Labels[jobspec.CriuLabel]; own {
		bad("--label %s=: a node that saves containers gets this label automatically: write --criu", jobspec.CriuLabel)
	}
	if c.Criu && c.Login {
		bad("--criu with --login: a login node runs no jobs; leave out --criu")
	}
	if c.CriuProgram != "" && !c.Criu {
		bad("--criu-program without --criu: containers are saved only with --criu; write both, or leave out --criu-program")
	}
	if c.CriuProgram != "" && !filepath.IsAbs(c.CriuProgram) {
		bad("--criu-program %q: write an absolute path", c.CriuProgram)
	}
	for _, p := range c.SharedPaths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			bad("--shared-path %q: write an absolute directory other than /", p)
		}
	}
	if _, _, err := parsePorts(c.Ports); err != nil {
		bad("--ports: %w", err)
	}
}

// parsePorts reads LOW-HIGH.
func parsePorts(s string) (low, high int, err error) {
	first, last, ok := strings.Cut(s, "-")
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	if !ok || err1 != nil || err2 != nil || a < 1024 || b > 65535 || a > b {
		return 0, 0, fmt.Errorf("%q is not a range of ports: write LOW-HIGH with numbers from 1024 to 65535", s)
	}
	return a, b, nil
}
