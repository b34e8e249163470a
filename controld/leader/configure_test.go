package leader

import (
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// said is a configuration that a file describes. It names no policy unless change does.
func said(change func(*cluster.Config)) *cluster.Config {
	cfg := cluster.DefaultConfig()
	change(&cfg)
	return &cfg
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
