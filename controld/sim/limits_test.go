package sim

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// TestLimitsOfAFile: the limits of a cluster's file bind in the simulator as in the cluster, under
// every policy. Jobs that the cluster would refuse are left out of the run and named.
func TestLimitsOfAFile(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	of := func(l cluster.Limit) func(*cluster.Config) {
		return func(c *cluster.Config) { c.Users = map[string]cluster.UserRules{cluster.EachUser: {Limit: &l}} }
	}
	queue := func(edit func(*cluster.Queue)) func(*cluster.Config) {
		return func(c *cluster.Config) {
			q := c.Queues[model.DefaultQueue]
			edit(&q)
			c.Queues[model.DefaultQueue] = q
		}
	}
	for name, c := range map[string]struct {
		set     func(*cluster.Config)
		end     float64 // makespan in minutes: the jobs take ten each, and all fit at once
		refused string
	}{
		"none":    {func(*cluster.Config) {}, 10, ""},
		"running": {of(cluster.Limit{Running: number(1)}), 30, ""},
		"GPUs":    {of(cluster.Limit{Quota: cluster.Quota{GPUs: number(4000)}}), 20, ""},
		"GPUs of one job": {of(cluster.Limit{Quota: cluster.Quota{GPUs: number(1000)}}), 0,
			"QOSMaxGRESPerUser: user ann may hold 1 GPU"},
		"nodes": {of(cluster.Limit{Nodes: number(1)}), 10, ""},
		"submitted": {of(cluster.Limit{Submitted: number(2)}), 10,
			"QOSMaxSubmitJobPerUserLimit: user ann may have 2 unfinished jobs"},
		"max_time": {of(cluster.Limit{MaxTime: 60}), 0, "QOSMaxWallDurationPerJobLimit"},
		"of an account": {func(c *cluster.Config) {
			c.Accounts = map[string]cluster.Account{"a": {Terms: cluster.Terms{Limit: &cluster.Limit{Running: number(2)}}}}
		}, 20, ""},
		"of the queue": {queue(func(q *cluster.Queue) { q.Limit = &cluster.Limit{Running: number(1)} }), 31, ""},
		"accounts": {queue(func(q *cluster.Queue) { q.Accounts = []string{"b"} }), 0,
			"Invalid account or account/partition"},
	} {
		for _, policy := range []string{"rota", "fairshare", "fifo", "easy"} {
			s := setup(t, "2x8c/8gpu", policy)
			cfg := cluster.DefaultConfig()
			c.set(&cfg)
			s.Limits = &cfg
			other := job("other", 0, 1, 2)
			other.User, other.Account = "bob", "b"
			r := mustRun(t, workload(job("j1", 0, 10, 2), job("j2", 0, 10, 2), job("j3", 0, 10, 2), other), s)
			refused := strings.Join(r.Excluded, "\n")
			if c.end > 0 && r.MakespanS != c.end*60 || !strings.Contains(refused, c.refused) ||
				(refused == "") != (c.refused == "") {
				t.Errorf("%s, policy %s: it takes %g min, refused %q", name, policy, r.MakespanS/60, r.Excluded)
			}
		}
	}
}
