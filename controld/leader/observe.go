package leader

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// observed are the metrics of the fates of jobs. Only the leader counts, so that a sum over all
// controllers counts each event once. A log that is read again after a restart counts nothing.
type observed struct {
	displaced *prometheus.CounterVec
	lost      *prometheus.CounterVec
	waits     *prometheus.HistogramVec
}

func newObserved(r *prometheus.Registry) observed {
	o := observed{
		displaced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_preemptions_total",
			Help: "Attempts that had to leave their nodes, by cause."}, []string{"cause"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_lost_gpu_seconds_total",
			Help: "GPU seconds lost because attempts had to leave their nodes, by cause: work since the last checkpoint, " +
				"grace and restart."}, []string{"cause"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rota_wait_seconds",
			Help:    "Time for which a job waited for its first or a later start, by class.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 22)}, []string{"class", "start"}),
	}
	r.MustRegister(o.displaced, o.lost, o.waits)
	for _, cause := range costly {
		o.displaced.WithLabelValues(string(cause))
		o.lost.WithLabelValues(string(cause))
	}
	for _, class := range []string{"te", "be"} {
		o.waits.WithLabelValues(class, "first")
		o.waits.WithLabelValues(class, "again")
	}
	return o
}

// costly are the causes for which attempts lose work, so that their counters begin at 0.
var costly = []model.Cause{model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow,
	model.CauseMigrate, model.CauseDrain, model.CauseRequeue, model.CauseNodeLost, model.CauseLease}

// observe counts events from now on.
func (l *Leader) observe(ctx context.Context) error {
	counted := l.Replica.View().Index()
	for {
		changed := l.Replica.Changed()
		v := l.Replica.View()
		l.observed.count(v, counted)
		counted = v.Index()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// count counts the events after an index.
func (o *observed) count(v *state.View, after uint64) {
	events := v.Events(after)
	for i := range events {
		e := &events[i]
		switch e.Type {
		case model.EventEnded:
			o.countEnd(e)
		case model.EventAssigned:
			o.countWait(v, e)
		case model.EventStarted:
			o.countRestart(v, e)
		}
	}
}

func (o *observed) countEnd(e *model.Event) {
	if !e.Cause.LosesWork() {
		return
	}
	o.displaced.WithLabelValues(string(e.Cause)).Inc()
	if e.Leave != nil {
		o.lost.WithLabelValues(string(e.Cause)).Add(float64(e.Leave.Lost) / 1000)
	}
}

// countWait notes for how long a job waited. A resize goes on in room of its own.
func (o *observed) countWait(v *state.View, e *model.Event) {
	j, i := attemptOf(v, e)
	if i < 0 || e.Cause != "" {
		return
	}
	start, since := "first", j.Eligible
	if e.Attempt > 1 {
		start = "again"
	}
	if i > 0 {
		since = max(j.Attempts[i-1].Ended.At, min(since, j.Attempts[i].Assigned.At))
	}
	waited := max(0, j.Attempts[i].Assigned.At-since)
	o.waits.WithLabelValues(string(j.Class), start).Observe(float64(waited) / 1000)
}

// countRestart adds the start-up time of an attempt to the cost of the end before it.
func (o *observed) countRestart(v *state.View, e *model.Event) {
	j, i := attemptOf(v, e)
	if i < 1 || !j.Attempts[i-1].Cause.LosesWork() {
		return
	}
	lost := j.LostBy(i-1, v.At())
	o.lost.WithLabelValues(string(j.Attempts[i-1].Cause)).Add(float64(lost.Restart) / 1000)
}

// attemptOf returns the job of an event and the index of its attempt, -1 if the state has them no
// more.
func attemptOf(v *state.View, e *model.Event) (*model.Job, int) {
	j := v.Job(e.Job)
	if j == nil {
		return nil, -1
	}
	return j, slices.IndexFunc(j.Attempts, func(a model.Attempt) bool { return a.N == e.Attempt })
}
