// Package leader is the work of the leading controller alone. It runs scheduling cycles, declares
// silent nodes down, trims the history, adds controllers, raises the cluster version and stops
// array tasks early.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/model/witness"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// Config is the surroundings of a leader.
type Config struct {
	Name     string // of this controller
	Cluster  string // its id
	Knows    int    // the greatest cluster version that it can apply
	Replica  *replica.Replica
	Peers    *peers.Peers
	History  *history.Store // of this machine
	Contacts *telemetry.Contacts
	Touch    *telemetry.Touch
	Samples  *telemetry.Samples
	Arrays   *earlystop.Arrays

	Wanted      *cluster.Config // the replicated configuration to propose; nil keeps the present one
	KeepRecords int             // finished jobs that stay in the state even when the history has them
	KeepFor     time.Duration   // and for how long at most

	// Lacking returns the controllers and the other members that the next phase of a replacement of the
	// authority waits for.
	Lacking func(context.Context, *state.View) (controllers, machines []string)

	Metrics *prometheus.Registry
	Log     *slog.Logger
	Fast    bool // members ask often for the keys of the gossip, as in tests and on one machine
}

// Leader runs the loops of the leader whenever it is this controller's turn.
type Leader struct {
	Config
	metrics  metrics
	observed observed
	wanted   atomic.Pointer[cluster.Config]
}

// New returns a leader that does not run yet, and registers its metrics.
func New(cfg Config) *Leader {
	l := &Leader{Config: cfg, metrics: newMetrics(cfg.Metrics), observed: newObserved(cfg.Metrics)}
	l.witnessMetrics()
	l.wanted.Store(cfg.Wanted)
	return l
}

// Want replaces the configuration that is proposed. It may be called at any time.
func (l *Leader) Want(cfg *cluster.Config) {
	l.wanted.Store(cfg)
	l.Replica.Wake()
}

// Run leads in each leadership term of this controller, until ctx ends or the log fails. In the
// latter case it waits a moment, so that the cause is reported first.
func (l *Leader) Run(ctx context.Context) error {
	err := l.Replica.Lead(ctx, l.term)
	if errors.Is(err, consensus.ErrStopped) {
		pause(ctx, 2*time.Second)
	}
	return err
}

// term leads until ctx ends with the leadership term.
func (l *Leader) term(ctx context.Context) error {
	if ctx.Err() != nil { // it ended, or the daemon stopped, before anything began
		return nil
	}
	v := l.Replica.View()
	l.Replica.StartClock()
	l.Contacts.Restart(time.Now())
	l.Touch.Restart()
	l.Samples.Clear()
	l.Arrays.Clear()
	if err := l.found(ctx); err != nil {
		return err
	}
	if err := l.raiseOnce(ctx); err != nil {
		l.Log.Debug("cannot raise the cluster version yet", "error", err)
	}
	l.Replica.StartLeading()
	l.Log.Info("leading", "term", l.Replica.Term(), "index", v.Index())
	defer func() {
		l.Replica.StopLeading()
		l.Log.Info("no longer the leader", "cause", context.Cause(ctx))
	}()
	for ctx.Err() == nil {
		if err := l.runLoops(ctx); err != nil && !lostLead(err) && ctx.Err() == nil {
			return err
		}
		pause(ctx, 20*time.Millisecond) // a write of unknown outcome does not always mean that leadership is lost
	}
	return nil
}

// found gives a new log the id of its cluster, before anything else is in it.
func (l *Leader) found(ctx context.Context) error {
	for l.Replica.View().Trust().Cluster == "" && ctx.Err() == nil {
		_, err := l.Replica.Propose(ctx, fsm.FoundCluster{Cluster: l.Cluster})
		if lostLead(err) {
			return nil
		}
		if err != nil && !errors.Is(err, trust.ErrFounded) {
			return fmt.Errorf("enter the cluster's id into the log: %w", err)
		}
	}
	return nil
}

// runLoops runs the leader's loops until one of them fails or ctx ends.
func (l *Leader) runLoops(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, loop := range []func(context.Context) error{
		l.schedule, l.watchNodes, l.trimHistory, l.configure, l.addControllers, l.raiseVersion, l.stopTasksEarly,
		l.observe, l.watchGeneration, l.changeGossipKey, l.replaceAuthority, l.keepWitnesses,
	} {
		g.Go(func() error { return loop(ctx) })
	}
	return g.Wait()
}

// lostLead reports whether err only says that this controller leads no more.
func lostLead(err error) bool {
	var not *consensus.NotLeaderError
	var unsure *consensus.UncertainError
	return errors.Is(err, context.Canceled) || errors.Is(err, consensus.ErrLeadershipLost) ||
		errors.Is(err, consensus.ErrStopped) || errors.As(err, &not) || errors.As(err, &unsure)
}

// pause waits until the time has passed or ctx ends, and reports whether ctx is alive.
func pause(ctx context.Context, wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// metrics are the metrics of the scheduling cycle.
type metrics struct {
	cycles  prometheus.Histogram
	actions *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) metrics {
	m := metrics{
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rota_cycle_seconds",
			Help: "Time of a scheduling cycle.", Buckets: replica.Buckets()}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_actions_total",
			Help: "Scheduling decisions that were committed, or refused because the state had changed meanwhile."},
			[]string{"result"}),
	}
	r.MustRegister(m.cycles, m.actions)
	return m
}

// witnessMetrics registers how many witnesses there are, and with how many of them this leader is in touch.
func (l *Leader) witnessMetrics() {
	of := func(count func(*witness.Chosen) int) func() float64 {
		return func() float64 {
			sets := l.Replica.View().Chosen()
			if sets.Newest() == nil {
				return 0
			}
			return float64(count(sets))
		}
	}
	members := func(c *witness.Chosen) int { return len(c.Newest().Members) }
	l.Metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_witnesses",
			Help: "Nodes that are witnesses of an outage of the controllers."}, of(members)),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_witnesses_in_touch",
			Help: "Witnesses in touch with this controller as the leader; while they are a majority, jobs of lost nodes start " +
				"again."}, of(func(c *witness.Chosen) int {
			if !l.Replica.Leading() {
				return 0
			}
			return members(c) - len(l.Touch.Missing(clock.Boot().Milliseconds(), 0, c))
		})))
}
