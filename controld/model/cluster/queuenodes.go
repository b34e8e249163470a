package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// Where returns the nodes of a queue as conditions, one a line: "" if its jobs may run on all
// nodes.
func (q *Queue) Where() string {
	var lines []string
	if len(q.Nodes) > 0 {
		lines = append(lines, model.QueueNodes+strconv.Quote(strings.Join(q.Nodes, ",")))
	}
	for _, key := range slices.Sorted(maps.Keys(q.Labels)) {
		lines = append(lines, q.label(key).String())
	}
	return strings.Join(lines, "\n")
}

func (q *Queue) label(key string) jobspec.Constraint {
	return jobspec.Constraint{Attribute: "node.label." + key, Operator: "=", Value: q.Labels[key]}
}

// Has reports whether a node belongs to a queue, by its name and labels.
func (q *Queue) Has(name string, labels map[string]string) bool {
	if len(q.Nodes) > 0 {
		names, err := hostlist.Expand(strings.Join(q.Nodes, ","))
		if err != nil || !slices.Contains(names, name) {
			return false
		}
	}
	for key, value := range q.Labels {
		if has, set := labels[key]; !set || has != value {
			return false
		}
	}
	return true
}

// MayUse reports whether jobs of an account may be submitted to a queue. The accounts below an
// account that the queue allows may, too.
func (c *Config) MayUse(queue, account string) bool {
	allowed := c.Queues[queue].Accounts
	if len(allowed) == 0 {
		return true
	}
	for at, depth := account, 0; at != "" && depth <= maxDepth; at, depth = c.Accounts[at].Parent, depth+1 {
		if slices.Contains(allowed, at) {
			return true
		}
	}
	return false
}

// NodesByQueue returns the nodes of the queues that do not have all, as [Queue.Where] has them; nil
// if there are none.
func (c *Config) NodesByQueue() (all map[string]string) {
	for name, q := range c.Queues {
		if where := q.Where(); where != "" {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = where
		}
	}
	return all
}

// checkQueues says what of the accounts and nodes of queues makes no sense.
func (c *Config) checkQueues(bad func(string, ...any)) {
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		q, of := c.Queues[name], "queue "+quote(name)
		if len(q.Accounts) > maxListed {
			bad("%s: %d accounts, at most %d", of, len(q.Accounts), maxListed)
		}
		if slices.Contains(q.Accounts, "") {
			bad("%s: accounts: an account has a name", of)
		}
		if len(q.Nodes) > 0 {
			if _, err := hostlist.Expand(strings.Join(q.Nodes, ",")); err != nil {
				bad("%s: nodes: %v", of, err)
			}
		}
		if slices.Contains(q.Nodes, "") {
			bad("%s: nodes: a node has a name", of)
		}
		for _, key := range slices.Sorted(maps.Keys(q.Labels)) {
			if _, err := q.label(key).Compile(); err != nil {
				bad("%s: labels: %s: %v", of, quote(key), err)
			}
		}
	}
}
