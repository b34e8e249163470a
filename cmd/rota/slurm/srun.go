package slurm

import (
	"context"
	"errors"
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
