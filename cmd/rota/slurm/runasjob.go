package slurm

import (
	"context"
	"errors"

	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/jobspec/script"
)

// runAsJob runs a command as a job, shows its output, and ends with its exit code.
func (t *tool) runAsJob(ctx context.Context, args []string) error {
	if len(args) > 0 && t.about(args[0]) {
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
