package controld

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/replay/datadir"
	"github.com/rota-hpc/rota/jobspec"
)

// TestEveryPlanIsDecidedAgain: three controllers schedule sixty jobs of all classes on two nodes,
// with preemptions and elastic jobs. Meanwhile their leader is stopped and started five times.
// Afterwards every plan in the log of each is decided again, and is the same.
func TestEveryPlanIsDecidedAgain(t *testing.T) {
	servers := startThree(t, func(c *Config) {
		// one user submits all
		c.Cluster = said(func(c *cluster.Config) { c.Policy.TEAccountPM, c.Policy.TEUserPM = 1000, 1000 })
	})
	addrs := ""
	for i, s := range servers {
		if i > 0 {
			addrs += ","
		}
		addrs += s.addrs.HTTP
	}
	hold := make(chan struct{})
	for _, name := range []string{"n1", "n2"} {
		n := newNode(t, addrs, name, 8)
		n.hold = hold
		n.run(t.Context())
	}
	c := dial(t, addrs, user(1000))
	const jobs, kills = 60, 5
	for i := range jobs {
		if _, err := c.Submit(t.Context(), api.NewKey(), mixed(i)); err != nil {
			t.Fatal(err)
		}
		if i%(jobs/kills) == jobs/kills-1 {
			leader, _ := leaderOf(t, servers)
			leader.stop()
			for k := range servers {
				if servers[k] == leader {
					servers[k] = start(t, leader.cfg)
				}
			}
		}
	}
	if _, err := datadir.Replay(servers[0].cfg.DataDir, datadir.Options{}); !errors.Is(err, consensus.ErrLocked) {
		t.Errorf("the directory of a controller that runs: %v", err)
	}
	close(hold)
	eventually(t, "the end of all jobs", func() error {
		open, _, err := c.Jobs(t.Context(), api.JobFilter{}, api.Read{Consistent: true})
		if err != nil {
			return err
		}
		if len(open.Items) > 0 {
			return fmt.Errorf("%d jobs have not ended", len(open.Items))
		}
		return nil
	})
	for _, s := range servers {
		s.stop()
	}
	for _, s := range servers {
		for _, cache := range []bool{true, false} {
			r, err := datadir.Replay(s.cfg.DataDir, datadir.Options{Cache: cache})
			if err != nil {
				t.Fatalf("%s: %v", s.cfg.Name, err)
			}
			if !r.Same() || r.Plans < jobs/2 || r.Identical != r.Plans {
				t.Errorf("%s: %+v\n%s", s.cfg.Name, *r, r.First)
			}
			t.Logf("%s: %d plans of %d commands", s.cfg.Name, r.Plans, r.Commands)
		}
	}
	_, err := datadir.Replay(servers[0].cfg.DataDir, datadir.Options{Cluster: "another"})
	if !errors.Is(err, datadir.ErrOtherCluster) {
		t.Errorf("a log of another cluster: %v", err)
	}
	path := filepath.Join(servers[0].cfg.DataDir, "raft", "log.bolt")
	if err := os.Truncate(path, 16<<10); err != nil {
		t.Fatal(err)
	}
	_, err = datadir.Replay(servers[0].cfg.DataDir, datadir.Options{})
	if !errors.Is(err, consensus.ErrCorrupt) {
		t.Errorf("a log that was cut short: %v", err)
	}
	t.Log(err)
}

// mixed is one of many kinds of jobs.
func mixed(i int) *jobspec.Job {
	j := job(fmt.Sprintf("j%d", i))
	r := &j.Groups[0].Tasks[0].Resources
	r.GPUs = 1 + i%4
	switch i % 4 {
	case 0:
		j.Class = jobspec.TE
	case 1:
		j.Checkpoint = &jobspec.Checkpoint{}
	case 2:
		r.GPUs = 1
		j.Groups[0].Elastic = &jobspec.Elastic{Min: 1, Max: 4}
	}
	return j
}
