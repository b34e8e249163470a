package submit

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// waitForJobs waits for all jobs, or with --any for the first one, and ends with the highest exit
// code.
func waitForJobs(env *command.Env, c *cli.Context) error {
	session, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	bounded, cancel, err := command.WithTimeout(c.Context, c)
	if err != nil {
		return err
	}
	defer cancel()
	ctx, stop := command.Interruptible(bounded)
	defer stop()
	highest, err := awaitAll(ctx, session, refs, c.Bool("any"))
	if err != nil {
		return err
	}
	return exit.WithCode(highest)
}

// end is how the wait for one job ended.
type end struct {
	ref string
	job *api.Job
	err error
}

// awaitAll waits for jobs in parallel, reports each in the given order, or only the first that
// ends, and returns the highest exit code. It returns at once if a job cannot be waited for.
func awaitAll(ctx context.Context, session *command.Session, refs []string, first bool) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make([]chan end, len(refs))
	merged, failed := make(chan end, len(refs)), make(chan end, len(refs))
	for i, ref := range refs {
		ends[i] = make(chan end, 1)
		go func() {
			e := end{ref: ref}
			var id model.JobID
			if id, e.err = session.JobID(ctx, ref); e.err == nil {
				e.job, e.err = follow.WaitForEnd(ctx, session, id)
			}
			merged <- e
			if e.err != nil {
				failed <- e
				return
			}
			ends[i] <- e
		}()
	}
	if first {
		return reportEnd(session, <-merged)
	}
	highest := exit.OK
	for _, ch := range ends {
		var e end
		select {
		case e = <-ch:
		case e = <-failed:
		}
		code, err := reportEnd(session, e)
		if err != nil {
			return 0, err
		}
		highest = max(highest, code)
	}
	return highest, nil
}

func reportEnd(session *command.Session, e end) (int, error) {
	if e.err != nil {
		return 0, command.About("job "+e.ref, e.err)
	}
	if session.AsJSON {
		if err := table.PrintJSON(session.Stdout, e.job); err != nil {
			return 0, err
		}
	}
	code, note := jobCode(e.job)
	if note != "" {
		session.Notef("job %s %s", e.ref, show.Clean(note))
	}
	return code, nil
}
