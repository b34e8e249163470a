package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// file is a configuration file. Its attributes are named after the flags, with underscores for
// hyphens. Flags that may be repeated are lists, and labels are a map.
type file struct {
	Name       *string           `hcl:"name,optional"`
	DataDir    *string           `hcl:"data_dir,optional"`
	Gossip     *string           `hcl:"gossip,optional"`
	HTTP       *string           `hcl:"http,optional"`
	Join       []string          `hcl:"join,optional"`
	Controller []string          `hcl:"controller,optional"`
	Socket     *string           `hcl:"socket,optional"`
	Cores      *int              `hcl:"cores,optional"`
	Memory     *string           `hcl:"memory,optional"`
	SimGPUs    *int              `hcl:"sim_gpus,optional"`
	Label      map[string]string `hcl:"label,optional"`
	CgroupRoot *string           `hcl:"cgroup_root,optional"`
	SharedPath []string          `hcl:"shared_path,optional"`
	Ports      *string           `hcl:"ports,optional"`
	Login      *bool             `hcl:"login,optional"`
	Shim       *string           `hcl:"shim,optional"`
	Init       *string           `hcl:"init,optional"`
	WarmShims  *int              `hcl:"warm_shims,optional"`
	MaxMemlock *string           `hcl:"max_memlock,optional"`
	MaxNofile  *int              `hcl:"max_nofile,optional"`
	LogFormat  *string           `hcl:"log_format,optional"`

	MaxPids       *int    `hcl:"max_pids,optional"`
	MaxOutputRate *string `hcl:"max_output_rate,optional"`
	MaxLogs       *string `hcl:"max_logs,optional"`

	AllowRootJobs       *bool `hcl:"allow_root_jobs,optional"`
	AllowUserNamespaces *bool `hcl:"allow_user_namespaces,optional"`
}

// readFile sets every flag that is in the file and not on the command line.
func readFile(c *cli.Context, path string) error {
	f, err := decodeFile(path)
	if err != nil {
		return err
	}
	if err := daemon.SetFlags(c, f); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	return nil
}

// decodeFile reads a configuration file.
func decodeFile(path string) (*file, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var f file
	if diags := hclfile.Decode(path, src, &f); diags.HasErrors() {
		return nil, fmt.Errorf("--config: %w", diags)
	}
	return &f, nil
}
