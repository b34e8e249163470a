package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/member"
)

// memberCommands are init and join, which make this machine a controller of a cluster.
func memberCommands(out io.Writer) []*cli.Command {
	return []*cli.Command{
		{Name: "init", Usage: "make a new cluster with this machine as its first controller",
			Description: "Makes the cluster's certificate authority and this controller's certificate in the data directory. " +
				"Start the daemon afterwards with the\nsame --name and --data-dir. Other machines join it, see rota-controld " +
				"join " +
				"and rota-noded join.",
			Flags: placeFlags(), Before: daemon.OwnFlags, Action: func(c *cli.Context) error {
				if c.NArg() > 0 {
					return fmt.Errorf("unexpected argument %q: init takes flags only", c.Args().First())
				}
				at, err := placeOf(c)
				if err != nil {
					return err
				}
				if !member.ValidName(at.Name) {
					return fmt.Errorf("--name %q: a name has 1 to 63 letters, digits, '-', '_' or '.'", at.Name)
				}
				if err := daemon.ActAsOwner(at.DataDir, out); err != nil {
					return err
				}
				cluster, err := pki.Init(pki.Dir(at.DataDir), at.Name)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "made cluster %s with controller %s; now start rota-controld with --name %s and --data-dir %s\n",
					cluster, at.Name, at.Name, at.DataDir)
				return nil
			}},
		daemon.JoinCommand("rota-controld", placeFlags(), out, func(*cli.Context) pki.Role { return pki.Controller },
			placeOf),
	}
}

// placeFlags are the flags of init and join.
func placeFlags() []cli.Flag {
	def := controld.DefaultConfig()
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Value: def.Name, Usage: "`NAME` of this controller, unique in the cluster"},
		&cli.StringFlag{Name: "data-dir", Value: def.DataDir, Usage: "`DIR` for log, snapshots and history"},
		&cli.StringFlag{Name: "config", Usage: "read name and data_dir from `FILE.hcl`; flags take precedence"},
	}
}

// placeOf returns what the flags and the configuration file say.
func placeOf(c *cli.Context) (daemon.Identity, error) {
	at := daemon.Identity{Name: c.String("name"), DataDir: c.String("data-dir")}
	if path := c.String("config"); path != "" {
		f, err := config.Read(path)
		if err != nil {
			return at, err
		}
		if f.Name != nil && !c.IsSet("name") {
			at.Name = *f.Name
		}
		if f.DataDir != nil && !c.IsSet("data-dir") {
			at.DataDir = *f.DataDir
		}
	}
	return at, nil
}
