// Package config reads cluster.hcl: the settings of one controller, under the names of its flags, and the policy of the whole cluster,
// which the leader replicates.
package config

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// File is what a configuration file says. An attribute that it does not have is nil.
type File struct {
	Name            *string  `hcl:"name,optional"`
	DataDir         *string  `hcl:"data_dir,optional"`
	HTTP            *string  `hcl:"http,optional"`
	Raft            *string  `hcl:"raft,optional"`
	Gossip          *string  `hcl:"gossip,optional"`
	Advertise       *string  `hcl:"advertise,optional"`
	Socket          *string  `hcl:"socket,optional"`
	Join            []string `hcl:"join,optional"`
	BootstrapExpect *int     `hcl:"bootstrap_expect,optional"`
	ClusterKeyFile  *string  `hcl:"cluster_key_file,optional"`
	LogFormat       *string  `hcl:"log_format,optional"`
	AllowRootJobs   *bool    `hcl:"allow_root_jobs,optional"`
	RootJobsAs      *string  `hcl:"root_jobs_as,optional"`
	Operators       []string `hcl:"operators,optional"`

	Cluster  *Cluster  `hcl:"cluster,block"`
	Queues   []Queue   `hcl:"queue,block"`
	Policy   *Policy   `hcl:"policy,block"`
	Lease    *Lease    `hcl:"lease,block"`
	Accounts []Account `hcl:"account,block"`
	Capacity *Quota    `hcl:"capacity,block"` // of the cluster as it should be
}

// Cluster names the cluster.
type Cluster struct {
	Name string `hcl:"name"`
}

// Queue is a set of defaults and limits. What is not written is as in the queue "default" of a new cluster.
type Queue struct {
	Name         string          `hcl:"name,label"`
	DefaultClass string          `hcl:"default_class,optional"`
	DefaultTime  jobspec.Seconds `hcl:"default_time,optional"`
	MaxTime      jobspec.Seconds `hcl:"max_time,optional"`
	TEMaxTime    jobspec.Seconds `hcl:"te_max_time,optional"`
	TEMaxGPUs    int             `hcl:"te_max_gpus,optional"`
	MaxGrace     jobspec.Seconds `hcl:"max_grace,optional"`
}

// Policy is how jobs are ordered and retried.
type Policy struct {
	ReserveAfter   time.Duration `hcl:"reserve_after,optional"`
	MaxBypass      int           `hcl:"max_bypass,optional"`
	ReserveHold    time.Duration `hcl:"reserve_hold,optional"`
	MaxLaunchFails int           `hcl:"max_launch_failures,optional"`
	MaxRequeues    int           `hcl:"max_requeues,optional"`
	MaxNodeLosses  int           `hcl:"max_node_losses,optional"`

	Name           string          `hcl:"name,optional"`            // which of the policies
	MinRuntime     time.Duration   `hcl:"min_runtime,optional"`     // before which a job is not displaced
	HalfLife       jobspec.Seconds `hcl:"half_life,optional"`       // after which usage counts half
	UsageInfluence float64         `hcl:"usage_influence,optional"` // on how that is divided which nobody deserves
}

// Lease is how long a worker may run without word from a leader.
type Lease struct {
	Duration time.Duration `hcl:"duration,optional"`
	Margin   time.Duration `hcl:"margin,optional"`
	NodeDown time.Duration `hcl:"node_down,optional"`
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
	f := &File{}
	if diags := hclfile.Decode(name, src, f); len(diags) > 0 {
		var text strings.Builder
		_ = diags.WriteText(&text, false) // a buffer takes everything
		return nil, fmt.Errorf("configuration %s cannot be used:\n%s", name, strings.TrimRight(text.String(), "\n"))
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("configuration %s cannot be used:\n%w", name, err)
	}
	return f, nil
}

// Replicated returns the cluster's configuration that the file describes, or nil if it says nothing of it and the log's stays.
func (f *File) Replicated() *cluster.Config {
	if f.Cluster == nil && len(f.Queues) == 0 && f.Policy == nil && f.Lease == nil && len(f.Accounts) == 0 && f.Capacity == nil {
		return nil
	}
	cfg := cluster.DefaultConfig()
	if f.Cluster != nil {
		cfg.ClusterName = f.Cluster.Name
	}
	base := cfg.Queues["default"]
	for _, q := range f.Queues {
		cfg.Queues[q.Name] = q.over(base)
	}
	if f.Policy != nil {
		cfg.Policy = f.Policy.over(cfg.Policy)
	}
	if f.Lease != nil {
		set(&cfg.LeaseMS, f.Lease.Duration.Milliseconds())
		set(&cfg.MarginMS, f.Lease.Margin.Milliseconds())
		set(&cfg.NodeDownMS, f.Lease.NodeDown.Milliseconds())
	}
	cfg.Accounts, cfg.Capacity = f.accounts(), f.Capacity.quota()
	return &cfg
}

// set stores a value that was written.
func set[T comparable](field *T, value T) {
	var none T
	if value != none {
		*field = value
	}
}

func (q Queue) over(base cluster.Queue) cluster.Queue {
	set(&base.DefaultClass, jobspec.Class(q.DefaultClass))
	set(&base.DefaultTime, q.DefaultTime)
	set(&base.MaxTime, q.MaxTime)
	set(&base.TEMaxTime, q.TEMaxTime)
	set(&base.TEMaxGPUs, q.TEMaxGPUs)
	set(&base.MaxGrace, q.MaxGrace)
	return base
}

func (p Policy) over(base cluster.Policy) cluster.Policy {
	set(&base.ReserveAfterMS, p.ReserveAfter.Milliseconds())
	set(&base.MaxBypass, p.MaxBypass)
	set(&base.ReserveHoldMS, p.ReserveHold.Milliseconds())
	set(&base.MaxLaunchFails, p.MaxLaunchFails)
	set(&base.MaxRequeues, p.MaxRequeues)
	set(&base.MaxNodeLosses, p.MaxNodeLosses)
	set(&base.Name, p.Name)
	set(&base.MinRuntimeMS, p.MinRuntime.Milliseconds())
	set(&base.HalfLifeMS, int64(p.HalfLife)*1000)
	set(&base.UsageInfluence, int(math.Round(p.UsageInfluence*1000)))
	return base
}
