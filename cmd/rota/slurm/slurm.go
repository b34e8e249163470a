// Package slurm has commands under Slurm's names: the one program is called by a link of that name.
// Their options, output, messages and exit codes are those of Slurm. Missing commands are refused
// by name. The commands themselves are in the packages below: queries, actions and steps.
package slurm

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/slurm/actions"
	"github.com/rota-hpc/rota/cmd/rota/slurm/queries"
	"github.com/rota-hpc/rota/cmd/rota/slurm/steps"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
)

// tools are the commands by their names.
var tools = func() tool.Commands {
	all := tool.Commands{}
	for _, some := range []tool.Commands{actions.Commands, control, queries.Commands, steps.Commands} {
		maps.Copy(all, some)
	}
	return all
}()

// Submitter does what commands of rota do with jobs that they have submitted.
type Submitter = tool.Submitter

// Has reports whether a program that is called by this path has one of Slurm's names.
func Has(path string) bool { return tools[filepath.Base(path)].Does != nil }

// Names returns the names under which this program is a command of Slurm, in order.
func Names() []string { return slices.Sorted(maps.Keys(tools)) }

// Run carries out a command line, whose first word is the name, and returns the exit code.
func Run(ctx context.Context, args []string, env *command.Env, does Submitter) int {
	return tools.Run(ctx, args, env, does)
}
