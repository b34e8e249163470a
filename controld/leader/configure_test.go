package leader

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// said is a configuration that a file describes. It names no policy unless change does.
func said(change func(*model.Config)) *model.Config {
	cfg := model.DefaultConfig()
	change(&cfg)
	return &cfg
}

// TestAFileThatNamesNoPolicyLeavesTheOneThereIs goes through what a leader would propose.
func TestAFileThatNamesNoPolicyLeavesTheOneThereIs(t *testing.T) {
	have := said(func(c *model.Config) {
		c.Policy.Name, c.Policy.MaxPreempts = "rota", 2
	})
	for _, test := range []struct {
		name string
		want *model.Config
		gets *model.Policy // nil: nothing is proposed
	}{
		{"nothing but what there is", said(func(c *model.Config) { c.Policy.MaxPreempts = 2 }), nil},
		{"other parameters", said(func(c *model.Config) { c.Policy.MaxBypass = 1 }),
			&said(func(c *model.Config) { c.Policy.Name, c.Policy.MaxBypass = "rota", 1 }).Policy},
		{"another policy", said(func(c *model.Config) { c.Policy.Name = "standard" }),
			&said(func(c *model.Config) { c.Policy.Name = "standard" }).Policy},
		{"no file", nil, nil},
	} {
		next := wantedOver(test.want, have)
		if (next == nil) != (test.gets == nil) || next != nil && (next.Policy != *test.gets || next.Version != have.Version) {
			t.Errorf("%s: got %+v, want %+v", test.name, next, test.gets)
		}
	}
}
