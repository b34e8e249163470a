package slurm

import (
	"context"

	"github.com/spf13/pflag"
)

// srun starts tasks: in a job, or in one that it names, as a step of it, and elsewhere as a job of their
// own.
func (t *tool) srun(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == pmiTask {
		return t.runPMITask(ctx, args[1:])
	}
	if t.startsStep(args) {
		return t.runStep(ctx, args)
	}
	return t.runAsJob(ctx, args)
}

// startsStep reports whether srun starts a step of a job: of that in which it runs, that of a shell
// which salloc has started, or another one by --jobid.
func (t *tool) startsStep(args []string) bool {
	if t.OwnJob() != "" || t.Getenv("SLURM_JOB_ID") != "" {
		return true
	}
	set := t.srunSet()
	set.ParseErrorsAllowlist = pflag.ParseErrorsAllowlist{UnknownFlags: true}
	_ = set.Parse(args) // what is wrong with the others is said when they are read
	return set.Changed("jobid")
}
