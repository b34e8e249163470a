package sched

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	shares "github.com/rota-hpc/rota/controld/sched/share"
	"github.com/rota-hpc/rota/jobspec"
)

// quarrel is a random history under policy fairshare. After every cycle its plan is judged.
type quarrel struct {
	*rand.Rand
	*world
	t       *testing.T
	minimum cluster.Instant
	swaps   map[[2]cluster.JobID]cluster.Instant // when one job last left for another, the lower id first
	states  int
	busy    int // account whose users submit; the others wait or are away
	seen    map[string]int
}

func newQuarrel(t *testing.T, seed, n uint64, seen map[string]int) *quarrel {
	q := &quarrel{Rand: rand.New(rand.NewPCG(seed, n)), world: newWorld(), t: t, swaps: map[[2]cluster.JobID]cluster.Instant{}, seen: seen}
	q.minimum = cluster.Instant(60_000 * (1 + q.Int64N(10)))
	q.must("policy", fmt.Sprintf("name=fairshare min-runtime=%dms half-life=%dh influence=%d reserve-after=%dm", q.minimum, q.IntN(48), 500*q.IntN(3), 1+q.IntN(60)))
	for i := range 1 + q.IntN(3) {
		q.must("node", fmt.Sprintf("n%d gpus=%d cores=%d memory=%d", i, 2*q.IntN(5), 4+q.IntN(30), 8+q.IntN(60)))
	}
	for i := range 1 + q.IntN(4) {
		line := fmt.Sprintf("a%d weight=%d", i, 1+q.IntN(3))
		if q.IntN(3) > 0 {
			line += fmt.Sprintf(" deserved=%d", q.IntN(10))
		} else if q.IntN(3) == 0 {
			line += fmt.Sprintf(" limit=%d", 4+q.IntN(10))
		}
		if i > 0 && q.IntN(4) == 0 {
			line += fmt.Sprintf(" parent=a%d", q.IntN(i))
		}
		_ = q.run("account " + line) // below a parent that deserves less it is refused
	}
	return q
}

func (q *quarrel) must(verb, rest string) {
	if err := q.run(verb + " " + rest); err != nil {
		q.t.Fatalf("%s %s: %v", verb, rest, err)
	}
}

// step lets something happen, then decides until nothing changes.
func (q *quarrel) step() {
	if q.IntN(8) == 0 {
		q.busy = q.IntN(5)
	}
	for range q.IntN(5) {
		class := "be"
		if q.IntN(8) == 0 {
			class = "te"
		}
		size := fmt.Sprintf("gang=%dx%d per-node=%d", 1+q.IntN(2), q.IntN(4), 1+q.IntN(2))
		q.must("submit", fmt.Sprintf("j%d account=a%d user=u%d class=%s cores=%d memory=%d priority=%d grace=%ds %s",
			q.state.View().LastJob()+1, q.busy, q.IntN(2), class, 1+q.IntN(3), 1+q.IntN(4), q.IntN(3), q.IntN(100), size))
	}
	q.now += cluster.Instant(q.Int64N(400_000))
	for j := range q.state.View().Live() {
		leaves := j.State == cluster.Completing && q.IntN(3) > 0 || j.State == cluster.Running && q.IntN(30) == 0
		var err error
		switch {
		case j.State == cluster.Configuring:
			err = q.bring(j, nil, cluster.WorkerCreated, cluster.WorkerRunning)
		case leaves:
			err = q.bring(j, map[string]string{"code": fmt.Sprint(j.Counters.Reclaim + 1)}, cluster.WorkerExited)
		}
		if err != nil {
			q.t.Fatal(err)
		}
	}
	for range 20 {
		v := q.state.View()
		plan, _ := Cycle(v, q.now, v.Config().Policy)
		q.judge(v, plan)
		if len(plan.Actions) == 0 {
			q.idle(v)
			q.failed(v)
			return
		}
		if err := q.commit(plan); err != nil {
			q.t.Fatal(err)
		}
	}
	q.t.Fatal("it never comes to rest")
}

// judge says whether what a plan takes was fair (I1, I2), not too early and not to and fro (I3), and for a purpose (A5).
func (q *quarrel) judge(v *cluster.View, plan cluster.CommitPlan) {
	q.states++
	f := newFair(newTrial(v, q.now, v.Config().Policy))
	expire(f.trial)
	f.foresee()
	for _, a := range plan.Actions {
		if a.Start != nil {
			f.began(a.Start)
		}
	}
	for _, a := range plan.Actions {
		if a.Reserve != nil {
			q.judgeTaker(f, plan, a.Reserve)
		}
	}
	for _, a := range plan.Actions {
		if a.Stop != nil && a.Stop.Cause == cluster.CauseReclaim {
			q.seen["reclaimed"]++
			if !slices.ContainsFunc(plan.Actions, func(r cluster.Action) bool { return r.Reserve != nil && r.Reserve.Job == a.Stop.For && r.Reserve.Firm }) {
				q.t.Errorf("job %d leaves and its room is kept for nobody", a.Stop.Job)
			}
		}
	}
}

// judgeTaker looks at those who leave for one job.
func (q *quarrel) judgeTaker(f *fair, plan cluster.CommitPlan, r *cluster.Reservation) {
	taker := f.view.Job(r.Job)
	leaf, asks := f.leaf(taker.Leaf()), f.asks(taker)
	var victims []*cluster.Job
	for _, a := range plan.Actions {
		if a.Stop != nil && a.Stop.For == r.Job {
			victims = append(victims, f.view.Job(a.Stop.Job))
		}
	}
	for _, v := range victims {
		mine, theirs := shares.Part(leaf, f.leaf(v.Leaf()))
		switch {
		case mine == nil:
			q.t.Errorf("job %d leaves for %d of the same user", v.ID, taker.ID)
			return
		case !mine.Within(asks):
			q.t.Errorf("%s takes for job %d what it does not deserve", mine.Name, taker.ID)
		case !shares.HasUsedLess(mine, theirs):
			q.t.Errorf("I2: %s has used %v of what it deserves, %s %v", mine.Name, mine.Ratio(), theirs.Name, theirs.Ratio())
		}
		if v.Class == jobspec.TE || q.now-v.Live().Started.At < q.minimum {
			q.t.Errorf("job %d, %s, has run for %d ms", v.ID, v.Class, q.now-v.Live().Started.At)
		}
		q.judgeLast(f, victims, theirs)
		q.swap(v.ID, taker.ID)
	}
	if r.Firm != (len(victims) > 0) {
		q.t.Errorf("the reservation for job %d is firm: %v, with %d who leave for it", r.Job, r.Firm, len(victims))
	}
	for _, v := range victims {
		f.leaf(v.Leaf()).Hold(f.heldBy(v, v.Live()).Negative())
	}
	leaf.Hold(asks)
}

// judgeLast is I1: when all have left but one, their account must still be above its share. It is not known who was taken last, so it is
// enough that this holds for one of them.
func (q *quarrel) judgeLast(f *fair, victims []*cluster.Job, theirs *shares.Node) {
	var below []*cluster.Job
	for _, v := range victims {
		if _, n := shares.Part(f.leaf(v.Leaf()), theirs); n == nil {
			below = append(below, v)
		}
	}
	hold := func(v *cluster.Job, sign bool) {
		a := f.heldBy(v, v.Live())
		if !sign {
			a = a.Negative()
		}
		f.leaf(v.Leaf()).Hold(a)
	}
	above := false
	for _, last := range below {
		for _, v := range below {
			if v != last {
				hold(v, false)
			}
		}
		above = above || theirs.Above()
		for _, v := range below {
			if v != last {
				hold(v, true)
			}
		}
	}
	if !above {
		q.t.Errorf("I1: %s is not above its share before the last of its %d jobs is taken", theirs.Name, len(below))
	}
}

// swap is I3.
func (q *quarrel) swap(leaves, stays cluster.JobID) {
	pair := [2]cluster.JobID{min(leaves, stays), max(leaves, stays)}
	if at, ok := q.swaps[pair]; ok {
		q.seen["swapped back"]++
		if q.now-at < q.minimum {
			q.t.Errorf("I3: jobs %v swap after %d ms", pair, q.now-at)
		}
	}
	q.swaps[pair] = q.now
}

// idle is I5: when nothing is left to be done, no job waits that fits, is within its limits and for whose room no other waits.
func (q *quarrel) idle(v *cluster.View) {
	f := newFair(newTrial(v, q.now, v.Config().Policy))
	for g := range v.Groups() {
		for _, j := range g.Jobs {
			gang := f.gang(j)
			if g.Key.Held || !f.startable(j) || !f.room.Fits(&gang) {
				continue
			}
			if !f.limited(f.leaf(j.Leaf()), j) {
				q.t.Errorf("I5: job %d waits although it fits", j.ID)
			}
			q.seen["limited"]++
		}
	}
}

// failed is I4: a search that finds nobody who may leave changes nothing, here that all searches of a cycle do in which nothing is done.
func (q *quarrel) failed(v *cluster.View) {
	f := newFair(newTrial(v, q.now, v.Config().Policy))
	expire(f.trial)
	f.place()
	starved := f.starved()
	if starved == nil {
		return
	}
	f.foresee()
	before := q.holdings(f)
	room, victims := f.emptied(), f.holding()
	free := fmt.Sprint(q.free(room))
	for c, leaf := starved.best(); c != nil; c, leaf = starved.best() {
		heap.Pop(starved.of[leaf])
		f.reclaimFor(c, leaf, room, &victims)
		q.seen["searches"]++
	}
	if len(f.actions) > 0 || q.holdings(f) != before || fmt.Sprint(q.free(room)) != free {
		q.t.Errorf("I4: it did %d things; held before\n%s\nafter\n%s", len(f.actions), before, q.holdings(f))
	}
}

func (q *quarrel) holdings(f *fair) string {
	var lines []string
	for leaf, n := range f.leaves {
		lines = append(lines, fmt.Sprint(leaf, n.Held(), n.Parent().Held()))
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}

func (q *quarrel) free(room *fit.Room) (list []cluster.Request) {
	for i := range q.state.View().Nodes() {
		list = append(list, room.Free(i))
	}
	return list
}

// TestReclaimIsFair judges 20,000 random states, a million with ROTA_TEST_LONG.
func TestReclaimIsFair(t *testing.T) {
	states, seed, seen := 20_000, rand.Uint64(), map[string]int{}
	if os.Getenv("ROTA_TEST_LONG") != "" {
		states = 1_000_000
	}
	for n := uint64(0); states > 0; n++ {
		q := newQuarrel(t, seed, n, seen)
		for range 40 {
			q.step()
			if t.Failed() {
				t.Fatalf("seed %d, history %d", seed, n)
			}
		}
		states -= q.states
	}
	if seen["reclaimed"] < 100 || seen["limited"] == 0 || seen["searches"] < 1000 {
		t.Errorf("seed %d: too little happened: %v", seed, seen)
	}
}
