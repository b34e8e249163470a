// Package config reads the configuration file of the node daemon. The daemon's program and "rota doctor"
// read it with the same grammar.
package config

import (
	"fmt"
	"os"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// File is a configuration file. Its attributes are named after the flags, with underscores for
// hyphens. Flags that may be repeated are lists, and labels are a map.
type File struct {
	Name       *string           `hcl:"name,optional"`
	DataDir    *string           `hcl:"data_dir,optional"`
	Gossip     *string           `hcl:"gossip,optional"`
	HTTP       *string           `hcl:"http,optional"`
	Join       []string          `hcl:"join,optional"`
	Controller []string          `hcl:"controller,optional"`
	Socket     *string           `hcl:"socket,optional"`
	Cores      *int              `hcl:"cores,optional"`
	Memory     *string           `hcl:"memory,optional"`
	GPUs       *int              `hcl:"gpus,optional"`
	SimGPUs    *int              `hcl:"sim_gpus,optional"`
	MPS        *bool             `hcl:"mps,optional"`
	Label      map[string]string `hcl:"label,optional"`
	CgroupRoot *string           `hcl:"cgroup_root,optional"`
	SharedPath []string          `hcl:"shared_path,optional"`
	Ports      *string           `hcl:"ports,optional"`
	Login      *bool             `hcl:"login,optional"`
	Shim       *string           `hcl:"shim,optional"`
	Init       *string           `hcl:"init,optional"`
	Rota       *string           `hcl:"rota,optional"`
	WarmShims  *int              `hcl:"warm_shims,optional"`
	MaxMemlock *string           `hcl:"max_memlock,optional"`
	MaxNofile  *int              `hcl:"max_nofile,optional"`
	LogFormat  *string           `hcl:"log_format,optional"`

	MaxPids       *int    `hcl:"max_pids,optional"`
	MaxOutputRate *string `hcl:"max_output_rate,optional"`
	MaxLogs       *string `hcl:"max_logs,optional"`

	AllowRootJobs       *bool `hcl:"allow_root_jobs,optional"`
	AllowUserNamespaces *bool `hcl:"allow_user_namespaces,optional"`

	Criu        *bool   `hcl:"criu,optional"`
	CriuProgram *string `hcl:"criu_program,optional"`
}

// Read reads a file. Its error shows every mistake with its place.
func Read(path string) (*File, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, src)
}

// Parse reads the text of a file; name is for messages.
func Parse(name string, src []byte) (*File, error) {
	var f File
	if diags := hclfile.Decode(name, src, &f); diags.HasErrors() {
		return nil, diags
	}
	return &f, nil
}
