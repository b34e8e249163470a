package sched

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "play only the random history with this seed")
	seedsFlag = flag.Uint64("seeds", 150, "how many random histories to play")
)

// TestHistories plays random histories on small clusters. After every cycle: the state took the plan whole and keeps its
// invariants, the same view gives the same plan, nothing that fits is left waiting, and nobody was passed beyond the bound.
func TestHistories(t *testing.T) {
	starts := 0
	eachSeed(t, func(seed uint64) error {
		h := newHistory(seed)
		for step := range 60 {
			if err := h.step(); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		starts += h.starts
		return nil
	})
	if *seedFlag == 0 && starts < int(*seedsFlag)*5 {
		t.Errorf("only %d starts in all: the histories prove too little", starts)
	}
}

// TestObstacle takes away the obstacle that Explain names: the job then starts or has another.
func TestObstacle(t *testing.T) {
	removed := 0
	eachSeed(t, func(seed uint64) error {
		h := newHistory(seed)
		for range 30 {
			if err := h.step(); err != nil {
				return err
			}
		}
		n, err := h.removeObstacle()
		removed += n
		return err
	})
	if *seedFlag == 0 && removed < int(*seedsFlag)/3 {
		t.Errorf("only %d obstacles removed: the histories prove too little", removed)
	}
}

func eachSeed(t *testing.T, test func(seed uint64) error) {
	t.Helper()
	first, last := uint64(1), *seedsFlag
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		if err := test(seed); err != nil {
			t.Fatalf("seed=%d: %v", seed, err)
		}
	}
}

type history struct {
	*world
	random *rand.Rand
	starts int
	jobs   int
}

func newHistory(seed uint64) *history {
	h := &history{world: newWorld(), random: rand.New(rand.NewPCG(seed, 2))}
	h.must("policy max-bypass=%d reserve-after=%dm reserve-hold=%dm lease=2m margin=10s", h.random.IntN(4), 1+h.random.IntN(10), 1+h.random.IntN(30))
	for i := range 1 + h.random.IntN(5) {
		h.must("node n%d gpus=%d cores=%d memory=%d ports=%d", i, h.random.IntN(9), 2+h.random.IntN(16), 4+h.random.IntN(32), 1+h.random.IntN(5))
	}
	return h
}

// must runs a line that cannot be refused.
func (h *history) must(format string, args ...any) {
	if err := h.run(fmt.Sprintf(format, args...)); err != nil {
		panic(fmt.Sprintf("%s: %v", fmt.Sprintf(format, args...), err))
	}
}

// step does something at random and then cycles.
func (h *history) step() error {
	switch node := fmt.Sprintf("n%d", h.random.IntN(len(h.state.View().Nodes()))); h.random.IntN(12) {
	case 0, 1, 2, 3:
		h.submitSome()
	case 4, 5:
		h.must("advance %ds", h.random.IntN(300))
	case 6:
		h.must("%s %s", [...]string{"down", "drain"}[h.random.IntN(2)], node)
	case 7, 8:
		h.must("up %s", node)
	default:
		if err := h.disturb(); err != nil {
			return err
		}
	}
	return h.settle()
}

func (h *history) submitSome() {
	for range 1 + h.random.IntN(4) {
		h.jobs++
		verb, more := fmt.Sprintf("submit j%d", h.jobs), ""
		switch h.random.IntN(8) {
		case 0, 1:
			more = fmt.Sprintf(" array=%s max-parallel=%d", [...]string{"0-4", "1-9:2", "3,5"}[h.random.IntN(3)], h.random.IntN(4))
			more += [...]string{"", " order=random", " max-failures=0"}[h.random.IntN(3)]
		case 2:
			verb = fmt.Sprintf("pipeline j%d a b<a c<a:any d<b:failed<c:started", h.jobs)
		}
		h.must(verb+" class=%s priority=%d account=a%d gang=%dx%d per-node=%d cores=%d memory=%d limit=%dm retries=1"+more,
			[...]string{"te", "be", "be"}[h.random.IntN(3)], 50+h.random.IntN(2), h.random.IntN(3), 1+h.random.IntN(3), h.random.IntN(4),
			1+h.random.IntN(2), 1+h.random.IntN(4), 1+h.random.IntN(4), 1+h.random.IntN(30))
	}
}

// disturb does something to a random job that is not final.
func (h *history) disturb() error {
	var live []*cluster.Job
	for j := range h.state.View().Jobs() {
		if !j.State.Final() {
			live = append(live, j)
		}
	}
	if len(live) == 0 {
		return nil
	}
	j := live[h.random.IntN(len(live))]
	name := h.names[j.ID]
	if j.Live() != nil {
		return h.run([...]string{"run ", "run ", "exit ", "exit ", "exit code=1 ", "break ", "cancel "}[h.random.IntN(7)] + name)
	}
	verb := [...]string{"hold ", "cancel "}[h.random.IntN(2)]
	if j.Hold != cluster.NotHeld || j.Family != nil && h.random.IntN(3) == 0 {
		verb = "release "
	}
	if j.Family != nil && len(j.Family.Waiting) > 0 && h.random.IntN(3) > 0 {
		name = h.someMembers(j)
	}
	err := h.run(verb + name)
	if j.Family != nil && errors.Is(err, cluster.ErrWrongState) {
		return nil // nothing of it was to be held or released
	}
	return err
}

// someMembers names some elements of an array: j3_[1,4-5].
func (h *history) someMembers(j *cluster.Job) string {
	first := 1 + h.random.IntN(j.Family.Size)
	last := first + h.random.IntN(j.Family.Size-first+1)
	var indices []string
	for n := first; n <= last; n++ {
		indices = append(indices, fmt.Sprint(j.Spec.Array.Index(n-1)))
	}
	return h.names[j.ID] + "_[" + strings.Join(indices, ",") + "]"
}

// settle cycles until nothing changes and checks what must hold then.
func (h *history) settle() error {
	for range 16 { // each reservation that is used takes a cycle
		v := h.state.View()
		plan, wake := Cycle(v, h.now, v.Config().Policy)
		again, wakeAgain := Cycle(v, h.now, v.Config().Policy)
		if !reflect.DeepEqual(plan, again) || wake != wakeAgain {
			return fmt.Errorf("the same view gives %+v and %+v", plan, again)
		}
		if wake != 0 && wake <= h.now {
			return fmt.Errorf("the next wake-up %d is not after %d", wake, h.now)
		}
		if len(plan.Actions) == 0 {
			return h.nothingIdle()
		}
		if err := h.inOrder(plan); err != nil {
			return err
		}
		if err := h.commit(plan); err != nil {
			return err
		}
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// inOrder carries a plan out on a copy of the state, one action after another: whenever a job starts, no job that comes before it and is
// still waiting could have.
func (h *history) inOrder(plan cluster.CommitPlan) error {
	var snapshot bytes.Buffer
	if err := h.state.View().WriteSnapshot(&snapshot); err != nil {
		return err
	}
	copied, err := cluster.ReadSnapshot(&snapshot)
	if err != nil {
		return err
	}
	for i, a := range plan.Actions {
		if a.Start != nil {
			h.starts++
			v := copied.View()
			for j := range v.Jobs() {
				before := h.state.View().Job(j.ID)
				waited := before != nil && before.Waits() // else the plan itself has just put it back, or made it
				if waited && h.mayStart(j) && compare(j, v.Job(a.Start.Job)) < 0 && couldStart(v, j) {
					return fmt.Errorf("%s starts before %s, which fits and comes first", h.names[a.Start.Job], h.names[j.ID])
				}
			}
		}
		entry := cluster.Entry{Stamp: cluster.Stamp{At: h.now, Wall: 1}, Command: cluster.CommitPlan{Actions: []cluster.Action{a}}}
		if _, err := copied.Apply(h.index+uint64(i)+1, entry); err != nil {
			return err
		}
	}
	return nil
}

// nothingIdle checks that no job that may start fits, and that the bounds on passing and reserving hold.
func (h *history) nothingIdle() error {
	v := h.state.View()
	reserved := map[string]int{}
	for _, r := range v.Reservations() {
		reserved[v.Job(r.Job).Account]++
	}
	for account, n := range reserved {
		if n > 1 {
			return fmt.Errorf("account %s holds %d reservations", account, n)
		}
	}
	for j := range v.Jobs() {
		if j.Bypassed > max(1, v.Config().Policy.MaxBypass) {
			return fmt.Errorf("%s was passed %d times", h.names[j.ID], j.Bypassed)
		}
		if h.mayStart(j) && couldStart(v, j) {
			return fmt.Errorf("%s waits although it fits", h.names[j.ID])
		}
	}
	return nil
}

// mayStart reports whether nothing but room keeps a job, or some member of a record, from starting.
func (h *history) mayStart(j *cluster.Job) bool {
	ready := j.Waits() && j.Hold == cluster.NotHeld && !j.Blocked() && j.Eligible <= h.now
	if !ready || j.Family == nil {
		return ready
	}
	slots := len(h.ids)
	if most := j.Spec.Array.MaxParallel; most > 0 {
		slots = most - j.Family.Live
	}
	return slots > 0 && len(j.MayStart().Without(j.Family.HeldUser)) > 0
}

// couldStart counts workers node by node with the state's own Fits, and nothing else.
func couldStart(v *cluster.View, j *cluster.Job) bool {
	var g cluster.Grid
	g.CopyFrom(v.Grid())
	v.Waive(&g, j.ID)
	workers, met := 0, j.Workers == 1
	for i, n := range v.Nodes() {
		if excluded(j, n.Name) {
			continue
		}
		w := 0
		for w < cluster.PerNode(j) && cluster.Fits(&g, i, fit.Times(j.Request, w+1), nil) == nil {
			w++
		}
		if _, port := v.FreePort(n.Name); w > 0 && port {
			met = true
		}
		workers += w
	}
	return met && workers >= j.Workers
}

func excluded(j *cluster.Job, node string) bool {
	for _, name := range j.Exclude {
		if name == node {
			return true
		}
	}
	return false
}

// removeObstacle takes every waiting job's obstacle away in turn and returns how many there were.
func (h *history) removeObstacle() (int, error) {
	removed := 0
	for name, id := range h.ids {
		j := h.state.View().Job(id)
		if j == nil || !j.Waits() {
			continue
		}
		before := Explain(h.state.View(), h.now, h.state.View().Config().Policy, id).Reason
		if !h.remove(name, j, before) {
			continue
		}
		removed++
		if err := h.settle(); err != nil {
			return removed, err
		}
		j = h.state.View().Job(id)
		if !j.Waits() {
			continue
		}
		after := Explain(h.state.View(), h.now, h.state.View().Config().Policy, id).Reason
		if shortage(before.Code) && (j.Family == nil || shortage(after.Code)) {
			return removed, fmt.Errorf("%s does not start with all the room there can be; before, it waited for %+v", name, before)
		}
		if after.Code == before.Code && after.Node == before.Node && after.Fit == before.Fit && after.For == before.For {
			return removed, fmt.Errorf("%s still waits for %+v, although that was removed", name, before)
		}
	}
	return removed, nil
}

// remove takes away what a reason names, and reports whether there is a way to.
func (h *history) remove(name string, j *cluster.Job, why cluster.Reason) bool {
	switch why.Code {
	case cluster.ReasonHeldUser, cluster.ReasonMaxRequeue, cluster.ReasonLaunchFailure:
		h.must("release %s", name)
	case cluster.ReasonBackoff:
		h.must("advance %dms", int64(why.Until-h.now))
	case cluster.ReasonNodeDown:
		h.must("up %s", why.Node)
	default:
		if !shortage(why.Code) {
			return false
		}
		for i := range h.workersWaiting() { // those that come first need room too
			h.must("node extra-%s-%d gpus=8 cores=64 memory=64", name, i)
		}
	}
	return true
}

// shortage reports whether more nodes are what a reason calls for.
func shortage(code cluster.ReasonCode) bool {
	switch code {
	case cluster.ReasonResources, cluster.ReasonFragmentation, cluster.ReasonGang, cluster.ReasonBadConstraint:
		return true
	}
	return false
}

func (h *history) workersWaiting() int {
	n := 0
	for g := range h.state.View().Groups() {
		for _, j := range g.Jobs {
			if j.Family != nil {
				n += g.Workers * j.Family.Size
				continue
			}
			n += g.Workers
		}
	}
	return n
}
