// Package bundle writes the files of a container on a node's disk. [Store.Build] writes the OCI
// bundle with its roots, device nodes and settings for the shim, and [Store.Notice] the notice of a
// stop. It also says where the progress and the findings of a container are read.
package bundle

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/logs"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/progress"
)

// MPS says where the Multi-Process Service of a node is reached.
type MPS = oci.MPS

// Config says where bundles lie, and holds their common settings on this node.
type Config struct {
	Node        string              // the node's name
	Hostname    string              // of the machine
	Logs        *logs.Store         // with the directory of the containers
	RootDir     string              // for the root of containers without an image
	RotaPath    string              // of the command rota, for jobs; "": they have none
	Modules     string              // directory with the Python module of jobs; "": there is none
	CgroupRoot  string              // path of the containers' parent below every hierarchy
	SharedPaths []string            // bound into every container at the same path
	InitPath    string              // of rota-init
	MaxMemlock  jobspec.Bytes       // bytes that a task may lock at most; 0: no bound
	MaxNofile   int64               // files that a task may have open at most; 0: no bound
	MaxPids     int64               // processes and threads of a worker; 0: by its cores
	OutputRate  jobspec.Bytes       // bytes per second that are taken of a worker's output; 0: no bound
	SimGPUs     string              // directory for the declared use of simulated GPUs; "": the GPUs are real
	Folders     Folders             // of checkpoints on this node
	Criu        container.Criu      // restores processes; without a path: none are restored here
	MPS         MPS                 // how workers with parts of GPUs reach MPS; the zero value: there is none
	Seccomp     *specs.LinuxSeccomp // filter of system calls; nil for none
	RootJobs    bool                // jobs may run as root
	// Hosts returns the hosts file for a job on these nodes; nil: containers keep the file of their
	// root
	Hosts func([]api.AllocNode) ([]byte, error)
}

// Folders says where the checkpoints of workers are on this node. *checkpoint.Store implements it.
type Folders interface {
	// Files returns where the files of a worker are.
	Files(id container.ID) string
	// Image returns the image of its processes in the folder with which a worker begins, "" if there is
	// none.
	Image(id container.ID) string
}

// Store makes and disposes of bundles, each in a directory of its container.
type Store struct {
	logs       *logs.Store
	cgroupRoot string
	node       oci.Node // settings common to all containers
	folders    Folders
	criu       container.Criu
	hosts      func([]api.AllocNode) ([]byte, error)
	dev        string // has the device nodes
	rootJobs   bool
	owners     *owners       // nil: groups count as they were vouched for
	outputRate jobspec.Bytes // per second; 0: no bound
}

// dir returns the directory of a container.
func (s *Store) dir(id container.ID) string { return filepath.Join(s.logs.Containers, id.String()) }

// Open makes the root directory of containers without an image, and returns the store.
func Open(c Config) (*Store, error) {
	root, err := container.PrepareHostRoot(c.RootDir, c.SharedPaths)
	if err != nil {
		return nil, err
	}
	return &Store{
		logs: c.Logs, cgroupRoot: c.CgroupRoot, dev: "/dev", rootJobs: c.RootJobs,
		outputRate: c.OutputRate, hosts: c.Hosts, folders: c.Folders, criu: c.Criu, owners: newOwners(),
		node: oci.Node{
			Name: c.Node, Hostname: c.Hostname, SharedPaths: c.SharedPaths, Root: root, InitPath: c.InitPath,
			RotaPath: c.RotaPath, Modules: c.Modules,
			NoSwapLimit: !container.SwapLimited(), MaxMemlock: c.MaxMemlock, MaxNofile: c.MaxNofile,
			MaxPids: c.MaxPids,
			Seccomp: c.Seccomp, SimGPUs: c.SimGPUs, MPS: c.MPS,
		},
	}, nil
}

// hostsFor returns the hosts file for containers with a root file system, "" if that has none, over
// which it could be mounted.
func hostsFor(root, hosts string) string {
	if info, err := os.Lstat(filepath.Join(root, oci.HostsPath)); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return hosts
}

// Owner returns the user that a job runs as here, with the groups that this machine knows it in. An
// error wraps [ErrUserDatabase]: the launch has to wait.
func (s *Store) Owner(a *api.Alloc) (model.Identity, error) { return s.owners.narrow(a.Owner) }

// hostsFile is the hosts file of a worker and its steps, in the worker's directory.
func (s *Store) hostsFile(id container.ID) string {
	if s.hosts == nil {
		return ""
	}
	return filepath.Join(s.dir(id.OfWorker()), "hosts")
}

// writeHosts writes the hosts file of a worker.
func (s *Store) writeHosts(id container.ID, a *api.Alloc) error {
	path := s.hostsFile(id)
	if path == "" {
		return nil
	}
	text, err := s.hosts(a.Members)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("hosts file: %w", err)
	}
	return nil
}

// Notice tells a container why it is being stopped, and when it will be killed.
func (s *Store) Notice(id container.ID, n container.Notice) error {
	return container.WriteNotice(s.dir(id), n)
}

// Withdraw removes the notice of a reason from a container. A notice for another one stays.
func (s *Store) Withdraw(id container.ID, reason string) error {
	return container.RemoveNotice(s.dir(id), reason)
}

// Retire keeps the log of an ended container and removes the roots of its tasks. It may be called
// again.
func (s *Store) Retire(id container.ID) error {
	if err := s.logs.Keep(id); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.dir(id), rootsDir)); err != nil {
		return fmt.Errorf("remove root of %s: %w", id, err)
	}
	return nil
}

// Progress returns where the progress of a worker is read, nil when its bundle does not exist.
// Steps that the shim finds in the output come first, then a file that the job names. Otherwise it
// is the file that every job is given.
func (s *Store) Progress(id container.ID) *progress.Source {
	dir := s.dir(id)
	set, err := container.ReadSettings(dir)
	if err != nil {
		return nil // it is removed, or not written yet
	}
	from := &progress.Source{Path: container.ProgressPath(dir), User: set.User, Policies: len(set.Policies) > 0}
	switch {
	case set.Steps != nil:
		from.Path = container.StepsPath(dir)
	case set.Progress != nil:
		from.File = set.Progress
	case set.Several():
		from.Path = container.ProgressPath(container.TaskDir(dir, set.Reporter))
	}
	return from
}

// findingsLimit bounds how many bytes of findings are read. There is one line for each policy of a
// job.
const findingsLimit = 1 << 20

// Findings returns the findings of log policies in the output of a worker, oldest first.
func (s *Store) Findings(id container.ID) ([]container.Finding, error) {
	f, err := os.Open(container.FindingsPath(s.dir(id)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []container.Finding
	lines := bufio.NewScanner(io.LimitReader(f, findingsLimit))
	for lines.Scan() {
		var one container.Finding
		if json.Unmarshal(lines.Bytes(), &one) == nil { // a line that is half written is read the next time
			list = append(list, one)
		}
	}
	return list, lines.Err()
}
