package rota

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// demand is the requests of recent trial-and-error workers, grouped by shape.
type demand struct {
	shapes []fit.Component // at most 64, distinct
	weight []int           // by shape: how many recent workers had it
	least  model.Request   // the least request of each resource
	usual  int64           // thousandths of a GPU, on average
	missed int             // how many of the workers may find less headroom
}

// newDemand returns the requests of recent workers.
func newDemand(a *estimate.Arrivals) demand {
	recent := a.Recent
	if len(recent) == 0 { // learnt by an earlier version
		w := a.Worker
		w.Cores, w.GPUs = (w.Cores+999)/1000, (w.GPUs+999)/1000*1000
		recent = []model.Vector{w}
	}
	d := demand{shapes: make([]fit.Component, 0, len(recent)), weight: make([]int, 0, len(recent)),
		missed: len(recent) / missedPart}
	known := make(map[model.Vector]int, len(recent))
	for _, v := range recent {
		d.usual += v.GPUs
		i, seen := known[v]
		if !seen {
			i = len(d.shapes)
			known[v] = i
			d.shapes, d.weight = append(d.shapes, single(v)), append(d.weight, 0)
		}
		d.weight[i]++
	}
	d.usual /= int64(len(recent))
	d.least = d.shapes[0].Request
	for i := range d.shapes {
		q := &d.shapes[i].Request
		d.least.Active, d.least.Resident = fewest(d.least.Active, q.Active), fewest(d.least.Resident, q.Resident)
	}
	return d
}

// within forgets workers that ask for more than one in so many parts of any resource. It reports
// whether others are left.
func (d *demand) within(all model.Vector, parts int64) bool {
	kept := 0
	for i := range d.shapes {
		if !d.shapes[i].Request.Active.Times(parts).Within(all) {
			continue
		}
		d.shapes[kept], d.weight[kept] = d.shapes[i], d.weight[i]
		kept++
	}
	d.shapes, d.weight = d.shapes[:kept], d.weight[:kept]
	return kept > 0
}

func fewest(a, b model.Vector) model.Vector {
	return model.Vector{Cores: min(a.Cores, b.Cores), Memory: min(a.Memory, b.Memory), GPUs: min(a.GPUs, b.GPUs)}
}

// single is a gang part of one worker without constraints.
func single(v model.Vector) (p fit.Component) {
	resident := v
	resident.Cores = 0 // a suspended worker needs no cores
	p.Request = model.Request{Active: v, Resident: resident}
	p.Workers, p.PerNode = 1, 1
	return p
}

// all returns every shape.
func (d *demand) all() uint64 { return ^uint64(0) >> (64 - len(d.shapes)) }

// fitting returns the subset of some shapes that a node would take with some room gone.
func (d *demand) fitting(room *fit.Room, node int, gone model.Request, of uint64) uint64 {
	if of == 0 || room.Whole(node) || !room.Usable(node, &d.shapes[0], nil) {
		return 0
	}
	free, shared := room.Available(node).Minus(gone), room.Sharing()
	if !fit.Within(d.least, free) {
		return 0
	}
	set := uint64(0)
	for ; of != 0; of &= of - 1 {
		i := bits.TrailingZeros64(of)
		p := &d.shapes[i]
		if !fit.Within(p.Request, free) || shared && !fit.Within(p.Request, room.AvailableTo(node, p).Minus(gone)) {
			continue
		}
		set |= 1 << i
	}
	return set
}

// weigh returns how many recent workers had a shape of a set.
func (d *demand) weigh(set uint64) (workers int) {
	for ; set != 0; set &= set - 1 {
		workers += d.weight[bits.TrailingZeros64(set)]
	}
	return workers
}

// outlook records which shapes each node would take, and how many nodes must take each.
type outlook struct {
	demand *demand
	want   int             // nodes for each shape; 0: it does not matter
	more   []model.Request // by node: room that will be free soon; nil: none
	on     []uint64        // by node: the shapes that would fit, as bits
	nodes  []int           // by shape: how many nodes would take it
}

// tally is how many nodes would take each shape.
type tally struct {
	set   uint64 // the shapes with a count above 0
	nodes [64]int
}

func (c *tally) add(set uint64) {
	c.set |= set
	for ; set != 0; set &= set - 1 {
		c.nodes[bits.TrailingZeros64(set)]++
	}
}

// begin begins to count, in memory of one word for each node.
func (o *outlook) begin(d *demand, words []uint64) {
	o.demand, o.on, o.nodes = d, words, make([]int, len(d.shapes))
}

// note adds the shapes that a node would take.
func (o *outlook) note(node int, set uint64) {
	for change := set ^ o.on[node]; change != 0; change &= change - 1 {
		i := bits.TrailingZeros64(change)
		if set>>i&1 != 0 {
			o.nodes[i]++
		} else {
			o.nodes[i]--
		}
	}
	o.on[node] = set
}

// takes returns the subset of some shapes that a node would take with some room gone and the coming
// room free.
func (o *outlook) takes(room *fit.Room, node int, gone model.Request, of uint64) uint64 {
	if o.more != nil {
		gone = gone.Minus(o.more[node])
	}
	return o.demand.fitting(room, node, gone, of)
}

// lost returns the shapes that a node would no longer take with some room gone.
func (o *outlook) lost(room *fit.Room, node int, need model.Request) uint64 {
	if o.want == 0 || o.on[node] == 0 {
		return 0
	}
	return o.on[node] &^ o.takes(room, node, need, o.on[node])
}

// keptIn reports whether enough nodes take each shape in a copy of the room.
func (o *outlook) keptIn(room *fit.Room) bool {
	if o.want == 0 {
		return true
	}
	var there tally
	for node := range o.on {
		there.add(o.takes(room, node, model.Request{}, o.demand.all()))
	}
	short := 0
	for i, weight := range o.demand.weight {
		short += weight * max(0, o.want-there.nodes[i])
	}
	return short <= o.demand.missed
}

// spares reports whether the headroom survives a loss, except for the most demanding shapes.
func (o *outlook) spares(lost *tally, patient bool) bool {
	if lost.set == 0 {
		return true
	}
	want := o.want
	if !patient {
		want = (want + 1) / 2
	}
	short, more := 0, false
	for i, n := range o.nodes {
		if lost.nodes[i] > 0 && n-lost.nodes[i] < want {
			n, more = n-lost.nodes[i], true
		}
		short += o.demand.weight[i] * max(0, want-n)
	}
	return !more || short <= o.demand.missed
}
