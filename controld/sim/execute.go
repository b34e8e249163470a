package sim

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// carryOut executes an action of a plan on the nodes.
func (e *engine) carryOut(a fsm.Action) {
	switch a := a.(type) {
	case *fsm.StartJob:
		e.startAttempt(e.runOf(a.Job+model.JobID(a.TaskNumber)), a.Places)
	case *fsm.StopJob:
		e.notify(e.runOf(a.Job), a.Cause)
	case *fsm.ResizeJob:
		e.startResize(a.Job, len(a.Join))
	case *fsm.MoveJob:
		e.startResize(a.Job, len(a.Join))
	case *fsm.SuspendJob:
		e.suspend(e.runOf(a.Job), a.Cause)
	case *fsm.ResumeJob:
		if len(a.GPUs) == 0 {
			e.withdraw(e.runOf(a.Job))
			break
		}
		e.resume(e.runOf(a.Job), StepResume)
	case *fsm.PackJob:
		e.resume(e.runOf(a.Job), StepPack)
	}
}

// startAttempt starts an attempt at places.
func (e *engine) startAttempt(i int32, places []model.Place) {
	r := &e.runs[i]
	r.live, r.attempt, r.stopped, r.cause = true, r.attempt+1, 0, ""
	r.assigned, r.from, r.holds = e.now, e.now, e.now
	r.workers, r.places = r.workers[:0], places
	for w := range places {
		node := e.position[places[w].Node]
		r.workers = append(r.workers, place{node, int32(w)})
		e.addReport(node, model.WorkerReport{Job: e.runs[i].id, Attempt: int(r.attempt), Worker: w,
			State: model.WorkerRunning})
	}
	e.decide(StepStart, i, "")
	r.held = r.job.Demand(len(places) - r.job.Servers)
	r.rate = r.job.Rate(e.layout(r))
	if r.attempt > 1 {
		r.from += model.Instant(e.overhead(r))
	}
	r.waited += int64(e.now - r.queued)
	if r.first == 0 {
		r.first = e.now
	}
	e.pending--
	e.running++
	r.switches, r.did = 0, 0
	e.totals.addStart(e, r)
	r.began = e.now
	e.enterGPU(i, places[0].GPUs)
}

// scheduleEnd puts the end of an attempt on the agenda. It adds the end of the time limit if that
// limit is an estimate and too short.
func (e *engine) scheduleEnd(i int32) {
	r := &e.runs[i]
	finish := r.finish()
	e.agenda.push(event{at: finish, kind: jobEnds, job: i, attempt: r.attempt, stretch: r.stretch})
	e.scheduleLearning(i, e.marks(r), finish)
	if at := r.from + model.RateAfterMS; at < finish && (e.resizable(r.job) || e.movable(r.job)) {
		e.agenda.push(event{at: at, kind: rateKnown, job: i, attempt: r.attempt, stretch: r.stretch})
	}
	if over := r.assigned + model.Instant(r.limit); r.limit > 0 && over < finish {
		e.agenda.push(event{at: over, kind: guessEnds, job: i, attempt: r.attempt, stretch: r.stretch})
	}
}

// overhead returns how long a restart holds its capacity without progress, in ms.
func (e *engine) overhead(r *run) int64 {
	if r.job.Restart != trace.Unknown {
		return r.job.Restart
	}
	return e.setup.Overhead
}

// layout returns where the workers of the live attempt are. Servers are left out, because they move
// no data of their own.
func (e *engine) layout(r *run) trace.Layout {
	workers := r.workers[:len(r.workers)-r.job.Servers]
	if len(workers) == 1 {
		return trace.Layout{PerNode: one}
	}
	nodes := make([]int32, 0, len(workers))
	for _, w := range workers {
		nodes = append(nodes, w.node)
	}
	slices.Sort(nodes)
	l := trace.Layout{}
	for k, n := range nodes {
		if k > 0 && nodes[k-1] == n {
			l.PerNode[len(l.PerNode)-1]++
			continue
		}
		l.PerNode = append(l.PerNode, 1)
		if k > 0 {
			l.Spread = max(l.Spread, trace.OneRack)
		}
		if e.rack[n] != e.rack[nodes[0]] {
			l.Spread = trace.Across
		}
	}
	return l
}

var one = []int{1}

// notify gives a job notice of its stop. A second notice for another cause changes neither its
// clock nor its work.
func (e *engine) notify(i int32, cause model.Cause) {
	r := &e.runs[i]
	r.cause = cause
	step := StepPreempt
	if cause == model.CauseGrow || cause == model.CauseShrink {
		step = StepResize
	}
	e.decide(step, i, cause)
	if r.stopped != 0 {
		e.cancelResize(r)
		return
	}
	r.stopped = e.now
	grace := max(0, r.job.Grace)
	if r.job.Grace == trace.Unknown {
		grace = r.declare
	}
	if cause == model.CauseTimeout || cause == model.CauseCancelled {
		grace = 0
	}
	e.agenda.push(event{at: e.now + model.Instant(min(grace, r.declare)), kind: graceEnds, job: i, attempt: r.attempt})
}

// endJob ends a job whose work is done.
func (e *engine) endJob(i int32) {
	e.endStretch(&e.runs[i], e.now)
	e.exitWorkers(i, 0, 0)
	e.recordEnd(&e.runs[i])
}

// recordEnd counts a job that has ended for good.
func (e *engine) recordEnd(r *run) {
	r.ended, r.left = e.now, 0
	r.workers = nil
	e.endTask(r)
	e.ended++
	e.untrim++
	e.totals.addEnd(r)
}

// releaseRoom frees the capacity of a stopped job, whose grace period is over.
func (e *engine) releaseRoom(i int32) {
	r := &e.runs[i]
	code, signal := 85, 0
	if r.job.Saves == trace.SavesNone || r.cause == model.CauseCancelled ||
		r.cause == model.CauseTimeout { // in a trace the time limit ends a job
		code, signal = 0, 9
	}
	e.endStretch(r, r.stopped)
	lost := r.stopWork(r.stopped)
	e.totals.addLost(r, lost+int64(e.now-r.stopped))
	e.exitWorkers(i, code, signal)
	if r.cause == model.CauseTimeout {
		r.timedOut = true
		e.recordEnd(r)
		return
	}
	if r.cause == model.CauseCancelled {
		r.cancelled = true
		e.recordEnd(r)
		return
	}
	r.queued = e.now
	e.pending++
	e.totals.addRequeued(e, r)
}

// exitWorkers ends all workers of an attempt.
func (e *engine) exitWorkers(i int32, code, signal int) {
	r := &e.runs[i]
	cause := model.CauseCompleted
	if r.stopped != 0 {
		cause = r.cause
	}
	e.decide(StepEnd, i, cause)
	e.cancelResize(r)
	for _, w := range r.workers {
		e.addReport(w.node, model.WorkerReport{
			Job: e.runs[i].id, Attempt: int(r.attempt), Worker: int(w.worker), State: model.WorkerExited,
			ExitCode: code, Signal: signal,
		})
	}
	if r.suspended() {
		e.suspended--
	}
	r.live = false
	e.leaveGPU(i)
	e.running--
	e.totals.addExit(e, r)
}

// addReport adds a line to the report of a node.
func (e *engine) addReport(node int32, w model.WorkerReport) {
	if len(e.reports[node]) == 0 {
		e.dirty = append(e.dirty, node)
	}
	e.reports[node] = append(e.reports[node], w)
}

// sendReports sends one report for each node that has lines to report.
func (e *engine) sendReports() error {
	slices.Sort(e.dirty)
	for _, n := range e.dirty {
		if _, err := e.apply(fsm.NodeReport{Node: e.nodes[n].Name, BootID: e.nodes[n].BootID,
			Workers: e.reports[n]}); err != nil {
			return fmt.Errorf("report of node %s: %w", e.nodes[n].Name, err)
		}
		e.reports[n] = e.reports[n][:0]
		e.changed = true
	}
	e.dirty = e.dirty[:0]
	return nil
}

// raiseLimit doubles a time limit that was an estimate and has run out. It does not exceed a limit
// in the trace, which is real.
func (e *engine) raiseLimit(i int32) error {
	r := &e.runs[i]
	if r.stopped != 0 {
		return nil
	}
	ms := min(r.limit, trace.MaxTime/1000*1000)
	if r.job.Limit > 0 {
		ms = min(ms, wholeSeconds(r.job.Limit)-r.limit)
	}
	if ms <= 0 {
		return nil
	}
	r.limit += ms
	more := jobspec.Seconds(ms / 1000)
	results, err := e.apply(fsm.UpdateJobs{IDs: []model.JobID{e.runs[i].id}, Admin: true, AddTime: &more})
	if err != nil {
		return fmt.Errorf("raise a time limit: %w", err)
	}
	if err := results.([]model.ControlResult)[0].Err; err != nil {
		return fmt.Errorf("raise a time limit: %w", err)
	}
	e.changed = true
	if over := r.assigned + model.Instant(r.limit); over < r.finish() {
		e.agenda.push(event{at: over, kind: guessEnds, job: i, attempt: r.attempt, stretch: r.stretch})
	}
	return nil
}
