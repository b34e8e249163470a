// Package oci turns one worker's allocation into what runs it: an OCI runtime spec for its container ([Spec]) and the plan that the
// first process of the container carries out ([Plan]). It is pure: what is true of the node comes in as [Node].
package oci

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Input is one worker's allocation and the node it runs on.
type Input struct {
	Job        cluster.JobID
	Attempt    int
	Worker     int
	GPUs       []int // indices into Node.GPUs
	Owner      cluster.Identity
	Spec       *jobspec.Job // one group of one task
	Account    string
	Queue      string
	Class      jobspec.Class
	Nodes      []string // of every worker, by worker index
	MasterAddr string
	MasterPort int
	Restarts   int
	Start      cluster.UnixMS
	Limit      jobspec.Seconds // of the attempt; 0: none
	Cluster    string
	Node       Node
}

// Node is what must be known of a machine to run a worker on it.
type Node struct {
	Name        string
	Hostname    string // of the machine: containers share it
	GPUs        []cluster.GPU
	Cores       []int    // granted core numbers; empty: Request cores as a quota
	SharedPaths []string // bound read-write at the same path
	Root        Root
	RunDir      string   // becomes /run/rota (container.RunDir)
	InitPath    string   // rota-init on the host
	CgroupPath  string   // of this container, absolute below every hierarchy
	NoSwapLimit bool     // the kernel cannot limit swap
	Nvidia      []Device // nodes shared by all users of GPUs: nvidiactl, nvidia-uvm, …
	NvidiaMajor int64    // of /dev/nvidiaN, 195 unless the driver says otherwise
}

// Root is the root directory of a container: a skeleton of empty directories and links, and what is bound onto it read-only.
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
