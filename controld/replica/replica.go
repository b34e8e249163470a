// Package replica is this controller's copy of the cluster's state. It offers views of the state,
// commands that change it on every controller, and waits for changes. The server and the leader
// share one Replica.
package replica

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Replica is one member of the consensus with the state that its log makes. Its methods may be
// called from any goroutine.
type Replica struct {
	*consensus.Node

	machine  *machine
	clock    *logClock
	watchers watchers
	leads    atomic.Bool
	latency  *prometheus.HistogramVec // of proposals, by kind
}

// Open opens the log that cfg names, whose entries make the state, and registers the replica's
// metrics.
func Open(cfg consensus.Config, metrics *prometheus.Registry) (*Replica, error) {
	r := &Replica{machine: newMachine()}
	var err error
	if r.clock, err = openLogClock(cfg.Dir); err != nil {
		return nil, err
	}
	r.machine.applied = r.clock.entry
	r.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rota_propose_seconds",
		Help: "Time until a command was replicated and applied.", Buckets: Buckets()}, []string{"kind"})
	metrics.MustRegister(r.latency)
	if r.Node, err = consensus.Open(cfg, r.machine); err != nil {
		return nil, err
	}
	return r, nil
}

// Buckets are the buckets of every histogram of times: 0.1 ms to 13 s.
func Buckets() []float64 { return prometheus.ExponentialBuckets(0.0001, 2, 18) }

// View returns the newest state on this controller.
func (r *Replica) View() *state.View { return r.machine.view.Load() }

// Changed returns a channel that is closed at the next change of the state. Take it before the
// view, so that no change is missed.
func (r *Replica) Changed() <-chan struct{} { return r.machine.changed.wait() }

// Wake closes the channel of Changed although the state is unchanged. It tells the readers of other
// news, such as a new leader.
func (r *Replica) Wake() { r.machine.changed.wake() }

// Now returns the log's time, at least that of v. It stands still on a controller that does not
// lead.
func (r *Replica) Now(v *state.View) model.Instant { return r.clock.now(v) }

// WallNow returns the wall clock, as commands and job lists have it.
func WallNow() model.UnixMS { return model.UnixMS(clock.Wall().UnixMilli()) }

// Leading reports whether this controller leads, has applied everything acknowledged before, and
// runs the loops of the leader.
func (r *Replica) Leading() bool { return r.leads.Load() }

// StartClock lets the log's clock go, at least from the newest entry, when this controller becomes the leader.
func (r *Replica) StartClock() { r.clock.start(r.View().At()) }

// StartLeading makes Leading true.
func (r *Replica) StartLeading() {
	r.leads.Store(true)
	r.Wake() // long polls that only a leader answers look again
}

// StopLeading makes Leading false and stops the log's clock.
func (r *Replica) StopLeading() {
	r.leads.Store(false)
	r.clock.stop()
	r.Wake()
}

// Propose stamps a command, has it replicated, and returns the result of applying it. An error is
// the state's refusal or one of consensus.
func (r *Replica) Propose(ctx context.Context, c fsm.Command) (any, error) {
	stamp := model.Stamp{At: r.Now(r.View()), Wall: WallNow()}
	entry := fsm.Entry{Stamp: stamp, Command: c}
	data, err := fsm.Encode(entry)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", c.Kind(), err)
	}
	forget := r.machine.prepared.put(data, entry)
	begin := time.Now()
	result, _, err := r.Node.Propose(ctx, data)
	forget()
	if err != nil {
		return nil, err
	}
	r.latency.WithLabelValues(string(c.Kind())).Observe(time.Since(begin).Seconds())
	a, ok := result.(applied)
	if !ok {
		return nil, fmt.Errorf("propose %s: the log answered with a %T", c.Kind(), result)
	}
	return a.value, a.err
}

// Submitted returns the jobs that an idempotency key of a user stands for. It is nil if the key is
// not known, or was used for a submission with another digest.
func (r *Replica) Submitted(uid uint32, key, digest string) []model.JobID {
	return r.machine.submitted(uid, key, digest)
}

// Check returns the newest state and every invariant that does not hold in it. Entries are not
// applied meanwhile.
func (r *Replica) Check() (*state.View, error) { return r.machine.check() }

// JobsOf returns a user's jobs in the state, ended ones included, in ascending order.
func (r *Replica) JobsOf(user string) []model.JobID { return r.machine.users.jobs(user) }

// ChangedJobsOf returns a user's jobs that have changed after an index, in ascending order. It
// returns false if it no longer remembers changes since that index.
func (r *Replica) ChangedJobsOf(user string, after uint64) ([]model.JobID, bool) {
	return r.machine.users.since(user, after)
}

// WhenJobsOf returns a condition for Until: one of a user's jobs has changed after an index. It
// takes a few nanoseconds for a user that has had jobs.
func (r *Replica) WhenJobsOf(user string, after uint64) func(*state.View) bool {
	return r.machine.users.changedAfter(user, after)
}
