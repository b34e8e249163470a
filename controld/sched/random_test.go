package sched_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

var seedsFlag = flag.Uint64("seeds", 150, "how many random histories to play")

// TestHistories plays random histories on small clusters. After every cycle the state took the plan
// whole and keeps its invariants, and the same view gives the same plan. No job that fits is left
// waiting, and none was passed beyond the bound.
func TestHistories(t *testing.T) {
	starts, kinds := 0, map[string]int{}
	eachSeed(t, func(seed uint64) error {
		h := newHistory(seed)
		for step := range 60 {
			if err := h.step(); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		starts += h.starts
		for kind, n := range h.kinds {
			kinds[kind] += n
		}
		return nil
	})
	if *schedtest.Seed == 0 && starts < int(*seedsFlag)*5 {
		t.Errorf("only %d starts in all: the histories prove too little", starts)
	}
	for _, kind := range []string{"where", "prefer", "exclusive", "parts"} {
		if *schedtest.Seed == 0 && kinds[kind] < int(*seedsFlag)/8 {
			t.Errorf("only %d starts of jobs with %s: the histories prove too little", kinds[kind], kind)
		}
	}
}

// TestObstacle takes away the obstacle that Explain names: the job then starts or has another.
func TestObstacle(t *testing.T) {
	removed, codes := 0, map[model.ReasonCode]int{}
	eachSeed(t, func(seed uint64) error {
		h := newHistory(seed)
		h.removed = codes
		for range 30 {
			if err := h.step(); err != nil {
				return err
			}
		}
		n, err := h.removeObstacle()
		removed += n
		return err
	})
	if *schedtest.Seed == 0 && removed < int(*seedsFlag)/3 {
		t.Errorf("only %d obstacles removed: the histories prove too little", removed)
	}
	for _, code := range []model.ReasonCode{
		model.ReasonResources, model.ReasonGang, model.ReasonHeldUser, model.ReasonBackoff, model.ReasonNodeDown,
		model.ReasonReservation,
		model.ReasonDependency, model.ReasonNeverMet, model.ReasonBegin, model.ReasonArrayLimit,
	} {
		if *schedtest.Seed == 0 && codes[code] == 0 {
			t.Errorf("no obstacle was %s: %v", code, codes)
		}
	}
}

func eachSeed(t *testing.T, test func(seed uint64) error) {
	t.Helper()
	first, last := uint64(1), *seedsFlag
	if *schedtest.Seed != 0 {
		first, last = *schedtest.Seed, *schedtest.Seed
	}
	for seed := first; seed <= last; seed++ {
		if err := test(seed); err != nil {
			t.Fatalf("seed=%d: %v", seed, err)
		}
	}
}

type history struct {
	*schedtest.World
	random *rand.Rand
	starts int
	kinds  map[string]int // starts of jobs that say something of nodes

	removed map[model.ReasonCode]int // obstacles, by what they were
	jobs    int
}

func newHistory(seed uint64) *history {
	h := &history{kinds: map[string]int{}, removed: map[model.ReasonCode]int{}, World: schedtest.NewWorld(),
		random: rand.New(rand.NewPCG(seed, 2))}
	h.must("policy max-bypass=%d reserve-after=%dm reserve-hold=%dm lease=2m margin=10s", h.random.IntN(4),
		1+h.random.IntN(10), 1+h.random.IntN(30))
	for i := range 1 + h.random.IntN(5) {
		h.must("node n%d gpus=%d cores=%d memory=%d ports=%d model=%s labels=rack:%c", i, h.random.IntN(9),
			2+h.random.IntN(16), 4+h.random.IntN(32),
			1+h.random.IntN(5), [...]string{"A100", "H100"}[h.random.IntN(2)], 'a'+rune(h.random.IntN(3)))
	}
	return h
}

// must runs a line that cannot be refused.
func (h *history) must(format string, args ...any) {
	if err := h.Run(fmt.Sprintf(format, args...)); err != nil {
		panic(fmt.Sprintf("%s: %v", fmt.Sprintf(format, args...), err))
	}
}

// step does something at random and then cycles.
func (h *history) step() error {
	switch node := fmt.Sprintf("n%d", h.random.IntN(len(h.State.View().Nodes()))); h.random.IntN(12) {
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
		verb, more := fmt.Sprintf("submit j%d", h.jobs), h.wishes(true)
		switch h.random.IntN(8) {
		case 0, 1:
			more += fmt.Sprintf(" array=%s max-parallel=%d", [...]string{"0-4", "1-9:2", "3,5"}[h.random.IntN(3)],
				h.random.IntN(4))
			more += [...]string{"", " order=random", " max-failures=0"}[h.random.IntN(3)]
		case 2:
			verb, more = fmt.Sprintf("pipeline j%d a b<a c<a:any d<b:failed<c:started", h.jobs), h.wishes(false)
		}
		h.must(verb+" class=%s priority=%d account=a%d gang=%dx%d per-node=%d cores=%d memory=%d limit=%dm retries=1"+
			more+h.conditions(),
			[...]string{"te", "be", "be"}[h.random.IntN(3)], 50+h.random.IntN(2), h.random.IntN(3), 1+h.random.IntN(3),
			h.random.IntN(4),
			1+h.random.IntN(2), 1+h.random.IntN(4), 1+h.random.IntN(4), 1+h.random.IntN(30))
	}
}

// wishes is what some jobs say of nodes, and whether their groups start together.
func (h *history) wishes(parts bool) string {
	all := ""
	for _, wish := range []string{
		" model=h100", " model=a100", " constraint=label.rack:=:a", " constraint=cores:>=:8;label.rack:in:a,b",
		" nodes=n[0-2]", " exclude-nodes=n1",
		" prefer=10:label.rack:=:b;-5:cores:>:9", " exclusive=yes", " parts=ps:1x0,worker:2x1", " parts=a:1x2,b:2x2,c:1x0",
	} {
		if h.random.IntN(10) == 0 && !(strings.HasPrefix(wish, " parts") && (!parts || strings.Contains(all, "parts"))) {
			all += wish
		}
	}
	return all
}

// note counts the start of a job by what it says of nodes.
func (h *history) note(j *model.Job) {
	s := model.ShapeOf(j)
	for kind, is := range map[string]bool{"where": s.Constraints != "", "prefer": s.Affinities != "",
		"exclusive": s.Request.Exclusive, "parts": s.Parts != ""} {
		if is {
			h.kinds[kind]++
		}
	}
}

// disturb does something to a random job that is not final.
func (h *history) disturb() error {
	var live []*model.Job
	for j := range h.State.View().Jobs() {
		if !j.State.Final() {
			live = append(live, j)
		}
	}
	if len(live) == 0 {
		return nil
	}
	j := live[h.random.IntN(len(live))]
	name := h.Names[j.ID]
	if j.Live() != nil {
		return h.Run([...]string{"run ", "run ", "exit ", "exit ", "exit code=1 ", "break ", "cancel "}[h.random.IntN(7)] +
			name)
	}
	verb := [...]string{"hold ", "cancel "}[h.random.IntN(2)]
	if j.Hold != model.NotHeld || j.Children != nil && h.random.IntN(3) == 0 {
		verb = "release "
	}
	if j.Children != nil && len(j.Children.Waiting) > 0 && h.random.IntN(3) > 0 {
		name = h.someMembers(j)
	}
	err := h.Run(verb + name)
	if j.Children != nil && errors.Is(err, model.ErrWrongState) {
		return nil // nothing of it was to be held or released
	}
	return err
}

// someMembers names some elements of an array: j3_[1,4-5].
func (h *history) someMembers(j *model.Job) string {
	first := 1 + h.random.IntN(j.Children.Size)
	last := first + h.random.IntN(j.Children.Size-first+1)
	var indices []string
	for n := first; n <= last; n++ {
		indices = append(indices, fmt.Sprint(j.Spec.Array.Index(n-1)))
	}
	return h.Names[j.ID] + "_[" + strings.Join(indices, ",") + "]"
}

// settle cycles until nothing changes and checks what must hold then.
func (h *history) settle() error {
	for range 16 { // each reservation that is used takes a cycle
		v := h.State.View()
		plan, wake := sched.Cycle(v, h.Now, v.Config().Policy)
		again, wakeAgain := sched.Cycle(v, h.Now, v.Config().Policy)
		if !reflect.DeepEqual(plan, again) || wake != wakeAgain {
			return fmt.Errorf("the same view gives %+v and %+v", plan, again)
		}
		if wake != 0 && wake <= h.Now {
			return fmt.Errorf("the next wake-up %d is not after %d", wake, h.Now)
		}
		if len(plan.Actions) == 0 {
			return h.nothingIdle()
		}
		if err := h.inOrder(plan); err != nil {
			return err
		}
		if err := h.Commit(plan); err != nil {
			return err
		}
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// inOrder carries a plan out on a copy of the state, one action after another. Whenever a job
// starts, no earlier waiting job could have started.
func (h *history) inOrder(plan fsm.CommitPlan) error {
	copied := fsm.Fork(h.State.View())
	for i, a := range plan.Actions {
		if start, ok := a.(*fsm.StartJob); ok {
			h.starts++
			h.note(h.State.View().Job(start.Job))
			v := copied.View()
			for j := range v.Jobs() {
				before := h.State.View().Job(j.ID)
				waited := before != nil && before.Waits() // else the plan itself has just put it back, or made it
				if waited && h.mayStart(j) && queue.Compare(j, v.Job(start.Job)) < 0 && schedtest.CouldStart(v, j) {
					return fmt.Errorf("%s starts before %s, which fits and comes first", h.Names[start.Job], h.Names[j.ID])
				}
			}
		}
		entry := fsm.Entry{Stamp: model.Stamp{At: h.Now, Wall: 1},
			Command: fsm.CommitPlan{Actions: []fsm.Action{a}}}
		if _, err := copied.Apply(h.Index+uint64(i)+1, entry); err != nil {
			return err
		}
	}
	return nil
}

// nothingIdle checks that no job that may start fits, and that the bounds on passing and reserving
// hold.
func (h *history) nothingIdle() error {
	v := h.State.View()
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
		if int(j.Bypassed) > max(1, v.Config().Policy.MaxBypass) {
			return fmt.Errorf("%s was passed %d times", h.Names[j.ID], j.Bypassed)
		}
		if h.mayStart(j) && schedtest.CouldStart(v, j) {
			e := sched.Explain(v, h.Now, v.Config().Policy, j.ID)
			return fmt.Errorf("%s waits although it fits: %+v, holds %v; %+v %+v", h.Names[j.ID], model.ShapeOf(j),
				v.Reservation(j.ID), e.Reason, e.Funnel)
		}
	}
	return nil
}

// mayStart reports whether nothing but room keeps a job, or some member of a record, from starting.
func (h *history) mayStart(j *model.Job) bool {
	ready := j.Waits() && j.Hold == model.NotHeld && !j.Blocked() && j.Eligible <= h.Now
	if !ready || j.Children == nil {
		return ready
	}
	slots := len(h.Ids)
	if most := j.Spec.Array.MaxParallel; most > 0 {
		slots = most - j.Children.Live
	}
	return slots > 0 && len(j.MayStart().Without(j.Children.HeldUser)) > 0
}

// removeObstacle takes every waiting job's obstacle away in turn and returns how many there were.
func (h *history) removeObstacle() (int, error) {
	removed := 0
	for _, id := range slices.Sorted(maps.Keys(h.Names)) {
		name := h.Names[id]
		j := h.State.View().Job(id)
		if j == nil || !j.Waits() {
			continue
		}
		before := sched.Explain(h.State.View(), h.Now, h.State.View().Config().Policy, id).Reason
		if !h.remove(name, j, before) {
			continue
		}
		removed++
		h.removed[before.Code]++
		waiting := waitingMembers(j)
		if err := h.settle(); err != nil {
			return removed, err
		}
		j = h.State.View().Job(id)
		if !j.Waits() || waitingMembers(j) < waiting {
			continue
		}
		after := sched.Explain(h.State.View(), h.Now, h.State.View().Config().Policy, id).Reason
		if shortage(before.Code) && (j.Children == nil || shortage(after.Code)) {
			return removed, fmt.Errorf("%s does not start with all the room there can be; before, it waited for %+v", name,
				before)
		}
		if after.Code == before.Code && after.Node == before.Node && after.Fit == before.Fit && after.For == before.For {
			return removed, fmt.Errorf("%s still waits for %+v, although that was removed", name, before)
		}
	}
	return removed, nil
}

// remove takes away what a reason names, and reports whether there is a way to.
func (h *history) remove(name string, j *model.Job, why model.Reason) bool {
	switch why.Code {
	case model.ReasonHeldUser, model.ReasonMaxRequeue, model.ReasonLaunchFailure, model.ReasonNeverMet:
		h.must("release %s", name)
	case model.ReasonBackoff, model.ReasonBegin:
		h.must("advance %dms", int64(why.Until-h.Now))
	case model.ReasonDependency:
		if why.Until != 0 {
			h.must("advance %dms", int64(why.Until-h.Now))
			return true
		}
		return h.satisfy(j)
	case model.ReasonNodeDown, model.ReasonNotAvail:
		if n, _ := h.State.View().Node(why.Node); n == nil || n.State == model.NodeUp {
			return false // it failed there before
		}
		h.must("up %s", why.Node)
		h.must("up %s", why.Node) // once more for one that was drained while it was down
	case model.ReasonReservation:
		h.finish(why.For, false)
	case model.ReasonArrayLimit:
		return h.finishMember(j)
	default:
		if !shortage(why.Code) {
			return false
		}
		if j.Spec.Nodes != nil {
			return false
		}
		h.Unchecked = true                  // until all of them are there
		for i := range h.workersWaiting() { // those that come first need room too
			for _, model := range []string{"A100", "H100"} {
				h.must("node extra-%s-%d-%s gpus=8 cores=64 memory=64 model=%s labels=rack:a", name, i, model, model)
			}
		}
		h.Unchecked = false
		if err := h.Check(); err != nil {
			panic(fmt.Sprintf("with more nodes: %v", err))
		}
	}
	return true
}

// shortage reports whether more nodes are what a reason calls for.
func shortage(code model.ReasonCode) bool {
	switch code {
	case model.ReasonResources, model.ReasonFragmentation, model.ReasonGang, model.ReasonBadConstraint:
		return true
	}
	return false
}

func (h *history) workersWaiting() int {
	n := 0
	for g := range h.State.View().QueueGroups() {
		if g.Key.Held {
			continue
		}
		for _, j := range g.Jobs {
			if j.Children != nil {
				n += g.Workers * j.Children.Size
				continue
			}
			n += g.Workers
		}
	}
	return n
}
