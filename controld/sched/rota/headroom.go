package rota

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// headroom is room that best-effort jobs leave free for future trial-and-error jobs. It is measured
// in the shapes of recent workers: the request of one worker on one node. Scattered GPUs, or GPUs
// without free memory, would be of no use. Each shape should fit on one node now. It should also
// fit on several nodes soon, once the trial-and-error jobs that run there have ended. Their number
// depends on the arrivals of a minute.
//
// Trial-and-error jobs are over in minutes. A node on which they run side by side will soon have
// room for a large one again, if no best-effort job gets between. To keep each shape free now on
// several nodes would cost far more, mostly for the few largest shapes. If hardly one job arrives
// in a minute, the second rule keeps nothing free. Best-effort jobs would wait for a job that
// mostly does not come.
//
// On few nodes one worker's room is a large part of the cluster. It stays empty for long, because
// few trial-and-error jobs come. There best-effort jobs would wait 25 to 80 times the time that
// trial-and-error jobs save.
type headroom struct {
	state *scratch.State
	cache *Cache
	demand
	now  outlook
	soon outlook
}

// newHeadroom returns the room to leave free, by the requests of recent trial-and-error jobs; nil
// for none.
func newHeadroom(t *scratch.State, cache *Cache) *headroom {
	l := t.View.Statistics()
	if l == nil || l.TE.Last == 0 || t.Now-l.TE.Last > scratch.Day || t.Policy.HeadroomPM < 0 {
		return nil
	}
	all := t.Room.TotalUp()
	if all.GPUs < smallCluster*model.WholeGPU {
		return nil
	}
	h := &headroom{state: t, cache: cache, demand: newDemand(&l.TE)}
	if h.usual == 0 {
		return nil
	}
	bound := cmp.Or(t.Policy.HeadroomPM, headroomPM)
	most := all.GPUs * bound / 1000 / h.usual
	now, soon := worthKeeping(&l.Waits, cluster.TEWorth.Of(&t.Policy))
	if most == 0 || !now || !h.within(all, oneWorkerPart*1000/bound) {
		return nil
	}
	h.now.want = 1
	if aMinute := l.TE.Mean / 256 / h.usual; soon && aMinute > 0 {
		h.soon.want = int(min(soonTimes*(aMinute+1), most))
	}
	h.countAll()
	return h
}

// worthKeeping reports whether free room is worth keeping, and whether room is that will be free
// soon. Both follow from recent waits: the fewer trial-and-error jobs waited for each best-effort
// job, the less is kept.
func worthKeeping(w *estimate.QueueWaits, times int64) (now, soon bool) {
	cost := w.TE * times
	return 2*cost >= w.BE, cost >= w.BE
}

// countAll notes which shapes each node would take. Nodes with fewer empty GPUs than the smallest
// shape needs are skipped: on a full cluster nearly all are. Such nodes take no shape now, and none
// soon unless trial-and-error jobs run there.
func (h *headroom) countAll() {
	nodes := len(h.state.View.Nodes())
	words := h.cache.cleared(2 * nodes)
	h.now.begin(&h.demand, words[:nodes])
	h.soon.begin(&h.demand, words[nodes:])
	if h.soon.want > 0 {
		h.soon.more = h.comingFree()
	}
	if h.state.Room.Sharing() {
		for node := range nodes {
			h.count(node)
		}
		return
	}
	for node := range h.state.Room.WithGPUs(int(h.least.Active.GPUs / 1000)) {
		h.count(node)
	}
	for node, more := range h.soon.more {
		if more != (model.Request{}) {
			h.count(node)
		}
	}
}

// count notes again which shapes a node would take.
func (h *headroom) count(node int) {
	now := h.now.takes(h.state.Room, node, model.Request{}, h.all())
	h.now.note(node, now)
	if h.soon.want == 0 {
		return
	}
	soon := now // and what more will come free can only add to that
	if h.soon.more[node] != (model.Request{}) {
		soon |= h.soon.takes(h.state.Room, node, model.Request{}, h.all()&^now)
	}
	h.soon.note(node, soon)
}

// brief is a trial-and-error job that runs, and what it holds.
type brief struct {
	since model.Instant
	rooms []estimate.NodeResources
}

// comingFree returns, by node, the room of trial-and-error jobs that started recently and so will
// end soon.
func (h *headroom) comingFree() []model.Request {
	h.cache.coming = scratch.Cleared(h.cache.coming, len(h.state.View.Nodes()))
	coming := h.cache.coming
	for _, list := range h.cache.briefs.Walk(h.state.View, briefsOf) {
		for _, b := range list {
			if h.state.Now-b.since >= briefMS {
				continue
			}
			for _, r := range b.rooms {
				coming[r.Node] = coming[r.Node].Plus(r.Room)
			}
		}
	}
	return coming
}

// briefsOf returns the trial-and-error jobs among some attempts.
func briefsOf(p state.AttemptPage) (list []brief) {
	for r := range p.Runs {
		if !r.BestEffort {
			list = append(list, brief{since: r.Since, rooms: r.Holds})
		}
	}
	return list
}

// took notes that a job has started on some nodes.
func (h *headroom) took(spots []fit.Spot) {
	if h == nil {
		return
	}
	for i := range spots {
		h.count(spots[i].Node)
	}
}

// begun notes that a trial-and-error job is about to start: what it takes will soon be free again.
func (h *headroom) begun(g *fit.Gang, spots []fit.Spot) {
	if h == nil || h.soon.want == 0 {
		return
	}
	for s, part := range g.Seated(spots) {
		h.soon.more[s.Node] = h.soon.more[s.Node].Plus(part.Request)
	}
}

// loss is how many fewer nodes would take each shape, now and soon.
type loss struct{ now, soon tally }

// lose adds the loss if some room of a node is taken.
func (h *headroom) lose(l *loss, node int, need model.Request) {
	l.now.add(h.now.lost(h.state.Room, node, need))
	l.soon.add(h.soon.lost(h.state.Room, node, need))
}

// spares reports whether the headroom survives a loss, except for the most demanding shapes.
func (h *headroom) spares(lost *loss, patient bool) bool {
	return h.now.spares(&lost.now, patient) && h.soon.spares(&lost.soon, patient)
}

// patient reports whether a job must still leave the full headroom. A job that has waited for long
// leaves only half, rounded up.
func (h *headroom) patient(j *model.Job) bool {
	patience := cluster.HeadroomPatience.Of(&h.state.Policy) * h.state.Policy.ReserveAfterMS
	return h.state.Now-j.Eligible < model.Instant(patience)
}

// allows reports whether a best-effort job may have its spots. Room that is reserved for the job
// was not counted as headroom.
func (h *headroom) allows(j *model.Job, g *fit.Gang, spots []fit.Spot) bool {
	if h == nil || j.Class == jobspec.TE {
		return true
	}
	var lost loss
	var need model.Request // of the workers that follow each other on a node
	at := 0
	for s, part := range g.Seated(spots) {
		need = need.Plus(part.Request)
		if at++; at < len(spots) && spots[at].Node == s.Node {
			continue
		}
		if !h.hasClaim(j.ID, s.Node) {
			h.lose(&lost, s.Node, need)
		}
		need = model.Request{}
	}
	return h.spares(&lost, h.patient(j))
}

// hasClaim reports whether room on a node is reserved for a job.
func (h *headroom) hasClaim(id model.JobID, node int) bool {
	r := h.state.Holders[id]
	return r != nil && slices.ContainsFunc(r.Claims,
		func(c model.Claim) bool { return c.Node == h.state.View.Nodes()[node].Name })
}

// allowsOn is allows for a single worker on a node.
func (h *headroom) allowsOn(j *model.Job, g *fit.Gang, node int) bool {
	if h == nil {
		return true
	}
	var lost loss
	h.lose(&lost, node, g.Request)
	return h.spares(&lost, h.patient(j))
}

// allowsMore reports whether a running best-effort job may grow by so many workers that ask for the
// same.
func (h *headroom) allowsMore(spots []fit.Spot, request model.Request) bool {
	if h == nil {
		return true
	}
	need := map[int]model.Request{}
	for _, s := range spots {
		need[s.Node] = need[s.Node].Plus(request)
	}
	var lost loss
	for node, r := range need {
		h.lose(&lost, node, r)
	}
	return h.spares(&lost, true)
}

// keptIn reports whether a copy of the room still holds the full headroom.
func (h *headroom) keptIn(room *fit.Room) bool { return h.now.keptIn(room) && h.soon.keptIn(room) }

// cost returns how many recent workers a node would no longer take now if some room were taken.
func (h *headroom) cost(node int, need model.Request) int {
	return h.weigh(h.now.lost(h.state.Room, node, need))
}

// Cache keeps the memory of headroom and the running trial-and-error jobs from cycle to cycle. The
// zero value is ready for use.
type Cache struct {
	words  []uint64
	briefs scratch.Pages[[]brief]
	coming []model.Request
}

// cleared returns n words that are 0.
func (c *Cache) cleared(n int) []uint64 {
	c.words = scratch.Cleared(c.words, n)
	return c.words
}
