// Package container is how the node daemon gets containers made, started and stopped without being their parent: a shim process
// for each does that (cmd/rota-shim, noded/shim), outlives the daemon, and is spoken to over a unix socket.
package container

import (
	"context"
	"fmt"
	"time"
)

// ID names one worker of one attempt of one job: a container, or one for each of its tasks.
type ID struct {
	Job     int64
	Attempt int
	Worker  int
}

// String is the name used for directories, cgroups and sockets: job.attempt.worker.
func (id ID) String() string { return fmt.Sprintf("%d.%d.%d", id.Job, id.Attempt, id.Worker) }

// State is how far a container has come.
type State string

// States, in order.
const (
	Created State = "created" // exists; its command has not started
	Running State = "running"
	Exited  State = "exited" // the exit record is on disk
	Lost    State = "lost"   // the shim died without an exit record; nothing of it runs any more
)

// Exit is the record that a shim leaves, written and renamed.
type Exit struct {
	Code     int   `json:"code"` // 0 to 255; meaningless when Signal is set
	Signal   int   `json:"signal,omitempty"`
	OOM      bool  `json:"oom,omitempty"`
	Lease    bool  `json:"lease,omitempty"` // the shim stopped it because the lease ran out
	UserMS   int64 `json:"user_ms"`
	SystemMS int64 `json:"system_ms"`
	PeakMem  int64 `json:"peak_memory"` // bytes
	Ended    int64 `json:"ended_unix_ms"`
	LogLost  int64 `json:"log_lost,omitempty"` // bytes of output dropped because no room was left for them

	Why   string     `json:"why,omitempty"`   // of a worker that did not end by its main task: what ended it
	Tasks []TaskExit `json:"tasks,omitempty"` // of a worker of several tasks
}

// TaskExit is how one task of several ended.
type TaskExit struct {
	Name   string `json:"name"`
	Begun  bool   `json:"begun"` // false: it never ran
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
}

// Status is what is true of one container now.
type Status struct {
	ID    ID
	State State
	Pid   int // of the container's first process, on the host
	Exit  *Exit
	Why   string // of a Lost container: what is known
}

// Runtime makes and runs containers. Every call is idempotent: repeating it after a crash anywhere is safe. Shims is the real one,
// containertest.Fake the other; both pass containertest.Contract.
type Runtime interface {
	// Create makes the container from the OCI bundle in dir, with the lease ending at deadline, and returns when it exists.
	Create(ctx context.Context, id ID, dir string, lease time.Time) error
	// Start lets the container's command begin.
	Start(ctx context.Context, id ID) error
	// Signal sends a signal to the command. One to a container that has ended is no error.
	Signal(ctx context.Context, id ID, signal int) error
	// Kill ends every process in the container.
	Kill(ctx context.Context, id ID) error
	// Renew moves the end of the lease.
	Renew(ctx context.Context, id ID, lease time.Time) error
	// Remove forgets an ended container: its cgroup, its mounts, its shim's files. Its log stays.
	Remove(ctx context.Context, id ID) error
	// List returns every container there is, in order of ID.
	List(ctx context.Context) ([]Status, error)
	// Changes delivers the id of a container whose state has changed. Missed ones are found by List.
	Changes() <-chan ID
}
