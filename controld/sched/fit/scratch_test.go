package fit

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestScratch tries things on a copy of which the original must not know.
func TestScratch(t *testing.T) {
	s := fsm.New(cluster.DefaultConfig())
	n := model.Node{Name: "n1", BootID: "b", Cores: 8, Memory: 64 * jobspec.GiB, GPUs: make([]model.GPU, 8)}
	for i := range n.GPUs {
		n.GPUs[i].Healthy = true
	}
	if _, err := s.Apply(1, fsm.Entry{Command: fsm.RegisterNode{Node: n}}); err != nil {
		t.Fatal(err)
	}
	room := NewRoom(s.View())
	v := model.Vector{Cores: 4, Memory: jobspec.GiB, GPUs: 5000}
	g := Gang{Component: Component{Shape: model.Shape{Request: model.Request{Active: v,
		Resident: model.Vector{Memory: v.Memory, GPUs: v.GPUs}}, Workers: 1, PerNode: 1}}}
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

// TestPutBack gives back what workers hold, in any order, and puts it back: there is no difference.
func TestPutBack(t *testing.T) {
	s := fsm.New(cluster.DefaultConfig())
	n := model.Node{Name: "n1", BootID: "b", Cores: 8, Memory: 64 * jobspec.GiB, GPUs: make([]model.GPU, 4)}
	for i := range n.GPUs {
		n.GPUs[i].Healthy = i != 1 // which may have broken while a job held it
	}
	if _, err := s.Apply(1, fsm.Entry{Command: fsm.RegisterNode{Node: n}}); err != nil {
		t.Fatal(err)
	}
	worker := func(gpus int64, exclusive bool) model.Request {
		v := model.Vector{Cores: 1, Memory: jobspec.GiB, GPUs: gpus}
		return model.Request{Active: v, Resident: model.Vector{Memory: v.Memory, GPUs: v.GPUs}, Exclusive: exclusive}
	}
	type held struct {
		request model.Request
		gpus    []int
	}
	for name, list := range map[string][]held{
		"whole": {{worker(2000, false), []int{0, 1}}, {worker(1000, false), []int{2}}},
		"shared": {{worker(400, false), []int{2}}, {worker(600, false), []int{2}}, {worker(300, false), []int{0}},
			{worker(500, false), []int{1}}},
		"exclusive": {{worker(1000, true), []int{3}}, {worker(2000, true), []int{0, 2}}},
		"none":      {{worker(0, false), nil}},
	} {
		room := NewRoom(s.View())
		for _, h := range list {
			room.PutBack(0, h.request, h.gpus)
		}
		look := func() string {
			return fmt.Sprint(room.Free(0), room.grid.FreeGPUs(0), room.Whole(0), room.Empty(0), room.Left(0),
				room.grid.Bucket(0), room.grid.Bucket(1), room.grid.Bucket(2))
		}
		before := look()
		for first := range list {
			for k := range list {
				h := list[(first+k)%len(list)]
				room.Release(0, h.request, h.gpus)
			}
			if !room.Empty(0) {
				t.Errorf("%s: all gave back what they held, and the node is not empty", name)
			}
			for _, h := range list {
				room.PutBack(0, h.request, h.gpus)
			}
			if after := look(); after != before {
				t.Errorf("%s: it was %s, and is %s", name, before, after)
			}
		}
	}
}
