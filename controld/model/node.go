package model

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// GPU is one device of a node's inventory.
type GPU struct {
	UUID    string        `json:"uuid"`
	Model   string        `json:"model"`
	Memory  jobspec.Bytes `json:"memory"`
	Minor   int           `json:"minor"` // of /dev/nvidiaN; -1 for a simulated one
	Healthy bool          `json:"healthy"`
	Problem string        `json:"problem,omitempty"`
}

// NodeState is whether a node may get work.
type NodeState string

// Node is one machine.
type Node struct {
	Name   string `json:"name"`
	Addr   string `json:"addr"`         // host:port of its own listener, for logs
	IP     string `json:"ip,omitempty"` // by which jobs on other nodes reach it; "": unknown
	BootID string `json:"boot_id"`
	// Machine names the hardware, whichever system was booted on it; "": nothing there names it
	Machine    string            `json:"machine,omitempty"`
	Version    string            `json:"version"`
	Cores      int64             `json:"cores"`
	Memory     jobspec.Bytes     `json:"memory"`
	GPUs       []GPU             `json:"gpus,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	SharedPath []string          `json:"shared_paths,omitempty"`
	PortMin    int               `json:"port_min"` // MASTER_PORT range, inclusive
	PortMax    int               `json:"port_max"`
	Suspends   bool              `json:"suspends,omitempty"` // it can pause jobs that can pause, and have them go on
	// a suspended job goes on only with the GPUs that it had: programs cannot exchange them
	PinsGPUs bool `json:"pins_gpus,omitempty"`
	// ports of the range at which something else listens that is no job's: found when one was to start
	PortsTaken []int     `json:"ports_taken,omitempty"`
	State      NodeState `json:"state"`
	Reason     string    `json:"reason,omitempty"`
	Notice     string    `json:"notice,omitempty"`  // what the node says of itself, shown if there is no Reason
	Since      Stamp     `json:"since"`             // of State
	Drained    bool      `json:"drained,omitempty"` // returns from being down as drained, not up
	// Witnesses is the number of a set of witnesses that the node has at least, see package witness
	Witnesses uint64 `json:"witnesses,omitempty"`
	Gone      bool   `json:"gone,omitempty"` // it is down, and the leader has made sure that nothing runs there any more
}

// RebootOf reports whether a node is another boot of the machine that registered as old. Then nothing
// runs any more of what the earlier boot ran. Any other machine, such as a clone, proves nothing of that
// one, even if it has the same name, disk and certificate.
func (n *Node) RebootOf(old *Node) bool {
	return n.BootID != old.BootID && n.Machine != "" && n.Machine == old.Machine
}

// WithPortTaken returns the ports of a node that something else has, with one more. As many as half of
// the range are remembered: something else may have gone since.
func (n *Node) WithPortTaken(port int) []int {
	most := min(maxPortsTaken, (n.PortMax-n.PortMin+1)/2)
	all := append(slices.DeleteFunc(slices.Clone(n.PortsTaken), func(p int) bool { return p == port }), port)
	return all[max(0, len(all)-most):]
}

// maxPortsTaken bounds what is remembered of a node's ports.
const maxPortsTaken = 64

// MaxGPUsPerNode bounds a node's GPUs: which of them are free is one machine word.
const MaxGPUsPerNode = 64

// WholeGPU is one GPU in the unit of [Vector].GPUs.
const WholeGPU = jobspec.WholeGPU

// Node states.
const (
	NodeUp      NodeState = "up"
	NodeDown    NodeState = "down"    // not heard of; what ran there may still run until its lease ends
	NodeDrained NodeState = "drained" // gets nothing new
)

// Healthy returns the healthy GPUs of a node: bit n is set for index n.
func Healthy(n *Node) uint64 {
	var mask uint64
	for i, g := range n.GPUs {
		if g.Healthy {
			mask |= 1 << i
		}
	}
	return mask
}
