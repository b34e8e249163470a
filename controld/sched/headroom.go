package sched

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of the headroom.
const (
	headroomPM    = 50             // thousandths of all GPUs that it is at most
	headroomLeast = 32_000         // thousandths of a GPU: smaller clusters have none
	missedPart    = 20             // one of so many workers, the most demanding ones, may find less than is wanted
	waitForTE     = 20             // so many best-effort jobs may have to wait to spare one trial-and-error job the same
	soonTimes     = 2              // so many times as many as come in a minute, of nodes that would take one soon
	briefMS       = 30 * 60 * 1000 // a trial-and-error job that has run for longer is not expected to be over soon
	patienceForTE = 6              // a job leaves all of it for so many times as long as it takes for room to be reserved for it
)

// headroom is room that best-effort jobs leave free for trial-and-error jobs to come: for each of those that came last, one node that would take
// one like it now, and several that would once the trial-and-error jobs that run there are over, by how many usually come in a minute. What counts is
// what a worker needs on one node, because free GPUs that are scattered, or without memory beside them, help nobody.
//
// Trial-and-error jobs are over in minutes, so that a node on which they run side by side will soon have room for a large one again, if no
// best-effort job gets between. To leave as much free on several nodes for those that come meanwhile costs far more, most of it for the few largest.
// Where hardly one comes in a minute nothing is left for that alone: it would keep best-effort jobs waiting for somebody who mostly does not come.
type headroom struct {
	shapes []fit.Part      // at most 64, told apart
	weight []int           // by shape: how many of the last workers were like it
	least  cluster.Request // of each resource what the most modest of them needs
	missed int             // of them, how many may find less than is wanted
	now    outlook
	soon   outlook
}

// outlook is which workers nodes would take now, or soon.
type outlook struct {
	want  int               // nodes for each shape
	more  []cluster.Request // by node: what will have come free; nil: nothing
	on    []uint64          // by node: the shapes that would fit, as bits
	nodes []int             // by shape: how many nodes would take it
}

// brief is a trial-and-error job that runs, and what it holds.
type brief struct {
	since cluster.Instant
	rooms []cluster.NodeRoom
}

// newHeadroom returns what is to be left free by what trial-and-error jobs have asked for lately, nil if nothing.
func newHeadroom(t *trial) *headroom {
	l := t.view.Learned()
	if l == nil || l.TE.Last == 0 || t.now-l.TE.Last > day || t.policy.HeadroomPM < 0 {
		return nil
	}
	gpus := t.gpusUp()
	if gpus < headroomLeast {
		return nil
	}
	h := &headroom{}
	usual := h.learn(&l.TE)
	if usual == 0 {
		return nil
	}
	most := gpus * cmp.Or(t.policy.HeadroomPM, headroomPM) / 1000 / usual
	now, soon := worth(&l.Waits)
	if most == 0 || !now {
		return nil
	}
	h.now.want = 1
	if aMinute := l.TE.Mean / 256 / usual; soon && aMinute > 0 {
		h.soon.want = int(min(soonTimes*(aMinute+1), most))
	}
	h.countAll(t)
	return h
}

// countAll notes which workers each node would take. Nodes with fewer empty GPUs than the most modest needs, which on a full cluster are nearly all,
// take none now, and none soon unless trial-and-error jobs run there.
func (h *headroom) countAll(t *trial) {
	nodes, shapes := len(t.view.Nodes()), len(h.shapes)
	words := t.desk.words(2 * nodes)
	h.now.on, h.now.nodes = words[:nodes], make([]int, shapes)
	h.soon.on, h.soon.nodes, h.soon.more = words[nodes:], make([]int, shapes), t.comingFree()
	if t.room.Sharing() {
		for node := range nodes {
			h.count(t, node)
		}
		return
	}
	for node := range t.room.WithGPUs(int(h.least.Active.GPUs / 1000)) {
		h.count(t, node)
	}
	for node, more := range h.soon.more {
		if more != (cluster.Request{}) {
			h.count(t, node)
		}
	}
}

// comingFree returns, by node, what trial-and-error jobs hold that run and have not run for long.
func (t *trial) comingFree() []cluster.Request {
	t.desk.coming = cleared(t.desk.coming, len(t.view.Nodes()))
	coming, known := t.desk.coming, &t.desk.briefs
	known.begin()
	for p := range t.view.RunPages {
		list, noted := known.recall(p)
		if !noted {
			list = briefsOf(p)
		}
		known.note(p, list)
		for _, b := range list {
			if t.now-b.since >= briefMS {
				continue
			}
			for _, r := range b.rooms {
				coming[r.Node] = fit.Plus(coming[r.Node], r.Room)
			}
		}
	}
	known.end()
	return coming
}

// briefsOf returns the trial-and-error jobs among some attempts.
func briefsOf(p cluster.RunPage) (list []brief) {
	for r := range p.Runs {
		if !r.BestEffort {
			list = append(list, brief{since: r.Since, rooms: r.Rooms})
		}
	}
	return list
}

// worth reports, by how many jobs of each class have had to wait lately, whether room that is free now is worth keeping, and whether that is which will
// be free soon: less is while fewer trial-and-error jobs have waited for how many best-effort jobs have.
func worth(w *cluster.Waits) (now, soon bool) {
	cost := w.TE * waitForTE
	return 2*cost >= w.BE, cost >= w.BE
}

// gpusUp returns how many thousandths of a GPU nodes have that are up.
func (t *trial) gpusUp() (gpus int64) {
	for i := range t.view.Nodes() {
		if t.room.Up(i) {
			gpus += t.room.Total(i).GPUs
		}
	}
	return gpus
}

// learn takes in what the last workers asked for and returns how many thousandths of a GPU that is on average.
func (h *headroom) learn(a *cluster.Arrivals) int64 {
	recent := a.Recent
	if len(recent) == 0 { // learnt by an earlier version
		w := a.Worker
		w.Cores, w.GPUs = (w.Cores+999)/1000, (w.GPUs+999)/1000*1000
		recent = []cluster.Vector{w}
	}
	known := make(map[cluster.Vector]int, len(recent))
	h.shapes, h.weight = make([]fit.Part, 0, len(recent)), make([]int, 0, len(recent))
	var gpus int64
	for _, v := range recent {
		gpus += v.GPUs
		i, seen := known[v]
		if !seen {
			i = len(h.shapes)
			known[v] = i
			h.shapes, h.weight = append(h.shapes, single(v)), append(h.weight, 0)
		}
		h.weight[i]++
	}
	h.missed = len(recent) / missedPart
	h.least = h.shapes[0].Request
	for i := range h.shapes {
		q := &h.shapes[i].Request
		h.least.Active, h.least.Resident = fewest(h.least.Active, q.Active), fewest(h.least.Resident, q.Resident)
	}
	return gpus / int64(len(recent))
}

func fewest(a, b cluster.Vector) cluster.Vector {
	return cluster.Vector{Cores: min(a.Cores, b.Cores), Memory: min(a.Memory, b.Memory), GPUs: min(a.GPUs, b.GPUs)}
}

// single is a part of one worker that may be anywhere.
func single(v cluster.Vector) (p fit.Part) {
	resident := v
	resident.Cores = 0 // nobody needs cores while he is suspended
	p.Request = cluster.Request{Active: v, Resident: resident}
	p.Workers, p.PerNode = 1, 1
	return p
}

// count notes anew which workers a node would take.
func (h *headroom) count(t *trial, node int) {
	now := h.takes(t.room, node, cluster.Request{}, h.all())
	soon := now // and what more will come free can only add to that
	if less := h.soon.less(node, cluster.Request{}); less != (cluster.Request{}) {
		soon |= h.takes(t.room, node, less, h.all()&^now)
	}
	h.now.note(node, now)
	h.soon.note(node, soon)
}

// note takes in which shapes a node would take.
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

// less returns how much less there will be on a node than is free now, with some room gone.
func (o *outlook) less(node int, gone cluster.Request) cluster.Request {
	if o.more == nil {
		return gone
	}
	return fit.Minus(gone, o.more[node])
}

func (h *headroom) all() uint64 { return ^uint64(0) >> (64 - len(h.shapes)) }

// keptIn reports whether all that is wanted is free in a copy of the room.
func (h *headroom) keptIn(room *fit.Room) bool {
	for _, o := range []*outlook{&h.now, &h.soon} {
		var nodes [64]int
		for node := range o.on {
			for set := h.takes(room, node, o.less(node, cluster.Request{}), h.all()); set != 0; set &= set - 1 {
				nodes[bits.TrailingZeros64(set)]++
			}
		}
		short := 0
		for i := range h.shapes {
			short += h.weight[i] * max(0, o.want-nodes[i])
		}
		if short > h.missed {
			return false
		}
	}
	return true
}

// takes returns which shapes, of those asked about, a node would take with some room gone.
func (h *headroom) takes(room *fit.Room, node int, gone cluster.Request, of uint64) uint64 {
	if of == 0 || room.Whole(node) || !room.Usable(node, &h.shapes[0], nil) {
		return 0
	}
	free, shared := fit.Minus(room.Available(node), gone), room.Sharing()
	if !enough(&h.least, &free) {
		return 0
	}
	set := uint64(0)
	for ; of != 0; of &= of - 1 {
		i := bits.TrailingZeros64(of)
		p := &h.shapes[i]
		if !enough(&p.Request, &free) || shared && !fit.Within(p.Request, fit.Minus(room.AvailableTo(node, p), gone)) {
			continue
		}
		set |= 1 << i
	}
	return set
}

// enough is fit.Within without a division: it is asked for every shape of every node.
func enough(need, free *cluster.Request) bool {
	a, b, r := &need.Active, &free.Active, &free.Resident
	return a.Cores <= max(0, b.Cores) && a.Memory <= max(0, b.Memory) && a.GPUs <= max(0, b.GPUs) &&
		need.Resident.Memory <= max(0, r.Memory) && need.Resident.GPUs <= max(0, r.GPUs)
}

// took notes that somebody has started on some nodes.
func (h *headroom) took(t *trial, spots []fit.Spot) {
	if h == nil {
		return
	}
	for i := range spots {
		h.count(t, spots[i].Node)
	}
}

// begun notes that a trial-and-error job is about to start: what it takes will soon be free again.
func (h *headroom) begun(g *fit.Gang, spots []fit.Spot) {
	if h == nil {
		return
	}
	for s, part := range g.Seated(spots) {
		h.soon.more[s.Node] = fit.Plus(h.soon.more[s.Node], part.Request)
	}
}

// allows reports whether a best-effort job may have its spots. On nodes where room is reserved for it, it takes what was not counted.
func (h *headroom) allows(t *trial, c *contender, spots []fit.Spot) bool {
	if h == nil || c.job.Class == jobspec.TE {
		return true
	}
	var lost loss
	var need cluster.Request // of the workers that follow each other on a node
	at := 0
	for s, part := range c.gang.Seated(spots) {
		need = fit.Plus(need, part.Request)
		if at++; at < len(spots) && spots[at].Node == s.Node {
			continue
		}
		if !t.hasClaim(c.job.ID, s.Node) {
			h.lose(&lost, t, s.Node, need)
		}
		need = cluster.Request{}
	}
	return h.spares(&lost, h.patient(t, c.job))
}

// allowsOn is allows for a single worker on a node.
func (h *headroom) allowsOn(t *trial, c *contender, node int) bool {
	if h == nil {
		return true
	}
	var lost loss
	h.lose(&lost, t, node, c.gang.Request)
	return h.spares(&lost, h.patient(t, c.job))
}

// loss is which shapes fewer nodes would take, and how many fewer, now and soon.
type loss struct{ now, soon fewer }

type fewer struct {
	set   uint64
	nodes [64]int
}

func (l *fewer) add(set uint64) {
	l.set |= set
	for ; set != 0; set &= set - 1 {
		l.nodes[bits.TrailingZeros64(set)]++
	}
}

// lose adds what is lost with some room of a node.
func (h *headroom) lose(l *loss, t *trial, node int, need cluster.Request) {
	l.now.add(h.lost(t, &h.now, node, need))
	l.soon.add(h.lost(t, &h.soon, node, need))
}

// patient reports whether a job still leaves all that is wanted: one that has waited for long leaves half, rounded up.
func (h *headroom) patient(t *trial, j *cluster.Job) bool {
	return t.now-j.Eligible < patienceForTE*cluster.Instant(t.policy.ReserveAfterMS)
}

// spares reports whether nothing is lost that is wanted, or so little that only the most demanding would miss it.
func (h *headroom) spares(lost *loss, patient bool) bool {
	return h.sparesOf(&h.now, &lost.now, patient) && h.sparesOf(&h.soon, &lost.soon, patient)
}

func (h *headroom) sparesOf(o *outlook, lost *fewer, patient bool) bool {
	if lost.set == 0 {
		return true
	}
	want := o.want
	if !patient {
		want = (want + 1) / 2
	}
	short, more := 0, false
	for i, n := range o.nodes {
		if lost.set>>i&1 != 0 && n-lost.nodes[i] < want {
			n, more = n-lost.nodes[i], true
		}
		short += h.weight[i] * max(0, want-n)
	}
	return !more || short <= h.missed
}

// lost returns which shapes a node would not take any more with some room gone.
func (h *headroom) lost(t *trial, o *outlook, node int, need cluster.Request) uint64 {
	if o.on[node] == 0 {
		return 0
	}
	return o.on[node] &^ h.takes(t.room, node, o.less(node, need), o.on[node])
}

// cost returns how many of the last workers a node would not take any more with some room gone.
func (h *headroom) cost(t *trial, node int, need cluster.Request) int {
	n := 0
	for lost := h.lost(t, &h.now, node, need); lost != 0; lost &= lost - 1 {
		n += h.weight[bits.TrailingZeros64(lost)]
	}
	return n
}

// hasClaim reports whether room on a node is reserved for a job.
func (t *trial) hasClaim(id cluster.JobID, node int) bool {
	r := t.holders[id]
	return r != nil && slices.ContainsFunc(r.Claims, func(c cluster.Claim) bool { return c.Node == t.view.Nodes()[node].Name })
}

// overTELimit reports whether a trial-and-error job's account has as many GPUs in such jobs as it may.
func (t *trial) overTELimit(j *cluster.Job) bool {
	limit := t.policy.TEAccountGPUs
	if limit <= 0 || !t.byService || j.Class != jobspec.TE {
		return false
	}
	own := t.holders[j.ID]
	if own != nil && own.Firm {
		return false // it was counted when the room was promised
	}
	if t.teHeld == nil {
		t.countAllTE()
	}
	return t.teHeld[j.Account]+j.Width() > limit*1000
}

// countAllTE counts the GPUs of trial-and-error jobs that run or have been promised room.
func (t *trial) countAllTE() {
	t.teHeld = map[string]int64{}
	for o := range t.view.Live() {
		if o.Class == jobspec.TE {
			t.teHeld[o.Account] += o.Width()
		}
	}
	for id, r := range t.holders {
		if o := t.view.Job(id); r.Firm && o.Class == jobspec.TE {
			t.teHeld[o.Account] += o.Width()
		}
	}
}

// countTE notes that a job has started or been promised room, once.
func (t *trial) countTE(j *cluster.Job) {
	if own := t.holders[j.ID]; t.teHeld == nil || j.Class != jobspec.TE || own != nil && own.Firm {
		return
	}
	t.teHeld[j.Account] += j.Width()
}
