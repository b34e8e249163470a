package submit

import (
	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// exitLikeJob ends the command with the job's exit code, and prints a note that explains it.
func exitLikeJob(env *command.Env, job *api.Job) error {
	code, note := jobCode(job)
	if note != "" {
		env.Notef("job %d %s", job.ID, show.Clean(note))
	}
	return exit.WithCode(code)
}

// jobCode returns the exit code for how a job ended, with a note where the code does not explain
// it.
func jobCode(j *api.Job) (code int, note string) {
	own := j.ExitCode
	if j.Signal != 0 {
		own = 128 + j.Signal
	}
	switch j.Code {
	case model.Completed:
		return exit.OK, ""
	case model.TimedOut:
		return exit.OwnTimeout, "reached its time limit of " + show.Clock(j.TimeLimit)
	case model.OutOfMemory:
		return exit.OutOfMemory, "ran out of memory"
	case model.NodeFailed, model.BootFailed, model.Preempted:
		return exit.OwnFailed, "ended as " + j.State + ": " + show.Reason(j.Reason)
	case model.Cancelled:
		if own == 0 {
			own = exit.OwnFailed
		}
		return own, "was cancelled"
	}
	if own == 0 {
		return exit.OwnFailed, "ended as " + j.State + ": " + show.Reason(j.Reason)
	}
	return own, ""
}
