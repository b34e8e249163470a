package sched

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
	if *seedFlag == 0 && starts < int(*seedsFlag)*5 {
		t.Errorf("only %d starts in all: the histories prove too little", starts)
	}
	for _, kind := range []string{"where", "prefer", "exclusive", "parts"} {
		if *seedFlag == 0 && kinds[kind] < int(*seedsFlag)/8 {
			t.Errorf("only %d starts of jobs with %s: the histories prove too little", kinds[kind], kind)
		}
	}
}

// TestObstacle takes away the obstacle that Explain names: the job then starts or has another.
func TestObstacle(t *testing.T) {
	removed, codes := 0, map[cluster.ReasonCode]int{}
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
	if *seedFlag == 0 && removed < int(*seedsFlag)/3 {
		t.Errorf("only %d obstacles removed: the histories prove too little", removed)
	}
	for _, code := range []cluster.ReasonCode{
		cluster.ReasonResources, cluster.ReasonGang, cluster.ReasonHeldUser, cluster.ReasonBackoff, cluster.ReasonNodeDown, cluster.ReasonReservation,
		cluster.ReasonDependency, cluster.ReasonNeverMet, cluster.ReasonBegin, cluster.ReasonArrayLimit,
	} {
		if *seedFlag == 0 && codes[code] == 0 {
			t.Errorf("no obstacle was %s: %v", code, codes)
		}
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
	kinds  map[string]int // starts of jobs that say something of nodes

	removed map[cluster.ReasonCode]int // obstacles, by what they were
	jobs    int
}

func newHistory(seed uint64) *history {
	h := &history{kinds: map[string]int{}, removed: map[cluster.ReasonCode]int{}, world: newWorld(), random: rand.New(rand.NewPCG(seed, 2))}
	h.must("policy max-bypass=%d reserve-after=%dm reserve-hold=%dm lease=2m margin=10s", h.random.IntN(4), 1+h.random.IntN(10), 1+h.random.IntN(30))
	for i := range 1 + h.random.IntN(5) {
		h.must("node n%d gpus=%d cores=%d memory=%d ports=%d model=%s labels=rack:%c", i, h.random.IntN(9), 2+h.random.IntN(16), 4+h.random.IntN(32),
			1+h.random.IntN(5), [...]string{"A100", "H100"}[h.random.IntN(2)], 'a'+rune(h.random.IntN(3)))
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
		verb, more := fmt.Sprintf("submit j%d", h.jobs), h.wishes(true)
		switch h.random.IntN(8) {
		case 0, 1:
			more += fmt.Sprintf(" array=%s max-parallel=%d", [...]string{"0-4", "1-9:2", "3,5"}[h.random.IntN(3)], h.random.IntN(4))
			more += [...]string{"", " order=random", " max-failures=0"}[h.random.IntN(3)]
		case 2:
			verb, more = fmt.Sprintf("pipeline j%d a b<a c<a:any d<b:failed<c:started", h.jobs), h.wishes(false)
		}
		h.must(verb+" class=%s priority=%d account=a%d gang=%dx%d per-node=%d cores=%d memory=%d limit=%dm retries=1"+more+h.conditions(),
			[...]string{"te", "be", "be"}[h.random.IntN(3)], 50+h.random.IntN(2), h.random.IntN(3), 1+h.random.IntN(3), h.random.IntN(4),
			1+h.random.IntN(2), 1+h.random.IntN(4), 1+h.random.IntN(4), 1+h.random.IntN(30))
	}
}

// wishes is what some jobs say of nodes, and whether their groups start together.
func (h *history) wishes(parts bool) string {
	all := ""
	for _, wish := range []string{
		" model=h100", " model=a100", " constraint=label.rack:=:a", " constraint=cores:>=:8;label.rack:in:a,b", " nodes=n[0-2]", " exclude-nodes=n1",
		" prefer=10:label.rack:=:b;-5:cores:>:9", " exclusive=yes", " parts=ps:1x0,worker:2x1", " parts=a:1x2,b:2x2,c:1x0",
	} {
		if h.random.IntN(10) == 0 && !(strings.HasPrefix(wish, " parts") && (!parts || strings.Contains(all, "parts"))) {
			all += wish
		}
	}
	return all
}

// note counts the start of a job by what it says of nodes.
func (h *history) note(j *cluster.Job) {
	s := cluster.ShapeOf(j)
	for kind, is := range map[string]bool{"where": s.Where != "", "prefer": s.Prefer != "", "exclusive": s.Request.Exclusive, "parts": s.Parts != ""} {
		if is {
			h.kinds[kind]++
		}
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
	copied := cluster.Fork(h.state.View())
	for i, a := range plan.Actions {
		if a.Start != nil {
			h.starts++
			h.note(h.state.View().Job(a.Start.Job))
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
			e := Explain(v, h.now, v.Config().Policy, j.ID)
			return fmt.Errorf("%s waits although it fits: %+v, holds %v; %+v %+v", h.names[j.ID], cluster.ShapeOf(j), v.Reservation(j.ID), e.Reason, e.Funnel)
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
	if len(j.Parts) > 0 || j.Workers > 1 && j.Request.Active.GPUs%1000 != 0 {
		gang := fit.NewGang(v, j) // nothing simple decides this; fit's own tests try everything
		return fit.NewRoom(v).Fits(&gang)
	}
	workers, met := 0, j.Workers == 1
	for i, n := range v.Nodes() {
		if excluded(j, n.Name) || !wanted(j, n) {
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

// wanted asks a node for the few things that wishes says, in its own way.
func wanted(j *cluster.Job, n *cluster.Node) bool {
	for _, c := range j.Spec.Groups[0].Constraints {
		switch {
		case c.Attribute == "node.cores" && n.Cores < 8,
			c.Attribute == "node.label.rack" && c.Operator == "=" && n.Labels["rack"] != c.Value,
			c.Attribute == "node.label.rack" && c.Operator == "in" && n.Labels["rack"] > "b":
			return false
		}
	}
	r := &j.Spec.Groups[0].Tasks[0].Resources
	if r.GPU != nil && r.GPU.Model != "" && r.GPUs > 0 && (len(n.GPUs) == 0 || !strings.EqualFold(n.GPUs[0].Model, r.GPU.Model)) {
		return false
	}
	return (j.Spec.Nodes == nil || "n0" <= n.Name && n.Name <= "n2") && (j.Spec.ExcludeNodes == nil || n.Name != "n1")
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
	for _, id := range slices.Sorted(maps.Keys(h.names)) {
		name := h.names[id]
		j := h.state.View().Job(id)
		if j == nil || !j.Waits() {
			continue
		}
		before := Explain(h.state.View(), h.now, h.state.View().Config().Policy, id).Reason
		if !h.remove(name, j, before) {
			continue
		}
		removed++
		h.removed[before.Code]++
		waiting := waitingMembers(j)
		if err := h.settle(); err != nil {
			return removed, err
		}
		j = h.state.View().Job(id)
		if !j.Waits() || waitingMembers(j) < waiting {
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
	case cluster.ReasonHeldUser, cluster.ReasonMaxRequeue, cluster.ReasonLaunchFailure, cluster.ReasonNeverMet:
		h.must("release %s", name)
	case cluster.ReasonBackoff, cluster.ReasonBegin:
		h.must("advance %dms", int64(why.Until-h.now))
	case cluster.ReasonDependency:
		if why.Until != 0 {
			h.must("advance %dms", int64(why.Until-h.now))
			return true
		}
		return h.satisfy(j)
	case cluster.ReasonNodeDown, cluster.ReasonNotAvail:
		if n, _ := h.state.View().Node(why.Node); n == nil || n.State == cluster.NodeUp {
			return false // it failed there before
		}
		h.must("up %s", why.Node)
		h.must("up %s", why.Node) // once more for one that was drained while it was down
	case cluster.ReasonReservation:
		h.finish(why.For, false)
	case cluster.ReasonArrayLimit:
		return h.finishMember(j)
	default:
		if !shortage(why.Code) {
			return false
		}
		if j.Spec.Nodes != nil {
			return false
		}
		for i := range h.workersWaiting() { // those that come first need room too
			for _, model := range []string{"A100", "H100"} {
				h.must("node extra-%s-%d-%s gpus=8 cores=64 memory=64 model=%s labels=rack:a", name, i, model, model)
			}
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
		if g.Key.Held {
			continue
		}
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
