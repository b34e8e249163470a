// Package elastic computes with how many workers elastic jobs should run. It says which sizes are
// worth their room by measured speeds, how room is divided among jobs, and when a job may change
// its size.
package elastic

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// RunningJob is a running elastic job with the changes that this cycle plans for it.
type RunningJob struct {
	Job     *model.Job
	Attempt *model.Attempt
	Terms   model.Elastic
	Size    int           // elastic workers it has
	Nodes   []int         // where they are, by their numbers from the first elastic one
	Broken  []int         // numbers of those with a broken GPU: their room is of no use to others
	Leave   []int         // numbers of those that are to leave
	Join    []model.Place // where further ones are to be
}

// Running lists the elastic jobs that run with all their workers and are not asked to stop, in
// order of id.
func Running(t *scratch.State) []*RunningJob {
	var list []*RunningJob
	ending := t.Ending()
	for j := range t.View.Live() {
		terms, elastic := j.Elastic()
		a := j.Live()
		if !elastic || a.Stop != nil || a.Started.At == 0 || ending[j.ID] || a.AnyFinal() || a.Suspended() ||
			a.Suspending() || terms.Signal && (a.Shrinking() || a.Joining() || a.Resuming()) {
			continue
		}
		f := &RunningJob{Job: j, Attempt: a, Terms: terms, Size: len(a.Workers) - terms.Fixed}
		for i := range f.Size {
			_, node := t.View.Node(a.Workers[terms.First+i].Node)
			f.Nodes = append(f.Nodes, node)
			if t.Room.Broken(node) > 0 && scratch.BrokenIn(&a.Workers[terms.First+i], t.View.Nodes()[node],
				j.RequestOf(terms.First)) > 0 {
				f.Broken = append(f.Broken, i)
			}
		}
		list = append(list, f)
	}
	return list
}

// Surplus returns how many workers may leave: all beyond the least, as far as the size stays legal.
func (f *RunningJob) Surplus() int { return (f.Size - f.Terms.Min) / f.Terms.Unit * f.Terms.Unit }

// Request returns what each of its elastic workers needs.
func (f *RunningJob) Request() model.Request { return f.Job.RequestOf(f.Terms.First) }

// Apart reports whether a job has its elastic workers on several nodes.
func (f *RunningJob) Apart() bool {
	return slices.ContainsFunc(f.Nodes, func(node int) bool { return node != f.Nodes[0] })
}

// On returns how many of its elastic workers are on a node.
func (f *RunningJob) On(node int) int {
	n := 0
	for _, o := range f.Nodes {
		if o == node {
			n++
		}
	}
	return n
}

// stepRatesOf returns what was measured of a job's speed, by size. Of several measurements at one
// size the last counts. An attempt that is resized while it runs keeps its last rate only. For such
// a job the rates of jobs like it count, and of two rates at one size the faster one.
func stepRatesOf(t *scratch.State, j *model.Job) (list []estimate.StepRate) {
	terms, _ := j.Elastic()
	rates := map[int]int64{}
	if terms.Signal {
		for _, p := range t.View.Statistics().StepRatesOf(j) {
			rates[p.Size] = max(rates[p.Size], p.Rate)
		}
	}
	for i := range j.Attempts {
		if a := &j.Attempts[i]; a.Rate > 0 && !terms.Signal {
			rates[len(a.Workers)-terms.Fixed] = a.Rate
		}
	}
	for _, size := range slices.Sorted(maps.Keys(rates)) {
		list = append(list, estimate.StepRate{Size: size, Rate: rates[size]})
	}
	return list
}

// tip returns the size beyond which a job hardly gets faster. At the next greater size that was
// measured it was not faster by [gainPM]. Without such a measurement it is the most that the job
// may have.
func tip(t *scratch.State, j *model.Job) int {
	terms, _ := j.Elastic()
	list := stepRatesOf(t, j)
	for i := 1; i < len(list); i++ {
		if list[i].Rate*1000 < list[i-1].Rate*(1000+gainPM(t)) {
			return list[i-1].Size
		}
	}
	return terms.Max
}

// noUse is a loss at which further workers are of no use.
const noUse = 1_000_000

// LossOf estimates the loss of a job from the two greatest sizes that it was measured at.
func LossOf(t *scratch.State, j *model.Job) int64 {
	list := stepRatesOf(t, j)
	if len(list) < 2 {
		return tunables.UsualLoss
	}
	return lossBetween(list[len(list)-2], list[len(list)-1])
}

// lossBetween returns the loss that two measurements imply, the second at the larger size.
func lossBetween(a, b estimate.StepRate) int64 {
	// q is how much less each worker does at the greater size: (1+c(b-1))/(1+c(a-1)).
	const unit = 1_000_000
	q := a.Rate * int64(b.Size) * unit / max(1, b.Rate*int64(a.Size))
	if q <= unit {
		return 0
	}
	down := int64(b.Size-1)*unit - q*int64(a.Size-1)
	if down <= 0 {
		return noUse
	}
	return min(noUse, (q-unit)*unit/down)
}

// Speedup returns how fast n workers are, in thousandths of one, with a loss.
func Speedup(n int, loss int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(n) * 1_000_000_000 / (1_000_000 + loss*int64(n-1))
}

// Drop chooses n elastic workers to leave: from where the job has fewest, so that the others stay
// together, the greatest numbers first. If the job is resized while it runs, the last workers
// leave.
func (f *RunningJob) Drop(n int) {
	if f.Terms.Signal {
		for range min(n, f.Size-len(f.Leave)) {
			f.Leave = append(f.Leave, f.Size-1-len(f.Leave))
		}
		return
	}
	count := map[int]int{}
	for i, node := range f.Nodes {
		if !slices.Contains(f.Leave, i) {
			count[node]++
		}
	}
	for range n {
		best := -1
		for i := len(f.Nodes) - 1; i >= 0; i-- {
			if !slices.Contains(f.Leave, i) && (best < 0 || count[f.Nodes[i]] < count[f.Nodes[best]]) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		f.Leave = append(f.Leave, best)
		count[f.Nodes[best]]--
	}
}

// DropOdd chooses as many more to leave as make the size that remains a legal one.
func (f *RunningJob) DropOdd() {
	if odd := len(f.Leave) % f.Terms.Unit; odd > 0 {
		f.Drop(f.Terms.Unit - odd)
	}
}

// DropOn chooses one elastic worker on a node to leave whose room others can use, and reports
// whether there was one.
func (f *RunningJob) DropOn(node int) bool {
	for i := len(f.Nodes) - 1; i >= 0; i-- {
		if f.Terms.Signal && i != f.Size-1-len(f.Leave) {
			continue // only the last that stays may be next
		}
		if f.Nodes[i] == node && !slices.Contains(f.Leave, i) && !slices.Contains(f.Broken, i) {
			f.Leave = append(f.Leave, i)
			return true
		}
	}
	return false
}

// Extend takes room for n more workers in the scratch state, on some nodes only. They go beside the
// workers that the job has as far as possible, and else on as few nodes as possible. It reports
// whether there is room for all and allowed agrees; if not, nothing is taken.
func Extend(t *scratch.State, f *RunningJob, n int, nodes fit.NodeSet,
	allowed func([]fit.Spot, model.Request) bool) bool {
	g := t.Gang(f.Job)
	more := g.Only(f.Terms.Part, n).Within(nodes)
	try := t.Room.Copy()
	spots := beside(try, more, f, n)
	if left := n - len(spots); left > 0 {
		more.Workers = left
		more.Exclude = append(slices.Clone(g.Exclude), f.Nodes...)
		rest, ok := try.Place(more)
		if !ok {
			return false
		}
		spots = append(spots, rest...)
	}
	workers := len(f.Attempt.Workers) + n
	if allowed != nil && !allowed(spots, more.Request) || !t.MayGrow(f.Job, workers, t.NodesOf(spots)) {
		return false
	}
	t.Grow(f.Job, workers, t.NodesOf(spots))
	more.Workers = n
	t.Room.Take(more, spots)
	f.Join = append(f.Join, t.Places(spots)...)
	return true
}

// beside finds room for up to n more workers on the nodes where a job has some, most of them first,
// and takes it.
func beside(r *fit.Room, g *fit.Gang, f *RunningJob, n int) []fit.Spot {
	count := map[int]int{}
	for _, node := range f.Nodes {
		count[node]++
	}
	own := slices.Compact(slices.Sorted(slices.Values(f.Nodes)))
	slices.SortStableFunc(own, func(a, b int) int { return cmp.Compare(count[b], count[a]) })
	var spots []fit.Spot
	for _, node := range own {
		one := *g
		for one.Workers = min(n-len(spots), g.PerNode-count[node]); one.Workers > 0; one.Workers-- {
			if found, ok := r.PlaceOn(&one, node); ok {
				r.Take(&one, found)
				spots = append(spots, found...)
				break
			}
		}
	}
	return spots
}

// Resize adds the planned changes of a job to the plan, if there are any.
func (f *RunningJob) Resize(t *scratch.State, beneficiary model.JobID) {
	if len(f.Leave)+len(f.Join) == 0 {
		return
	}
	r := &fsm.ResizeJob{Job: f.Job.ID, Attempt: f.Attempt.N, Join: f.Join, For: beneficiary}
	for _, i := range f.Leave {
		r.Leave = append(r.Leave, f.Terms.First+i)
	}
	slices.Sort(r.Leave)
	t.Resize(r)
}

// lastOn returns the room of up to n of the last workers, as far as they are on one node with the
// very last. A job that is resized while it runs gives up its workers in this order.
func (f *RunningJob) lastOn(n int) (rooms []estimate.NodeResources) {
	for i := f.Size - 1; i >= f.Size-n && f.Nodes[i] == f.Nodes[f.Size-1] && !slices.Contains(f.Broken, i); i-- {
		rooms = fit.AddRoom(rooms, f.Nodes[i], f.Request())
	}
	return rooms
}

// SurplusOn returns the room that a job may give up on each of its nodes, without GPUs that are
// broken. Settled says that the workers that leave are chosen first, so that the rooms add up.
func (f *RunningJob) SurplusOn(settled bool) []estimate.NodeResources {
	var rooms []estimate.NodeResources
	n := f.Surplus()
	if f.Terms.Signal {
		return f.lastOn(n)
	}
	if settled {
		c := *f
		c.Leave = nil
		c.Drop(n)
		for _, i := range c.Leave {
			if !slices.Contains(f.Broken, i) {
				rooms = fit.AddRoom(rooms, f.Nodes[i], f.Request())
			}
		}
		return rooms
	}
	count := map[int]int{}
	for i, node := range f.Nodes {
		if slices.Contains(f.Broken, i) {
			continue
		}
		if count[node]++; count[node] <= n {
			rooms = fit.AddRoom(rooms, node, f.Request())
		}
	}
	return rooms
}
