// Package oci turns the allocation of a worker into an OCI runtime spec for its container ([Spec]),
// and into the plan that the first process of the container carries out ([Plan]). It is pure: facts
// about the node come in as [Node].
package oci

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Input is one task of one worker: its allocation and the node it runs on.
type Input struct {
	Job         model.JobID
	Attempt     int
	Worker      int           // in the attempt
	Group       int           // index in Spec.Groups
	GroupWorker int           // number among the group's workers
	Task        int           // index in the group's tasks
	GPUs        []int         // of the worker, indices into Node.GPUs
	Request     model.Request // of the worker, shared by its tasks
	Owner       model.Identity
	Spec        *jobspec.Job
	Account     string
	Queue       string
	Class       jobspec.Class
	Nodes       []string   // of the group's workers, by number in the group
	Hosts       []Hosts    // of a gang of several groups; nil: the job has one group
	Array       *ArrayTask // nil: the job is no array task
	MasterAddr  string
	MasterPort  int
	Restarts    int
	Start       model.UnixMS
	Limit       jobspec.Seconds // of the attempt; 0: none
	Cluster     string
	Node        Node
}

// Hosts says where the workers of one group are, by number in the group.
type Hosts struct {
	Group string
	Nodes []string
	Addrs []string       // of the nodes
	Ports []int          // of the workers
	Has   []model.Vector // the workers, of a group that runs steps
}

// ArrayTask says which task of an array a job is.
type ArrayTask struct {
	ArrayJob model.JobID // the array job
	Index    int
	Count    int // number of tasks of the array
	Params   map[string]string
}

// Node is what must be known of a machine to run a worker on it.
type Node struct {
	Name        string
	Hostname    string // of the machine: containers share it
	GPUs        []model.GPU
	Cores       []int    // granted core numbers; empty: a quota of Request's cores
	SharedPaths []string // bound read-write at the same path
	Root        Root
	RunDir      string   // becomes /run/rota (container.RunDir)
	InitPath    string   // of rota-init on the host
	RotaPath    string   // of the command rota on the host; "": there is none
	HostsFile   string   // on the host, mounted at HostsPath; "": the root's own counts
	Modules     string   // directory of the Python module on the host; "": there is none
	CgroupPath  string   // of this container, absolute below every hierarchy
	Progress    string   // file that the task reports its progress to
	ShmDir      string   // what several tasks of a worker share as /dev/shm
	TmpDir      string   // what a task that starts steps shares with them as /tmp
	NoSwapLimit bool     // the kernel cannot limit swap
	Nvidia      []Device // nodes shared by all users of GPUs: nvidiactl, nvidia-uvm, …
	NvidiaMajor int64    // of /dev/nvidiaN, 195 unless the driver says otherwise
	Checkpoint  string   // directory for the worker's checkpoint; "": the job saves elsewhere
	MPS         MPS
	SimGPUs     string              // directory for what processes declare of simulated GPUs; "": there is none
	RDMA        []Device            // device nodes below /dev/infiniband
	Seccomp     *specs.LinuxSeccomp // filter of system calls; nil for none
	MaxMemlock  jobspec.Bytes       // bytes that a task may lock at most; 0: no bound
	MaxNofile   int64               // files that a task may have open at most; 0: no bound
	MaxPids     int64               // processes and threads of a worker; 0: 4,096 and 512 for each core
}

// MPS says where NVIDIA's Multi-Process Service of a node is reached, for workers with parts of GPUs.
// The zero value is that there is none.
type MPS struct {
	Pipes string // directory with its sockets, at the same path in containers
	Shm   string // directory in memory: /dev/shm of the service and of the programs that use it
}

// Root is the root directory of a container: a skeleton of empty directories and links, and what is
// bound onto it read-only.
type Root struct {
	Path  string
	Binds []Bind
}

// Bind makes a path of the host visible, read-only.
type Bind struct {
	Source string
	Target string
}

// Device is a device node.
type Device struct {
	Path  string
	Major int64
	Minor int64
}
