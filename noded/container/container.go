// Package container is how the node daemon creates, starts and stops containers without being their
// parent. A rota-shim process for each worker does that (cmd/rota-shim, noded/shim). It outlives
// the daemon, which talks to it over a unix socket (protocol.go).
package container

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/jobspec/lossy"
)

// ID names one worker of one attempt of one job: a container, or one for each of its tasks. With a
// Step it names the part of a job's step that runs beside it, a container of its own.
type ID struct {
	Job     int64
	Attempt int
	Worker  int
	Step    int // number of the step plus one; 0: the worker itself
}

// String returns the name used for directories and sockets: job.attempt.worker, and -s with the number
// of a step.
func (id ID) String() string {
	if id.Step > 0 {
		return fmt.Sprintf("%d.%d.%d-s%d", id.Job, id.Attempt, id.Worker, id.Step-1)
	}
	return fmt.Sprintf("%d.%d.%d", id.Job, id.Attempt, id.Worker)
}

// OfWorker returns the worker that a part of a step runs beside.
func (id ID) OfWorker() ID {
	id.Step = 0
	return id
}

// OfStep returns the part beside the worker of the step with a number.
func (id ID) OfStep(n int) ID {
	id.Step = n + 1
	return id
}

// State is how far a container has come.
type State string

// The states, in order.
const (
	Silent  State = "silent"  // it exists, and its shim has not said yet whether its command has started
	Created State = "created" // it exists; its command has not started
	Running State = "running"
	Exited  State = "exited" // the exit record is on disk
	Lost    State = "lost"   // the shim died without an exit record; none of its processes runs any more
)

// Spent is what some processes have used; 0 is what is not known.
type Spent struct {
	UserMS   int64 `json:"user_ms,omitempty"` // processor time, with that of their children that they have waited for
	SystemMS int64 `json:"system_ms,omitempty"`
	PeakMem  int64 `json:"peak_memory,omitempty"` // bytes that the largest of them had
}

// Exit is the exit record that a shim writes.
type Exit struct {
	Code     int   `json:"code"` // 0 to 255; meaningless if Signal is set
	Signal   int   `json:"signal,omitempty"`
	OOM      bool  `json:"oom,omitempty"`   // the kernel has killed a process of it for memory, as Killed says
	Lease    bool  `json:"lease,omitempty"` // the shim stopped it because the lease ended
	UserMS   int64 `json:"user_ms"`         // with that of Extern
	SystemMS int64 `json:"system_ms"`
	PeakMem  int64 `json:"peak_memory"`     // bytes
	Extern   Spent `json:"extern,omitzero"` // what the processes of [Exec] have used
	Ended    int64 `json:"ended_unix_ms"`
	LogLost  int64 `json:"log_lost,omitempty"`  // bytes of output that could not be written
	LogErrno int   `json:"log_errno,omitempty"` // why, see [lossy.Loss]

	// Saved: its image is whole on disk, and nothing of it runs. Signal is then the one that ended it.
	Saved bool `json:"saved,omitempty"`
	// Unbegun: none of its programs was ever executed.
	Unbegun bool `json:"unbegun,omitempty"`
	// Own: it ended before it was asked to stop, by the signal of a stop, a kill or the end of its lease.
	Own bool `json:"own,omitempty"`
	// Finished: it has said in its progress file that it is finished.
	Finished bool `json:"finished,omitempty"`
	// NotRestored: it was to go on from an image and could not, as Why says. Nothing of it has run.
	NotRestored bool `json:"not_restored,omitempty"`

	Killed string `json:"killed,omitempty"` // what the kernel has killed for memory, and which limit was reached

	Why   string     `json:"why,omitempty"`   // of a worker that did not end by its main task: what ended it
	Tasks []TaskExit `json:"tasks,omitempty"` // of a worker of several tasks
}

// SetLost notes which output could not be written.
func (e *Exit) SetLost(l lossy.Loss) { e.LogLost, e.LogErrno = l.Bytes, l.Errno }

// Lost returns which output could not be written.
func (e *Exit) Lost() lossy.Loss { return lossy.Loss{Bytes: e.LogLost, Errno: e.LogErrno} }

// TaskExit is how one of several tasks ended.
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
	// Silent is why its shim cannot be asked now; "": it answers. The container goes on meanwhile, and only a
	// kill reaches it.
	Silent string
	// Extern is what the processes of [Exec] have used, of a Running or a Lost container: when its shim has
	// answered the last time, which it does when one has ended and at each renewal of the lease. Of one that
	// runs it is without children that it has not waited for.
	Extern Spent
	// Lost is the output that could not be written, of a Running or a Lost container, as its shim has
	// said last.
	Lost lossy.Loss

	Switch Switching // of a Running container
	Save   Saving    // the same
}

// Means is how a container is paused.
type Means string

// The means.
const (
	Cooperative Means = "pause point" // its processes have given their GPU memory back, and wait
	Frozen      Means = "freezer"     // none of its processes runs, and their GPU memory stays

	// DriverCheckpoint: the driver has moved its GPU memory to the host, and none of its processes runs.
	DriverCheckpoint Means = "driver checkpoint"
)

// SwitchOrder has a container pause or go on. Orders are numbered from 1: odd ones pause.
type SwitchOrder struct {
	Number   int    `json:"number"`
	WithinMS int64  `json:"within_ms,omitempty"` // to pause: how long its processes may take to come to a pause point
	NoFreeze string `json:"no_freeze,omitempty"` // to pause: why its GPU memory must not stay; "": it may
	Cores    string `json:"cores,omitempty"`     // to go on: those that it gets, as the kernel writes them; "": the same
}

// Pause reports whether it is an order to pause.
func (o SwitchOrder) Pause() bool { return o.Number%2 == 1 }

// Switching is how far a container has come with its last [SwitchOrder].
type Switching struct {
	Ordered int    `json:"ordered,omitempty"` // number of the last order
	Done    int    `json:"done,omitempty"`    // number of the last one that was carried out
	Means   Means  `json:"means,omitempty"`   // by which it has paused the last time
	TookMS  int64  `json:"took_ms,omitempty"` // from the order until it was carried out
	Problem string `json:"problem,omitempty"` // why it goes on although it was to pause
}

// Criu is a program that saves containers and restores them.
type Criu struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// SaveOrder has a container saved, and ended. Another one can go on from the image, see
// [Settings.Restore].
type SaveOrder struct {
	Dir      string `json:"dir"` // the image, a new directory; its parent is root's alone
	Criu     Criu   `json:"criu"`
	WithinMS int64  `json:"within_ms"` // how long it may take
}

// Saving is how far a container has come with its last [SaveOrder]. When it was saved it has ended, and
// its exit record says so.
type Saving struct {
	Dir     string `json:"dir,omitempty"`     // of the order
	Problem string `json:"problem,omitempty"` // why it goes on although it was to be saved
}

// Signal is a signal to the command of a container.
type Signal struct {
	Number int
	To     string // which processes get it, see [jobspec.Preemption.SignalTo]; "": all that rota-init signals
	// Early says that the container is told that its time limit comes, and not asked to stop. It gets one
	// such signal, however often this is repeated.
	Early bool
	// Plain says that a user sends the signal to what runs: it neither asks to stop nor tells of anything. It is
	// sent each time, and is an error if no main task runs.
	Plain bool
}

// Runtime creates and runs containers. Every call is idempotent: it may be repeated after a crash
// anywhere. [Shims] is the real one, containertest.Fake stands in for it in tests; both pass
// containertest.Contract.
type Runtime interface {
	// Create creates the container from the OCI bundle in dir, with a lease until the given time,
	// and returns when it exists.
	Create(ctx context.Context, id ID, dir string, lease time.Time) error
	// Start starts the container's command, or has it go on from the image that its settings name. It is
	// Running when that is done. If it cannot be done, [Exit.NotRestored] says so.
	Start(ctx context.Context, id ID) error
	// Signal sends a signal to the command. If the container has ended, that is not an error.
	Signal(ctx context.Context, id ID, s Signal) error
	// Kill ends every process in the container.
	Kill(ctx context.Context, id ID) error
	// Switch has the container pause or go on. It returns at once; [Status.Switch] says when that is done.
	Switch(ctx context.Context, id ID, o SwitchOrder) error
	// Save has the container saved. It returns at once; [Exit.Saved] or [Status.Save] say how that went. Only
	// a worker of one task whose processes have no connection to its job socket can be saved. An order with
	// the same directory changes nothing. A signal ends the saving.
	Save(ctx context.Context, id ID, o SaveOrder) error
	// Renew moves the end of the lease.
	Renew(ctx context.Context, id ID, lease time.Time) error
	// Extend moves the end of the lease later. A container without a lease, and one whose lease ends later
	// anyway, keeps what it has.
	Extend(ctx context.Context, id ID, lease time.Time) error
	// Remove removes an ended container: its cgroup, its mounts, its shim's files. Its log stays; a part of
	// a step has none.
	Remove(ctx context.Context, id ID) error
	// List returns every existing container, in order of ID.
	List(ctx context.Context) ([]Status, error)
	// ContainerOf returns the container of a process of this machine: of a worker, or of a part of
	// a step. It returns false if the process is in none.
	ContainerOf(pid int) (ID, bool)
	// Changes delivers the id of a container whose state has changed. List finds missed changes.
	Changes() <-chan ID
}
