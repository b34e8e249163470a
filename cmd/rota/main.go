// Command rota is what users of a Rota cluster type: it submits jobs, shows the queue, streams output, and, with `rota dev`,
// runs a whole cluster on one machine.
package main

import (
	"context"
	"os"
	"slices"
)

func main() {
	w := system()
	os.Exit(Run(context.Background(), os.Args, w, commands(w)))
}

// commands lists the commands in the order in which they are shown.
func commands(w *world) []*Command {
	all := slices.Concat(w.submitCommands(), w.viewCommands(), w.controlCommands(), w.fileCommands(), w.adminCommands(),
		w.simCommands(), w.devCommands())
	return append(all, w.manualCommands(all)...)
}
