package steps

import (
	"context"
	"errors"
	"slices"

	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/jobspec/script"
)

// runAsJob runs a command as a job, shows its output, and ends with its exit code.
func runAsJob(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && t.About(args[0]) {
		return nil
	}
	flags, words, bad := script.SrunFlags(args)
	switch {
	case len(bad) > 0:
		return t.Refuse("", bad)
	case len(words) == 0:
		return errors.New("No command given to execute.")
	}
	pty := false
	flags = slices.DeleteFunc(flags, func(f script.Flag) bool {
		pty = pty || f.Name == "pty"
		return f.Name == "pty"
	})
	req, err := input.Srun(t.Env, words, flags, t.Warner(t.Name))
	if err != nil {
		return t.Unreadable(err)
	}
	if task := req.Job.Groups[0].Tasks[0]; pty {
		switch {
		case req.Job.Groups[0].Count > 1 || task.Launch != nil && task.Launch.Type != "single":
			return errors.New("--pty: a terminal is for one task: ask for more with salloc")
		case task.Log != nil && task.Log.Stdout+task.Log.Stderr != "":
			return errors.New("--pty excludes --output and --error: what the terminal shows is not kept")
		}
	}
	session, err := t.Connect()
	if err != nil {
		return err
	}
	if pty {
		return t.AtTerminal(ctx, session, req.Job)
	}
	return t.Attached(ctx, session, req.Job)
}
