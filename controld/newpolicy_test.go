package controld

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// schedulesBy waits until a controller says that its cluster is of the latest version and schedules by a policy.
func (s *server) schedulesBy(policy string) {
	s.t.Helper()
	c := s.client(user(1000))
	eventually(s.t, "policy "+policy, func() error {
		cl, _, err := c.Cluster(s.t.Context())
		if err == nil && (cl.Version != cluster.LatestVersion || cl.Policy != policy) {
			return fmt.Errorf("version %d, policy %s", cl.Version, cl.Policy)
		}
		return err
	})
}

// TestANewClusterHasThePolicyOfNewOnes also after it was started again, and whatever its file says of other things.
func TestANewClusterHasThePolicyOfNewOnes(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.schedulesBy(cluster.NewPolicy)
	s.stop()
	s.cfg.Cluster = said(func(c *cluster.Config) { c.LeaseMS = 77_000 })
	again := start(t, s.cfg)
	again.schedulesBy(cluster.NewPolicy)
	c := again.client(user(1000))
	eventually(t, "the lease of the file", func() error {
		cfg, _, err := c.Config(t.Context(), api.Read{})
		if err == nil && (cfg.LeaseMS != 77_000 || cfg.Policy.Name != cluster.NewPolicy) {
			return fmt.Errorf("lease %d, policy %q", cfg.LeaseMS, cfg.Policy.Name)
		}
		return err
	})
}

// said is a configuration that a file describes. It names no policy unless change does.
func said(change func(*cluster.Config)) *cluster.Config {
	cfg := cluster.DefaultConfig()
	change(&cfg)
	return &cfg
}

// TestAnOldClusterKeepsItsPolicy starts a controller on the log of the first release.
func TestAnOldClusterKeepsItsPolicy(t *testing.T) {
	log, err := os.ReadFile("cluster/testdata/v0.1/log.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cfg := controller(t, "c1")
	l, err := listenTCP(cfg.Raft)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Raft = l.Addr().String()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	r := consensus.DefaultConfig()
	r.Name, r.Dir, r.Addr, r.Listener = cfg.Name, filepath.Join(cfg.DataDir, "raft"), cfg.Raft, l
	m := newMachine()
	old, err := consensus.Open(r, m)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Bootstrap([]consensus.Member{old.Self()}); err != nil {
		t.Fatal(err)
	}
	if _, err := old.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if _, _, err := old.Propose(ctx, bytes.TrimSpace(line)); err != nil {
			t.Fatal(err)
		}
	}
	before := m.view.Load().LastJob()
	if err := old.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s := start(t, cfg)
	s.schedulesBy("standard")
	if _, _, err := s.client(user(1000)).Job(t.Context(), before, api.Read{}); err != nil {
		t.Errorf("job %d of the old log: %v", before, err)
	}
}

// TestAFileThatNamesNoPolicyLeavesTheOneThereIs goes through what a leader would propose.
func TestAFileThatNamesNoPolicyLeavesTheOneThereIs(t *testing.T) {
	have := said(func(c *cluster.Config) {
		c.Version, c.Policy.Name, c.Policy.MaxPreempts = cluster.LatestVersion, "rota", 2
	})
	for _, test := range []struct {
		name string
		want *cluster.Config
		gets *cluster.Policy // nil: nothing is proposed
	}{
		{"nothing but what there is", said(func(c *cluster.Config) { c.Policy.MaxPreempts = 2 }), nil},
		{"other parameters", said(func(c *cluster.Config) { c.Policy.MaxBypass = 1 }),
			&said(func(c *cluster.Config) { c.Policy.Name, c.Policy.MaxBypass = "rota", 1 }).Policy},
		{"another policy", said(func(c *cluster.Config) { c.Policy.Name = "standard" }),
			&said(func(c *cluster.Config) { c.Policy.Name = "standard" }).Policy},
		{"no file", nil, nil},
	} {
		next := wantedOver(test.want, have)
		if (next == nil) != (test.gets == nil) || next != nil && (next.Policy != *test.gets || next.Version != have.Version) {
			t.Errorf("%s: got %+v, want %+v", test.name, next, test.gets)
		}
	}
}
