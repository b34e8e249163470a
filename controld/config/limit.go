package config

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Limit is the most that jobs of an account, a user or a queue may hold at once, run and queue. An
// attribute that is not written limits nothing.
type Limit struct {
	GPUs       *int            `hcl:"gpus,optional"`
	Cores      *int            `hcl:"cores,optional"`
	Memory     Memory          `hcl:"memory,optional"`
	Models     map[string]int  `hcl:"models,optional"`
	Running    *int            `hcl:"running,optional"`
	Submitted  *int            `hcl:"submitted,optional"`
	GPUMinutes *int            `hcl:"gpu_minutes,optional"`
	Nodes      *int            `hcl:"nodes,optional"`
	MaxTime    jobspec.Seconds `hcl:"max_time,optional"`
}

// UserRules are the settings of a user in all accounts and queues; of each user by the name "*".
type UserRules struct {
	Name           string  `hcl:"name,label"`
	DefaultAccount *string `hcl:"default_account,optional"`
	Limit          *Limit  `hcl:"limit,block"`
}

// QueueUser is the limit of a user in a queue; of each user by the name "*".
type QueueUser struct {
	Name  string `hcl:"name,label"`
	Limit *Limit `hcl:"limit,block"`
}

// replicated is the replicated form of a limit, nil if nothing is written.
func (l *Limit) replicated() *cluster.Limit {
	if l == nil {
		return nil
	}
	amounts := &Quota{GPUs: l.GPUs, Cores: l.Cores, Memory: l.Memory, Models: l.Models}
	return &cluster.Limit{Quota: *amounts.quota(), Running: times(l.Running, 1), Submitted: times(l.Submitted, 1),
		GPUMinutes: times(l.GPUMinutes, 1), Nodes: times(l.Nodes, 1), MaxTime: l.MaxTime}
}

// users is the replicated form of the settings of users, nil for none.
func (f *File) users() map[string]cluster.UserRules {
	var all map[string]cluster.UserRules
	add := func(name string, rules cluster.UserRules) {
		if all == nil {
			all = map[string]cluster.UserRules{}
		}
		all[name] = rules
	}
	if f.DefaultAccount != nil {
		add(cluster.EachUser, cluster.UserRules{DefaultAccount: *f.DefaultAccount})
	}
	for _, u := range f.Users {
		rules := cluster.UserRules{Limit: u.Limit.replicated()}
		switch {
		case u.DefaultAccount != nil:
			rules.DefaultAccount = *u.DefaultAccount
		case u.Name == cluster.EachUser:
			rules.DefaultAccount = all[u.Name].DefaultAccount
		}
		add(u.Name, rules)
	}
	return all
}

// queueUsers is the replicated form of the limits of users in a queue, nil for none.
func queueUsers(users []QueueUser) map[string]*cluster.Limit {
	var all map[string]*cluster.Limit
	for _, u := range users {
		if all == nil {
			all = map[string]*cluster.Limit{}
		}
		all[u.Name] = u.Limit.replicated()
	}
	return all
}

// checkUsers reports user blocks that say nothing, or one thing twice.
func (f *File) checkUsers(bad func(path, text, hint string)) {
	if f.DefaultAccount != nil && *f.DefaultAccount == "" {
		bad("default_account", "default_account is empty", "leave it out to charge the account of each user's primary group")
	}
	for i, u := range f.Users {
		path, of := fmt.Sprintf("user[%d]", i), fmt.Sprintf("user %q", u.Name)
		checkUserName(path, of, u.Name, bad)
		if u.DefaultAccount != nil && *u.DefaultAccount == "" {
			bad(path+".default_account", of+": default_account is empty", "leave it out")
		}
		if u.Name == cluster.EachUser && u.DefaultAccount != nil && f.DefaultAccount != nil {
			bad(path+".default_account", "default_account is written twice for all users", "leave one of the two out")
		}
	}
	for i, q := range f.Queues {
		if q.Limit != nil && q.Limit.MaxTime != 0 {
			bad(fmt.Sprintf("queue[%d].limit.max_time", i), fmt.Sprintf("queue %q: limit: max_time is an attribute of the queue",
				q.Name), "write max_time into the queue block itself")
		}
		for k, u := range q.Users {
			path := fmt.Sprintf("queue[%d].user[%d]", i, k)
			of := fmt.Sprintf("queue %q, user %q", q.Name, u.Name)
			checkUserName(path, of, u.Name, bad)
			if u.Limit == nil {
				bad(path, of+" has no limit block", "")
			}
		}
	}
}

func checkUserName(path, of, name string, bad func(path, text, hint string)) {
	if name == "" {
		bad(path+".name", of+": a user has a name", `write "*" for each user`)
	}
}
