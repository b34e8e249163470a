package grid

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestGridCopies takes, gives and claims at random on a copy, and undoes it all. The original must
// not change, and the copy must be equal to it again. Every node must be in the bucket of its free
// GPUs all along.
func TestGridCopies(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		r := rand.New(rand.NewPCG(seed, 3))
		var nodes []*model.Node
		for i := range 130 {
			n := testNode(string(rune('a'+i%26)), r.IntN(9))
			n.State = model.NodeUp
			if r.IntN(10) == 0 {
				n.State = model.NodeDown
			}
			nodes = append(nodes, &n)
		}
		src := NewGrid(nodes)
		g, fresh := new(Grid), new(Grid)
		g.CopyFrom(src)
		fresh.CopyFrom(src)
		var undo []func()
		for range 2000 {
			i, q := r.IntN(len(nodes)), model.RequestOf(jobspec.Resources{Cores: r.IntN(8), GPUs: r.IntN(5)})
			mask := lowest(g.FreeGPUs(i), int(q.Active.GPUs/1000))
			gpus := []int{}
			for m := mask; m != 0; m &= m - 1 {
				gpus = append(gpus, bits.TrailingZeros64(m))
			}
			if r.IntN(20) == 0 {
				g.Claim(i, q.Active)
				undo = append(undo, func() { g.Unclaim(i, q.Active) })
			}
			code := g.Obstacle(i, q, gpus)
			if why := Fits(g, i, q, gpus); (why == nil) != (code == model.ReasonNone) || why != nil && why.Code != code {
				t.Fatalf("seed %d: Fits says %+v, Obstacle %q", seed, why, code)
			}
			if code == model.ReasonNone && int64(len(gpus))*1000 == q.Active.GPUs {
				g.Allocate(i, q, gpus)
				undo = append(undo, func() { g.Release(i, q, gpus) })
			}
			checkBuckets(t, seed, g)
		}
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
		if !reflect.DeepEqual(src, NewGrid(nodes)) || !slices.Equal(rooms(src), rooms(g)) ||
			!reflect.DeepEqual(src.bucket, g.bucket) {
			t.Fatalf("seed %d: a copy and its original are not independent", seed)
		}
		if n := testing.AllocsPerRun(10, func() { fresh.CopyFrom(src) }); n > 0 {
			t.Fatalf("CopyFrom allocates %v times", n)
		}
	}
}

// rooms lists the room on all nodes of a grid.
func rooms(g *Grid) []freeCapacity {
	list := make([]freeCapacity, g.Len())
	for i := range list {
		list[i] = *g.at(i)
	}
	return list
}

func checkBuckets(t *testing.T, seed uint64, g *Grid) {
	t.Helper()
	for i := range g.Len() {
		for n := range g.Buckets() {
			in := g.Bucket(n)[i/64]&(1<<(i%64)) != 0
			if want := g.Up(i) && bits.OnesCount64(g.FreeGPUs(i)) == n; in != want {
				t.Fatalf("seed %d: node %d with free GPUs %b in bucket %d: %v", seed, i, g.FreeGPUs(i), n, in)
			}
		}
	}
}

func TestResidentMemoryBounds(t *testing.T) {
	n := testNode("n1", 1)
	n.State = model.NodeUp
	g := NewGrid([]*model.Node{&n})
	suspended := model.Request{Resident: model.Vector{Memory: 200 * jobspec.GiB}}
	g.Allocate(0, suspended, []int{})
	q := model.Request{Active: model.Vector{Cores: 1, Memory: 100 * jobspec.GiB},
		Resident: model.Vector{Memory: 100 * jobspec.GiB}}
	if why := Fits(g, 0, q, nil); why == nil || why.Code != model.ReasonResources {
		t.Fatalf("got %+v: what is suspended keeps its memory", why)
	}
}

// TestCompareNode breaks what a grid says of a node, one thing at a time.
func TestCompareNode(t *testing.T) {
	n := testNode("n1", 4)
	n.State = model.NodeUp
	for _, test := range []struct {
		name, want string
		breaks     func(g *Grid)
	}{
		{"nothing", "", func(*Grid) {}},
		{"a GPU that is free twice", "recomputed", func(g *Grid) { g.ownRoom(0).gpus &^= 1 }},
		{"a node in no bucket", "bucket", func(g *Grid) { g.sort(0, false) }},
		{"a node in two buckets", "bucket", func(g *Grid) { g.bucket[0] |= 1 }},
		{"more held than there is", "than it has", func(g *Grid) { g.ownRoom(0).cores = -1 }},
	} {
		g, anew := NewGrid([]*model.Node{&n}), NewGrid([]*model.Node{&n})
		test.breaks(g)
		if test.want == "than it has" {
			test.breaks(anew)
		}
		err := g.CompareNode(0, &n, anew, 0)
		if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func testNode(name string, gpus int) model.Node {
	n := model.Node{Name: name, Addr: name + ":1", BootID: "b1", Cores: 32, Memory: 256 * jobspec.GiB, PortMin: 20000,
		PortMax: 20003}
	for i := range gpus {
		n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprintf("%s-%d", name, i), Healthy: true})
	}
	return n
}
