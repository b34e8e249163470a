package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/config"
)

// readFile copies the settings of the configuration file into cfg, if --config names one.
func readFile(c *cli.Context, cfg *controld.Config, logFormat *string) error {
	path := c.String("config")
	if path == "" {
		return nil
	}
	f, err := config.Read(path)
	if err != nil {
		return err
	}
	for _, pair := range []struct{ field, value *string }{
		{&cfg.Name, f.Name}, {&cfg.DataDir, f.DataDir}, {&cfg.HTTP, f.HTTP}, {&cfg.Raft, f.Raft},
		{&cfg.Gossip, f.Gossip}, {&cfg.Advertise, f.Advertise}, {&cfg.Socket, f.Socket},
		{&cfg.KeyFile, f.ClusterKeyFile}, {logFormat, f.LogFormat}, {&cfg.RootJobsAs, f.RootJobsAs},
	} {
		if pair.value != nil {
			*pair.field = *pair.value
		}
	}
	if f.BootstrapExpect != nil {
		cfg.BootstrapExpect = *f.BootstrapExpect
	}
	if f.AllowRootJobs != nil {
		cfg.AllowRootJobs = *f.AllowRootJobs
	}
	cfg.Join, cfg.Operators = f.Join, f.Operators
	cfg.Cluster = f.Replicated()
	cfg.Reload = func() (*cluster.Config, error) {
		again, err := config.Read(path)
		if err != nil {
			return nil, err
		}
		return again.Replicated(), nil
	}
	return nil
}
