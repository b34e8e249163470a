// Package actions has the Slurm commands that submit, change and end jobs: sbatch, scancel and
// parts of scontrol.
package actions

import "github.com/rota-hpc/rota/cmd/rota/slurm/tool"

// Commands are the commands of this package.
var Commands = tool.Commands{
	"sbatch": {Does: sbatch, Help: "the flags of docs/batch-scripts.md, SCRIPT [ARGUMENTS...], --wrap COMMAND, or a " +
		"script on standard input"},
	"scancel": {Does: scancel, Help: "JOB... -n NAME, -u USER, --me, -t STATES, -p PARTITION, -A ACCOUNT, -q QOS, " +
		"-w NODES, -s SIGNAL, -b, -f, -i, -Q, -v, -M CLUSTERS"},
}
