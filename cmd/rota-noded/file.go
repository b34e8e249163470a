package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// file is a configuration file. Its attributes are named after the flags, with underscores for
// hyphens. Flags that may be repeated are lists, and labels are a map.
type file struct {
	Name           *string           `hcl:"name,optional"`
	DataDir        *string           `hcl:"data_dir,optional"`
	Gossip         *string           `hcl:"gossip,optional"`
	HTTP           *string           `hcl:"http,optional"`
	Join           []string          `hcl:"join,optional"`
	Controller     []string          `hcl:"controller,optional"`
	Socket         *string           `hcl:"socket,optional"`
	Cores          *int              `hcl:"cores,optional"`
	Memory         *string           `hcl:"memory,optional"`
	SimGPUs        *int              `hcl:"sim_gpus,optional"`
	Label          map[string]string `hcl:"label,optional"`
	CgroupRoot     *string           `hcl:"cgroup_root,optional"`
	SharedPath     []string          `hcl:"shared_path,optional"`
	Ports          *string           `hcl:"ports,optional"`
	ClusterKeyFile *string           `hcl:"cluster_key_file,optional"`
	Shim           *string           `hcl:"shim,optional"`
	Init           *string           `hcl:"init,optional"`
	WarmShims      *int              `hcl:"warm_shims,optional"`
	MaxMemlock     *string           `hcl:"max_memlock,optional"`
	MaxNofile      *int              `hcl:"max_nofile,optional"`
	LogFormat      *string           `hcl:"log_format,optional"`
}

// readFile sets every flag that is in the file and not on the command line.
func readFile(c *cli.Context, path string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var f file
	if diags := hclfile.Decode(path, src, &f); diags.HasErrors() {
		return fmt.Errorf("--config: %w", diags)
	}
	for name, values := range f.flags() {
		if c.IsSet(name) {
			continue
		}
		for _, v := range values {
			if err := c.Set(name, v); err != nil {
				return fmt.Errorf("--config %s: %s: %w", path, name, err)
			}
		}
	}
	return nil
}

// flags returns the settings of the file by the names of their flags.
func (f *file) flags() map[string][]string {
	out := map[string][]string{"join": f.Join, "controller": f.Controller, "shared-path": f.SharedPath}
	for name, v := range map[string]*string{
		"name": f.Name, "data-dir": f.DataDir, "gossip": f.Gossip, "http": f.HTTP, "socket": f.Socket,
		"memory":      f.Memory,
		"cgroup-root": f.CgroupRoot, "ports": f.Ports, "cluster-key-file": f.ClusterKeyFile, "shim": f.Shim,
		"init":       f.Init,
		"log-format": f.LogFormat, "max-memlock": f.MaxMemlock,
	} {
		if v != nil {
			out[name] = []string{*v}
		}
	}
	for name, v := range map[string]*int{
		"cores": f.Cores, "sim-gpus": f.SimGPUs, "warm-shims": f.WarmShims, "max-nofile": f.MaxNofile,
	} {
		if v != nil {
			out[name] = []string{strconv.Itoa(*v)}
		}
	}
	for key, value := range f.Label {
		out["label"] = append(out["label"], strings.Join([]string{key, value}, "="))
	}
	return out
}
