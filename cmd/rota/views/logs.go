package views

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/controld/api"
)

// showLogs prints a job's output.
func showLogs(env *command.Env, c *cli.Context) error {
	if f := c.String("output"); f != "" {
		return exit.Usagef("-o %s: rota logs prints only plain output", f)
	}
	if c.Args().Len() != 1 {
		return exit.Usagef("rota logs needs one job: rota logs %s", c.Command.ArgsUsage)
	}
	ref, o, err := logOptions(c)
	if err != nil {
		return err
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	ctx, stop := command.Interruptible(c.Context)
	defer stop()
	id, err := session.JobID(ctx, ref)
	if err != nil {
		return err
	}
	job, _, err := session.Job(ctx, id, api.Read{})
	if err != nil {
		return err
	}
	all := c.Bool("all")
	if earlier := follow.Earlier(job); len(earlier) > 0 && !all && o.Attempt == 0 {
		env.Notef("this is the output of attempt %d; --all shows earlier attempts too, from %d on", job.Attempt, earlier[0])
	}
	return endOfLogs(ctx, follow.Logs(ctx, session, job, o, all))
}

// bothStreams are stdout and stderr, in the order in which they were written.
const bothStreams = "both"

// endOfLogs turns an interrupt, the normal end of --follow, into success.
func endOfLogs(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// logOptions reads JOB[.WORKER] and the flags. A number after the last dot is a worker; any other
// word is a group.
func logOptions(c *cli.Context) (string, api.LogOptions, error) {
	o := api.LogOptions{Attempt: c.Int("attempt"), Worker: c.Int("worker"), Task: c.String("task"),
		Follow: c.Bool("follow"), Tail: c.Int("tail")}
	switch {
	case c.Bool("stderr") && c.Bool("stdout"):
		o.Stream = bothStreams
	case c.Bool("stderr"):
		o.Stream = "stderr"
	case c.Bool("stdout"):
		o.Stream = "stdout"
	default:
		o.Stream = bothStreams
	}
	for _, flag := range []struct {
		name  string
		least int
	}{{"tail", 1}, {"attempt", 1}, {"worker", 0}} {
		if n := c.Int(flag.name); c.IsSet(flag.name) && n < flag.least {
			return "", o, exit.Usagef("--%s %d: must be at least %d", flag.name, n, flag.least)
		}
	}
	if c.Bool("all") && (c.IsSet("attempt") || c.IsSet("tail")) {
		return "", o, exit.Usagef("--all shows the whole output of all attempts: leave out --attempt and --tail")
	}
	text := c.Args().First()
	if dot := strings.LastIndexByte(text, '.'); dot >= 0 {
		if n, rest, ok := command.LeadingInt(text[dot+1:]); ok && rest == "" {
			if c.IsSet("worker") && o.Worker != int(n) {
				return "", o, exit.Usagef("%s is worker %d, but --worker says %d", text, n, o.Worker)
			}
			text, o.Worker = text[:dot], int(n)
		}
	}
	refs, err := command.JobRefs([]string{text})
	if err != nil {
		return "", o, err
	}
	if len(refs) != 1 {
		return "", o, exit.Usagef("rota logs needs one job: rota logs %s", c.Command.ArgsUsage)
	}
	return refs[0], o, nil
}
