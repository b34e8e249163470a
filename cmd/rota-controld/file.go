package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/sched"
)

// readFile takes over what the configuration file says, if there is one.
func readFile(c *cli.Context, cfg *controld.Config, logFormat *string) error {
	path := c.String("config")
	if path == "" {
		return nil
	}
	f, err := readConfig(path)
	if err != nil {
		return err
	}
	for _, pair := range []struct{ field, value *string }{
		{&cfg.Name, f.Name}, {&cfg.DataDir, f.DataDir}, {&cfg.HTTP, f.HTTP}, {&cfg.Raft, f.Raft}, {&cfg.Gossip, f.Gossip},
		{&cfg.Advertise, f.Advertise}, {&cfg.Socket, f.Socket}, {&cfg.KeyFile, f.ClusterKeyFile}, {logFormat, f.LogFormat},
		{&cfg.RootJobsAs, f.RootJobsAs},
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
		again, err := readConfig(path)
		if err != nil {
			return nil, err
		}
		return again.Replicated(), nil
	}
	return nil
}

// readConfig reads a configuration file and refuses a policy that there is not.
func readConfig(path string) (*config.File, error) {
	f, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	if f.Policy != nil && f.Policy.Name != "" && !slices.Contains(sched.Policies(), f.Policy.Name) {
		return nil, fmt.Errorf("configuration %s: policy: there is no policy %q; there are %s", path, f.Policy.Name, strings.Join(sched.Policies(), ", "))
	}
	return f, nil
}
