// Package consensus keeps one replicated log and a state machine behind it. It is the only importer
// of hashicorp/raft.
//
// A caller's duties:
//
//  1. Give [Open] a [Machine] whose Apply is deterministic and a directory of its own.
//  2. On the members of a new cluster call [Node.Bootstrap] once, with the same list everywhere.
//  3. Put all work that only a leader may do inside [Node.Lead]; its context ends with leadership.
//  4. Before answering a read that must be current, call [Node.Verify].
//  5. Watch [Node.Failed]: after an error from it the disk cannot be trusted, and the process must
//     stop.
//
// Concurrent proposals share an entry, and so one fsync on each member (propose.go).
package consensus

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// Machine is what the log drives. Apply, Snapshot and Restore are called one at a time, on one
// goroutine.
type Machine interface {
	// Apply carries out proposals of the entry at index, in order, and returns one result for each.
	// It gets all proposals of the entry, or the next few of them in each call, and must give the same
	// results either way. The slices must be neither changed nor kept. A Machine that cannot go on
	// must end the process.
	Apply(index uint64, proposals [][]byte) []any
	// Snapshot fixes the present state and returns at once. The function it returns writes that state;
	// it runs while later entries are being applied.
	Snapshot() (func(io.Writer) error, error)
	// Restore replaces the state by one that a Snapshot wrote. After an error the old state must still
	// be whole.
	Restore(r io.Reader) error
}

// Member is one member: its name, where its peers reach it, and which log it has. A member whose log
// is lost gets another log, and is another member of the same name until it has been added.
type Member struct {
	Name string `json:"name"`
	Addr string `json:"addr"`          // host:port
	Log  string `json:"log,omitempty"` // id, made with the log
}

// Dialer opens a connection to a peer. It must not connect to a member with another name, whatever
// the address: a member whose vote was counted twice could split the cluster.
type Dialer func(ctx context.Context, to Member) (net.Conn, error)

// Config is a node's identity and its timing. [DefaultConfig] has the timing.
type Config struct {
	Name string // of this member
	Dir  string // holds log, snapshots, version and lock; made if missing, used by no other process
	Addr string // host:port that peers dial; also where the node listens, unless Listener is set

	// Record, if set, is a file outside Dir that survives restarts of the process. A copy of Dir
	// that is put back does not bring the record back too. It shows at the next start whether the
	// log has forgotten anything. In memory it is fast, and a member on a machine that was booted
	// has none.
	Record string

	Logger *slog.Logger // nil discards

	Heartbeat   time.Duration // silence after which a follower starts an election; keep it well above the worst fsync
	Election    time.Duration // how long a candidate waits for votes; at least Heartbeat
	LeaderLease time.Duration // silence of the quorum after which a leader steps down; at most Heartbeat
	Stall       time.Duration // a write to the disk that takes longer will not return, and the member stops

	// Probation is how long at most a member without a Record does not vote after its start, while
	// it has not met every other voter.
	Probation time.Duration

	SnapshotEvery int // entries between snapshots

	Dial Dialer // nil: plain TCP
	// Find, if set, returns where a member is reached now, if that is known: it may have moved since
	// the log was told its address.
	Find     func(name string) (addr string, ok bool)
	Listener net.Listener // nil: TCP on Addr; closed by the node
}

// DefaultConfig returns the timing that suits machines on one network with ordinary disks.
func DefaultConfig() Config {
	return Config{
		Heartbeat: 300 * time.Millisecond, Election: 300 * time.Millisecond, LeaderLease: 200 * time.Millisecond,
		Stall:         30 * time.Second, // the kernel gives a disk up after this time
		Probation:     probationMax,
		SnapshotEvery: 8192,
	}
}

// timing is what all members must have the same of.
func (c Config) timing() string {
	return fmt.Sprintf("heartbeat %v, election %v, leader lease %v", c.Heartbeat, c.Election, c.LeaderLease)
}

// withDefaults returns c with a logger and a dialer.
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
