package config

import (
	"cmp"
	"fmt"
	"time"
)

// Timeouts are those of the replicated log. They must be the same on all controllers: the election
// that the quickest begins ends the leadership of the slowest.
type Timeouts struct {
	Heartbeat   time.Duration `hcl:"heartbeat,optional"`    // silence of the leader after which an election begins
	Election    time.Duration `hcl:"election,optional"`     // for votes to arrive
	LeaderLease time.Duration `hcl:"leader_lease,optional"` // silence of the others after which a leader gives up
}

// DefaultTimeouts suit one network and disks that sync in some milliseconds.
func DefaultTimeouts() Timeouts {
	return Timeouts{Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond,
		LeaderLease: 200 * time.Millisecond}
}

// Bounds of timeouts. Below the least a pause of a healthy program is an election. With the longest
// a cluster is without a leader for half a minute.
const (
	timeoutMin = 50 * time.Millisecond
	timeoutMax = 10 * time.Second
)

// Complete returns t with what is left out: the election takes as long as the heartbeat, and the
// leader's lease two thirds of it. Of nil all are default.
func (t *Timeouts) Complete() Timeouts {
	if t == nil {
		return DefaultTimeouts()
	}
	out := *t
	out.Heartbeat = cmp.Or(out.Heartbeat, DefaultTimeouts().Heartbeat)
	out.Election = cmp.Or(out.Election, out.Heartbeat)
	out.LeaderLease = cmp.Or(out.LeaderLease, out.Heartbeat*2/3)
	return out
}

// String is t as the file has it.
func (t Timeouts) String() string {
	return fmt.Sprintf("heartbeat = %q, election = %q, leader_lease = %q", t.Heartbeat, t.Election, t.LeaderLease)
}

// check reports timeouts with which no leader would last.
func (t *Timeouts) check(bad func(path, text, hint string)) {
	all := t.Complete()
	for _, s := range []struct {
		name  string
		value time.Duration
	}{{"heartbeat", all.Heartbeat}, {"election", all.Election}, {"leader_lease", all.LeaderLease}} {
		if s.value < timeoutMin || s.value > timeoutMax {
			bad("timeouts."+s.name, fmt.Sprintf("%s = %q: must be from %v to %v", s.name, s.value, timeoutMin, timeoutMax), "")
			return
		}
	}
	if all.Election < all.Heartbeat {
		bad("timeouts.election", fmt.Sprintf("election = %q is less than heartbeat = %q: a candidate would give up before "+
			"the others miss the leader", all.Election, all.Heartbeat), "leave it out, or write at least the heartbeat")
	}
	if all.LeaderLease > all.Heartbeat {
		bad("timeouts.leader_lease", fmt.Sprintf("leader_lease = %q is more than heartbeat = %q: a leader that is cut off "+
			"would still act while its successor leads", all.LeaderLease, all.Heartbeat),
			"leave it out, or write at most the heartbeat")
	}
}
