package limits

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Use is the count of one owner of a limit. It belongs to the view that it was taken from and never
// changes there.
type Use struct {
	Owner     cluster.Owner
	Running   int64        // attempts in progress; suspended ones hold memory only
	Submitted int64        // unfinished jobs
	Held      model.Vector // requests of attempts in progress
	// Sums over attempts in progress, in thousandths of a GPU times seconds. Ends is over those
	// whose time limit's clock runs, with the second at which it ends, and ticking is their GPUs.
	// Left is over the others.
	ends, ticking, left int64
	nodes               map[string]int // attempts on each node; nil unless the limit counts nodes
	epoch               uint64         // at which it was last replaced
}

// New returns an empty count for the owner of a limit.
func New(b *cluster.Bound) *Use {
	u := &Use{Owner: b.Owner}
	if b.Limit.Nodes != nil {
		u.nodes = map[string]int{}
	}
	return u
}

// Clone returns a copy that may be changed.
func (u *Use) Clone() *Use {
	next := *u
	next.nodes = maps.Clone(u.nodes)
	return &next
}

// add counts the part of a job n times; -1 takes it out.
func (u *Use) add(p *Part, n int64) {
	u.Submitted += n * p.Submitted
	if !p.Live {
		return
	}
	u.Running += n
	u.Held = u.Held.Plus(p.Total.Times(n))
	if p.Ends != 0 {
		u.ends += n * p.Total.GPUs * p.Ends
		u.ticking += n * p.Total.GPUs
	} else {
		u.left += n * p.Total.GPUs * p.Left
	}
}

// addNodes counts the nodes of an attempt n times.
func (u *Use) addNodes(nodes []string, n int) {
	if u.nodes == nil {
		return
	}
	for _, name := range nodes {
		if u.nodes[name] += n; u.nodes[name] == 0 {
			delete(u.nodes, name)
		}
	}
}

// Begin counts a job that starts, on nodes of which each is named once; they may be unknown yet.
func (u *Use) Begin(n *Need, nodes []string) { u.change(n, nodes, 1) }

// Withdraw takes out a job that Begin has counted.
func (u *Use) Withdraw(n *Need, nodes []string) { u.change(n, nodes, -1) }

func (u *Use) change(n *Need, nodes []string, by int64) {
	u.Running += by * n.Jobs
	u.Held = u.Held.Plus(n.Total.Times(by))
	u.left += by * n.gpuSeconds()
	u.addNodes(nodes, int(by))
}

// GPUMinutes returns the GPU minutes of attempts in progress until their time limits, in
// thousandths.
func (u *Use) GPUMinutes(now model.Instant) int64 { return u.gpuSeconds(now) / 60 }

// gpuSeconds is in thousandths of a GPU times seconds.
func (u *Use) gpuSeconds(now model.Instant) int64 {
	return max(0, u.ends-int64(now)/1000*u.ticking+u.left)
}

// Nodes returns how many nodes the owner's jobs run on, if its limit counts them.
func (u *Use) Nodes() int { return len(u.nodes) }

// withNodes returns how many nodes there would be with some more, of which each is named once.
func (u *Use) withNodes(more []string) int64 {
	n := len(u.nodes)
	for _, name := range more {
		if u.nodes[name] == 0 {
			n++
		}
	}
	return int64(n)
}

// empty reports whether the owner has no jobs.
func (u *Use) empty() bool { return u.Running == 0 && u.Submitted == 0 }

// equal reports whether two counts are the same.
func (u *Use) equal(o *Use) bool {
	return u.Owner == o.Owner && u.Running == o.Running && u.Submitted == o.Submitted && u.Held == o.Held &&
		u.ends == o.ends && u.ticking == o.ticking && u.left == o.left && maps.Equal(u.nodes, o.nodes)
}

// Need is what a job needs to start, or to grow.
type Need struct {
	Jobs    int64 // 1, or 0 of a job that grows
	Total   model.Vector
	Seconds int64 // its time limit
	Least   int64 // nodes, at least
}

// NeedOf returns what the next attempt of a job needs, or the next task of an array.
func NeedOf(j *model.Job) Need {
	n := Need{Jobs: 1, Total: j.Total(), Seconds: int64(j.Limit), Least: 1}
	if j.Limit <= 0 {
		n.Seconds = unlimited
	}
	least := func(workers, perNode int) { n.Least = max(n.Least, int64((workers+perNode-1)/perNode)) }
	if len(j.Parts) == 0 {
		least(j.Workers, model.PerNode(j))
	}
	for i := range j.Parts { // workers of different parts may share a node
		least(j.Parts[i].Workers, max(1, j.Parts[i].PerNode))
	}
	return n
}

// Growth returns what a job needs to have so many workers instead of those that it has.
func Growth(j *model.Job, workers int) Need {
	n, less := NeedOf(j.Resized(workers)), j.Total()
	n.Jobs, n.Total = 0, n.Total.Plus(less.Times(-1))
	return n
}

// NodesOf returns the nodes of places, each once.
func NodesOf(places []model.Place) []string {
	nodes := make([]string, len(places))
	for i := range places {
		nodes[i] = places[i].Node
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
