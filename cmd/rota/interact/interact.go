// Package interact has the commands with which a person works in running jobs: exec, shell and attach.
package interact

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/terminal"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	inJob := func(own ...cli.Flag) []cli.Flag {
		return command.WithCommon(append(own,
			command.Text("task", "run in the container of `TASK`, if a worker has several (default: the leading task)"),
			command.Text("workdir,w", "start in `DIR` (default: the job's directory)"),
			command.List("env,e", "set `NAME=VALUE` in addition to the job's variables"))...)
	}
	const where = "JOB is an id, or JOB.WORKER for a worker other than the first. The command runs as the job's user, " +
		"with the GPUs, cores, memory and variables of that worker, and ends with the worker. Only the job's owner can do " +
		"this."
	return command.InCategory("Jobs", []*command.Command{
		{Name: "exec", Usage: "run a command in a running job", ArgsUsage: "[-t | -T] JOB[.WORKER] -- COMMAND [ARGUMENT...]",
			Description: where + "\nThe exit code is the command's. If standard input and output are a terminal, the command " +
				"gets a terminal too.",
			EndsFlags: command.AtFirstArgument, JobCode: true, Action: execute,
			Flags: inJob(command.Switch("tty,t", "always give the command a terminal"),
				command.Switch("no-tty,T", "never give the command a terminal")),
			Arguments: complete.Jobs(model.Running)},
		{Name: "shell", Usage: "start a shell in a running job", ArgsUsage: "JOB[.WORKER]",
			Description: where + "\nThe shell is the job's $SHELL, or else bash or sh.", JobCode: true, Action: shell,
			Flags: inJob(), Arguments: complete.Jobs(model.Running)},
		{Name: "attach", Usage: "connect to the terminal of a job", ArgsUsage: "JOB[.WORKER]",
			Description: "The job must have been submitted with a terminal. Ctrl-P Ctrl-Q detaches, and the job continues. If " +
				"another rota attach was connected, it ends. The exit code is the program's.",
			JobCode: true, Action: attach, Flags: command.CommonFlags(), Arguments: complete.Jobs(model.Running)},
	})
}

// target reads JOB or JOB.WORKER.
func target(text string) (ref string, worker int, err error) {
	ref = text
	if i := strings.LastIndexByte(text, '.'); i > 0 {
		if n, err := strconv.Atoi(text[i+1:]); err == nil && n >= 0 {
			ref, worker = text[:i], n
		}
	}
	refs, err := command.JobRefs([]string{ref})
	if err == nil && len(refs) != 1 {
		err = exit.Usagef("%q stands for several jobs: give one", text)
	}
	if err != nil {
		return "", 0, err
	}
	return refs[0], worker, nil
}

func execute(env *command.Env, c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) > 1 && words[1] == "--" {
		words = append(words[:1:1], words[2:]...)
	}
	if len(words) < 2 {
		return exit.Usagef("rota exec needs a job and a command: rota exec %s", c.Command.ArgsUsage)
	}
	if c.Bool("tty") && c.Bool("no-tty") {
		return exit.Usagef("--tty and --no-tty exclude each other")
	}
	return runIn(env, c, words[0], words[1:], c.Bool("tty") || !c.Bool("no-tty") && terminal.Interactive(env))
}

func shell(env *command.Env, c *cli.Context) error {
	if c.Args().Len() != 1 {
		return exit.Usagef("rota shell needs one job: rota shell %s", c.Command.ArgsUsage).
			WithHint("\"rota exec JOB -- COMMAND\" runs a command")
	}
	return runIn(env, c, c.Args().First(), nil, terminal.Interactive(env))
}

// runIn runs a command in a job, a shell if it has no words.
func runIn(env *command.Env, c *cli.Context, where string, words []string, withTerminal bool) error {
	ref, worker, err := target(where)
	if err != nil {
		return err
	}
	variables, err := command.Assignments("--env", c.StringSlice("env"))
	if err != nil {
		return err
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	req := api.ExecRequest{Worker: worker, Task: c.String("task"), Argv: words, Workdir: c.String("workdir")}
	for name, value := range variables {
		req.Env = append(req.Env, name+"="+value)
	}
	if withTerminal {
		size := terminal.Size(env)
		req.Terminal = &size
		if kind := env.Getenv("TERM"); kind != "" {
			req.Env = append([]string{"TERM=" + kind}, req.Env...)
		}
	}
	how, err := terminal.Run(c.Context, env, terminal.Options{Terminal: withTerminal,
		Open: func(ctx context.Context, _ int64) (*stream.Conn, error) { return session.Exec(ctx, ref, req) }})
	return end(how, err)
}

// attachRetry is how long a lost connection to a job's terminal is opened again. A node's daemon that is
// restarted is back before that.
const attachRetry = 30 * time.Second

func attach(env *command.Env, c *cli.Context) error {
	if c.Args().Len() != 1 {
		return exit.Usagef("rota attach needs one job: rota attach %s", c.Command.ArgsUsage)
	}
	ref, worker, err := target(c.Args().First())
	if err != nil {
		return err
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	first := true
	how, err := terminal.Run(c.Context, env, terminal.Options{Terminal: true, Detach: true, Retry: attachRetry,
		Open: func(ctx context.Context, from int64) (*stream.Conn, error) {
			req := api.AttachRequest{Worker: worker, From: &from}
			if first {
				req.From = nil
			}
			conn, err := session.Attach(ctx, ref, req)
			first = first && err != nil
			return conn, err
		}})
	if errors.Is(err, terminal.ErrDetached) {
		env.Notef("detached: the job continues, and \"rota attach %s\" connects to it again", c.Args().First())
		return nil
	}
	return end(how, err)
}

// end ends the command as the program has ended.
func end(how stream.StepEnd, err error) error {
	switch {
	case err != nil:
		return err
	case how.Why != "":
		return &exit.CodeError{Code: exit.OwnFailed, Text: how.Why}
	}
	return exit.WithCode(terminal.Code(how.StepTaskExit))
}
