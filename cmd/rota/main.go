// Command rota is the command line for users of a Rota cluster. It submits jobs, shows the queue
// and streams output; "rota dev" runs a whole cluster on one machine. Each package below is a group
// of commands, or something that groups share; a group's function Commands returns its commands,
// and main joins them.
package main

import (
	"context"
	"os"
	"slices"

	"github.com/rota-hpc/rota/cmd/rota/admin"
	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/control"
	"github.com/rota-hpc/rota/cmd/rota/dev"
	"github.com/rota-hpc/rota/cmd/rota/doctor"
	"github.com/rota-hpc/rota/cmd/rota/files"
	"github.com/rota-hpc/rota/cmd/rota/interact"
	"github.com/rota-hpc/rota/cmd/rota/manual"
	"github.com/rota-hpc/rota/cmd/rota/simulate"
	"github.com/rota-hpc/rota/cmd/rota/slurm"
	"github.com/rota-hpc/rota/cmd/rota/submit"
	"github.com/rota-hpc/rota/cmd/rota/views"
)

func main() {
	if slurm.Has(os.Args[0]) {
		os.Exit(slurm.Run(context.Background(), os.Args, command.System(),
			slurm.Submitter{Await: submit.Await}))
	}
	os.Exit(command.Run(context.Background(), os.Args, command.System(), commands()))
}

// commands lists the commands in the order in which they are shown.
func commands() []*command.Command {
	all := slices.Concat(submit.Commands(), interact.Commands(), views.Commands(), control.Commands(),
		files.Commands(), doctor.Commands(),
		admin.Commands(), simulate.Commands(), dev.Commands(slurm.Names()...))
	return append(all, manual.Commands(all)...)
}
