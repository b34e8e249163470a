package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// readFile sets the flags that the command line does not have from a configuration file. It also
// sets the parts of cfg that have no flag.
func readFile(c *cli.Context, path string, cfg *controld.Config) error {
	f, err := config.Read(path)
	if err != nil {
		return err
	}
	cfg.Cluster = f.Replicated()
	t := f.Timeouts.Complete()
	cfg.Heartbeat, cfg.Election, cfg.LeaderLease = t.Heartbeat, t.Election, t.LeaderLease
	cfg.Reload = func() (*cluster.Config, error) {
		again, err := config.Read(path)
		if err != nil {
			return nil, err
		}
		return again.Replicated(), nil
	}
	f.Operators, f.Admins, f.Private = nil, nil, nil // no flags
	return daemon.SetFlags(c, f)
}
