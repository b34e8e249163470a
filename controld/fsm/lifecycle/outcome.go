package lifecycle

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Outcome is how an attempt ended.
type Outcome struct {
	Cause      model.Cause
	Rule       model.EndRule // by which it ended so
	Code       int           // exit code
	Signal     int           // 0: none
	Checkpoint bool          // it asked itself to be requeued, without a request from outside
	Message    string        // from a worker that failed to start, was lost, or ended by a task that is not its main one
	Nodes      []string      // of the workers that caused it
	policy     string        // the action of the log policy that decided it
	Final      bool          // of a failure to launch: trying again cannot help
	PortTaken  bool          // of a failure to launch: only a port was taken, so that the node will do with another
	Over       bool          // of a failure: its job was cancelled or is past its deadline, so that it is not tried again
}

// OutcomeOf says how an attempt, all of whose workers are final, ended. The order of its cases is that
// of the rules on whose exit it is: the program's own exit comes before the stop's cause.
func OutcomeOf(j *model.Job, a *model.Attempt) Outcome {
	o := outcomeOfWorkers(j, a)
	stop := stopCause(a)
	succeeded := Succeeded(j, a)
	switch {
	case o.applyPolicy(j, a):
		o.Rule = model.RuleLogPolicy
	case a.Stop != nil && a.Stop.Own: // whatever it then exits with
		o.Rule = model.RuleAsked
		if o.Cause = stop; !Yields(stop) { // also if a node was lost while it stopped
			o.Cause, o.Checkpoint = model.CauseRequeue, true
		}
	case SucceededUnasked(j, a):
		o = Outcome{Cause: model.CauseCompleted, Rule: ownRule(a)}
	case failedUnasked(j, a):
		o.Rule = ownRule(a)
		o.applyOwnFailure(j, a)
	case stop == model.CauseCancelled: // however politely it went
		o.Cause, o.Rule = stop, ruleUnlessExecuted(a, model.RuleCancelled)
	case stop == model.CauseRequeue:
		o.Cause, o.Rule = stop, ruleUnlessExecuted(a, model.RuleRequeued)
	case stop == model.CauseTimeout:
		o.applyTimeLimit(j, a)
	case succeeded && interrupts(stop):
		o.applyZero(j, a)
	case succeeded:
		o = Outcome{Cause: model.CauseCompleted, Rule: model.RuleExit}
	case stop == model.CauseNodeLost, stop == model.CauseLease:
		o.Cause, o.Rule = stop, model.RuleLost
	case slices.ContainsFunc(a.Workers, func(w model.Worker) bool { return w.Lease }):
		o.Cause, o.Rule = model.CauseLease, model.RuleLost
	case stop != "" && strength[stop] < strength[model.CauseFailed]:
		o.Cause, o.Rule = stop, ruleUnlessExecuted(a, model.RuleDisplaced)
	default:
		o.Rule = model.RuleExit
		if o.Cause = culprit(j, a, &o); o.Cause == model.CauseRequeue {
			o.Rule = model.RuleRequeueCode
		}
	}
	return o
}

// ownRule is the rule for an attempt that ended by itself.
func ownRule(a *model.Attempt) model.EndRule {
	if a.Stop == nil || strength[a.Stop.Cause] == strength[model.CauseFailed] {
		return model.RuleExit
	}
	return model.RuleOwnExit
}

// ruleUnlessExecuted is a rule for a stop, but for an attempt that was stopped before any program of it was
// executed.
func ruleUnlessExecuted(a *model.Attempt, rule model.EndRule) model.EndRule {
	if slices.ContainsFunc(a.Workers, func(w model.Worker) bool { return !w.Unbegun }) {
		return rule
	}
	return model.RuleNotExecuted
}

// applyTimeLimit judges an attempt that was stopped at its time limit or deadline.
func (o *Outcome) applyTimeLimit(j *model.Job, a *model.Attempt) {
	o.Cause, o.Rule = model.CauseTimeout, ruleUnlessExecuted(a, model.RuleTimeLimit)
	if !PastDeadline(j, a) && asksForRequeue(j, a) {
		o.Cause, o.Rule, o.Checkpoint = model.CauseRequeue, model.RuleRequeueCode, true
	}
}

// applyZero judges an attempt that was interrupted, and exited with 0 after the signal.
func (o *Outcome) applyZero(j *model.Job, a *model.Attempt) {
	done := Outcome{Cause: model.CauseCompleted}
	switch {
	case Said(j, a, func(w *model.Worker) bool { return w.Finished }):
		done.Rule = model.RuleFinished
	case Said(j, a, func(w *model.Worker) bool { return w.Total }):
		done.Rule = model.RuleTotal
	case !j.Spec.SavesBeforeZero():
		done.Rule = model.RuleExitZero
	default:
		o.Cause, o.Rule = a.Stop.Cause, model.RuleSaved
		return
	}
	*o = done
}

// stopCause returns the cause of an attempt's stop, "" if it was not stopped.
func stopCause(a *model.Attempt) model.Cause {
	if a.Stop == nil {
		return ""
	}
	return a.Stop.Cause
}

// applyOwnFailure judges an attempt that a worker has failed by itself. Its job is not started again if
// it was cancelled, or is past its deadline.
func (o *Outcome) applyOwnFailure(j *model.Job, a *model.Attempt) {
	o.Cause = culprit(j, a, o)
	if o.Cause == model.CauseRequeue {
		o.Rule = model.RuleRequeueCode
	}
	stop := stopCause(a)
	if o.Over = stop == model.CauseCancelled || stop == model.CauseTimeout && PastDeadline(j, a); !o.Over {
		return
	}
	if o.Cause == model.CauseRequeue {
		o.Cause, o.Rule, o.Checkpoint, o.Over = stop, model.RuleCancelled, false, false
		if stop == model.CauseTimeout {
			o.Rule = model.RuleTimeLimit
		}
	}
}

// interrupts reports whether a stop for a cause ends what the program was about to go on with.
func interrupts(c model.Cause) bool {
	return Yields(c) || c == model.CauseNodeLost || c == model.CauseLease
}

// failedUnasked reports whether an attempt failed before its workers were asked to stop: a failure
// counts, or all workers ended by themselves.
func failedUnasked(j *model.Job, a *model.Attempt) bool {
	all := true
	for i := range a.Workers[:a.Staying()] {
		if ownFailure(j, a, i) {
			return true
		}
		w := &a.Workers[i]
		all = all && w.Own && w.State == model.WorkerExited && !w.Unbegun
	}
	return all && a.Stop != nil
}

// ownFailure reports whether a worker failed before it was asked to stop, and that decides how its
// attempt ended. The failure of a gang's worker may follow from the end of another worker, whose
// node was lost or heard of the stop earlier. Then it decides nothing.
func ownFailure(j *model.Job, a *model.Attempt, worker int) bool {
	w := &a.Workers[worker]
	if !w.Own || w.State != model.WorkerExited || w.Unbegun || w.Succeeded() || a.Stop == nil ||
		IgnoresFailure(j, a, worker) {
		return false
	}
	return !slices.ContainsFunc(a.Workers, func(o model.Worker) bool {
		lost := o.Lease || o.State == model.WorkerFailed && o.Started != 0
		return !holds(j, &o) && (lost || !o.Own && !o.Unbegun && o.Ended <= w.Ended)
	})
}

// holds reports whether a worker runs no program of its own, but only steps that the first worker's
// program starts. Then its end says nothing about the program.
func holds(j *model.Job, w *model.Worker) bool {
	return w.Index > 0 && j.Spec.Groups[j.GroupOf(w.Index)].RunsSteps()
}

// PastDeadline reports whether an attempt is stopped because its job's deadline has come, which ends
// the job, and not only because of its time limit.
func PastDeadline(j *model.Job, a *model.Attempt) bool {
	return j.Deadline != 0 && a.Stop.At >= j.Deadline
}

// asksForRequeue reports whether an attempt that was stopped at its time limit asks for another
// attempt. That is so if every worker that did not succeed exited with the requeue code. An earlier
// kill for memory decides nothing: the program went on and answered the stop.
func asksForRequeue(j *model.Job, a *model.Attempt) bool {
	asks := false
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.Succeeded() || w.Leaving {
			continue
		}
		if asks = saysRequeue(j.Spec, a, w); !asks {
			return false
		}
	}
	return asks
}

// saysRequeue reports whether a worker exited with the code that asks for another attempt. That is
// the job's own code, or the usual one after a stop other than for the time limit. The stop of a
// gang whose worker has failed was not asked for.
func saysRequeue(spec *jobspec.Job, a *model.Attempt, w *model.Worker) bool {
	code := spec.RequeueCode()
	asked := a.Stop != nil && a.Stop.Cause != model.CauseTimeout && strength[a.Stop.Cause] != strength[model.CauseFailed]
	if code == 0 && asked && !spec.RunsOnce() {
		code = jobspec.DefaultCheckpointExitCode
	}
	return code != 0 && w.State == model.WorkerExited && w.Signal == 0 && w.ExitCode == code
}

// culprits are the workers whose end was no consequence of the attempt's stop. They ended before
// it, or else failed by themselves before it reached them.
func culprits(j *model.Job, a *model.Attempt) []*model.Worker {
	var before, unasked []*model.Worker
	for i := range a.Workers {
		w := &a.Workers[i]
		switch {
		case w.Succeeded() || w.Leaving || w.State == model.WorkerExited && holds(j, w):
		case a.Stop == nil || w.Ended <= a.Stop.At:
			before = append(before, w)
		case w.Own:
			unasked = append(unasked, w)
		}
	}
	if len(before) > 0 {
		return before
	}
	return unasked
}

// outcomeOfWorkers returns the exit code and the signal of the attempt. The code is the highest of
// the culprits, or of all workers if the stop came first.
func outcomeOfWorkers(j *model.Job, a *model.Attempt) Outcome {
	list := culprits(j, a)
	if len(list) == 0 {
		for i := range a.Workers {
			list = append(list, &a.Workers[i])
		}
	}
	var o Outcome
	for _, w := range list {
		o.Code, o.Signal = max(o.Code, w.ExitCode), max(o.Signal, w.Signal)
		if w.State == model.WorkerFailed {
			o.Nodes = append(o.Nodes, w.Node)
			o.Message = cmp.Or(o.Message, w.Message)
		}
		o.Message = cmp.Or(o.Message, w.Why)
	}
	return o
}

// culprit returns the cause of the end of an attempt that was not stopped. It is a launch failure,
// a lost shim, lack of memory, a request to be requeued, or a failure. It completes the outcome.
func culprit(j *model.Job, a *model.Attempt, o *Outcome) model.Cause {
	list := culprits(j, a)
	o.Nodes = nil
	asks := len(list) > 0
	cause, killed := model.CauseFailed, ""
	for _, w := range list {
		o.Nodes = append(o.Nodes, w.Node)
		asks = asks && !w.OOM && saysRequeue(j.Spec, a, w)
		switch {
		case w.Trouble() == model.CauseLaunch:
			o.PortTaken = w.PortTaken && (cause != model.CauseLaunch || o.PortTaken)
			cause = model.CauseLaunch
			o.Final = o.Final || w.LaunchFinal
		case w.Trouble() == model.CauseNodeLost && cause != model.CauseLaunch:
			cause = model.CauseNodeLost
		case w.OOM && cause == model.CauseFailed:
			cause, killed = model.CauseOOM, w.Why
		}
	}
	if s := ownStep(j, a); cause == model.CauseFailed && s != nil && s.OOM {
		cause, killed = model.CauseOOM, s.Why
	}
	if cause == model.CauseOOM {
		o.Message = cmp.Or(killed, o.Message)
	}
	if cause == model.CauseFailed && o.Code == 0 && o.Signal == 0 {
		o.Signal = 9 // a container dies with its shim, by that signal
	}
	if o.Checkpoint = asks; asks {
		return model.CauseRequeue
	}
	return cause
}

// ownStep returns the step for which srun has made a job, and as which that ends; nil: there is none.
func ownStep(j *model.Job, a *model.Attempt) *model.Step {
	if j.Spec.Meta[jobspec.MetaAllocation] != jobspec.AllocationOfSrun || len(a.Steps) == 0 {
		return nil
	}
	return &a.Steps[len(a.Steps)-1]
}

// CountDisplacement counts the displacement of a job for a cause.
func CountDisplacement(c *model.Counters, cause model.Cause) {
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
