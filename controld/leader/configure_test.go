package leader

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// said is a configuration that a file describes. It names no policy unless change does.
func said(change func(*cluster.Config)) *cluster.Config {
	cfg := cluster.DefaultConfig()
	change(&cfg)
	return &cfg
}

// given returns a machine with a configuration, and what applies a proposal to it.
func given(t *testing.T, have *cluster.Config) (*fsm.Machine, func(fsm.SetConfig)) {
	m := fsm.New(*have)
	return m, func(c fsm.SetConfig) {
		t.Helper()
		if _, err := m.Apply(m.Index()+1, fsm.Entry{Command: c}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFileThatNamesNoPolicyLeavesTheOneThereIs goes through what a leader would propose.
func TestAFileThatNamesNoPolicyLeavesTheOneThereIs(t *testing.T) {
	have := said(func(c *cluster.Config) {
		c.Policy.Name, c.Policy.MaxPreempts = "rota", 2
	})
	for _, test := range []struct {
		name string
		want *cluster.Config
		gets *cluster.Policy // nil: nothing is proposed
	}{
		{"other parameters", said(func(c *cluster.Config) { c.Policy.MaxBypass = 1 }),
			&said(func(c *cluster.Config) { c.Policy.Name, c.Policy.MaxBypass = "rota", 1 }).Policy},
		{"another policy", said(func(c *cluster.Config) { c.Policy.Name = "standard" }),
			&said(func(c *cluster.Config) { c.Policy.Name = "standard" }).Policy},
		{"no file", nil, nil},
	} {
		m, _ := given(t, have)
		next := wantedOver(test.want, m.View(), "c1")
		if (next == nil) != (test.gets == nil) || next != nil && (next.Config.Policy != *test.gets ||
			next.Config.Version != have.Version) {
			t.Errorf("%s: got %+v, want %+v", test.name, next, test.gets)
		}
	}
}

// TestWhatAnAdminAppliesStays: a file is proposed once, by whichever controller leads first, and
// again only when it says something else.
func TestWhatAnAdminAppliesStays(t *testing.T) {
	file := said(func(c *cluster.Config) { c.Policy.MaxBypass = 1 })
	m, apply := given(t, said(func(c *cluster.Config) { c.Policy.Name = "rota" }))
	apply(*wantedOver(file, m.View(), "c1"))
	applied := *m.View().Config()
	applied.Policy.MaxBypass = 9
	apply(fsm.SetConfig{Config: applied, By: "root"})
	if next := wantedOver(file, m.View(), "c2"); next != nil {
		t.Errorf("another leader proposes %+v", next)
	}
	other := said(func(c *cluster.Config) { c.Policy.MaxBypass = 2 })
	next := wantedOver(other, m.View(), "c2")
	if next == nil {
		t.Fatal("a file that was changed is not proposed")
	}
	apply(*next)
	if got := m.View().Config().Policy; got.MaxBypass != 2 || got.Name != "rota" {
		t.Errorf("got %+v", got)
	}
}

// TestAFileThatSaysWhatThereIs is remembered all the same, without a further version.
func TestAFileThatSaysWhatThereIs(t *testing.T) {
	file := said(func(*cluster.Config) {})
	m, apply := given(t, file)
	apply(*wantedOver(file, m.View(), "c1"))
	if n := m.View().ConfigVersions().Number(); n != 1 || wantedOver(file, m.View(), "c1") != nil {
		t.Errorf("version %d", n)
	}
}
