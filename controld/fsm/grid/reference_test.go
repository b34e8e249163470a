package grid

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// plain is a node as the grid's rules speak of it: every GPU by itself, in thousandths.
type plain struct {
	*model.Node
	held    []Held
	claimed model.Vector
}

// taken is what workers hold of each GPU, and which GPUs one worker has as a whole.
func (p *plain) taken() (lent []int64, whole []bool) {
	lent, whole = make([]int64, len(p.GPUs)), make([]bool, len(p.GPUs))
	for _, h := range p.held {
		for _, n := range h.GPUs {
			if share := h.Request.Share(); share > 0 {
				lent[n] += share
			} else {
				whole[n] = true
			}
		}
	}
	return lent, whole
}

// free is what is free of each GPU: nothing of one that is broken.
func (p *plain) free() []int64 {
	lent, whole := p.taken()
	free := make([]int64, len(p.GPUs))
	for n := range free {
		if p.GPUs[n].Healthy && !whole[n] {
			free[n] = 1000 - lent[n]
		}
	}
	return free
}

// parts divides what is free into GPUs that are empty and what is left of the others.
func (p *plain) parts() (empty []int, left map[int]int64, most int64) {
	left = map[int]int64{}
	for n, free := range p.free() {
		switch {
		case free == 1000:
			empty = append(empty, n)
		case free > 0:
			left[n], most = free, max(most, free)
		}
	}
	return empty, left, most
}

// exclusive reports whether a worker has the node for itself.
func (p *plain) exclusive() bool {
	return slices.ContainsFunc(p.held, func(h Held) bool { return h.Request.Exclusive })
}

// gpusFor says whether the GPUs hold a request beside claims of so many thousandths, on those named.
func (p *plain) gpusFor(r model.Request, claimed int64, gpus []int) bool {
	empty, left, most := p.parts()
	whole := int64(len(empty)) * 1000
	total := whole
	for _, l := range left {
		total += l
	}
	pressing := claimed // on empty GPUs
	if claimed > 0 && claimed < 1000 && most >= claimed {
		pressing = 0
	}
	sound := func() bool {
		for i, n := range gpus {
			if !slices.Contains(empty, n) || slices.Contains(gpus[:i], n) {
				return false
			}
		}
		return true
	}
	share := r.Share()
	onEmpty := len(empty) > 0 && whole-pressing >= share
	onShared := total-claimed >= share
	switch {
	case r.Active.GPUs == 0:
		return total >= claimed && sound()
	case share == 0:
		return whole-pressing >= r.Active.GPUs && sound()
	case gpus == nil:
		return onEmpty || onShared && most >= share
	case len(gpus) != 1 || gpus[0] < 0 || gpus[0] >= len(p.GPUs) || p.free()[gpus[0]] < share:
		return false
	case slices.Contains(empty, gpus[0]):
		return onEmpty
	}
	return onShared
}

// room is what is free besides GPUs to work on: active and resident.
func (p *plain) room() (active, resident model.Vector) {
	active = Capacity(p.Node)
	resident = active
	for _, h := range p.held {
		active.Cores -= h.Request.Active.Cores
		active.Memory -= h.Request.Active.Memory
		resident = resident.Minus(h.Request.Resident)
	}
	return active, resident
}

func (p *plain) holds(r model.Request, claimed model.Vector) bool {
	active, resident := p.room()
	return active.Cores-claimed.Cores >= r.Active.Cores && active.Memory-claimed.Memory >= r.Active.Memory &&
		resident.Memory-claimed.Memory >= r.Resident.Memory && resident.GPUs-claimed.GPUs >= r.Resident.GPUs
}

// obstacle is what the documents say of Fits.
func (p *plain) obstacle(r model.Request, gpus []int) model.ReasonCode {
	none := model.Vector{}
	switch {
	case p.State == model.NodeDown:
		return model.ReasonNodeDown
	case p.State != model.NodeUp:
		return model.ReasonNotAvail
	case p.exclusive(), r.Exclusive && len(p.held) > 0, !p.holds(r, none), !p.gpusFor(r, 0, gpus):
		return model.ReasonResources
	case !p.holds(r, p.claimed), !p.gpusFor(r, p.claimed.GPUs, gpus), r.Exclusive && p.claimed != none:
		return model.ReasonReservation
	}
	return model.ReasonNone
}

// game is a grid and the nodes that it should describe.
type game struct {
	*rand.Rand
	g     *Grid
	nodes []*plain
	next  int
}

func (p *game) list() []*model.Node {
	var list []*model.Node
	for _, n := range p.nodes {
		list = append(list, n.Node)
	}
	return list
}

// node is a random node with up to most GPUs.
func (p *game) node(name string, most int) *model.Node {
	n := testNode(name, p.IntN(most+1))
	n.Cores, n.Memory = int64(4+p.IntN(5)), jobspec.Bytes(4+p.IntN(5))*jobspec.GiB
	n.State = []model.NodeState{model.NodeUp, model.NodeUp, model.NodeUp, model.NodeDown, model.NodeDrained}[p.IntN(5)]
	for i := range n.GPUs {
		n.GPUs[i].Healthy = p.IntN(6) > 0
	}
	return &n
}

// request asks for whole GPUs, a share of one, or none, and sometimes for the node.
func (p *game) request() model.Request {
	gpus := []int64{0, 0, 1000, 2000, 3000, 250, 300, 500, 750}[p.IntN(9)]
	v := model.Vector{Cores: int64(p.IntN(4)), Memory: jobspec.Bytes(p.IntN(4)) * jobspec.GiB, GPUs: gpus}
	r := model.Request{Active: v, Resident: model.Vector{Memory: v.Memory, GPUs: v.GPUs}, Exclusive: p.IntN(12) == 0}
	if p.IntN(8) == 0 { // suspended: it holds its memory and nothing else
		r.Active = model.Vector{}
	}
	return r
}

// choice names GPUs for a request, nil for any: often ones that cannot be had.
func (p *game) choice(n *plain, r model.Request) []int {
	if p.IntN(3) == 0 {
		return nil
	}
	gpus := []int{}
	for range r.Devices() {
		gpus = append(gpus, p.IntN(len(n.GPUs)+2)-p.IntN(2))
	}
	return gpus
}

// chosen is what Allocate takes where it is left to choose.
func (n *plain) chosen(r model.Request) []int {
	empty, left, _ := n.parts()
	share := r.Share()
	if share == 0 {
		return OrNone(slices.Clone(empty[:r.Devices()]))
	}
	best := -1
	for gpu := range n.GPUs {
		if l := left[gpu]; l >= share && (best < 0 || l < left[best]) {
			best = gpu
		}
	}
	if best < 0 {
		best = empty[0]
	}
	return []int{best}
}

// step changes the grid and the reference alike.
func (p *game) step() {
	i := p.IntN(len(p.nodes))
	n := p.nodes[i]
	switch r := p.request(); p.IntN(12) {
	case 0:
		name := fmt.Sprintf("n%03d", p.next)
		p.next++
		fresh := &plain{Node: p.node(name, 4)}
		at := p.IntN(len(p.nodes) + 1)
		p.nodes = slices.Insert(p.nodes, at, fresh)
		p.g.Insert(at, p.list())
	case 1:
		next := p.node(n.Name, 6)
		if len(next.GPUs) < len(n.GPUs) { // what is held must be there
			next.GPUs = append(next.GPUs, testNode("x", len(n.GPUs)-len(next.GPUs)).GPUs...)
		}
		next.Cores, next.Memory = max(next.Cores, n.Cores), max(next.Memory, n.Memory)
		n.Node = next
		p.g.Replace(i, p.list(), n.held)
	case 2:
		p.g.Rebuild(i, n.held)
	case 3:
		room := model.VectorOf(int64(p.IntN(3)), int64(p.IntN(3))<<30, []int64{0, 250, 500, 1000, 2000}[p.IntN(5)])
		p.g.Claim(i, room)
		n.claimed = n.claimed.Plus(room)
	case 4:
		p.g.Unclaim(i, n.claimed)
		n.claimed = model.Vector{}
	case 5, 6:
		if len(n.held) > 0 {
			k := p.IntN(len(n.held))
			p.g.Release(i, n.held[k].Request, n.held[k].GPUs)
			n.held = slices.Delete(n.held, k, k+1)
		}
	default:
		gpus := p.choice(n, r)
		if p.g.Obstacle(i, r, gpus) != model.ReasonNone {
			return
		}
		given := gpus
		if gpus == nil {
			given = n.chosen(r)
		}
		p.g.Allocate(i, r, gpus)
		n.held = append(n.held, Held{r, given})
	}
}

// compare asks the grid all that it can be asked about one node.
func (p *game) compare(t *testing.T, i int) {
	t.Helper()
	n, g := p.nodes[i], p.g
	bad := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s of node %d is %v, want %v: %+v, held %+v, claimed %+v", what, i, got, want, *n.Node, n.held, n.claimed)
		}
	}
	empty, left, _ := n.parts()
	active, resident := n.room()
	active.GPUs = int64(len(empty)) * 1000
	var shared []int64
	var sharedMask, emptyMask uint64
	broken := 0
	for gpu := range n.GPUs {
		bad(fmt.Sprintf("what is free of GPU %d", gpu), g.FreeShare(i, gpu), n.free()[gpu])
		if left[gpu] > 0 {
			shared, sharedMask, active.GPUs = append(shared, left[gpu]), sharedMask|1<<gpu, active.GPUs+left[gpu]
		}
		if slices.Contains(empty, gpu) {
			emptyMask |= 1 << gpu
		}
		if !n.GPUs[gpu].Healthy {
			broken++
		}
	}
	bad("node", g.Node(i), n.Node)
	bad("state", g.Up(i), n.State == model.NodeUp)
	bad("free room", g.Free(i), active)
	bad("resident room", g.FreeResident(i), model.Vector{Memory: resident.Memory, GPUs: resident.GPUs})
	bad("empty GPUs", g.FreeGPUs(i), emptyMask)
	bad("shared GPUs", g.SharedGPUs(i), sharedMask)
	bad("claims", g.Claimed(i), n.claimed)
	bad("capacity", g.Capacity(i), Capacity(n.Node))
	bad("broken GPUs", g.BrokenGPUs(i), broken)
	bad("workers", g.Workers(i), len(n.held))
	bad("exclusive", g.Exclusive(i), n.exclusive())
	free := g.FreeResources(i, nil)
	bad("free resources", free, FreeResources{active.Cores, active.Memory, int64(len(empty)), shared})
	bad("free GPUs", free.GPUs(), active.GPUs)
	for range 3 {
		r := p.request()
		gpus := p.choice(n, r)
		want := n.obstacle(r, gpus)
		bad(fmt.Sprintf("what keeps %+v on %v off", r, gpus), g.Obstacle(i, r, gpus), want)
		if why := Fits(g, i, r, gpus); want != model.ReasonNone {
			bad("the reason", *why, model.Reason{Code: want, Need: r.Active, Node: n.Name,
				Have: active.Minus(n.claimed).Positive()})
		} else if why != nil {
			bad("the reason", why, nil)
		}
		bad("joins", g.Joins(i, r, gpus), n.exclusive() && n.holds(r, model.Vector{}) && n.gpusFor(r, 0, gpus))
	}
	mask := g.Bucket(len(empty))[i/64] & (1 << (i % 64))
	bad("bucket", mask != 0, n.State == model.NodeUp && !n.exclusive())
}

// TestGridAgainstReference takes, gives back, claims, adds and replaces at random. It compares
// everything that the grid says of a node with values derived from its workers, GPU by GPU.
func TestGridAgainstReference(t *testing.T) {
	for seed := range uint64(30) {
		p := &game{Rand: rand.New(rand.NewPCG(seed, 7))}
		for range 1 + p.IntN(40) {
			p.nodes = append(p.nodes, &plain{Node: p.node(fmt.Sprintf("n%03d", p.next), 4)})
			p.next++
		}
		p.g = NewGrid(p.list())
		if p.g.Bucket(-1) != nil || p.g.Bucket(p.g.Buckets()) != nil {
			t.Fatal("there is a bucket of no node")
		}
		reader, before := new(Grid), []freeCapacity(nil)
		for step := range 400 {
			p.step()
			if step%30 == 29 { // a reader shares what the grid goes on to change
				if before != nil && !slices.Equal(rooms(reader), before) {
					t.Fatalf("seed %d, step %d: a reader sees later changes", seed, step)
				}
				p.g.Seal()
				reader = new(Grid)
				reader.CopyFrom(p.g)
				before = rooms(reader)
			}
			if step%50 == 49 { // a copy goes on, and what it was made from must not matter any more
				next := new(Grid)
				next.CopyFrom(p.g)
				p.g.Seal()
				p.g = next
			}
			p.compare(t, p.IntN(len(p.nodes)))
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		anew := NewGrid(p.list())
		for i, n := range p.nodes {
			for _, h := range n.held {
				anew.Allocate(i, h.Request, h.GPUs)
			}
			if err := p.g.CompareNode(i, n.Node, anew, i); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			p.compare(t, i)
		}
	}
}

// TestSeveralAlikeAgainstReference has workers that are alike ask for a node at once.
func TestSeveralAlikeAgainstReference(t *testing.T) {
	for seed := range uint64(300) {
		p := &game{Rand: rand.New(rand.NewPCG(seed, 9))}
		p.nodes = []*plain{{Node: p.node("n1", 4)}}
		p.nodes[0].State = model.NodeUp
		p.g = NewGrid(p.list())
		for range p.IntN(12) {
			if len(p.nodes) == 1 {
				p.step()
			}
		}
		n := p.nodes[0]
		if n.State != model.NodeUp {
			continue
		}
		for range 30 {
			r, workers := p.request(), 1+p.IntN(5)
			want := n.obstacleToAll(r, workers)
			if got := p.g.ObstacleTo(0, r, workers); got != want {
				t.Fatalf("seed %d: %d workers %+v: %q, want %q: %+v, held %+v, claimed %+v", seed, workers, r, got, want,
					*n.Node, n.held, n.claimed)
			}
		}
	}
}

// obstacleToAll puts shares on one GPU after another; whole ones are one large request.
func (p *plain) obstacleToAll(r model.Request, workers int) model.ReasonCode {
	all := model.Request{Active: r.Active.Times(int64(workers)), Resident: r.Resident.Times(int64(workers)),
		Exclusive: r.Exclusive}
	share := r.Share()
	if share == 0 || workers == 1 {
		return p.obstacle(all, nil)
	}
	seats := func(claimed int64) bool {
		empty, left, _ := p.parts()
		whole := int64(len(empty)) - (claimed+999)/1000
		if whole < 0 {
			return false
		}
		n := whole * (1000 / share)
		for _, l := range left {
			n += l / share
		}
		return n >= int64(workers)
	}
	all.Active.GPUs = 0
	why := p.obstacle(all, nil)
	switch {
	case why == model.ReasonNodeDown || why == model.ReasonNotAvail:
		return why
	case !seats(0):
		return model.ReasonResources
	case !seats(p.claimed.GPUs):
		return model.ReasonReservation
	}
	return why
}

// TestFragmentation goes through what is of no use to a worker.
func TestFragmentation(t *testing.T) {
	for _, c := range []struct {
		free   FreeResources
		worker model.Vector
		want   int64
	}{
		{FreeResources{8, 8, 2, []int64{300, 600}}, model.VectorOf(1, 1, 500), 300},
		{FreeResources{8, 8, 2, []int64{300, 600}}, model.VectorOf(1, 1, 600), 300},
		{FreeResources{8, 8, 2, []int64{300, 600}}, model.VectorOf(1, 1, 601), 900},
		{FreeResources{8, 8, 2, []int64{300, 600}}, model.VectorOf(1, 1, 1000), 900},
		{FreeResources{8, 8, 2, []int64{300, 600}}, model.VectorOf(1, 1, 2000), 900},
		{FreeResources{8, 8, 2, []int64{300, 600}}, model.VectorOf(1, 1, 3000), 2900},
		{FreeResources{8, 8, 0, []int64{300, 600}}, model.VectorOf(1, 1, 600), 300},
		{FreeResources{8, 8, 0, []int64{300, 600}}, model.VectorOf(1, 1, 700), 900},
		{FreeResources{8, 8, 2, nil}, model.VectorOf(8, 8, 1000), 0},
		{FreeResources{8, 8, 2, nil}, model.VectorOf(9, 8, 1000), 2000},
		{FreeResources{8, 8, 2, nil}, model.VectorOf(8, 9, 1000), 2000},
		{FreeResources{8, 8, 2, nil}, model.VectorOf(1, 1, 0), 2000},
		{FreeResources{8, 8, 0, nil}, model.VectorOf(1, 1, 0), 0},
		{FreeResources{8, 8, 1, nil}, model.VectorOf(1, 1, 1), 0},
	} {
		if got := c.free.UnusableFor(c.worker); got != c.want {
			t.Errorf("of %+v %d is of no use to %+v, want %d", c.free, got, c.worker, c.want)
		}
	}
}

// TestLiftedClaims has reservations claim a node, and each holder in turn lift what does not bind it.
func TestLiftedClaims(t *testing.T) {
	n1, n2 := testNode("n1", 8), testNode("n2", 8)
	n1.State, n2.State = model.NodeUp, model.NodeUp
	at := func(node string) int { return slices.Index([]string{"n1", "n2"}, node) }
	gpus := func(node string, n int64) model.Claim {
		return model.Claim{Node: node, Resources: model.VectorOf(n, 0, n*1000)}
	}
	first := &model.Reservation{Job: 1, At: 10, Until: 100, Claims: []model.Claim{gpus("n1", 2), gpus("gone", 1)}}
	second := &model.Reservation{Job: 2, At: 20, Until: 90, Claims: []model.Claim{gpus("n1", 3), gpus("n2", 1)}}
	preemptor := &model.Reservation{Job: 3, At: 30, Until: 50, ForPreemptor: true, Claims: []model.Claim{gpus("n1", 2)}}
	later := &model.Reservation{Job: 4, At: 5, Until: 60, ForPreemptor: true, Claims: []model.Claim{gpus("n1", 1),
		gpus("n2", 5)}}
	all := []*model.Reservation{first, second, preemptor, later}
	for _, c := range []struct {
		own    *model.Reservation
		held   int64 // GPUs of n1 that workers hold
		n1, n2 int64 // claims that still bind
	}{
		{nil, 0, 8, 6},
		{first, 0, 3, 5},     // its own and those of the second go; those for preemptors stay
		{second, 0, 5, 5},    // its own go
		{preemptor, 0, 1, 5}, // its own and those of all that are not for preemptors; there is room for both
		{preemptor, 5, 1, 5}, // just room for both
		{preemptor, 6, 0, 5}, // the later one is in its way
		{later, 0, 2, 0},     // the other one has its room first
		{later, 6, 2, 0},
	} {
		g := NewGrid([]*model.Node{&n1, &n2})
		for _, r := range all {
			for _, claim := range r.Claims {
				if i := at(claim.Node); i >= 0 {
					g.Claim(i, claim.Resources)
				}
			}
		}
		for range c.held {
			g.Allocate(0, model.Request{Active: model.VectorOf(1, 0, 1000)}, nil)
		}
		lifted := LiftClaims(g, c.own, all, at)
		if a, b := g.Claimed(0).GPUs, g.Claimed(1).GPUs; a != c.n1*1000 || b != c.n2*1000 {
			t.Errorf("the holder %+v is bound by %d on n1 and %d on n2, want %d and %d GPUs", c.own, a, b, c.n1, c.n2)
		}
		lifted.Restore()
		if a, b := g.Claimed(0), g.Claimed(1); a != model.VectorOf(8, 0, 8000) || b != model.VectorOf(6, 0, 6000) {
			t.Errorf("after the holder %+v claims are %+v and %+v", c.own, a, b)
		}
		if g.ForgetClaims(); g.Claimed(0) != (model.Vector{}) {
			t.Error("claims are found that were forgotten")
		}
	}
}

// TestLiftedClaimsOfParts has a preemptor need more of one GPU than others have left.
func TestLiftedClaimsOfParts(t *testing.T) {
	n := testNode("n1", 2)
	n.State = model.NodeUp
	own := &model.Reservation{Job: 1, Until: 10, ForPreemptor: true, Claims: []model.Claim{{Node: "n1",
		Resources: model.VectorOf(0, 0, 600)}}}
	later := &model.Reservation{Job: 2, Until: 20, ForPreemptor: true, Claims: []model.Claim{{Node: "n1",
		Resources: model.VectorOf(0, 0, 1000)}}}
	for lent, bound := range map[int64]int64{
		300: 1000, // 700 are left of that GPU, which is enough beside what is claimed of the other
		500: 400,  // 500 are not enough: it needs 600 of the empty GPU, of which 1000 are claimed
	} {
		g := NewGrid([]*model.Node{&n})
		g.Allocate(0, model.Request{Active: model.VectorOf(0, 0, lent)}, []int{0})
		for _, r := range []*model.Reservation{own, later} {
			g.Claim(0, r.Claims[0].Resources)
		}
		LiftClaims(g, own, []*model.Reservation{own, later}, func(string) int { return 0 })
		if got := g.Claimed(0).GPUs; got != bound {
			t.Errorf("%d thousandths are lent: its holder is bound by %d, want %d", lent, got, bound)
		}
	}
}

// TestSlots counts workers on empty GPUs.
func TestSlots(t *testing.T) {
	for _, c := range [][3]int64{{4, 1000, 4}, {4, 2000, 2}, {5, 2000, 2}, {4, 500, 8}, {4, 300, 12}, {4, 999, 4},
		{4, 1, 4000}, {0, 500, 0}, {1, 2000, 0}} {
		if got := Slots(c[0], c[1]); got != c[2] {
			t.Errorf("%d GPUs hold %d workers of %d, want %d", c[0], got, c[1], c[2])
		}
	}
}
