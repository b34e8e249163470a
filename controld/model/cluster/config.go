// Package cluster has what an administrator sets for the whole cluster: queues, accounts, limits, the
// policy and its tunables. The log replicates it; [github.com/rota-hpc/rota/controld/config] reads it
// from cluster.hcl.
package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Config is the replicated configuration.
type Config struct {
	ClusterName string           `json:"cluster_name"`
	Version     int              `json:"version"` // cluster version: which command kinds may be used
	Queues      map[string]Queue `json:"queues"`
	Policy      Policy           `json:"policy"`
	LeaseMS     int64            `json:"lease_ms"`        // how long a worker may run without word from a leader
	MarginMS    int64            `json:"lease_margin_ms"` // added before a lost attempt is replaced
	NodeDownMS  int64            `json:"node_down_ms"`    // silence after which a node is down

	// Users and "%group"s with a role: operators act on all jobs and nodes, admins on the cluster too.
	Operators []string `json:"operators,omitempty"`
	Admins    []string `json:"admins,omitempty"`
	Private   []string `json:"private,omitempty"` // what users do not see of each other, such as PrivateJobs

	// MaxSubmitJobs is how many unfinished jobs a user may have, array tasks counted; 0:
	// [DefaultMaxSubmitJobs]. MaxRequests is how many requests of a user that wait or follow a
	// controller works on at once; 0: [DefaultMaxRequests]. MaxReads is how many of a user's reads that
	// do not wait a controller answers in a second, over ten seconds; 0: [DefaultMaxReads]. MaxProcessor is
	// the processor time that a user's requests may take at one controller, in percent of one core over
	// ten seconds; 0: [DefaultMaxProcessor]. Operators and admins are not bound.
	MaxSubmitJobs int `json:"max_submit_jobs,omitempty"`
	MaxRequests   int `json:"max_requests,omitempty"`
	MaxReads      int `json:"max_reads,omitempty"`
	MaxProcessor  int `json:"max_processor,omitempty"`

	// MaxSpecBytes bounds the bytes of job specifications (scripts, environments, parameters) of
	// one user's jobs in the state. Jobs count for a while after their end, too. 0:
	// [DefaultMaxSpecBytes]. Operators and admins are not bound. MaxAllSpecBytes is the same for
	// all users together, and binds everybody; 0: [DefaultMaxAllSpecBytes].
	MaxSpecBytes    jobspec.Bytes `json:"max_spec_bytes,omitempty"`
	MaxAllSpecBytes jobspec.Bytes `json:"max_all_spec_bytes,omitempty"`

	// HistoryKeep is how long ended jobs are kept in the history after their end; 0: for ever. It is at
	// least [MinHistoryKeep].
	HistoryKeep jobspec.Seconds `json:"history_keep,omitempty"`

	Accounts map[string]Account `json:"accounts,omitempty"`
	// settings of users in all accounts and queues, by name; [EachUser]: of those without a setting
	// of their own
	Users map[string]UserRules `json:"users,omitempty"`
	// how many there are of what jobs hold without a node, by name, such as licences of a program
	Licenses map[string]int `json:"licenses,omitempty"`
	// no account is created for the Unix group of a user at its first job
	NoNewAccounts bool `json:"no_new_accounts,omitempty"`
	// of the cluster as it should be; nil: that of all nodes that have registered
	Capacity *Quota `json:"capacity,omitempty"`
}

// Limits of a user where the configuration does not say.
const (
	DefaultMaxSubmitJobs = 200_000 // a fifth of what the cluster holds
	DefaultMaxRequests   = 256     // commands that wait or follow, of all the user's shells
	DefaultMaxReads      = 50      // more is a loop that should wait for a change
	DefaultMaxProcessor  = 50      // a guess: one user leaves half a core and all others to the rest
)

// Bytes of job specifications where the configuration does not say: 200,000 jobs of sbatch with an environment
// of 4 KiB are below the first. Each controller keeps them all in memory.
const (
	DefaultMaxSpecBytes    = 1 * jobspec.GiB
	DefaultMaxAllSpecBytes = 4 * jobspec.GiB
)

// MinHistoryKeep is the shortest time that ended jobs are kept for: less is a mistake in the unit, and
// what is removed is gone.
const MinHistoryKeep jobspec.Seconds = 24 * 3600

// Queue is a set of defaults and limits that jobs are submitted to.
type Queue struct {
	DefaultClass jobspec.Class   `json:"default_class"`
	DefaultTime  jobspec.Seconds `json:"default_time"`
	MaxTime      jobspec.Seconds `json:"max_time"` // 0: none
	TEMaxTime    jobspec.Seconds `json:"te_max_time"`
	TEMaxGPUs    int             `json:"te_max_gpus"`
	MaxGrace     jobspec.Seconds `json:"max_grace"`
	// how often a job may ask itself to be started again before it is held; nil: as the policy has it
	MaxRequeues *int `json:"max_requeues,omitempty"`
	// what becomes of a job whose node is lost, if the job does not say it; 0: see [Config.WaitsIfLost]
	OnNodeLost jobspec.NodeLoss `json:"on_node_lost,omitempty"`
	// other names by which jobs and filters may name the queue, such as those of Slurm's partitions
	Aliases []string `json:"aliases,omitempty"`
	// accounts whose jobs it takes, with those below them; none: all
	Accounts []string `json:"accounts,omitempty"`
	// nodes on which its jobs run, by names such as gpu[01-08], and by labels: a node meets both.
	// None: all
	Nodes  []string          `json:"nodes,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`

	Limit *Limit            `json:"limit,omitempty"` // of all its jobs together; nil: none
	Users map[string]*Limit `json:"users,omitempty"` // of each user's jobs in it, by user or for [EachUser]
	Sharing
}

// TimeLimit returns the limit of a group: its own, its job's, or the queue's.
func (q *Queue) TimeLimit(spec *jobspec.Job, g *jobspec.Group, class jobspec.Class) jobspec.Seconds {
	if class == jobspec.TE {
		return cmp.Or(g.TimeLimit, spec.TimeLimit, q.TEMaxTime)
	}
	return cmp.Or(g.TimeLimit, spec.TimeLimit, q.DefaultTime)
}

// Policy is what sched needs to know besides the state.
type Policy struct {
	Name           string `json:"name,omitempty"`       // which of the policies that sched knows; "": the default one
	MinRunMS       int64  `json:"min_run_ms,omitempty"` // of the baselines that displace jobs: how long one runs first
	ReserveAfterMS int64  `json:"reserve_after_ms"`     // a blocked head older than this gets its room reserved
	MaxBypass      int    `json:"max_bypass"`           // starts past a blocked head before it is reserved for in any case
	ReserveHoldMS  int64  `json:"reserve_hold_ms"`      // how long a reservation lasts
	MaxLaunchFails int    `json:"max_launch_fails"`
	MaxRequeues    int    `json:"max_requeues"`
	MaxNodeLosses  int    `json:"max_node_losses"`

	// Of fair sharing.
	// after which usage counts half; 0: no decay within the week that is known
	HalfLifeMS int64 `json:"half_life_ms,omitempty"`
	// how much past usage counts in dividing what no account is entitled to, in thousandths; 0: not at
	// all
	UsageInfluence int `json:"usage_influence,omitempty"`

	// Of policies that displace jobs. A field that is 0 has the policy's value. thousandths: how
	// much a long grace weighs against size; negative: nothing
	GraceWeight int64 `json:"grace_weight,omitempty"`
	// how often one job may be displaced: fitgpp in its life, rota in a day; negative: any number
	MaxPreempts    int    `json:"max_preempts,omitempty"`
	RandomUncapped bool   `json:"random_uncapped,omitempty"` // fitgpp: its victims drawn at random do not obey the limit
	Placement      string `json:"placement,omitempty"`       // fitgpp: first, best, worst or random fit
	Seed           uint64 `json:"seed,omitempty"`            // of what is drawn at random
	// rota: a job that has run for less is displaced only if nothing else helps
	MinRuntimeMS int64 `json:"min_runtime_ms,omitempty"`
	// rota: how long a job runs before one that has had less may take its turn; negative: for ever
	MinTurnMS int64 `json:"min_turn_ms,omitempty"`
	// rota: GPUs that trial-and-error jobs of one account may hold at once, instead of TEAccountPM
	TEAccountGPUs int64 `json:"te_account_gpus,omitempty"`
	// rota: thousandths of the cluster that trial-and-error jobs of one account, and of one user,
	// may hold at once. One job is always allowed; negative: only one; from 1000 on: no limit
	TEAccountPM int64 `json:"te_account_pm,omitempty"`
	TEUserPM    int64 `json:"te_user_pm,omitempty"`
	// rota: thousandths of what an account deserves that it lends to trial-and-error jobs of others;
	// negative: nothing
	TEBorrowPM int64 `json:"te_borrow_pm,omitempty"`
	// rota: thousandths of the GPUs that are kept free for them at most; negative: none
	HeadroomPM int64 `json:"headroom_pm,omitempty"`

	// Of policies that give elastic jobs more and fewer workers. A field that is 0 has the value of
	// the job or of the policy.
	GrowAfterMS int64 `json:"grow_after_ms,omitempty"` // how long room is free before a job grows into it
	CooldownMS  int64 `json:"cooldown_ms,omitempty"`   // how long a job keeps its size unless others need its room
	// elastic: thousandths by which more workers must make a job faster to stay
	GrowGainPM int64 `json:"grow_gain_pm,omitempty"`
	Rigid      bool  `json:"rigid,omitempty"` // rota: elastic jobs have their least workers and no more

	Tuning // of policy rota
}

// NewPolicy is the scheduling policy of a new cluster.
const NewPolicy = "rota"

// Policies are the scheduling policies that a cluster may be given. The simulator has more, to
// compare with.
var Policies = []string{"rota", "fairshare", "standard", "fitgpp", "backfill", "fifo"}

// MayRun refuses a policy that belongs to the simulator to a cluster that has another one; have is ""
// for a new cluster. A cluster that an earlier version gave such a policy keeps it.
func MayRun(policy, have string) error {
	if policy == "" || policy == have || slices.Contains(Policies, policy) {
		return nil
	}
	return fmt.Errorf("policy %q is only for comparisons in the simulator (rota sim --policy %s): a cluster may run %s",
		policy, policy, strings.Join(Policies, ", "))
}

// InitialConfig returns the configuration that the log of every cluster starts from: the defaults
// with [NewPolicy].
func InitialConfig() Config {
	c := DefaultConfig()
	c.Policy.Name = NewPolicy
	return c
}

// DefaultConfig returns what holds where a configuration file says nothing. It names no policy:
// such a file leaves the cluster's policy as it is.
func DefaultConfig() Config {
	return Config{
		ClusterName: "rota",
		Version:     1,
		Queues: map[string]Queue{"default": {
			DefaultClass: jobspec.BE, DefaultTime: 24 * 3600, TEMaxTime: 2 * 3600, TEMaxGPUs: 16, MaxGrace: 20 * 60,
		}},
		Policy: Policy{
			ReserveAfterMS: 10 * 60 * 1000, MaxBypass: 64, ReserveHoldMS: 60 * 60 * 1000,
			MaxLaunchFails: 3, MaxRequeues: 16, MaxNodeLosses: 10,
		},
		LeaseMS: 10 * 60 * 1000, MarginMS: 30 * 1000, NodeDownMS: 15 * 1000,
	}
}

// QueueName returns the name of the queue that a user means. An alias stands for its queue, an
// empty name for "default", and an unknown name for itself.
func (c *Config) QueueName(name string) string {
	if _, is := c.Queues[name]; is || name == "" {
		return cmp.Or(name, model.DefaultQueue)
	}
	for queue, q := range c.Queues {
		if slices.Contains(q.Aliases, name) {
			return queue
		}
	}
	return name
}

// CheckAliases refuses an alias of a queue that could mean another one too.
func (c *Config) CheckAliases() error {
	of := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		for _, alias := range c.Queues[name].Aliases {
			_, is := c.Queues[alias]
			switch {
			case !jobspec.ValidName(alias):
				return fmt.Errorf("queue %q: the alias %q is not a name", name, alias)
			case is:
				return fmt.Errorf("queue %q: the alias %q is also the name of a queue", name, alias)
			case of[alias] != "":
				return fmt.Errorf("the alias %q belongs to both queue %q and queue %q", alias, of[alias], name)
			}
			of[alias] = name
		}
	}
	return nil
}

// MaxRequeues returns how often a job of a queue may ask for another attempt before it is held. It
// also returns the name of the setting that limits it.
func (c *Config) MaxRequeues(queue string) (most int, setting string) {
	if q := c.Queues[queue]; q.MaxRequeues != nil {
		return *q.MaxRequeues, fmt.Sprintf("max_requeues of queue %q", queue)
	}
	return c.Policy.MaxRequeues, fmt.Sprintf("max_requeues of the policy (queue %q does not set it)", queue)
}

// SmallCluster is the largest number of nodes with which jobs wait for a lost node by default.
// There is hardly another node to run on, and too few to witness an outage.
const SmallCluster = 2

// WaitsIfLost reports whether an attempt that begins now waits for its nodes if they are lost, in a
// cluster of so many nodes. See [Attempt.Waits].
func (c *Config) WaitsIfLost(j *model.Job, nodes int) bool {
	rule := cmp.Or(j.Spec.OnNodeLost, c.Queues[j.Queue].OnNodeLost)
	return rule == jobspec.NodeLossWait || rule == 0 && nodes <= SmallCluster
}

// LeaseSpan is how long after its node was last heard of a worker may still run.
func (c *Config) LeaseSpan() model.Instant { return model.Instant(c.LeaseMS + c.MarginMS) }
