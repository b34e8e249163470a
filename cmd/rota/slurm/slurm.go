// Package slurm has the commands with Slurm's names; a link with such a name runs this program.
// Their options, output, messages and exit codes are those of Slurm. Slurm commands that Rota does
// not have are refused by name. The packages queries, actions and steps implement the commands.
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

// tools maps each name to its command.
var tools = func() tool.Commands {
	all := tool.Commands{}
	for _, some := range []tool.Commands{actions.Commands, control, queries.Commands, steps.Commands} {
		maps.Copy(all, some)
	}
	return all
}()

// Submitter lets these commands submit jobs in the way of rota's own commands.
type Submitter = tool.Submitter

// Has reports whether the path of a program ends in one of Slurm's names.
func Has(path string) bool { return tools[filepath.Base(path)].Does != nil }

// Names returns the Slurm names of this program, sorted.
func Names() []string { return slices.Sorted(maps.Keys(tools)) }

// Run runs a command line, whose first word is the command's name, and returns the exit code.
func Run(ctx context.Context, args []string, env *command.Env, does Submitter) int {
	return tools.Run(ctx, args, env, does)
}
