package steps

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
)

// srun starts tasks.
func srun(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && args[0] == pmiTask {
		return runPMITask(ctx, t, args[1:])
	}
	if startsStep(t, args) {
		return runStep(ctx, t, args)
	}
	return runOutside(ctx, t, args)
}

// startsStep reports whether srun starts a step of an existing job. The job is the one around srun
// (in a script or a shell of salloc), or the job that --jobid names.
func startsStep(t *tool.Tool, args []string) bool {
	if t.OwnJob() != "" || t.Getenv("SLURM_JOB_ID") != "" {
		return true
	}
	set := srunSet(t)
	set.ParseErrorsAllowlist = pflag.ParseErrorsAllowlist{UnknownFlags: true}
	_ = set.Parse(args) // other mistakes are reported when the flags are read for good
	return set.Changed("jobid")
}
