// Package oci turns the allocation of a worker into an OCI runtime spec for its container ([Spec]),
// and into the plan that the first process of the container carries out ([Plan]). It is pure: facts
// about the node come in as [Node]. The allocation is that of package api, and a root is that of package
// container; only their types are used here.
package oci

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// Input is one task of one worker: the allocation that its node got, and the node.
type Input struct {
	Alloc api.Alloc // its Owner is the account on this machine
	Task  int       // index in the group's tasks
	Node  Node
}

// Node is what must be known of a machine to run a worker on it.
type Node struct {
	Name        string
	Hostname    string // of the machine: containers share it
	GPUs        []model.GPU
	Cores       []int    // granted core numbers; empty: a quota of Request's cores
	SharedPaths []string // bound read-write at the same path
	Root        container.Root
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

// Device is a device node.
type Device struct {
	Path  string
	Major int64
	Minor int64
}
