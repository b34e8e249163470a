// Package consensus keeps a replicated log and drives a state machine with it. Only this package
// imports hashicorp/raft.
//
// A caller's duties:
//
//  1. Give [Open] a [Machine] whose Apply is deterministic and a directory of its own.
//  2. On the members of a new cluster call [Node.Bootstrap] once, with the same list everywhere.
//  3. Do all work that is reserved to the leader inside [Node.Lead], whose context ends with
//     leadership.
//  4. Before a read that must be current, call [Node.Verify].
//  5. Watch [Node.Failed]: after an error from it the process must stop, because the disk or the
//     log cannot be trusted.
//
// Concurrent proposals share an entry, and therefore one fsync on each member (propose.go).
package consensus

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// Machine is the state machine that the log drives. Calls of Apply, Snapshot and Restore never
// overlap; they come from one goroutine.
type Machine interface {
	// Apply executes proposals of the entry at index, in order, and returns one result for each. A
	// call gets all proposals of the entry or only the next few; the results must not depend on
	// that. Apply must neither change nor keep the slices. A Machine that cannot continue must end
	// the process.
	Apply(index uint64, proposals [][]byte) []any
	// Snapshot captures the current state and returns quickly. The returned function writes that
	// state; it runs while later entries are applied.
	Snapshot() (func(io.Writer) error, error)
	// Restore replaces the state by a state that a Snapshot wrote. After an error, the old state
	// must be unchanged.
	Restore(r io.Reader) error
}

// Member identifies a member by its name, its address for peers, and its log. A member that lost
// its log gets a new log; it counts as a different member of the same name until the leader adds
// it.
type Member struct {
	Name string `json:"name"`
	Addr string `json:"addr"`          // host:port
	Log  string `json:"log,omitempty"` // id, created with the log
}

// Dialer opens a connection to a peer. It must not connect to a member with another name, whatever
// the address: counting a member's vote twice could split the cluster.
type Dialer func(ctx context.Context, to Member) (net.Conn, error)

// Config is a node's identity and timing. [DefaultConfig] fills in the timing.
type Config struct {
	Name string // of this member
	Dir  string // holds log, snapshots, version and lock; created if missing, used by no other process
	Addr string // host:port that peers dial; the node also listens there unless Listener is set

	// Record, if set, is a file outside Dir that survives restarts of the process. A restored copy
	// of Dir does not restore the record. At the next start, the record shows whether the log has
	// forgotten anything. In memory the record is fast, but a member on a machine that was rebooted
	// has none.
	Record string

	Logger *slog.Logger // nil discards log messages

	Heartbeat   time.Duration // a follower starts an election after this silence; it must be well above the slowest fsync
	Election    time.Duration // how long a candidate waits for votes; at least Heartbeat
	LeaderLease time.Duration // silence of the quorum after which a leader steps down; at most Heartbeat
	Stall       time.Duration // a disk write that takes longer is considered hung, and the member stops

	// Probation is the longest time without a vote after the start of a member without a Record. It
	// ends earlier once the member has met every other voter.
	Probation time.Duration

	SnapshotEvery int // entries between two snapshots

	Dial Dialer // nil: plain TCP
	// Find, if set, returns the current address of a member if known, because the member may have
	// moved since the log learned its address.
	Find     func(name string) (addr string, ok bool)
	Listener net.Listener // nil: TCP on Addr; the node closes it
}

// DefaultConfig returns a timing for machines in one network with ordinary disks.
func DefaultConfig() Config {
	return Config{
		Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, LeaderLease: 200 * time.Millisecond,
		Stall:         30 * time.Second, // the kernel gives up on a disk after this time
		Probation:     probationMax,
		SnapshotEvery: 8192,
	}
}

// timing is the part of Config that must be equal on all members.
func (c Config) timing() string {
	return fmt.Sprintf("heartbeat %v, election %v, leader lease %v", c.Heartbeat, c.Election, c.LeaderLease)
}

// withDefaults returns c with a default logger and dialer.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, to Member) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.Addr)
		}
	}
	return c
}
