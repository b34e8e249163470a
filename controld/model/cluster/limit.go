package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Limit is the most that jobs of an account, a user or a queue may hold at once, run and queue. A
// nil field and a zero MaxTime limit nothing.
type Limit struct {
	Quota
	Running    *int64          `json:"running,omitempty"`     // jobs, from their start until their nodes are free
	Submitted  *int64          `json:"submitted,omitempty"`   // unfinished jobs, each array task counted
	GPUMinutes *int64          `json:"gpu_minutes,omitempty"` // of running jobs until their time limits
	Nodes      *int64          `json:"nodes,omitempty"`       // on which jobs run, each counted once
	MaxTime    jobspec.Seconds `json:"max_time,omitempty"`    // time limit of each job; 0: none
}

// UserRules are the settings of a user in all accounts and queues.
type UserRules struct {
	// DefaultAccount is charged for jobs that name no account, and the user may charge it.
	DefaultAccount string `json:"default_account,omitempty"`
	Limit          *Limit `json:"limit,omitempty"`
}

// EachUser stands in place of a user's name for the settings of every user. Each user has a count
// of its own. A setting under the user's own name goes before.
const EachUser = "*"

// OwnerKind says whose jobs a limit counts.
type OwnerKind uint8

// Kinds of owners, in the order in which their limits are checked.
const (
	UserInQueue OwnerKind = iota
	WholeQueue
	UserAnywhere
	UserInAccount
	WholeAccount // with the accounts below it

	OwnerKinds = int(iota) // how many there are
)

// Owner is an account, a user or a queue whose jobs are counted together for a limit.
type Owner struct {
	Kind OwnerKind
	Name string // of the queue or the account; "" of a user anywhere
	User string // "" of a whole queue or account
}

// String names the owner as messages do.
func (o Owner) String() string {
	switch o.Kind {
	case UserInQueue:
		return fmt.Sprintf("user %s in queue %s", o.User, o.Name)
	case WholeQueue:
		return "queue " + o.Name
	case UserAnywhere:
		return "user " + o.User
	case UserInAccount:
		return fmt.Sprintf("user %s in account %s", o.User, o.Name)
	}
	return "account " + o.Name
}

// Bound is a limit and the owner whose jobs it counts.
type Bound struct {
	Owner Owner
	Limit *Limit
}

// Bounds returns the limits on a user's jobs in a queue that are charged to an account, in the
// order of their checks.
func (c *Config) Bounds(account, user, queue string) []Bound {
	var all []Bound
	add := func(l *Limit, o Owner) {
		if l != nil {
			all = append(all, Bound{o, l})
		}
	}
	q := c.Queues[queue]
	add(q.Users[user].over(q.Users[EachUser]), Owner{UserInQueue, queue, user})
	add(q.Limit, Owner{WholeQueue, queue, ""})
	add(c.Users[user].Limit.over(c.Users[EachUser].Limit), Owner{UserAnywhere, "", user})
	add(c.LimitOf(account, user), Owner{UserInAccount, account, user})
	for at, depth := account, 0; at != "" && depth <= maxDepth; at, depth = c.Accounts[at].Parent, depth+1 {
		add(c.Accounts[at].Limit, Owner{WholeAccount, at, ""})
	}
	return all
}

// LimitOf returns the limit of a user's jobs in an account, nil for none.
func (c *Config) LimitOf(account, user string) *Limit {
	users := c.Accounts[account].Users
	return users[user].Limit.over(users[EachUser].Limit)
}

// HasLimits reports whether the configuration limits the jobs of any owner.
func (c *Config) HasLimits() bool {
	for _, q := range c.Queues {
		if q.Limit != nil || len(q.Users) > 0 {
			return true
		}
	}
	for _, u := range c.Users {
		if u.Limit != nil {
			return true
		}
	}
	for _, a := range c.Accounts {
		if a.Limit != nil {
			return true
		}
		for _, u := range a.Users {
			if u.Limit != nil {
				return true
			}
		}
	}
	return false
}

// over returns the limit of each user, overwritten by the fields of a user's own limit. It is nil if
// there is neither.
func (l *Limit) over(each *Limit) *Limit {
	if l == nil || each == nil {
		if l == nil {
			return each
		}
		return l
	}
	both := *each
	override(&both.Running, l.Running)
	override(&both.Submitted, l.Submitted)
	override(&both.GPUMinutes, l.GPUMinutes)
	override(&both.Nodes, l.Nodes)
	override(&both.GPUs, l.GPUs)
	override(&both.Cores, l.Cores)
	override(&both.Memory, l.Memory)
	if l.MaxTime != 0 {
		both.MaxTime = l.MaxTime
	}
	both.Models = l.Models
	return &both
}

func override[T any](field **T, own *T) {
	if own != nil {
		*field = own
	}
}

// Amounts returns the resources that a limit is about; nil for none.
func (l *Limit) Amounts() *Quota {
	if l == nil || l.GPUs == nil && l.Cores == nil && l.Memory == nil && len(l.Models) == 0 {
		return nil
	}
	return &l.Quota
}

// check says what of a limit makes no sense.
func (l *Limit) check(of string, bad func(string, ...any)) {
	if l == nil {
		return
	}
	l.Quota.check(of, bad)
	for _, n := range []struct {
		name  string
		value *int64
	}{{"running", l.Running}, {"submitted", l.Submitted}, {"gpu_minutes", l.GPUMinutes}, {"nodes", l.Nodes}} {
		if n.value != nil && (*n.value < 0 || *n.value > MaxLimit) {
			bad("%s: %s: %d is not from 0 to %d", of, n.name, *n.value, int64(MaxLimit))
		}
	}
	if l.MaxTime < 0 || l.MaxTime > jobspec.MaxDuration {
		bad("%s: max_time: %v is negative, or more than ten years", of, l.MaxTime)
	}
}

// MaxLimit bounds numbers of jobs, nodes and GPU minutes: more than a cluster could reach.
const MaxLimit = 1_000_000_000

// checkUsers says what of the settings of users, and of queues' limits, makes no sense.
func (c *Config) checkUsers(bad func(string, ...any)) {
	if len(c.Users) > MaxAccounts {
		bad("%d user blocks, at most %d", len(c.Users), MaxAccounts)
		return
	}
	account := func(of, name string) {
		if _, there := c.Accounts[name]; name != "" && !there {
			bad("%s: default_account: there is no account block %q", of, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Users)) {
		u, of := c.Users[name], "user "+quote(name)
		u.Limit.check(of+": limit", bad)
		u.Limit.noModels(of, bad)
		account(of, u.DefaultAccount)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		q, of := c.Queues[name], "queue "+quote(name)
		q.Limit.check(of+": limit", bad)
		q.Limit.noModels(of, bad)
		for _, user := range slices.Sorted(maps.Keys(q.Users)) {
			of := of + ", user " + quote(user)
			q.Users[user].check(of+": limit", bad)
			q.Users[user].noModels(of, bad)
		}
	}
}

// noModels refuses limits on GPUs of one model where only accounts and users in accounts may have
// them.
func (l *Limit) noModels(of string, bad func(string, ...any)) {
	if l != nil && len(l.Models) > 0 {
		bad("%s: limit: models is for an account, and for a user by name in an account", of)
	}
}

// DefaultAccountOf returns the account that is charged for jobs of a user that name none; "" if the
// configuration leaves it to the user's primary group.
func (c *Config) DefaultAccountOf(user string) string {
	if own := c.Users[user].DefaultAccount; own != "" {
		return own
	}
	return c.Users[EachUser].DefaultAccount
}

// LimitKind is what a limit counts.
type LimitKind uint8

// Kinds of counts.
const (
	LimitRunning LimitKind = iota
	LimitSubmitted
	LimitGPUs
	LimitGPUMinutes
	LimitCores
	LimitMemory
	LimitNodes
	LimitTime
)

// limitReasons are the reasons that Slurm gives, by owner and kind. A queue is a QOS to Slurm. The
// limits of a user anywhere are limits of a QOS that all jobs have.
var limitReasons = [...][LimitTime + 1]model.ReasonCode{
	UserInQueue: perUserReasons,
	WholeQueue: {"QOSGrpJobsLimit", "QOSGrpSubmitJobsLimit", "QOSGrpGRES", "QOSGrpGRESRunMinutes", "QOSGrpCpuLimit",
		"QOSGrpMemLimit", "QOSGrpNodeLimit", "QOSMaxWallDurationPerJobLimit"},
	UserAnywhere: perUserReasons,
	UserInAccount: {"AssocMaxJobsLimit", "AssocMaxSubmitJobLimit", "AssocGrpGRES", "AssocGrpGRESRunMinutes",
		"AssocGrpCpuLimit", "AssocGrpMemLimit", "AssocGrpNodeLimit", "AssocMaxWallDurationPerJobLimit"},
	WholeAccount: {"AssocGrpJobsLimit", "AssocGrpSubmitJobsLimit", "AssocGrpGRES", "AssocGrpGRESRunMinutes",
		"AssocGrpCpuLimit", "AssocGrpMemLimit", "AssocGrpNodeLimit", "AssocMaxWallDurationPerJobLimit"},
}

var perUserReasons = [LimitTime + 1]model.ReasonCode{"QOSMaxJobsPerUserLimit", "QOSMaxSubmitJobPerUserLimit",
	"QOSMaxGRESPerUser", "QOSMaxGRESRunMinutesPerUser", "QOSMaxCpuPerUserLimit", "QOSMaxMemoryPerUser",
	"QOSMaxNodePerUserLimit", "QOSMaxWallDurationPerJobLimit"}

// Reason returns Slurm's reason for a limit of this owner.
func (o Owner) Reason(kind LimitKind) model.ReasonCode { return limitReasons[o.Kind][kind] }
