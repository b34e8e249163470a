package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// kind is a way to fail.
type kind string

// The kinds of faults. A machine is a controller unless the name says otherwise.
const (
	killLeader kind = "kill-leader" // kill -9 of the daemon that leads
	killOne    kind = "kill"        // kill -9
	killAll    kind = "kill-all"    // kill -9 of all controllers
	pause      kind = "pause"       // SIGSTOP
	isolate    kind = "isolate"     // its machine's cable is out
	cut        kind = "cut"         // it hears nothing from another, which hears it
	fullDisk   kind = "full-disk"
	readOnly   kind = "read-only-disk"
	tornRecord kind = "torn-record"          // the end of its log is cut off while it is down
	flipped    kind = "flipped-bits"         // bits of its log are flipped while it is down
	wrongClock kind = "wrong-clock"          // its wall clock is moved by an hour
	emptyDisk  kind = "empty-disk"           // it comes back without its log while those that know better are away
	oldDisk    kind = "old-disk"             // the same, with a log of some seconds ago
	allDown    kind = "all-controllers-down" // kill -9 of all controllers, for longer than a lease
	slow       kind = "slow-machine"         // it gets a tenth of a processor

	killNode    kind = "kill-node" // kill -9 of the node daemon
	pauseNode   kind = "pause-node"
	isolateNode kind = "isolate-node"
	cutNode     kind = "cut-node" // it hears nothing from one controller, which hears it
	fullNode    kind = "full-disk-node"
	clockNode   kind = "wrong-clock-node"
	cloneNode   kind = "clone-node"     // a copy of its disk starts elsewhere while its cable is out
	loseDir     kind = "lose-directory" // its node daemon loses its data directory while jobs run
	slowNode    kind = "slow-machine-node"
)

// onControllers and onNodes are the kinds by what they hit. Faults of one list come one at a time,
// so that a majority of the controllers is whole unless killAll says otherwise. The lists run
// beside each other.
var (
	onControllers = []kind{killLeader, killLeader, killOne, killAll, pause, isolate, cut, fullDisk, readOnly, tornRecord,
		flipped, wrongClock, emptyDisk, oldDisk, allDown, slow}
	onNodes = []kind{killNode, pauseNode, isolateNode, cutNode, fullNode, clockNode, cloneNode, loseDir, slowNode}
)

// Durations of faults and of the pauses between them. Those of nodes may outlast a lease.
const (
	faultMin         = 300 * time.Millisecond
	faultMax         = 6 * time.Second
	nodeFaultMax     = 20 * time.Second
	calmMin, calmMax = 500 * time.Millisecond, 4 * time.Second
)

// fault is one step of a schedule.
type fault struct {
	kind   kind
	after  time.Duration // of calm before it
	length time.Duration
	target int // which machine
	other  int // with cut: the machine that is not heard; never target of the same list
	// what is damaged or moved by how much, 0 to 1
	amount float64
}

// String describes f for the log of a run.
func (f fault) String() string {
	return fmt.Sprintf("%s %d for %v", f.kind, f.target+1, f.length.Round(time.Millisecond))
}

// schedule is what happens to the machines of one list. The same seed gives the same schedule.
func schedule(r *rand.Rand, kinds []kind, machines int, longest, length time.Duration) []fault {
	var all []fault
	for at := time.Duration(0); len(kinds) > 0; {
		f := fault{
			kind: kinds[r.IntN(len(kinds))], after: between(r, calmMin, calmMax), length: between(r, faultMin, longest),
			target: r.IntN(machines), amount: r.Float64(),
		}
		f.other = (f.target + 1 + r.IntN(max(1, machines-1))) % machines
		if at += f.after + f.length; at > length {
			return all
		}
		all = append(all, f)
	}
	return all
}

func between(r *rand.Rand, min, max time.Duration) time.Duration {
	return min + time.Duration(r.Int64N(int64(max-min)))
}

// chosen returns the kinds of all that list names, separated by commas; all of them if it is empty.
func chosen(all []kind, list string) []kind {
	if list == "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(k kind) bool {
		return !slices.Contains(strings.Split(list, ","), string(k))
	})
}

// checkKinds names a kind that does not exist.
func checkKinds(list string) error {
	known := slices.Concat(onControllers, onNodes)
	for name := range strings.SplitSeq(list, ",") {
		if list != "" && !slices.Contains(known, kind(name)) {
			return fmt.Errorf("-only: unknown fault %q; the faults are %v", name, slices.Compact(known))
		}
	}
	return nil
}
