package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/cluster"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// setFair changes what the policies of shares know.
func setFair(p *cluster.Policy, k, v string) (err error) {
	switch k {
	case "name":
		p.Name = v
	case "min-runtime":
		p.MinRuntimeMS, err = milliseconds(v)
	case "half-life":
		p.HalfLifeMS, err = milliseconds(v)
	case "influence":
		p.UsageInfluence, err = strconv.Atoi(v)
	default:
		err = setRota(p, k, v)
	}
	return err
}

// account configures accounts: parent, weight, deserved and limit in GPUs; with user=NAME that user in them.
func (w *world) account(names []string, options map[string]string) error {
	c := *w.state.View().Config()
	c.Version = cluster.LatestVersion
	if c.Accounts = maps.Clone(c.Accounts); c.Accounts == nil {
		c.Accounts = map[string]cluster.Account{}
	}
	terms := cluster.Terms{}
	for k, v := range options {
		n, err := strconv.ParseInt(v, 10, 64)
		milli := n * 1000
		switch k {
		case "parent", "user":
			continue
		case "weight":
			terms.Weight = int(n)
		case "deserved":
			terms.Deserved = &cluster.Quota{GPUs: &milli}
		case "limit":
			terms.Limit = &cluster.Quota{GPUs: &milli}
		default:
			err = fmt.Errorf("no option %q", k)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		a := c.Accounts[name]
		if user := options["user"]; user != "" {
			if a.Users = maps.Clone(a.Users); a.Users == nil {
				a.Users = map[string]cluster.Terms{}
			}
			a.Users[user] = terms
		} else {
			a.Parent, a.Terms = options["parent"], terms
		}
		c.Accounts[name] = a
	}
	_, err := w.apply(cluster.SetConfig{Config: c})
	return err
}

// shares says what every account and user holds, should have, and has used for what it deserves.
func (w *world) shares() error {
	v := w.state.View()
	f := accountsOn(trialOf(v, w.now))
	live := int64(0)
	for _, n := range v.Nodes() {
		live += int64(len(n.GPUs))
	}
	var walk func(n *shares.Node, indent string)
	walk = func(n *shares.Node, indent string) {
		share, _ := n.Share().Float64()
		due, _ := n.Due().Float64()
		w.say("%s%s holds %d of %.4g GPUs, deserves %.4g", indent, n.Name, n.Held()[shares.GPUs]/1000, share*float64(live), due*float64(live))
		for _, c := range n.Children() {
			walk(c, indent+"  ")
		}
	}
	for _, c := range slices.Clone(f.tree.Root().Children()) {
		walk(c, "")
	}
	return nil
}

// slowly finds out whose turn it is at or below a node by asking everybody.
func (q *queue) slowly(n *shares.Node) (best *contender, leaf *shares.Node) {
	if p := q.at[n]; p != nil && len(p.line) > 0 {
		return p.line[0], n
	}
	var first *shares.Node // of those directly below
	for _, c := range n.Children() {
		if job, at := q.slowly(c); job != nil && (best == nil || q.f.sooner(job, c, best, first)) {
			best, leaf, first = job, at, c
		}
	}
	return best, leaf
}

// sooner reports whether the turn of one of two siblings comes first, each with the job whose turn it is below it.
func (f *fair) sooner(a *contender, x *shares.Node, b *contender, y *shares.Node) bool {
	if by := cmp.Or(cmp.Compare(classRank(a.job.Class), classRank(b.job.Class)), firstRank(a.job)-firstRank(b.job)); by != 0 {
		return by < 0
	}
	if a.job.First {
		return a.job.ID < b.job.ID
	}
	return shares.Compare(x, f.asks(a.job), y, f.asks(b.job)) < 0
}
