package exits

import (
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// verdict is what must have become of a job.
type verdict struct {
	state  model.JobState // [again]: it waits, or has begun its next attempt
	cause  model.Cause    // of its first attempt
	exit   *exit          // nil: it is unknown, or may be any but success
	denied bool           // the stop is refused, because another one has begun
	says   []string       // what its program has written
}

// exit is how a job's program has ended.
type exit struct{ code, signal int }

// again is the state of a job that starts again.
const again model.JobState = "again"

// expect is the specification: "Whose exit it is" in the order of its sentences. It knows nothing of how
// the product decides.
func (c cell) expect() verdict {
	v := c.judge()
	if c.at == output || c.at == inGrace || c.at.ended() {
		v.says = []string{"begun"}
	}
	asked := c.at == inGrace || c.at == output && c.stop != model.CauseNodeLost
	if asked && c.program.leaves != ignores {
		v.says = append(v.says, "leaving")
	}
	return v
}

func (c cell) judge() verdict {
	switch {
	case c.stop == model.CauseNodeLost: // the controllers hear nothing from the node any more
		return c.lost(model.CauseNodeLost, nil)
	case !c.at.executed():
		return c.neverExecuted()
	case c.at.ended():
		return c.ownExit()
	}
	left := c.left()
	switch c.deciding() {
	case model.CauseCancelled:
		return verdict{state: model.Cancelled, cause: model.CauseCancelled, exit: &left}
	case model.CauseTimeout:
		if left.code == 85 {
			return verdict{state: again, cause: model.CauseRequeue, exit: &left}
		}
		return verdict{state: model.TimedOut, cause: model.CauseTimeout, exit: &left}
	case model.CauseRequeue:
		return verdict{state: again, cause: model.CauseRequeue, exit: &left}
	case model.CauseLease:
		return c.lost(model.CauseLease, &left)
	}
	v := verdict{state: again, cause: c.deciding(), exit: &left, denied: c.at == inGrace}
	switch {
	case left == exit{} && !c.goesOn():
		v.state, v.cause = model.Completed, model.CauseCompleted
	case c.program.once:
		v.state = model.Preempted
	}
	return v
}

// goesOn reports whether a program that leaves with 0 has only saved its state.
func (c cell) goesOn() bool {
	saves := c.program.checkpoint
	if c.program.zero != "" {
		saves = c.program.zero == jobspec.ExitSaved
	}
	return saves && !c.program.finished
}

// neverExecuted: a worker whose program was never executed has not succeeded. Its job loses nothing by
// another attempt, so that it gets one even if it may run only once.
func (c cell) neverExecuted() verdict {
	if c.stop == model.CauseCancelled {
		return verdict{state: model.Cancelled, cause: c.stop, exit: &exit{signal: int(unix.SIGTERM)}}
	}
	return verdict{state: again, cause: c.stop}
}

// ownExit: an exit before the signal was sent on its node is the program's own. A stop was asked
// for in this attempt. So the requeue code of the job holds, unless the job is cancelled.
func (c cell) ownExit() verdict {
	own := exit{code: c.program.ends}
	switch {
	case own.code == 0:
		return verdict{state: model.Completed, cause: model.CauseCompleted, exit: &own}
	case own.code == 85 && c.stop == model.CauseCancelled:
		return verdict{state: model.Cancelled, cause: model.CauseCancelled, exit: &own}
	case own.code == 85:
		return verdict{state: again, exit: &own}
	}
	return verdict{state: model.Failed, cause: model.CauseFailed, exit: &own}
}

// lost: the controllers decide about a job whose node, or whose lease, is lost. They start it again, but
// for one that may run once and has begun.
func (c cell) lost(cause model.Cause, left *exit) verdict {
	if c.program.once && c.at.executed() {
		return verdict{state: model.NodeFailed, cause: cause, exit: left}
	}
	return verdict{state: again, cause: cause, exit: left}
}

// deciding returns the stop that decides. In the grace of a preemption only a stronger one takes its place.
func (c cell) deciding() model.Cause {
	if c.at != inGrace {
		return c.stop
	}
	switch c.stop {
	case model.CauseCancelled, model.CauseLease, model.CauseNodeLost:
		return c.stop
	}
	return model.CauseTE
}

// signal returns the number of the signal of a stop: that of a preemption, or the one that ends the task.
func (c cell) signal(of model.Cause) int {
	switch of {
	case model.CauseCancelled, model.CauseTimeout, model.CauseLease:
		return int(unix.SIGTERM)
	}
	if c.launch.kind == "slurm" {
		return int(unix.SIGUSR1)
	}
	return int(unix.SIGTERM)
}

// left returns how the program ends after the signal.
func (c cell) left() exit {
	asked := c.stop
	if c.at == inGrace {
		asked = c.deciding() // it is sent too, if it is another one
	}
	switch {
	case c.at == executing, c.program.leaves == dies: // without a handler
		return exit{signal: c.signal(asked)}
	case c.program.leaves == ignores:
		return exit{signal: int(unix.SIGKILL)}
	}
	return exit{code: c.program.leaves}
}

// fates says what becomes of jobs that depend on one in a state, by the kind of the dependency.
func fates(s model.JobState) map[string]string {
	switch s {
	case again:
		return map[string]string{model.NeedAfterOK: "waits", model.NeedAfterNotOK: "waits", model.NeedAfterAny: "waits"}
	case model.Completed:
		return map[string]string{model.NeedAfterOK: "starts", model.NeedAfterNotOK: "never", model.NeedAfterAny: "starts"}
	}
	return map[string]string{model.NeedAfterOK: "never", model.NeedAfterNotOK: "starts", model.NeedAfterAny: "starts"}
}
