package fsm

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// outcome is how an attempt ended.
type outcome struct {
	cause      model.Cause
	code       int // exit code
	signal     int
	checkpoint bool   // it asked to be requeued, unasked
	message    string // from the worker that failed to start, was lost, or ended by another task than its main one
	nodes      []string
	policy     string // the action of the log policy that decided it
	final      bool   // of a failure to launch: trying again cannot help
}

// outcomeOf says how an attempt, all of whose workers are final, ended.
func outcomeOf(j *model.Job, a *model.Attempt) outcome {
	o := outcomeOfWorkers(a)
	stop := model.Cause("")
	if a.Stop != nil {
		stop = a.Stop.Cause
	}
	clean := model.Succeeded(j, a)
	switch {
	case o.applyPolicy(j, a):
	case stop == model.CauseCancelled, stop == model.CauseRequeue, stop == model.CauseTimeout: // however politely it went
		o.cause = stop
	case clean:
		o = outcome{cause: model.CauseCompleted}
	case stop == model.CauseNodeLost, stop == model.CauseLease:
		o.cause = stop
	case slices.ContainsFunc(a.Workers, func(w model.Worker) bool { return w.Lease }):
		o.cause = model.CauseLease
	case stop != "" && stopStrength[stop] < stopStrength[model.CauseFailed]:
		o.cause = stop
	default:
		o.cause = culprit(j, a, &o)
	}
	return o
}

// culprits are the workers whose end was not the consequence of the attempt's stop.
func culprits(a *model.Attempt) []*model.Worker {
	var list []*model.Worker
	for i := range a.Workers {
		w := &a.Workers[i]
		if !w.Succeeded() && (a.Stop == nil || w.Ended <= a.Stop.At) {
			list = append(list, w)
		}
	}
	return list
}

// outcomeOfWorkers returns the exit code and the signal that stand for the attempt: the highest code of the culprits, or of all when the
// stop came first.
func outcomeOfWorkers(a *model.Attempt) outcome {
	list := culprits(a)
	if len(list) == 0 {
		for i := range a.Workers {
			list = append(list, &a.Workers[i])
		}
	}
	var o outcome
	for _, w := range list {
		o.code, o.signal = max(o.code, w.ExitCode), max(o.signal, w.Signal)
		if w.State == model.WorkerFailed {
			o.nodes = append(o.nodes, w.Node)
			o.message = cmp.Or(o.message, w.Message)
		}
		o.message = cmp.Or(o.message, w.Why)
	}
	return o
}

// culprit returns the cause of the end of an attempt that was not stopped: a launch failure, lack of
// memory, a request to be requeued or a failure. It completes the outcome.
func culprit(j *model.Job, a *model.Attempt, o *outcome) model.Cause {
	list := culprits(a)
	o.nodes = nil
	checkpoints := len(list) > 0 && j.Spec.Checkpoint != nil
	cause := model.CauseFailed
	for _, w := range list {
		o.nodes = append(o.nodes, w.Node)
		checkpoints = checkpoints && w.State == model.WorkerExited && w.Signal == 0 && !w.OOM && w.ExitCode == checkpointCode(j.Spec)
		switch {
		case w.Trouble() == model.CauseLaunch:
			cause = model.CauseLaunch
			o.final = o.final || w.LaunchFinal
		case w.OOM && cause != model.CauseLaunch:
			cause = model.CauseOOM
		}
	}
	if cause == model.CauseFailed && o.code == 0 && o.signal == 0 {
		o.signal = 9 // a container dies with its shim, by that signal
	}
	if o.checkpoint = checkpoints; checkpoints {
		return model.CauseRequeue
	}
	return cause
}

// checkpointCode returns the exit code with which a job says that it saved its progress.
func checkpointCode(spec *jobspec.Job) int {
	if spec.Checkpoint == nil {
		return model.DefaultCkptCode
	}
	return cmp.Or(spec.Checkpoint.ExitCode, model.DefaultCkptCode)
}

// end closes an attempt, and with it the job or the job's way back to the queue.
func (s *State) end(j *model.Job, a *model.Attempt) {
	o := outcomeOf(j, a)
	next := s.cancelResize(j, a, resizes(o.cause))
	a.Ended, a.Cause, a.ExitCode, a.Signal = s.now(), o.cause, o.code, o.signal
	s.freePorts(a)
	s.recordRelease()
	j.ExitCode, j.Signal = o.code, o.signal
	s.emitFor(model.EventEnded, j, o.cause)
	s.settle(j, a, o)
	if next != nil && resizes(o.cause) {
		s.relaunch(j.ID, next, o.cause)
	}
}

// settle decides what an attempt's end means for its job.
func (s *State) settle(j *model.Job, a *model.Attempt, o outcome) {
	p := &s.v.config.Policy
	switch o.cause {
	case model.CauseCompleted:
		s.recordService(j)
		s.finish(j, model.Completed, model.Reason{})
	case model.CauseCancelled:
		s.finish(j, model.Cancelled, model.Reason{Text: a.Stop.Reason})
	case model.CauseTimeout:
		why := model.Reason{Code: model.ReasonTimeLimit}
		if j.Deadline != 0 && s.v.at >= j.Deadline {
			why = model.Reason{Code: model.ReasonDeadline, Until: j.Deadline}
		}
		s.finish(j, model.TimedOut, why)
	case model.CauseFailed, model.CauseOOM:
		s.settleFailure(j, o)
	case model.CauseLaunch:
		s.settleLaunch(j, o)
	case model.CauseNodeLost, model.CauseLease:
		j.Counters.NodeLosses++
		if j.Counters.NodeLosses > p.MaxNodeLosses {
			s.finish(j, model.NodeFailed, model.Reason{Code: model.ReasonNodeDown, Text: o.message})
			return
		}
		s.returnToQueue(j, o.cause, 0)
	default:
		s.settleRequeue(j, o)
	}
}

// settleRequeue returns a job to the queue that was displaced, or that saved its progress and asked for
// another attempt. Only requeues at the job's own request are limited.
func (s *State) settleRequeue(j *model.Job, o outcome) {
	c := &j.Counters
	countDisplacement(c, o.cause)
	s.displaced(j, o.cause)
	if o.checkpoint {
		c.Requeues++
		if c.Requeues > s.v.config.Policy.MaxRequeues {
			j.Hold, j.Reason = model.HeldRequeue, model.Reason{Code: model.ReasonMaxRequeue}
		}
	}
	s.returnToQueue(j, o.cause, 0)
}

// countDisplacement counts the displacement of a job for a cause.
func countDisplacement(c *model.Counters, cause model.Cause) {
	switch cause {
	case model.CauseTE:
		c.TE++
	case model.CauseReclaim:
		c.Reclaim++
	case model.CauseOrder:
		c.Order++
	case model.CauseShrink, model.CauseGrow:
		c.Resizes++
	case model.CauseMigrate, model.CauseDrain:
		c.Migrations++
	}
}

// Back-off after a launch failure: 5 s, doubled each time up to 10 minutes.
const (
	launchDelay    = 5
	maxLaunchDelay = 600
)

// settleLaunch tries elsewhere after a failure to launch. It costs the user no retry.
func (s *State) settleLaunch(j *model.Job, o outcome) {
	j.Counters.LaunchFailures++
	n := j.Counters.LaunchFailures
	if n >= s.v.config.Policy.MaxLaunchFails || o.final {
		s.finish(j, model.BootFailed, model.Reason{Code: model.ReasonLaunchFailure, Text: o.message})
		return
	}
	s.avoid(j, o.nodes)
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.message}
	s.returnToQueue(j, o.cause, launchBackOff(n))
}

// launchBackOff returns the delay after so many launch failures.
func launchBackOff(failures int) jobspec.Seconds {
	return backOff(launchDelay, maxLaunchDelay, failures)
}

// settleFailure retries what failed by its own fault as far as the job's restart block allows.
func (s *State) settleFailure(j *model.Job, o outcome) {
	j.Counters.UserFailures++
	r := retryAfterFailure(j, o, s.v.at)
	if r == nil {
		state, code := model.Failed, model.ReasonNonZeroExit
		if o.cause == model.CauseOOM {
			state, code = model.OutOfMemory, model.ReasonOOM
		}
		s.finish(j, state, model.Reason{Code: code, Text: o.message})
		return
	}
	if r.ExcludeNode == nil || *r.ExcludeNode {
		s.avoid(j, o.nodes)
	}
	j.Reason = model.Reason{Code: model.ReasonBackoff, Text: o.message}
	s.returnToQueue(j, o.cause, failureBackOff(r, len(j.Failures)))
}

// retryAfterFailure adds a failure at an instant to those of a job that its restart block counts. It
// returns the restart block if that allows another attempt, nil otherwise.
func retryAfterFailure(j *model.Job, o outcome, at model.Instant) *jobspec.Restart {
	r := restartOf(j, o)
	if r == nil || !retries(r, o) {
		return nil
	}
	window := at - model.Instant(cmp.Or(r.Window, 24*3600))*1000
	j.Failures = append(slices.DeleteFunc(slices.Clone(j.Failures), func(t model.Instant) bool { return t <= window }), at)
	if len(j.Failures) > r.Attempts {
		return nil
	}
	return r
}

// failureBackOff returns the delay that a restart block asks for after so many failures.
func failureBackOff(r *jobspec.Restart, failures int) jobspec.Seconds {
	delay, most := cmp.Or(r.Delay, 30), cmp.Or(r.MaxDelay, 600)
	if r.Backoff == "constant" {
		return delay
	}
	return backOff(delay, most, failures)
}

// retries reports whether a restart block covers an exit. A signal counts as 128 more than its number, lack of memory also as 253.
func retries(r *jobspec.Restart, o outcome) bool {
	codes := []int{o.code}
	if o.signal != 0 {
		codes = append(codes, 128+o.signal)
	}
	if o.cause == model.CauseOOM {
		codes = append(codes, 253)
	}
	among := func(list []int) bool {
		return slices.ContainsFunc(codes, func(c int) bool { return slices.Contains(list, c) })
	}
	return !among(r.NoRetryOnExit) && (len(r.RetryOnExit) == 0 || among(r.RetryOnExit))
}

// backOff returns base doubled for each failure after the first, at most the greatest delay.
func backOff(base, most jobspec.Seconds, failures int) jobspec.Seconds {
	for ; failures > 1 && base < most; failures-- {
		base *= 2
	}
	return min(base, most)
}

// avoid adds nodes to those that a job avoids. Where too few would remain for its gang, it forgives all: waiting for ever would be worse.
func (s *State) avoid(j *model.Job, nodes []string) {
	exclude := slices.Clone(j.Exclude)
	for _, n := range nodes {
		if !slices.Contains(exclude, n) {
			exclude = append(exclude, n)
		}
	}
	exclude = exclude[max(0, len(exclude)-model.MaxExclude):]
	if !s.v.couldHoldAll(model.ShapeOf(j), exclude) {
		exclude = nil
	}
	j.Exclude = exclude
}

// returnToQueue makes a job pending again, at its old place, to start after a delay at the earliest.
func (s *State) returnToQueue(j *model.Job, cause model.Cause, delay jobspec.Seconds) {
	j.SettleSize()
	j.State, j.Eligible = model.Pending, s.v.at.After(delay)
	if j.Reason.Code == model.ReasonBackoff {
		j.Reason.Until = j.Eligible
	}
	s.put(j)
	s.emitFor(model.EventRequeued, j, cause)
	if j.Hold != model.NotHeld {
		s.emitJob(model.EventHeld, j, cause)
	}
}

// finish ends a job for good and numbers it for the history.
func (s *State) finish(j *model.Job, state model.JobState, why model.Reason) {
	s.unreserve(j.ID)
	s.v.lastSeq++
	j.State, j.Reason, j.Hold, j.Ended, j.Seq = state, why, model.NotHeld, s.now(), s.v.lastSeq
	s.recordRuntime(j)
	s.put(j)
	var cause model.Cause
	if n := len(j.Attempts); n > 0 {
		cause = j.Attempts[n-1].Cause
	}
	if state == model.Cancelled {
		cause = model.CauseCancelled
	}
	s.emitJob(model.EventFinished, j, cause)
	if j.Parent != 0 {
		s.countEndedTask(j)
	}
}
