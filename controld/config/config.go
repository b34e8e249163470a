// Package config parses cluster.hcl. The file has the settings of one controller, named like its
// flags, and the policy of the whole cluster, which the leader replicates.
package config

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// File is a parsed configuration file. A missing attribute is nil.
type File struct {
	Name          *string  `hcl:"name,optional"`
	DataDir       *string  `hcl:"data_dir,optional"`
	HTTP          *string  `hcl:"http,optional"`
	Raft          *string  `hcl:"raft,optional"`
	Gossip        *string  `hcl:"gossip,optional"`
	Advertise     *string  `hcl:"advertise,optional"`
	Socket        *string  `hcl:"socket,optional"`
	Join          []string `hcl:"join,optional"`
	LogFormat     *string  `hcl:"log_format,optional"`
	AllowRootJobs *bool    `hcl:"allow_root_jobs,optional"`
	RootJobsAs    *string  `hcl:"root_jobs_as,optional"`

	Operators []string `hcl:"operators,optional"` // users and "%group"s
	Admins    []string `hcl:"admins,optional"`
	Private   []string `hcl:"private,optional"` // kinds of data that users do not see of each other

	Timeouts *Timeouts `hcl:"timeouts,block"` // timeouts of this controller

	Cluster  *Cluster  `hcl:"cluster,block"`
	Limits   *Limits   `hcl:"limits,block"`
	Queues   []Queue   `hcl:"queue,block"`
	Policy   *Policy   `hcl:"policy,block"`
	Lease    *Lease    `hcl:"lease,block"`
	Accounts []Account `hcl:"account,block"`
	Licenses []License `hcl:"license,block"`
	Capacity *Quota    `hcl:"capacity,block"` // intended capacity of the cluster

	DefaultAccount *string     `hcl:"default_account,optional"` // of users without one of their own
	Users          []UserRules `hcl:"user,block"`

	AccountRules *AccountRules `hcl:"accounts,block"`
	History      *History      `hcl:"history,block"`
}

// License is a cluster-wide countable resource that jobs hold without a node.
type License struct {
	Name  string `hcl:"name,label"`
	Count int    `hcl:"count"`
}

// Cluster names the cluster.
type Cluster struct {
	Name string `hcl:"name"`
}

// History says how long ended jobs are kept. Without it they are kept for ever.
type History struct {
	Keep jobspec.Seconds `hcl:"keep,optional"` // time after their end
}

// Limits apply to each user, except MaxAllSpecBytes. Operators and admins are not bound by them.
type Limits struct {
	MaxSubmitJobs int `hcl:"max_submit_jobs,optional"` // unfinished jobs, counting array tasks
	MaxRequests   int `hcl:"max_requests,optional"`    // waiting or following requests at one controller
	MaxReads      int `hcl:"max_reads,optional"`       // immediate reads per second at one controller
	MaxProcessor  int `hcl:"max_processor,optional"`   // percent of a core for requests, at one controller

	MaxSpecBytes    jobspec.Bytes `hcl:"max_spec_bytes,optional"`     // scripts, environments and the rest of its jobs
	MaxAllSpecBytes jobspec.Bytes `hcl:"max_all_spec_bytes,optional"` // the same for all users; binds admins too
}

// Queue is a set of defaults and limits. A missing setting has the value of a new cluster's queue
// "default".
type Queue struct {
	Name         string            `hcl:"name,label"`
	DefaultClass string            `hcl:"default_class,optional"`
	DefaultTime  jobspec.Seconds   `hcl:"default_time,optional"`
	MaxTime      jobspec.Seconds   `hcl:"max_time,optional"`
	TEMaxTime    jobspec.Seconds   `hcl:"te_max_time,optional"`
	TEMaxGPUs    int               `hcl:"te_max_gpus,optional"`
	MaxGrace     jobspec.Seconds   `hcl:"max_grace,optional"`
	MaxRequeues  *int              `hcl:"max_requeues,optional"` // nil: the policy's value
	OnNodeLost   string            `hcl:"on_node_lost,optional"` // see [cluster.Config.WaitsIfLost]
	Aliases      []string          `hcl:"aliases,optional"`
	Accounts     []string          `hcl:"accounts,optional"`
	Nodes        []string          `hcl:"nodes,optional"`
	Labels       map[string]string `hcl:"labels,optional"`
	Limit        *Limit            `hcl:"limit,block"`
	Users        []QueueUser       `hcl:"user,block"`

	Oversubscribe *int `hcl:"oversubscribe,optional"` // see [cluster.Sharing]
	Pack          bool `hcl:"pack,optional"`
	Migrate       bool `hcl:"migrate,optional"`
}

// sharingOf returns the replicated form of how jobs share GPUs. A factor of 1 means
// that no jobs take turns, which is the same as 0.
func sharingOf(oversubscribe *int, pack, migrate bool) cluster.Sharing {
	s := cluster.Sharing{Pack: pack, Migrate: migrate}
	if oversubscribe != nil && *oversubscribe > 1 {
		s.Oversubscribe = *oversubscribe
	}
	return s
}

// Lease is how long a worker may run without contact to a leader.
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

// Parse parses the text of a file; name is for messages.
func Parse(name string, src []byte) (*File, error) {
	f := &File{}
	read, diags := hclfile.Load(name, src, hclfile.SchemaOf(f), f, hclfile.Options{})
	if len(diags) == 0 {
		var more diagnostic.Diagnostics
		f.check(func(path, text, hint string) { more = append(more, read.At(path, diagnostic.CodeValue, text, hint)) })
		diags = diags.Merge(more)
	}
	if len(diags) > 0 {
		var text strings.Builder
		_ = diags.WriteText(&text, false) // writing to a buffer never fails
		return nil, fmt.Errorf("invalid configuration %s:\n%s", name, strings.TrimRight(text.String(), "\n"))
	}
	if cfg := f.Replicated(); cfg != nil {
		if err := cmp.Or(cluster.CheckAccounts(cfg), cfg.CheckAliases()); err != nil {
			return nil, fmt.Errorf("invalid configuration %s:\n%w", name, err)
		}
	}
	return f, nil
}

// Replicated returns the cluster's configuration in the file, or nil if the file has none and the
// log's configuration stays. If the file names no policy, its name is empty and the cluster keeps
// its policy.
func (f *File) Replicated() *cluster.Config {
	if f.Cluster == nil && f.Limits == nil && len(f.Queues) == 0 && f.Policy == nil && f.Lease == nil &&
		len(f.Accounts)+len(f.Licenses) == 0 && f.History == nil &&
		f.Capacity == nil && f.AccountRules == nil && f.DefaultAccount == nil && len(f.Users) == 0 &&
		len(f.Operators)+len(f.Admins)+len(f.Private) == 0 {
		return nil
	}
	cfg := cluster.DefaultConfig()
	if f.Cluster != nil {
		cfg.ClusterName = f.Cluster.Name
	}
	if f.Limits != nil {
		cfg.MaxSubmitJobs, cfg.MaxRequests, cfg.MaxReads = f.Limits.MaxSubmitJobs, f.Limits.MaxRequests, f.Limits.MaxReads
		cfg.MaxProcessor = f.Limits.MaxProcessor
		cfg.MaxSpecBytes, cfg.MaxAllSpecBytes = f.Limits.MaxSpecBytes, f.Limits.MaxAllSpecBytes
	}
	if f.History != nil {
		cfg.HistoryKeep = f.History.Keep
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
	cfg.Operators, cfg.Admins, cfg.Private = listed(f.Operators), listed(f.Admins), listed(f.Private)
	for _, l := range f.Licenses {
		if cfg.Licenses == nil {
			cfg.Licenses = map[string]int{}
		}
		cfg.Licenses[l.Name] = l.Count
	}
	cfg.Accounts, cfg.Users, cfg.Capacity = f.accounts(), f.users(), f.Capacity.quota()
	if r := f.AccountRules; r != nil && r.Create != nil {
		cfg.NoNewAccounts = !*r.Create
	}
	return &cfg
}

// OfController reports whether the file has settings of one controller, which are not replicated.
func (f *File) OfController() bool {
	for _, text := range []*string{f.Name, f.DataDir, f.HTTP, f.Raft, f.Gossip, f.Advertise, f.Socket, f.LogFormat,
		f.RootJobsAs} {
		if text != nil {
			return true
		}
	}
	return len(f.Join) > 0 || f.AllowRootJobs != nil || f.Timeouts != nil
}

// listed returns a list in its log form: nil if it is empty.
func listed(names []string) []string { return append([]string(nil), names...) }

// set stores a value unless it is missing.
func set[T comparable](field *T, value T) {
	var none T
	if value != none {
		*field = value
	}
}

// over applies the settings of q to the defaults. Defaults beyond max_time are cut to it; otherwise
// all jobs without a time limit would be refused.
func (q Queue) over(base cluster.Queue) cluster.Queue {
	set(&base.DefaultClass, jobspec.Class(q.DefaultClass))
	set(&base.DefaultTime, q.DefaultTime)
	set(&base.MaxTime, q.MaxTime)
	set(&base.TEMaxTime, q.TEMaxTime)
	if base.MaxTime > 0 {
		base.DefaultTime, base.TEMaxTime = min(base.DefaultTime, base.MaxTime), min(base.TEMaxTime, base.MaxTime)
	}
	set(&base.TEMaxGPUs, q.TEMaxGPUs)
	set(&base.MaxGrace, q.MaxGrace)
	if q.MaxRequeues != nil {
		base.MaxRequeues = q.MaxRequeues
	}
	if rule, err := jobspec.ParseNodeLoss(q.OnNodeLost); err == nil { // check has refused invalid words
		set(&base.OnNodeLost, rule)
	}
	base.Aliases = listed(q.Aliases)
	base.Accounts, base.Nodes, base.Labels = listed(q.Accounts), listed(q.Nodes), q.Labels
	base.Limit, base.Users = q.Limit.replicated(), queueUsers(q.Users)
	base.Sharing = sharingOf(q.Oversubscribe, q.Pack, q.Migrate)
	return base
}
