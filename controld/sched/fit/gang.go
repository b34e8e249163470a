package fit

import (
	"cmp"
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/model"
)

// Component is like workers of a gang: Shape.Workers of them, at most Shape.PerNode on one node. Most
// gangs have one.
type Component struct {
	model.Shape
	Nodes  NodeSet                  // that will do
	Levels []topology.AffinityLevel // nodes in the order in which the job prefers them; nil: it has no preference
}

// Gang is a request for a placement. It is placed whole or not at all.
type Gang struct {
	Component             // the first
	More      []Component // the others, in order
	For       model.JobID // the job whose reservation, if it has one, makes room for it
	Exclude   []int       // positions of nodes to avoid
}

// NewGang returns the placement request of a job.
func NewGang(v *state.View, j *model.Job) Gang {
	g := Gang{Component: newPart(v, model.ShapeOf(j))}
	for _, s := range model.MoreParts(j) {
		g.More = append(g.More, newPart(v, s))
	}
	return g.Of(v, j)
}

// Of returns the gang of another job that has the same shape.
func (g Gang) Of(v *state.View, j *model.Job) Gang {
	g.For, g.Exclude = j.ID, nil
	for _, name := range j.Exclude {
		if _, i := v.Node(name); i >= 0 {
			g.Exclude = append(g.Exclude, i)
		}
	}
	return g
}

func newPart(v *state.View, s model.Shape) Component {
	return Component{Shape: s, Nodes: v.EligibleNodes(s.Constraints), Levels: v.NodesByAffinity(s.Affinities)}
}

// Size returns the number of workers of all parts.
func (g *Gang) Size() int {
	n := g.Workers
	for i := range g.More {
		n += g.More[i].Workers
	}
	return n
}

// Parts returns how many parts there are.
func (g *Gang) Parts() int { return 1 + len(g.More) }

// At returns a part by its position.
func (g *Gang) At(i int) *Component {
	if i == 0 {
		return &g.Component
	}
	return &g.More[i-1]
}

// Only returns a gang of one part with the given number of workers.
func (g *Gang) Only(part, workers int) *Gang {
	only := &Gang{Component: *g.At(part), Exclude: g.Exclude}
	only.Workers = workers
	return only
}

// Seated pairs the places of a gang's workers, as a placement returns them, with the parts that the
// workers are of.
func (g *Gang) Seated(spots []Spot) iter.Seq2[*Spot, *Component] {
	return func(yield func(*Spot, *Component) bool) {
		at, left := 0, g.Workers
		for i := range spots {
			for left == 0 {
				at++
				left = g.At(at).Workers
			}
			left--
			if !yield(&spots[i], g.At(at)) {
				return
			}
		}
	}
}

// Hardest returns the positions of the parts, the hardest to place first. Parts with more GPUs for
// each worker come first. Then GPUs of all workers decide, then cores and memory of a worker.
func (g *Gang) Hardest() []int {
	order := make([]int, g.Parts())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := g.At(a), g.At(b)
		r, s := x.Request.Active, y.Request.Active
		return cmp.Or(cmp.Compare(s.GPUs, r.GPUs), cmp.Compare(s.GPUs*int64(y.Workers), r.GPUs*int64(x.Workers)),
			cmp.Compare(s.Cores, r.Cores), cmp.Compare(s.Memory, r.Memory))
	})
	return order
}

// Wants reports whether the constraints of a part hold on a node.
func (p *Component) Wants(node int) bool { return p.Nodes.Has(node) }

// Within returns the gang on some nodes only.
func (g *Gang) Within(nodes NodeSet) *Gang {
	only := *g
	only.Nodes, only.More = g.Nodes.and(nodes), slices.Clone(g.More)
	for i := range only.More {
		only.More[i].Nodes = only.More[i].Nodes.and(nodes)
	}
	return &only
}
