package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// cancelWait bounds how long the cancellation after Ctrl-C may take.
const cancelWait = 10 * time.Second

// attached submits and follows a job that belongs to this terminal. The first Ctrl-C cancels
// it, the second one exits at once.
func attached(parent context.Context, session *command.Session, spec *jobspec.Job) error {
	ctx, leave := context.WithCancelCause(parent)
	defer leave(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	known, broken := make(chan model.JobID, 1), make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // the job must not continue when this process cannot
	defer signal.Stop(broken)
	go handleSignals(ctx, session, signalChannels{signals, broken}, known, leave)
	id, err := session.Submit(ctx, api.NewKey(), spec)
	if err != nil {
		if errors.Is(context.Cause(ctx), exit.ErrInterrupted) {
			return fmt.Errorf("interrupted while submitting %s (\"rota queue --me\" shows whether it was submitted): %w",
				spec.Name, exit.ErrInterrupted)
		}
		return submitFailed(spec.Name, "", err)
	}
	known <- id
	warned := warnOfInput(session.Env)
	job, err := follow.Job(ctx, session, id)
	if !warned {
		warnOfInput(session.Env) // it may have come later
	}
	if err != nil {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, exit.ErrInterrupted):
			return fmt.Errorf("exited while cancelling job %d: %w", id, exit.ErrInterrupted)
		case errors.Is(cause, exit.ErrPipe):
			return exit.WithCode(exit.Pipe)
		}
		return fmt.Errorf("job %d: %w", id, err)
	}
	return exitLikeJob(session.Env, job)
}

// secondSignalAfter is when a second signal counts, because timeout(1) and terminals may send one
// signal twice.
const secondSignalAfter = 500 * time.Millisecond

// signalChannels deliver the signals that end a job of this terminal.
type signalChannels struct {
	signals <-chan os.Signal
	broken  <-chan os.Signal // SIGPIPE, from the output or a connection
}

// handleSignals cancels the job after the first signal, once its id is known. It ends the command
// after the second one, or when the output has no reader.
func handleSignals(ctx context.Context, session *command.Session, in signalChannels,
	known <-chan model.JobID, leave context.CancelCauseFunc) {
	var id model.JobID
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case id = <-known:
			if !first.IsZero() {
				go cancelAttended(session, id)
			}
		case <-in.broken:
			if !unread(session.Env) {
				continue // a connection broke, and the client uses another
			}
			if id != 0 && first.IsZero() {
				cancelAttended(session, id)
			}
			leave(exit.ErrPipe)
			return
		case <-in.signals:
			switch {
			case !first.IsZero() && session.Now().Sub(first) >= secondSignalAfter:
				leave(exit.ErrInterrupted)
				return
			case !first.IsZero():
			case id == 0:
				first = session.Now()
				session.Notef("the job will be cancelled once it is submitted; press Ctrl-C again to exit at once")
			default:
				first = session.Now()
				go cancelAttended(session, id)
			}
		}
	}
}

func cancelAttended(session *command.Session, id model.JobID) {
	session.Notef("cancelling job %d; press Ctrl-C again to exit at once", id)
	ctx, cancel := context.WithTimeout(context.Background(), cancelWait)
	defer cancel()
	if err := session.Cancel(ctx, id, "interrupted"); err != nil {
		session.PrintError(false, fmt.Errorf("cancel job %d: %w", id, err))
	}
}
