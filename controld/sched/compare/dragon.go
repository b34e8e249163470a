package compare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// The clocks of DRAGON.
const (
	dragonPatience = 30_000 // ms that the first job waits before others are scaled down for it
	dragonIdle     = 60_000 // ms without action before jobs are scaled up
)

// Dragon does the same as the DRAGON operator, which schedules jobs of parameter servers and
// workers on Kubernetes. Jobs start first come first served, as far as they fit, with as many
// workers as there is room for. When the first job has waited for half a minute, workers are taken
// from running jobs in the order of their start. When nothing has happened for a minute, running
// jobs get the free room.
//
// The weaknesses of the operator are kept. It frees room for the workers of the waiting job, but
// not for its servers. Any job that fits takes that room. The clock for growing starts again as
// long as a job waits, and growing passes over nodes. Plans that crash the operator, or give a job
// more than its maximum, are left out.
func Dragon(t *scratch.State) {
	d := &dragonPolicy{state: t, running: elastic.Running(t), queue: slices.Collect(baseline.Waiting(t))}
	slices.SortStableFunc(d.running, func(a, b *elastic.RunningJob) int {
		return cmp.Or(cmp.Compare(a.Job.Started.At, b.Job.Started.At), cmp.Compare(a.Job.ID, b.Job.ID))
	})
	d.pass()
}

// dragonPolicy is policy dragon at work.
type dragonPolicy struct {
	state   *scratch.State
	running []*elastic.RunningJob
	queue   []*model.Job
}

// pass is one round.
func (d *dragonPolicy) pass() {
	urgent, ok := false, true
	if len(d.queue) > 0 {
		due := d.queue[0].Eligible + dragonPatience
		d.state.WakeAt(due)
		urgent = due <= d.state.Now
	}
	if urgent && d.state.May(steering.Preemption) {
		ok = d.scaleDown(d.queue[0])
	}
	if ok {
		d.startOne()
	}
	if !urgent && len(d.state.Started) == 0 && d.onTheMinute() {
		d.scaleUp()
	}
}

// startOne starts the first job that fits with its least. Other jobs that fit start in the next
// round, at the same instant.
func (d *dragonPolicy) startOne() {
	for _, j := range d.queue {
		c := queue.NewContender(nil, j)
		if spots, ok := d.greedy(c.Gang(d.state), j); ok && c.Start(d.state, spots, 0) {
			return
		}
	}
}

// onTheMinute reports whether a whole number of minutes have passed since a job started or was
// resized.
func (d *dragonPolicy) onTheMinute() bool {
	var last model.Instant
	for j := range d.state.View.Live() {
		last = max(last, j.Live().Assigned.At)
	}
	past := d.state.Now - last
	d.state.WakeAt(d.state.Now - past%dragonIdle + dragonIdle)
	return past > 0 && past%dragonIdle == 0
}

// greedy places the fixed parts of a gang and then as many elastic workers as fit, up to the
// maximum. It uses the first node that holds them all. Otherwise it fills up nodes in order, the
// roomiest node first. It leaves the size with the gang, and reports whether it is legal.
func (d *dragonPolicy) greedy(g *fit.Gang, j *model.Job) ([]fit.Spot, bool) {
	terms, elastic := j.Elastic()
	order := make([]int, 0, g.Parts())
	for i := range g.Parts() {
		if !elastic || i != terms.Part {
			order = append(order, i)
		}
	}
	if elastic {
		order = append(order, terms.Part)
		g.At(terms.Part).Workers = terms.Max
	}
	first, most := -1, 0
	for node := range d.state.View.Nodes() {
		found, whole := d.fill(g, order, []int{node})
		if whole {
			return slices.Concat(found...), true
		}
		for i := range found {
			if len(found[i]) > most {
				first, most = node, len(found[i])
			}
		}
	}
	if first < 0 {
		return nil, false
	}
	nodes := []int{first}
	for node := range d.state.View.Nodes() {
		if node != first {
			nodes = append(nodes, node)
		}
	}
	found, whole := d.fill(g, order, nodes)
	if !whole && elastic {
		whole = d.cut(g, terms, found)
	}
	return slices.Concat(found...), whole
}

// cut sets the size of the elastic part to the spots found. It reports whether that is enough and
// all other parts are whole.
func (d *dragonPolicy) cut(g *fit.Gang, terms model.Elastic, found [][]fit.Spot) bool {
	for i := range g.Parts() {
		if i != terms.Part && len(found[i]) < g.At(i).Workers {
			return false
		}
	}
	n := len(found[terms.Part]) / terms.Unit * terms.Unit
	found[terms.Part] = found[terms.Part][:n]
	g.At(terms.Part).Workers = n
	return n >= terms.Min
}

// fill puts the workers of the parts, in order, on the nodes, in order. A node that has no room for
// one worker gets no further ones. It returns the spots of each part, and whether these are all.
func (d *dragonPolicy) fill(g *fit.Gang, order, nodes []int) ([][]fit.Spot, bool) {
	lifted := d.state.Room.Lift(g.For)
	defer lifted.Restore()
	found := make([][]fit.Spot, g.Parts())
	try, at, on := d.state.Room.Copy(), 0, 0
	for _, i := range order {
		p := g.At(i)
		single := g.Only(i, 1)
		for len(found[i]) < p.Workers {
			if at == len(nodes) {
				return found, false
			}
			var spot []fit.Spot
			ok := on < p.PerNode && try.Usable(nodes[at], p, g.Exclude)
			if ok {
				spot, ok = try.PlaceOn(single, nodes[at])
			}
			if !ok {
				at, on = at+1, 0
				continue
			}
			try.Take(single, spot)
			found[i] = append(found[i], spot...)
			on++
		}
		on = 0
	}
	return found, true
}

// scaleDown takes workers from those that run until the least workers of a job fit, its servers
// left out, and reports whether they do. As long as some are still leaving none are taken.
func (d *dragonPolicy) scaleDown(j *model.Job) bool {
	g := d.state.Gang(j)
	only := g.Only(0, g.Workers)
	if terms, elastic := j.Elastic(); elastic {
		only = g.Only(terms.Part, terms.Min)
	}
	ahead := d.state.Room.Copy()
	for k := range d.state.View.Live() {
		if a := k.Live(); a.Stop != nil && a.Stop.Resize != nil && len(a.Stop.Resize.Leave) > 0 {
			return true
		}
	}
	taken := false
	for _, f := range d.running {
		for n := f.Surplus(); n > 0 && !ahead.Fits(only); n-- {
			i := d.nextToLeave(f)
			w := &f.Attempt.Workers[f.Terms.First+i]
			f.Leave = append(f.Leave, i)
			ahead.Release(f.Nodes[i], f.Request(), w.GPUs)
			taken = true
		}
	}
	if !ahead.Fits(only) {
		for _, f := range d.running {
			f.Leave = nil
		}
		return false
	}
	if taken {
		for _, f := range d.running {
			f.DropOdd()
			f.Resize(d.state, 0)
		}
	}
	return true
}

// nextToLeave returns the worker that a job gives up next: those beside its servers go last.
func (d *dragonPolicy) nextToLeave(f *elastic.RunningJob) int {
	server := -1
	for i := range f.Attempt.Workers {
		if i < f.Terms.First || i >= f.Terms.First+f.Size {
			_, server = d.state.View.Node(f.Attempt.Workers[i].Node)
			break
		}
	}
	last := -1
	for i := range f.Size {
		switch {
		case slices.Contains(f.Leave, i):
		case f.Nodes[i] != server:
			return i
		case last < 0:
			last = i
		}
	}
	return last
}

// scaleUp gives free room to running jobs, in the order of their start. It goes over the nodes only
// once. If a job finds no more room on a node, it goes on to the next node with the same job.
func (d *dragonPolicy) scaleUp() {
	k := 0
	for node := range d.state.View.Nodes() {
		for ; k < len(d.running); k++ {
			if !d.fillUp(d.running[k], node) {
				break
			}
		}
	}
	for _, f := range d.running {
		if odd := len(f.Join) % f.Terms.Unit; odd > 0 {
			f.Join = f.Join[:len(f.Join)-odd]
		}
		f.Resize(d.state, 0)
	}
}

// fillUp adds workers of a job on a node, and reports whether it has its most.
func (d *dragonPolicy) fillUp(f *elastic.RunningJob, node int) bool {
	g := d.state.Gang(f.Job)
	single := g.Only(f.Terms.Part, 1)
	for f.Size+len(f.Join) < f.Terms.Max {
		if d.onNode(f, node) >= single.PerNode || !d.state.Room.Usable(node, &single.Component, single.Exclude) {
			return false
		}
		spot, ok := d.state.Room.PlaceOn(single, node)
		if !ok || !d.state.MayGrow(f.Job, f.Terms.Fixed+f.Size+len(f.Join)+1, d.state.NodesOf(spot)) {
			return false
		}
		d.state.Room.Take(single, spot)
		f.Join = append(f.Join, d.state.Places(spot)...)
	}
	return true
}

// onNode counts the elastic workers that a job has or will have on a node.
func (d *dragonPolicy) onNode(f *elastic.RunningJob, node int) int {
	n := f.On(node)
	for i := range f.Join {
		if f.Join[i].Node == d.state.View.Nodes()[node].Name {
			n++
		}
	}
	return n
}
