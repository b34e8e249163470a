package submit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/terminal"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Times of a job that belongs to this terminal. ptyRetry is how long a lost connection is opened
// again. After ptyHangUp without one the node hangs the job up, if this process cannot cancel it.
const (
	ptyRetry  = 30 * time.Second
	ptyHangUp = jobspec.Seconds(60)
)

// atTerminal submits a job of one task that runs at this terminal, and ends with its exit code. The job
// ends when the terminal or the connection is gone.
func atTerminal(parent context.Context, session *command.Session, spec *jobspec.Job) error {
	task := &spec.Groups[0].Tasks[0]
	size := terminal.Size(session.Env)
	task.Terminal = &jobspec.Terminal{Rows: int(size.Rows), Columns: int(size.Columns), HangUp: ptyHangUp}
	task.Log = nil
	if kind := session.Getenv("TERM"); kind != "" && task.Env["TERM"] == "" {
		if task.Env == nil {
			task.Env = map[string]string{}
		}
		task.Env["TERM"] = kind
	}
	if err := checkJob(spec); err != nil {
		return err
	}
	id, err := session.Submit(parent, api.NewKey(), spec)
	if err != nil {
		return submitFailed(spec.Name, "", err)
	}
	job, err := awaitStart(parent, session, id)
	if err == nil && !job.Code.Final() {
		job, err = sitAt(parent, session, id)
	}
	if err != nil {
		cancelAtEnd(session, id)
		return fmt.Errorf("job %d: %w", id, err)
	}
	return exitLikeJob(session.Env, job)
}

// awaitStart waits until a job runs or has ended. It says what it waits for if that takes longer.
func awaitStart(parent context.Context, session *command.Session, id model.JobID) (*api.Job, error) {
	ctx, stop := command.Interruptible(parent)
	defer stop()
	begun, said := session.Now(), ""
	return follow.WaitFor(ctx, session, id, time.Second, time.Second, func(j *api.Job) bool {
		text := fmt.Sprintf("job %d %s", id, j.State)
		if j.Reason.Code != "" {
			text += ": " + show.Reason(j.Reason)
		}
		if j.Code == model.Pending && text != said && session.Now().Sub(begun) > time.Second {
			said = text
			session.Notef("%s", text)
		}
		return j.Code == model.Running || j.Code.Final()
	})
}

// sitAt is attached to a job until its program has ended, and returns the job when it has ended too. One
// that would start again has no terminal any more, and is cancelled.
func sitAt(parent context.Context, session *command.Session, id model.JobID) (*api.Job, error) {
	ref := strconv.FormatInt(int64(id), 10)
	how, err := terminal.Run(parent, session.Env, terminal.Options{Terminal: true, Retry: ptyRetry,
		Open: func(ctx context.Context, from int64) (*stream.Conn, error) {
			return session.Attach(ctx, ref, api.AttachRequest{From: &from})
		}})
	var refused *api.Problem
	switch {
	case errors.As(err, &refused) && refused.Status < 500: // it has ended meanwhile, or waits again
	case err != nil:
		return nil, err
	case how.Why != "":
		return nil, errors.New(how.Why)
	}
	ctx, stop := command.Interruptible(parent)
	defer stop()
	return follow.WaitFor(ctx, session, id, follow.PollWait, follow.PollWait, func(j *api.Job) bool {
		if j.Code == model.Pending {
			cancelAtEnd(session, id)
		}
		return j.Code.Final()
	})
}

// cancelAtEnd cancels a job whose terminal is gone. If no controller answers, its node hangs it up.
func cancelAtEnd(session *command.Session, id model.JobID) {
	ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
	defer cancel()
	err := session.Cancel(ctx, id, "its terminal is gone")
	var refused *api.Problem
	if err != nil && !errors.As(err, &refused) { // one that has ended is not cancelled
		session.PrintError(false, exit.LostAnswer(fmt.Errorf("cancel job %d: %w", id, err), "rota queue shows it"))
	}
}
