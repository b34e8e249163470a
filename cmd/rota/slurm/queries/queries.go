// Package queries has the Slurm commands that show jobs, steps, nodes and accounts.
package queries

import "github.com/rota-hpc/rota/cmd/rota/slurm/tool"

// Commands are the commands of this package.
var Commands = tool.Commands{
	"sacct": {Does: sacct, Help: "-X, -n, -P, -p, --delimiter, -o FIELDS, -e, -j IDS, -u USERS, -a, -A ACCOUNTS, " +
		"--name, -r PARTITIONS, -s STATES, -S TIME, -E TIME, --units, --json"},
	"sacctmgr": {Does: sacctmgr, Help: "list user|account|association|cluster [NAMES] [withassoc] [where user=, " +
		"account=, cluster=] [format=], -n, -p, -P"},
	"sinfo": {Does: sinfo, Help: "-h, -a, -N, -o FORMAT, -O FORMAT, -p PARTITIONS, -n NODES, -t STATES, -S FIELDS, " +
		"-R, -s, -l, --json"},
	"sprio": {Does: sprio, Help: "-h, -j IDS, -u USERS"},
	"squeue": {Does: squeue, Help: "-h, -o FORMAT, -O FORMAT, -j IDS, -u USERS, --me, -n NAMES, -p PARTITIONS, -A " +
		"ACCOUNTS, -t STATES, -w NODES, -S FIELDS, -r, --start, --json"},
	"sshare": {Does: sshare, Help: "-A ACCOUNTS, -a, -u USERS, -U, -n, -p, -P, -o FORMAT, -M CLUSTERS"},
	"sstat":  {Does: sstat, Help: "-j JOBS[.STEP], -a, -o FIELDS, -e, -n, -p, -P, --noconvert"},
}
