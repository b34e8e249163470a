package api

import (
	"fmt"
	"hash/fnv"

	"github.com/rota-hpc/rota/controld/model/witness"
)

// WitnessPath is the route at which a node daemon tells other nodes whether it hears of a leader.
const WitnessPath = "/v1/witness"

// Witnesses are the newest set of witnesses, as a node stores it.
type Witnesses struct {
	witness.Set
	Addrs []string `json:"addrs"` // where the members' daemons answer, in the order of the members
}

// Key names what w says: the number of the set, and a digest of the addresses. A node tells the leader which
// it has on its disk, and is sent another one only if that differs.
func (w *Witnesses) Key() string {
	if w == nil {
		return "0"
	}
	h := fnv.New64a()
	for _, a := range w.Addrs {
		fmt.Fprintln(h, a)
	}
	return fmt.Sprintf("%d-%016x", w.Number, h.Sum64())
}

// Echo is what a node tells the leader with each request for allocations.
type Echo struct {
	Sent      string // [NodeAllocs.Sent] of the last answer that counted, which the node has noted
	Witnesses string // [Witnesses.Key] of those on its disk
}

// WitnessAnswer is what a witness tells another node.
type WitnessAnswer struct {
	// SilentMS is how long it has certainly heard of no leader, in milliseconds. It counts from the
	// last answer that a leader confirmed, or from the start of its daemon.
	SilentMS int64 `json:"silent_ms"`
}
