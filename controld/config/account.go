package config

import (
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Account is an account of the tree with its settings, and those of users in it.
type Account struct {
	Name     string `hcl:"name,label"`
	Parent   string `hcl:"parent,optional"`
	Weight   *int   `hcl:"weight,optional"`
	Deserved *Quota `hcl:"deserved,block"`
	Limit    *Limit `hcl:"limit,block"`
	Users    []User `hcl:"user,block"`

	Coordinators []string `hcl:"coordinators,optional"` // users and "%group"s

	Members []string `hcl:"users,optional"`  // users that may charge it
	Groups  []string `hcl:"groups,optional"` // Unix groups whose users may

	Oversubscribe *int `hcl:"oversubscribe,optional"` // see [cluster.Sharing]; also of the accounts below it
	Pack          bool `hcl:"pack,optional"`
	Migrate       bool `hcl:"migrate,optional"`
}

// AccountRules are what holds for all accounts.
type AccountRules struct {
	// Create says whether the account of a user's Unix group is created at the user's first job.
	Create *bool `hcl:"create,optional"`
}

// members returns the users and "%group"s that may charge an account.
func (a *Account) members() []string {
	members := listed(a.Members)
	for _, group := range a.Groups {
		members = append(members, cluster.GroupMark+group)
	}
	return members
}

// User is the settings of a user in an account.
type User struct {
	Name     string `hcl:"name,label"`
	Weight   *int   `hcl:"weight,optional"`
	Deserved *Quota `hcl:"deserved,block"`
	Limit    *Limit `hcl:"limit,block"`
}

// Quota is amounts of some resources; one that is not written is not limited.
type Quota struct {
	GPUs   *int           `hcl:"gpus,optional"`
	Cores  *int           `hcl:"cores,optional"`
	Memory Memory         `hcl:"memory,optional"`
	Models map[string]int `hcl:"models,optional"` // GPUs of one model each
}

// Memory is a size that may not have been written.
type Memory struct {
	bytes   jobspec.Bytes
	written bool
}

// FromText reads a size such as "512GiB".
func (m *Memory) FromText(text string) error {
	m.written = true
	return m.bytes.FromText(text)
}

// Kind says what is read, for messages.
func (m *Memory) Kind() string { return m.bytes.Kind() }

// Example writes a number as it should have been, for messages.
func (m *Memory) Example(number string) string { return m.bytes.Example(number) }

// quota is the replicated form, nil if nothing is written.
func (q *Quota) quota() *cluster.Quota {
	if q == nil {
		return nil
	}
	out := &cluster.Quota{GPUs: times(q.GPUs, 1000), Cores: times(q.Cores, 1)}
	if q.Memory.written {
		out.Memory = &q.Memory.bytes
	}
	for model, n := range q.Models {
		if out.Models == nil {
			out.Models = map[string]int64{}
		}
		out.Models[model] = *times(&n, 1000)
	}
	return out
}

// maxWritten bounds numbers before they are multiplied; what is above it is refused all the same.
const maxWritten = 1 << 52

// times returns a number in a smaller unit.
func times(n *int, unit int64) *int64 {
	if n == nil {
		return nil
	}
	v := max(-maxWritten, min(maxWritten, int64(*n))) * unit
	return &v
}

func terms(weight *int, deserved *Quota, limit *Limit) cluster.Terms {
	t := cluster.Terms{Deserved: deserved.quota(), Limit: limit.replicated()}
	if weight != nil {
		t.Weight = *weight
	}
	return t
}

// accounts is the replicated form, nil for none.
func (f *File) accounts() map[string]cluster.Account {
	if len(f.Accounts) == 0 {
		return nil
	}
	all := make(map[string]cluster.Account, len(f.Accounts))
	for _, a := range f.Accounts {
		out := cluster.Account{Parent: a.Parent, Terms: terms(a.Weight, a.Deserved, a.Limit),
			Coordinators: listed(a.Coordinators), Members: a.members(), Sharing: sharingOf(a.Oversubscribe, a.Pack, a.Migrate)}
		for _, u := range a.Users {
			if out.Users == nil {
				out.Users = map[string]cluster.Terms{}
			}
			out.Users[u.Name] = terms(u.Weight, u.Deserved, u.Limit)
		}
		all[a.Name] = out
	}
	return all
}
