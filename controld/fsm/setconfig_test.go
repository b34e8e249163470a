package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/versions"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// withBypass is the present configuration with another bound.
func withBypass(w *world, n int) SetConfig {
	c := *w.s.View().Config()
	c.Policy.MaxBypass = n
	return SetConfig{Config: c, By: "root"}
}

// TestVersionsOfTheConfiguration: each change is a version, one that says nothing new is none, and
// an old version becomes a new one.
func TestVersionsOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	first := w.s.View().Config().Policy.MaxBypass
	for i := range 3 {
		c := withBypass(w, 100+i)
		c.Comment = fmt.Sprintf("change %d", i)
		if got := w.must(c); got != i+2 {
			t.Errorf("change %d made version %v", i, got)
		}
	}
	if got := w.must(withBypass(w, 102)); got != 4 {
		t.Errorf("nothing new made version %v", got)
	}
	h := w.s.View().ConfigVersions()
	if len(h.Versions) != 4 || h.Version(1).Config.Policy.MaxBypass != first || h.Version(3).Comment != "change 1" ||
		h.Version(3).By != "root" || h.Version(3).Made.At == 0 {
		t.Errorf("versions %+v", h.Versions)
	}
	if _, err := w.apply(SetConfig{Restore: 9, By: "root"}); !errors.Is(err, model.ErrNoConfigVersion) {
		t.Errorf("a version that there is not: %v", err)
	}
	if got := w.must(SetConfig{Restore: 1, By: "root"}); got != 5 || w.s.View().Config().Policy.MaxBypass != first {
		t.Errorf("back to the first: version %v, %+v", got, w.s.View().Config().Policy)
	}
	again, err := ReadSnapshot(bytes.NewReader(w.snapshot()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.View().ConfigVersions(), w.s.View().ConfigVersions()) || again.Check() != nil {
		t.Errorf("after a restart: %+v, %v", again.View().ConfigVersions(), again.Check())
	}
}

// TestTwoAdmins: the second one that read the same version changes nothing.
func TestTwoAdmins(t *testing.T) {
	w := newWorld(t)
	ann, bob := withBypass(w, 7), withBypass(w, 8)
	ann.IfVersion, bob.IfVersion = 1, 1
	w.must(ann)
	if _, err := w.apply(bob); !errors.Is(err, model.ErrConfigChanged) || w.s.View().Config().Policy.MaxBypass != 7 {
		t.Errorf("got %v, %+v", err, w.s.View().Config().Policy)
	}
	bob.IfVersion = 2
	w.must(bob)
}

// TestOldVersionsAreForgotten: the state has a bounded number.
func TestOldVersionsAreForgotten(t *testing.T) {
	w := newWorld(t)
	for i := range 2 * versions.Max {
		w.must(withBypass(w, 100+i))
	}
	if n := len(w.s.View().ConfigVersions().Versions); n != versions.Max {
		t.Errorf("%d versions", n)
	}
	if _, err := w.apply(SetConfig{Restore: 2, By: "root"}); !errors.Is(err, model.ErrNoConfigVersion) {
		t.Errorf("a version that is forgotten: %v", err)
	}
}

// TestQuotasAboveTheNodes: what an admin applies promises no more than the nodes have, unless it
// says what the cluster is to have. A controller's file may come before its nodes.
func TestQuotasAboveTheNodes(t *testing.T) {
	w := newWorld(t)
	promise := func(milli int64, models map[string]int64) SetConfig {
		c := withBypass(w, 1)
		c.Config.Accounts = map[string]cluster.Account{"team": {Terms: cluster.Terms{Deserved: &cluster.Quota{GPUs: &milli,
			Models: models}}}}
		return c
	}
	nodes := int64(0)
	for _, n := range w.s.View().Nodes() {
		nodes += int64(len(n.GPUs)) * model.WholeGPU
	}
	if nodes == 0 {
		w.must(RegisterNode{Node: testNode("n1", 4)})
		nodes = 4 * model.WholeGPU
	}
	_, err := w.apply(promise(nodes+1000, nil))
	if !errors.Is(err, model.ErrBadConfig) || !strings.Contains(err.Error(), "the quotas add up to") {
		t.Errorf("more than all nodes have: %v", err)
	}
	if _, err := w.apply(promise(0, map[string]int64{"H900": 1000})); !errors.Is(err, model.ErrBadConfig) {
		t.Errorf("a model that no node has: %v", err)
	}
	file := promise(nodes+1000, nil)
	file.File = "digest"
	w.must(file)
	more := nodes + 2000
	c := promise(nodes+1000, nil)
	c.Config.Capacity = &cluster.Quota{GPUs: &more}
	w.must(c)
	w.must(promise(nodes, nil))
}
