package fit

import (
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestScratch tries things on a copy of which the original must not know.
func TestScratch(t *testing.T) {
	s := cluster.New(cluster.DefaultConfig())
	n := cluster.Node{Name: "n1", BootID: "b", Cores: 8, Memory: 64 * jobspec.GiB, GPUs: make([]cluster.GPU, 8)}
	for i := range n.GPUs {
		n.GPUs[i].Healthy = true
	}
	if _, err := s.Apply(1, cluster.Entry{Command: cluster.RegisterNode{Node: n}}); err != nil {
		t.Fatal(err)
	}
	room := NewRoom(s.View())
	v := cluster.Vector{Cores: 4, Memory: jobspec.GiB, GPUs: 5000}
	g := Gang{Part: Part{Shape: cluster.Shape{Request: cluster.Request{Active: v, Resident: cluster.Vector{Memory: v.Memory, GPUs: v.GPUs}}, Workers: 1, PerNode: 1}}}
	try := room.Copy()
	spots, ok := try.Place(&g)
	if !ok {
		t.Fatal("an empty node has no room")
	}
	try.Take(&g, spots)
	if try.Fits(&g) || !room.Fits(&g) {
		t.Errorf("taken on the copy: fits there %v, on the original %v", try.Fits(&g), room.Fits(&g))
	}
	ahead := try.Copy()
	ahead.Release(spots[0].Node, g.Request, spots[0].GPUs)
	if !ahead.Fits(&g) || try.Fits(&g) {
		t.Errorf("given back ahead: fits there %v, now %v", ahead.Fits(&g), try.Fits(&g))
	}
	if got, want := ahead.Free(0), room.Free(0); got != want {
		t.Errorf("all given back leaves %+v, want %+v", got, want)
	}
}
