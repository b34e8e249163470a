package fsm

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// part is a job of some workers that each ask for a part of a GPU.
func part(workers, share int) *jobspec.Job {
	spec := testSpec(workers, 1)
	spec.Groups[0].MaxWorkersPerNode = workers
	spec.Groups[0].Tasks[0].Resources.GPU = &jobspec.GPU{Share: share}
	return spec
}

// submitPart submits such a job and returns its id.
func (w *world) submitPart(workers, share int) model.JobID {
	w.t.Helper()
	c := SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{part(workers, share)}}
	return w.must(c).([]model.JobID)[0]
}

// put starts a job of one worker on a GPU of a node.
func (w *world) put(id model.JobID, node string, gpus ...int) error {
	w.t.Helper()
	c := &StartJob{Job: id, Places: []model.Place{{Node: node, GPUs: gpus}}}
	return w.plan(c)
}

func TestJobsShareAGPU(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	a, b, c, whole := w.submitPart(1, 600), w.submitPart(1, 400), w.submitPart(1, 1), w.submit(1, 1)
	w.ok(w.put(a, "n1", 1))
	w.ok(w.put(b, "n1", 1))
	var none *model.FitError
	if err := w.put(c, "n1", 1); !errors.As(err, &none) {
		t.Fatalf("a full GPU was shared: %v", err)
	}
	if err := w.put(whole, "n1", 1); !errors.As(err, &none) {
		t.Fatalf("a GPU that others share was given away: %v", err)
	}
	if free, shared := w.s.v.Grid().Free(0).GPUs, w.s.v.Grid().SharedGPUs(0); free != 1000 || shared != 0 {
		t.Fatalf("%d thousandths are free, and something of %b", free, shared)
	}
	w.run(a)
	w.run(b)
	w.wait(10)
	w.report(b, 0, model.WorkerExited)
	if j := w.job(b); j.Ledger.GPUMS != 4000 {
		t.Fatalf("held 400 thousandths for 10 s and is charged %d ms", j.Ledger.GPUMS)
	}
	if g := w.s.v.Grid(); g.Free(0).GPUs != 1400 || g.SharedGPUs(0) != 2 || g.FreeShare(0, 1) != 400 {
		t.Fatalf("free %d, shared %b, left %d", g.Free(0).GPUs, g.SharedGPUs(0), g.FreeShare(0, 1))
	}
	w.ok(w.put(c, "n1", 1))
	w.restored()
	w.report(a, 0, model.WorkerExited)
	w.run(c)
	w.report(c, 0, model.WorkerExited)
	w.ok(w.put(whole, "n1", 1))
	if g := w.s.v.Grid(); g.Free(0).GPUs != 1000 || g.FreeGPUs(0) != 1 {
		t.Fatalf("free %d, empty %b", g.Free(0).GPUs, g.FreeGPUs(0))
	}
}

// TestDeclaredMemoryOfGPUs starts and ends jobs with parts of GPUs at random, on GPUs of different
// sizes. The declared memory of the jobs on a GPU fits into it, and a job is refused a GPU that is
// too small for it.
func TestDeclaredMemoryOfGPUs(t *testing.T) {
	sizes := map[string]jobspec.Bytes{"n1": 24 * jobspec.GiB, "n2": 80 * jobspec.GiB}
	shared, refused := 0, 0
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 23))
		w := newWorld(t)
		for name, size := range sizes {
			n := testNode(name, 4)
			for i := range n.GPUs {
				n.GPUs[i].Memory = size
			}
			w.must(RegisterNode{Node: n})
		}
		var live []model.JobID
		for range 150 {
			if len(live) > 0 && r.IntN(3) == 0 {
				k := r.IntN(len(live))
				w.run(live[k])
				w.report(live[k], 0, model.WorkerExited)
				live = append(live[:k], live[k+1:]...)
				continue
			}
			spec := part(1, 1+r.IntN(600))
			g := spec.Groups[0].Tasks[0].Resources.GPU
			g.MaxMemory = jobspec.PartOfMemory
			if r.IntN(4) > 0 {
				g.MaxMemory = jobspec.Bytes(1+r.IntN(40)) * jobspec.GiB
			}
			spec.Groups[0].Tasks[0].Resources.Cores, spec.Groups[0].Tasks[0].Resources.Memory = 1, jobspec.GiB
			id := w.must(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
			name := [...]string{"n1", "n2"}[r.IntN(2)]
			err := w.put(id, name, r.IntN(4))
			if tooSmall := g.LeastMemory() > sizes[name]; tooSmall {
				refused++
				if err == nil {
					t.Fatalf("seed %d: %+v on a GPU of %v", seed, g, sizes[name])
				}
			}
			if err == nil {
				live = append(live, id)
			}
			if err := w.s.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			declared, jobs := map[string]jobspec.Bytes{}, map[string]int{}
			for _, id := range live {
				worker := w.job(id).Live().Workers[0]
				key := fmt.Sprint(worker.Node, worker.GPUs)
				declared[key] += w.job(id).Spec.Groups[0].Tasks[0].Resources.GPU.MemoryOn(sizes[worker.Node])
				jobs[key]++
				if declared[key] > sizes[worker.Node] {
					t.Fatalf("seed %d: jobs on GPU %s have declared %v of its memory", seed, key, declared[key])
				}
				shared = max(shared, jobs[key])
			}
		}
		w.restored()
	}
	if shared < 3 || refused < 20 {
		t.Errorf("at most %d jobs had a GPU, and %d were refused one: too few to prove anything", shared, refused)
	}
}

// restored compares the state with what comes back from its snapshot.
func (w *world) restored() {
	w.t.Helper()
	back, err := ReadSnapshot(strings.NewReader(string(w.snapshot())))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := back.Check(); err != nil {
		w.t.Fatal(err)
	}
	for i, n := range back.v.Nodes() {
		if err := back.v.Grid().CompareNode(i, n, w.s.v.Grid(), i); err != nil {
			w.t.Fatalf("restored: %v", err)
		}
	}
}

// A GPU that breaks while it is shared is free to no job until it is whole again. Then its unused
// part is free.
func TestSharedGPUBreaks(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	a, b := w.submitPart(1, 300), w.submitPart(1, 300)
	w.ok(w.put(a, "n1", 0))
	broken := testNode("n1", 2)
	broken.GPUs[0].Healthy = false
	w.must(RegisterNode{Node: broken})
	if g := w.s.v.Grid(); g.Free(0).GPUs != 1000 || g.FreeShare(0, 0) != 0 {
		t.Fatalf("free %d, left of the broken one %d", g.Free(0).GPUs, g.FreeShare(0, 0))
	}
	if w.put(b, "n1", 0) == nil {
		t.Fatal("a part of a broken GPU was given away")
	}
	w.must(RegisterNode{Node: testNode("n1", 2)})
	w.ok(w.put(b, "n1", 0))
	if g := w.s.v.Grid(); g.FreeShare(0, 0) != 400 {
		t.Fatalf("left %d", g.FreeShare(0, 0))
	}
	gone := testNode("n1", 2)
	gone.GPUs = gone.GPUs[1:]
	if _, err := w.apply(RegisterNode{Node: gone}); err == nil {
		t.Fatal("a GPU that is shared vanished")
	}
}

// A reservation is kept: a share may use what others leave over, but nothing that a claim needs.
func TestSharesAndClaims(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	a, head, b, c, d := w.submitPart(1, 300), w.submit(1, 1), w.submitPart(1, 700), w.submitPart(1, 500), w.submit(1, 1)
	w.ok(w.put(a, "n1", 0))
	claim := model.Claim{Node: "n1", Resources: model.Vector{Cores: 4, GPUs: 1000}}
	w.ok(w.plan(&Reserve{Job: head, Claims: []model.Claim{claim}, Until: w.at + 1}))
	if w.put(c, "n1", 1) == nil || w.put(d, "n1", 1) == nil {
		t.Fatal("the empty GPU was taken although a job has a claim to it")
	}
	w.ok(w.put(b, "n1", 0))
	w.ok(w.put(head, "n1", 1))
}

// Two jobs have reservations for parts of GPUs, and room for only one of them has come. The rest
// beside another job is smaller than a part, so it is no room. The first takes the GPU that is
// empty, whatever the later promise claims.
func TestPromisedPartsInTheWay(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 2)
	a, first, second, outsider := w.submitPart(1, 470), w.submitPart(1, 810), w.submitPart(1, 810), w.submitPart(1, 530)
	w.ok(w.put(a, "n1", 0))
	for _, id := range []model.JobID{first, second} {
		claim := model.Claim{Node: "n1", Resources: model.Vector{Cores: 4, GPUs: 810}}
		w.ok(w.plan(&Reserve{Job: id, Claims: []model.Claim{claim}, Until: w.at + 1,
			ForPreemptor: true}))
	}
	if w.put(outsider, "n1", 1) == nil {
		t.Fatal("the empty GPU was taken that was promised")
	}
	if w.put(second, "n1", 1) == nil {
		t.Fatal("the later promise came first")
	}
	w.ok(w.put(first, "n1", 1))
	if w.put(second, "n1", 0) == nil {
		t.Fatal("a part was found where less is left")
	}
}

func TestSharesThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	for _, edit := range []func(*jobspec.Resources){
		func(r *jobspec.Resources) { r.GPU.Share = 1000 },
		func(r *jobspec.Resources) { r.GPU.Share = -1 },
		func(r *jobspec.Resources) { r.GPUs = 2 },
		func(r *jobspec.Resources) { r.GPUs = 0 },
	} {
		spec := part(1, 500)
		edit(&spec.Groups[0].Tasks[0].Resources)
		c := SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}
		if _, err := w.apply(c); err == nil {
			t.Errorf("%+v was taken", spec.Groups[0].Tasks[0].Resources)
		}
	}
	two := part(1, 600)
	two.Groups[0].Tasks = append(two.Groups[0].Tasks, two.Groups[0].Tasks[0])
	c := SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{two}}
	if _, err := w.apply(c); err == nil {
		t.Error("tasks that need 1.2 GPUs together were taken")
	}
}

// devicesOf is a model of the GPUs of some nodes: what is free of each, and nothing else.
type devicesOf [][]int64

// holds says whether n workers that ask for so much each could have GPUs of a node.
func (d devicesOf) holds(node int, gpus int64, n int) bool {
	seats := int64(0)
	for _, left := range d[node] {
		if gpus < 1000 {
			seats += left / gpus
		} else if left == 1000 {
			seats++
		}
	}
	if gpus >= 1000 {
		seats = seats * 1000 / gpus
	}
	return seats >= int64(n)
}

// TestGridOfParts takes and gives back whole GPUs and parts at random and compares with a model
// that knows each GPU by itself.
func TestGridOfParts(t *testing.T) {
	type held struct {
		node int
		r    model.Request
		gpus []int
	}
	shared := 0
	for _, seed := range seeds() {
		r := rand.New(rand.NewPCG(seed, 5))
		var nodes []*model.Node
		var devices devicesOf
		for range 20 {
			n := testNode("n", r.IntN(9))
			n.State, n.Cores, n.Memory = model.NodeUp, 1000, jobspec.TiB
			nodes = append(nodes, &n)
			free := make([]int64, len(n.GPUs))
			for i := range free {
				free[i] = 1000
			}
			devices = append(devices, free)
		}
		g := grid.NewGrid(nodes)
		var all []held
		for range 3000 {
			if len(all) > 0 && r.IntN(5) < 2 {
				k := r.IntN(len(all))
				h := all[k]
				all = append(all[:k], all[k+1:]...)
				g.Release(h.node, h.r, h.gpus)
				for _, n := range h.gpus {
					devices[h.node][n] += min(1000, h.r.Active.GPUs)
				}
				continue
			}
			node, gpus := r.IntN(len(nodes)), int64(1+r.IntN(4))*1000
			if r.IntN(3) > 0 {
				gpus = 1 + r.Int64N(999)
			}
			q := model.Request{Active: model.Vector{Cores: 1, GPUs: gpus}, Resident: model.Vector{GPUs: gpus}}
			workers := 1 + r.IntN(3)
			if got := g.ObstacleTo(node, q, workers) == model.ReasonNone; got != devices.holds(node, gpus, workers) {
				t.Fatalf("seed %d: %d workers of %d on %v: %v", seed, workers, gpus, devices[node], got)
			}
			if !devices.holds(node, gpus, 1) {
				continue
			}
			chosen := pickGPUs(r, g, node, q)
			if (grid.Fits(g, node, q, chosen) == nil) != fitsModel(devices[node], gpus, chosen) {
				t.Fatalf("seed %d: %d on GPUs %v of %v", seed, gpus, chosen, devices[node])
			}
			if !fitsModel(devices[node], gpus, chosen) {
				continue
			}
			g.Allocate(node, q, chosen)
			all = append(all, held{node, q, chosen})
			for _, n := range chosen {
				devices[node][n] -= min(1000, gpus)
			}
			if g.SharedGPUs(node) != 0 {
				shared++
			}
			checkModel(t, seed, g, devices)
		}
		for _, h := range all {
			g.Release(h.node, h.r, h.gpus)
		}
		for i, fresh := 0, grid.NewGrid(nodes); i < len(nodes); i++ {
			if err := g.CompareNode(i, nodes[i], fresh, i); err != nil {
				t.Fatalf("seed %d: something is left behind: %v", seed, err)
			}
		}
	}
	if shared < 1000 {
		t.Errorf("GPUs were shared %d times: too seldom to prove anything", shared)
	}
}

// pickGPUs chooses GPUs for a worker: mostly such that it fits.
func pickGPUs(r *rand.Rand, g *grid.Grid, node int, q model.Request) []int {
	all := r.Perm(len(g.Node(node).GPUs))
	if r.IntN(4) == 0 {
		return all[:min(len(all), q.Devices())]
	}
	if share := q.Share(); share > 0 {
		return []int{g.BestFitGPU(node, share)}
	}
	var gpus []int
	for m := g.FreeGPUs(node); m != 0 && len(gpus) < q.Devices(); m &= m - 1 {
		gpus = append(gpus, bits.TrailingZeros64(m))
	}
	return gpus
}

func fitsModel(left []int64, gpus int64, chosen []int) bool {
	if int64(len(chosen))*1000 < gpus {
		return false
	}
	for _, n := range chosen {
		if left[n] < min(1000, gpus) {
			return false
		}
	}
	return true
}

func checkModel(t *testing.T, seed uint64, g *grid.Grid, model devicesOf) {
	t.Helper()
	for node := range model {
		sum := int64(0)
		rest := g.FreeResources(node, nil)
		for n, left := range model[node] {
			sum += left
			if g.FreeShare(node, n) != left {
				t.Fatalf("seed %d: of GPU %d of node %d %d are left, want %d", seed, n, node, g.FreeShare(node, n), left)
			}
		}
		if g.Free(node).GPUs != sum || rest.GPUs() != sum {
			t.Fatalf("seed %d: node %d has %d free, and %+v, want %d", seed, node, g.Free(node).GPUs, rest, sum)
		}
	}
}

// Unusable agrees with what one would count by hand.
func TestUnusable(t *testing.T) {
	rest := grid.FreeResources{Cores: 10, Memory: 10 * jobspec.GiB, Empty: 1, Shared: []int64{200, 500}}
	for _, test := range []struct {
		worker model.Vector
		want   int64
	}{
		{model.Vector{Cores: 1, GPUs: 1000}, 700},
		{model.Vector{Cores: 1, GPUs: 2000}, 1700},
		{model.Vector{Cores: 1, GPUs: 300}, 200},
		{model.Vector{Cores: 1, GPUs: 200}, 0},
		{model.Vector{Cores: 1, GPUs: 900}, 700},
		{model.Vector{Cores: 11, GPUs: 200}, 1700},
		{model.Vector{Cores: 1, Memory: 11 * jobspec.GiB, GPUs: 200}, 1700},
		{model.Vector{Cores: 1}, 1700},
	} {
		if got := rest.UnusableFor(test.worker); got != test.want {
			t.Errorf("%+v: %d, want %d", test.worker, got, test.want)
		}
	}
	full := grid.FreeResources{Cores: 10, Shared: []int64{200}}
	if got := full.UnusableFor(model.Vector{GPUs: 300}); got != 200 {
		t.Errorf("nothing fits, and %d are of no use", got)
	}
}

func TestGPUTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 10_000 {
		ms, gpus := r.Int64N(1<<38), 1+r.Int64N(64_000)
		if want := ms * gpus / 1000; gpus < 1<<20 && model.GPUTime(ms, gpus) != want {
			t.Fatalf("%d ms of %d: %d, want %d", ms, gpus, model.GPUTime(ms, gpus), want)
		}
		if got, want := model.TimeOf(ms, gpus), ms*1000/gpus; got != want {
			t.Fatalf("%d of %d: %d, want %d", ms, gpus, got, want)
		}
	}
}

// TestMulDiv agrees with arithmetic without bounds.
func TestMulDiv(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 5000 {
		a, b, c := r.Int64()>>r.IntN(63), r.Int64()>>r.IntN(63), max(1, r.Int64()>>r.IntN(63))
		want := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		want.Quo(want, big.NewInt(c))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := model.MulDiv(a, b, c); got != want.Int64() {
			t.Fatalf("seed=%d: %d*%d/%d = %d, want %v", seed, a, b, c, got, want)
		}
	}
}
