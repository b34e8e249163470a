package steps

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
)

// srun starts tasks: in a job, or in one that it names, as a step of it, and elsewhere in an allocation of
// their own.
func srun(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && args[0] == pmiTask {
		return runPMITask(ctx, t, args[1:])
	}
	if startsStep(t, args) {
		return runStep(ctx, t, args)
	}
	return runOutside(ctx, t, args)
}

// startsStep reports whether srun starts a step of a job. The job is the one in which srun runs,
// that of a shell of salloc, or another one by --jobid.
func startsStep(t *tool.Tool, args []string) bool {
	if t.OwnJob() != "" || t.Getenv("SLURM_JOB_ID") != "" {
		return true
	}
	set := srunSet(t)
	set.ParseErrorsAllowlist = pflag.ParseErrorsAllowlist{UnknownFlags: true}
	_ = set.Parse(args) // what is wrong with the others is said when they are read
	return set.Changed("jobid")
}
