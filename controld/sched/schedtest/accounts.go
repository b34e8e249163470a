package schedtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
)

// setFair changes the shares settings of the policy.
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

// account configures accounts: parent, weight, deserved and limit in GPUs; with user=NAME that user
// in them.
func (w *World) account(names []string, options map[string]string) error {
	c := *w.State.View().Config()
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
			terms.Limit = &cluster.Limit{Quota: cluster.Quota{GPUs: &milli}}
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
	_, err := w.Apply(fsm.SetConfig{Config: c})
	return err
}

// shares prints the holdings, share and usage of every account and user.
func (w *World) shares() error {
	v := w.State.View()
	f := AccountsOn(TrialOf(v, w.Now))
	live := int64(0)
	for _, n := range v.Nodes() {
		live += int64(len(n.GPUs))
	}
	var walk func(n *drf.TreeNode, indent string)
	walk = func(n *drf.TreeNode, indent string) {
		share, _ := n.Share().Rat().Float64()
		due, _ := n.Due().Rat().Float64()
		w.say("%s%s holds %d of %.4g GPUs, deserves %.4g", indent, n.Name, n.Held()[drf.GPUs]/1000, share*float64(live),
			due*float64(live))
		for _, c := range n.Children() {
			walk(c, indent+"  ")
		}
	}
	for _, c := range slices.Clone(f.Tree.Root().Children()) {
		walk(c, "")
	}
	return nil
}
