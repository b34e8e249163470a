package slurm

import (
	"context"
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/jobspec/script"
)

// srun starts tasks: in a job as a step of it, and elsewhere as a job of their own.
func (t *tool) srun(ctx context.Context, args []string) error {
	if t.startsStep() {
		return errors.New("steps are not supported yet: leave srun out, or submit a script")
	}
	return t.runAsJob(ctx, args)
}

// startsStep reports whether srun starts a step of the job in which it runs.
func (t *tool) startsStep() bool { return t.OwnJob() != "" }

// runAsJob runs a command as a job, shows its output, and ends with its exit code.
func (t *tool) runAsJob(ctx context.Context, args []string) error {
	if asksForHelp(args) {
		fmt.Fprintf(t.Stdout, "%s of Rota knows: %s\n", t.name, help[t.name])
		return nil
	}
	flags, words, bad := script.SrunFlags(args)
	switch {
	case len(bad) > 0:
		return t.refuse("", bad)
	case len(words) == 0:
		return errors.New("No command given to execute.")
	}
	req, err := input.Srun(t.Env, words, flags, t.warner(t.name))
	if err != nil {
		return t.unreadable(err)
	}
	session, err := t.connect()
	if err != nil {
		return err
	}
	return t.does.Attached(ctx, session, req.Job)
}
