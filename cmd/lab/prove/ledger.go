package main

import (
	"math"
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

// ledgerMost is how far off the ledger may be, of all GPU time.
const ledgerMost = 0.01

// gpuTime adds up what training jobs were charged, and what shows of it elsewhere.
type gpuTime struct {
	charged  time.Duration
	beaten   time.Duration // by heartbeats
	starting time.Duration // from an assignment to the first beat: the GPUs are held already
	worst    time.Duration // by how much the job is off that is off most
	job      model.JobID
}

// total is what should have been charged.
func (g *gpuTime) total() time.Duration { return g.beaten + g.starting }

// percent is how much more was charged than some other sum says.
func (g *gpuTime) percent(of time.Duration) float64 {
	return 100 * (g.charged - of).Seconds() / max(of, time.Millisecond).Seconds()
}

// ledger compares the GPU time of the history with the heartbeats. The GPUs are held from the
// assignment of an attempt, before there can be a beat, which is known from the events.
func (p *proof) ledger(f *found) {
	var g gpuTime
	for _, t := range f.trained {
		if j := f.history[t.id]; j != nil && j.Attempt > 0 {
			g.add(f, t, time.Duration(j.GPUSeconds)*time.Second+time.Second/2) // it is cut to whole seconds
		}
	}
	var wrong complaints
	if off := g.percent(g.total()); math.Abs(off) > 100*ledgerMost {
		wrong.add("the difference is more than %.0f %%", 100*ledgerMost)
	}
	p.tell("ledger", wrong, "%.1f GPU s charged; %.1f s by heartbeats and %.1f s from assignments to first beats: "+
		"%+.2f %% (%+.2f %% of the heartbeats alone); job %d is off most, by %+.1f s", g.charged.Seconds(),
		g.beaten.Seconds(), g.starting.Seconds(), g.percent(g.total()), g.percent(g.beaten), g.job, g.worst.Seconds())
}

// add adds a job and what it was charged.
func (g *gpuTime) add(f *found, t trained, charged time.Duration) {
	off := charged
	for _, a := range f.attempts(t.id) {
		beaten, starting := f.held(a, t.workers)
		g.beaten += time.Duration(t.gpus) * beaten
		g.starting += time.Duration(t.gpus) * starting
		off -= time.Duration(t.gpus) * (beaten + starting)
	}
	g.charged += charged
	if off.Abs() >= g.worst.Abs() {
		g.worst, g.job = off, t.id
	}
}

// held is for how long the workers of an attempt beat, and for how long they held their places before
// that.
func (f *found) held(a attemptID, workers int) (beaten, starting time.Duration) {
	begin := f.assigned[a].At.Time
	l := f.life(a)
	if l == nil {
		if e, ok := f.ended[a]; ok {
			starting = time.Duration(workers) * e.At.Sub(begin)
		}
		return 0, starting
	}
	for _, w := range l.Workers {
		beaten += w.Last.Sub(w.First)
		starting += w.First.Sub(begin)
	}
	return beaten, starting
}
