// Package steps has the commands under Slurm's names that run tasks while they go on themselves: srun, which
// starts a step of a job, or outside of one a step in an allocation of its own, salloc, in whose shell srun
// starts steps, and sattach, which watches one.
package steps

import "github.com/rota-hpc/rota/cmd/rota/slurm/tool"

// Commands are the commands of this package.
var Commands = tool.Commands{
	"salloc": {Does: salloc, Help: "the flags of docs/slurm-flags.md about resources, -I, -K, --no-shell, and a " +
		"command; without one, $SHELL"},
	"sattach": {Does: sattach, Help: "-l, -Q, JOB.STEP"},
	"srun": {Does: srun, Help: "the flags of docs/from-slurm.md for a step of a job, outside of one those of salloc " +
		"about resources too, and a command"},
}
