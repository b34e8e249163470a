// Package steps has the Slurm commands that keep running while their tasks run. srun starts a step
// of a job; outside of a job, it makes an allocation and runs the step in it. salloc starts a shell
// in which srun starts steps. sattach shows the output of a running step.
package steps

import "github.com/rota-hpc/rota/cmd/rota/slurm/tool"

// Commands are the commands of this package.
var Commands = tool.Commands{
	"salloc": {Does: salloc, Help: "the flags of docs/slurm-flags.md about resources, -I, -K, --no-shell, and a " +
		"command; without one, $SHELL"},
	"sattach": {Does: sattach, Help: "-l, -Q, JOB.STEP"},
	"srun": {Does: srun, Help: "in a job, the flags for steps in docs/from-slurm.md; outside of a job, also salloc's " +
		"flags about resources; and a command"},
}
