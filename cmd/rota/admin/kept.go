package admin

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// keptFolders shows the checkpoint folders on a node whose jobs or attempts the controllers do not
// know, or has some of them removed.
func keptFolders(env *command.Env, c *cli.Context) error {
	verb, args := c.Args().First(), c.Args().Tail()
	if len(args) == 0 || verb == "kept" && len(args) > 1 || verb == "discard" && len(args) < 2 {
		return exit.Usagef("rota node %s", c.Command.ArgsUsage)
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	var list *api.KeptFolders
	if verb == "kept" {
		list, err = session.KeptFolders(c.Context, args[0])
	} else {
		list, err = session.DropKeptFolders(c.Context, args[0], args[1:])
	}
	if err != nil {
		return err
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, list)
	}
	if len(list.Items) == 0 {
		fmt.Fprintf(env.Stdout, "the controllers know all checkpoint folders of node %s: it keeps no others\n", args[0])
		return nil
	}
	for _, f := range list.Items {
		fmt.Fprintf(env.Stdout, "%s  kept until %s  %s\n", f.ID, f.Until.UTC().Format(time.DateOnly), f.Path)
	}
	return nil
}
