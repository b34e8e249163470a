package versions

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
)

// TestVersionsAreBounded: the oldest are forgotten, the first change brings along what there was
// before, and earlier values stay as they are.
func TestVersionsAreBounded(t *testing.T) {
	now := &cluster.Config{ClusterName: "first"}
	h := new(History)
	if h.Number() != 1 || h.Check(now) != nil {
		t.Fatalf("an empty history has number %d", h.Number())
	}
	for range 3 * Max {
		before, old := now, *h
		now = &cluster.Config{}
		h = h.Add(before, Version{By: "root", Config: now}, "digest")
		if err := h.Check(now); err != nil {
			t.Fatal(err)
		}
		if h.Number() != old.Number()+1 || h.File != "digest" {
			t.Fatalf("number %d after %d", h.Number(), old.Number())
		}
		if h.Number() == 2 && h.Version(1).Config.ClusterName != "first" {
			t.Error("the first configuration is not remembered")
		}
	}
	if len(h.Versions) != Max || h.Version(h.Number()-Max) != nil || h.Version(h.Number()-Max+1) == nil {
		t.Errorf("%d versions are remembered", len(h.Versions))
	}
	if h.Check(&cluster.Config{}) == nil {
		t.Error("another configuration is in force, and that is not noticed")
	}
}
