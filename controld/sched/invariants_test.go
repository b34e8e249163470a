package sched_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// Rules that must hold whatever happens, and where they are proved over random states. "Kept" are
// rules that a history must obey: see judge_test.go. TestEveryRuleCanBeBroken breaks each rule in a
// history and shows that the judge notices.
//
//	A1  one disturbance at a time, its clock never restarted    kept; cluster: TestRandomHistories
//	A2  no GPU or byte twice                                    kept; Check after every command
//	A3  a gang is whole                                         kept; Check after every command
//	A4  workers within bounds                                   kept; Check after every command
//	A5  room that was taken for a job is its alone              kept
//	A6  what a job that saves loses is bounded                  kept, of policies that preempt by cost
//	A7  displacements are counted, and use up no retry          kept
//	A8  a trial-and-error job starts as soon as it could        kept, of policies that make room for all
//	A9  a job within quota waits a bounded time                 TestWaitsAreBounded, under fairshare and rota
//	A10 what was held is what was charged                       kept; Check after every command
//	A11 what users declare moves no job of others               TestDeclaredGraceMovesNoJob
//	A12 no job leaves for nothing, or gets its room back        kept, TestNoJobLeavesForNothing
//	I1  an account is above its share before its last job leaves TestReclaimIsFair, under fairshare and rota
//	I2  and has used more                                       TestReclaimIsFair, under fairshare and rota
//	I3  two jobs do not swap to and fro                         TestReclaimIsFair, kept
//	I4  a search that fails changes nothing                     TestReclaimIsFair; of two cycles: kept
//	I5  nothing idles that a job could use                      kept, under fitgpp of the first; TestHistories
//
// That under policy rota A9 is so among best-effort jobs, and when it reclaims, docs/fair-share.md
// says. Under fitgpp I5 is about the first in the queue alone: the paper serves strictly in order.
// TestUnfairReclaimIsTold and TestLongWaitsAreTold plant faults for the tests that are not in
// judge.
//
// Suspended jobs, of which A10 speaks too, there are none yet. A11 does not cover searches among
// running jobs. Their declared grace decides the choice until measured times to leave are known.
// Under fairshare it sometimes decides whether enough victims are found.

// TestInvariants plays random histories under every policy for clusters and under the paper's
// policy. It covers 20,000 states of each, and a million with ROTA_TEST_LONG.
func TestInvariants(t *testing.T) {
	for _, policy := range []string{"standard", "fairshare", "fitgpp", "rota", "elastic"} {
		if !slices.Contains(sched.Policies(), policy) {
			continue
		}
		t.Run(policy, func(t *testing.T) {
			seen := playAll(t, policy, schedtest.States(20_000))
			t.Log(seen)
			for _, what := range expected(policy) {
				if *schedtest.Seed == 0 && seen[what] == 0 {
					t.Errorf("the histories had no %q: %v", what, seen)
				}
			}
		})
	}
}

// TestRulesThatWereBroken plays histories once more in which a rule was broken.
func TestRulesThatWereBroken(t *testing.T) {
	for _, h := range []struct {
		policy string
		seed   uint64
	}{
		// A8: the part of a GPU that was promised to another kept a trial from whole ones that were
		// free
		{"rota", 383},
		{"rota", 3129}, // A5: where GPUs are shared an elastic job that gave up workers counted as leaving whole
		// A12: a job within quota started in what had been kept for another before one that had
		// left for nothing
		{"fairshare", 1454},
		// A5: what is kept for a job in case others end was lifted twice while others were looked
		// for to leave for it
		{"fairshare", 1754},
	} {
		if err := newLife(h.seed, h.policy, map[string]int{}).play(30); err != nil {
			t.Errorf("policy %s, seed=%d: %v", h.policy, h.seed, err)
		}
	}
}

// expected is what must have happened for histories under a policy to prove anything.
func expected(policy string) []string {
	always := []string{"start", "gang", "node lost", "requeue asked for"}
	switch policy {
	case "fairshare":
		return append(always, "reclaim", "beneficiary gone", "killed", "limit reached")
	case "fitgpp":
		return append(always, "te", "beneficiary gone", "killed")
	case "rota":
		return append(always, "te", "order", "beneficiary gone", "killed", "Preempting", "NoVictim", "TELimit",
			"offered first")
	}
	if policy == "elastic" {
		always = append(always, "resize")
	}
	return append(always, "limit reached")
}

// playAll plays histories until so many states have been judged.
func playAll(t *testing.T, policy string, states int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seed := uint64(1); states > 0; seed++ {
		if *schedtest.Seed != 0 {
			seed, states = *schedtest.Seed, 1
		}
		l := newLife(seed, policy, seen)
		if err := l.play(30); err != nil {
			if *schedtest.Seed != 0 {
				t.Log(strings.Join(l.trail, "\n"))
			}
			t.Fatalf("seed=%d: %v", seed, err)
		}
		states -= l.judge.states
	}
	return seen
}

// life is a random history under one policy on a small cluster with obedient nodes. They start what
// is assigned, pass on the signal, and kill at the end of the grace. Every state at rest is judged.
type life struct {
	*schedtest.World
	random *rand.Rand
	policy string
	faulty bool // nodes get lost
	judge  *judge
	jobs   int
	wake   model.Instant  // when the cycle wants to look again
	seen   map[string]int // what has happened
	trail  []string       // what was done, if one history alone is played

	prompt     bool                 // everything that is assigned runs at once
	rigid      bool                 // no job is elastic
	calm       bool                 // no job asks for a requeue
	unjudged   bool                 // the policy need not keep the rules
	graceTimes int                  // graces are so many times as long
	planned    func(fsm.CommitPlan) // is told of each plan

	decide func(*state.View, model.Instant, cluster.Policy) (fsm.CommitPlan, model.Instant)
}

func newLife(seed uint64, policy string, seen map[string]int) *life {
	return begun(&life{World: schedtest.NewWorld(), seen: seen}, seed, policy)
}

// newLifeThat returns a history whose commands are told.
func newLifeThat(seed uint64, policy string, entered func(fsm.Entry)) *life {
	l := &life{World: schedtest.NewWorld(), seen: map[string]int{}}
	l.Entered = entered
	return begun(l, seed, policy)
}

// begun gives a history its cluster.
func begun(l *life, seed uint64, policy string) *life {
	l.random, l.policy = rand.New(rand.NewPCG(seed, 11)), policy
	l.Unchecked, l.decide = true, sched.Cycle
	l.judge = newJudge(l)
	l.faulty = l.random.IntN(4) == 0
	l.must("policy name=%s p=%d min-runtime=%ds reserve-after=%dm reserve-hold=%dm max-bypass=%d te-gpus=%d "+
		"min-turn=%dm lease=2m margin=10s", policy,
		1+l.random.IntN(3), 30+l.random.IntN(600), 1+l.random.IntN(20), 5+l.random.IntN(60), l.random.IntN(5),
		[]int{0, 0, 6}[l.random.IntN(3)], 5+l.random.IntN(60))
	for i := range 1 + l.random.IntN(3) {
		l.must("node n%d gpus=%d cores=%d memory=%d", i, 1+l.random.IntN(6), 4+l.random.IntN(8), 8+l.random.IntN(16))
	}
	if policy == "fairshare" || l.random.IntN(3) == 0 {
		for i := range 2 {
			l.must("account a%d deserved=%d weight=%d", i, l.random.IntN(5), 1+l.random.IntN(3))
		}
	}
	return l
}

// must runs a line that cannot be refused.
func (l *life) must(format string, args ...any) {
	l.note(format, args...)
	if err := l.Run(fmt.Sprintf(format, args...)); err != nil {
		panic(fmt.Sprintf("%s: %v", fmt.Sprintf(format, args...), err))
	}
}

// note keeps what is done, for playing one history to see how it failed.
func (l *life) note(format string, args ...any) {
	if *schedtest.Seed != 0 {
		l.trail = append(l.trail, fmt.Sprintf("%d ", l.Now)+fmt.Sprintf(format, args...))
	}
}

// play takes so many steps.
func (l *life) play(steps int) error {
	for step := range steps {
		if err := l.step(); err != nil {
			return fmt.Errorf("step %d, at %d: %w", step, l.Now, err)
		}
	}
	return nil
}

// step lets something happen, and then decides until nothing changes.
func (l *life) step() error {
	switch l.random.IntN(10) {
	case 0, 1, 2:
		for range 1 + l.random.IntN(3) {
			l.submitOne()
		}
	case 3, 4, 5:
		return l.pass(model.Instant(1000 * (1 + l.random.Int64N(1800))))
	case 6:
		if l.faulty {
			l.loseOrFind()
		}
	default:
		l.disturb()
	}
	return l.settle()
}

func (l *life) submitOne() {
	l.jobs++
	limit := ""
	if l.random.IntN(2) == 0 {
		limit = fmt.Sprintf(" limit=%dm", 1+l.random.IntN(60))
	}
	class, size := [...]string{"te", "be", "be", "be"}[l.random.IntN(4)], ""
	var elastic *jobspec.Elastic
	switch l.random.IntN(8) {
	case 0:
		size = fmt.Sprintf("share=%d", 100*(1+l.random.IntN(9)))
	case 1:
		e := []jobspec.Elastic{{Min: 1, Max: 3}, {Min: 2, Max: 4, MultipleOf: 2}, {Min: 1, Max: 2}}[l.random.IntN(3)]
		e.Cooldown, e.GrowAfter = 60, 30
		elastic, class, size = &e, "be", fmt.Sprintf("gpus=%d", l.random.IntN(2))
		if l.rigid {
			elastic = nil
		}
	default:
		size = fmt.Sprintf("gang=%dx%d", []int{1, 1, 1, 2, 3}[l.random.IntN(5)], l.random.IntN(4))
	}
	l.submitAs(elastic, "j%d class=%s %s per-node=%d cores=%d memory=%d grace=%ds account=a%d user=u%d priority=%d "+
		"retries=1%s%s", l.jobs,
		class, size, 1+l.random.IntN(2),
		1+l.random.IntN(3), 1+l.random.IntN(5), max(1, l.graceTimes)*(1+l.random.IntN(300)), l.random.IntN(2),
		l.random.IntN(2), 50+l.random.IntN(2),
		[...]string{"", " save=yes", " save=5m", " save=30m"}[l.random.IntN(4)], limit)
}

// submitAs submits a job, an elastic one if it is said how elastic.
func (l *life) submitAs(elastic *jobspec.Elastic, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if elastic == nil {
		l.must("submit %s", line)
		return
	}
	l.note("submit %s elastic=%d-%d/%d", line, elastic.Min, elastic.Max, elastic.MultipleOf)
	names, options := schedtest.Split(strings.Fields(line))
	user := options["user"]
	delete(options, "user")
	spec, err := l.MakeJob(names[0], options)
	if err != nil {
		panic(err)
	}
	spec.Groups[0].Count, spec.Groups[0].Elastic = 0, elastic
	if err := l.AddAs(user, names[0], spec); err != nil {
		panic(err)
	}
}

// loseOrFind takes a node away or gives it back. Jobs that ran there are lost when their leases are
// over.
func (l *life) loseOrFind() {
	n := l.State.View().Nodes()[l.random.IntN(len(l.State.View().Nodes()))]
	verb := "down"
	if n.State != model.NodeUp {
		verb = "up"
	} else {
		l.seen["node lost"]++
	}
	l.must("%s %s", verb, n.Name)
}

// disturb does something to a random job that is not final.
func (l *life) disturb() {
	var live []*model.Job
	for j := range l.State.View().Jobs() {
		if !j.State.Final() {
			live = append(live, j)
		}
	}
	if len(live) == 0 {
		return
	}
	j := live[l.random.IntN(len(live))]
	for range 2 { // rather one that runs
		if j.Live() == nil {
			j = live[l.random.IntN(len(live))]
		}
	}
	name := l.Names[j.ID]
	switch a := j.Live(); {
	case a == nil && j.Hold != model.NotHeld:
		l.must("release %s", name)
	case a == nil:
		if l.State.View().Reservation(j.ID) != nil {
			l.seen["beneficiary gone"]++
		}
		l.must("%s %s", [...]string{"hold", "cancel", "cancel"}[l.random.IntN(3)], name)
	case l.unreachable(a):
	case a.Stop != nil:
		l.must("exit code=%d %s", []int{0, 85, 85, 85, 1}[l.random.IntN(5)], name)
	case j.State == model.Configuring:
		l.must("run %s", name)
	case l.random.IntN(5) == 0 && !l.calm:
		l.seen["requeue asked for"]++
		l.must("requeue %s", name)
	default:
		l.must("%s %s", [...]string{"exit", "exit", "exit code=1", "exit code=85", "cancel"}[l.random.IntN(5)], name)
	}
}

// unreachable reports whether a worker of an attempt is on a node that is lost.
func (l *life) unreachable(a *model.Attempt) bool {
	return slices.ContainsFunc(a.Workers, func(w model.Worker) bool {
		n, _ := l.State.View().Node(w.Node)
		return n.State == model.NodeDown
	})
}

// pass lets time go by. Events of an instant happen at that instant: ends of grace, and the times
// at which the cycle wants to look again.
func (l *life) pass(by model.Instant) error {
	until := l.Now + by
	l.begin()
	for {
		next := until
		for j := range l.State.View().Live() {
			if s := j.Live().Stop; s != nil && s.KillAt > l.Now {
				next = min(next, s.KillAt)
			}
		}
		if l.wake > l.Now {
			next = min(next, l.wake)
		}
		l.Now = next
		l.kill()
		if err := l.settle(); err != nil || l.Now >= until {
			return err
		}
	}
}

// begin lets most of the attempts run that were assigned.
func (l *life) begin() {
	for j := range l.State.View().Live() {
		if j.State == model.Configuring && (l.random.IntN(4) > 0 || l.prompt) && !l.unreachable(j.Live()) {
			l.must("run %s", l.Names[j.ID])
		}
	}
}

// kill ends what has used up its grace.
func (l *life) kill() {
	for j := range l.State.View().Live() {
		a := j.Live()
		if a.Stop == nil || a.Stop.KillAt > l.Now || l.unreachable(a) {
			continue
		}
		l.seen["killed"]++
		l.note("killed %s", l.Names[j.ID])
		for i := range a.Workers {
			w := &a.Workers[i]
			n, _ := l.State.View().Node(w.Node)
			report := model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i, State: model.WorkerExited, Signal: 9}
			if _, err := l.Apply(fsm.NodeReport{Node: w.Node, BootID: n.BootID,
				Workers: []model.WorkerReport{report}}); err != nil {
				panic(err)
			}
		}
	}
}

// settle decides and commits until nothing changes, and has every state judged.
func (l *life) settle() error {
	for range 24 {
		v := l.State.View()
		plan, wake := l.decide(v, l.Now, v.Config().Policy)
		l.wake = wake
		if err := l.judged(func() error { return l.judge.plan(v, plan, wake) }); err != nil {
			return err
		}
		if l.planned != nil && len(plan.Actions) > 0 {
			l.planned(plan)
		}
		if len(plan.Actions) == 0 {
			return errors.Join(l.World.Check(), l.judged(func() error { return l.judge.rest(observe(l)) }))
		}
		if err := l.carryOut(plan); err != nil {
			return err
		}
		l.count(plan)
		l.note("-> %s", l.told(plan))
		if err := l.judged(func() error { return l.judge.state(observe(l)) }); err != nil {
			return fmt.Errorf("after %s: %w", l.told(plan), err)
		}
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// judged judges, unless the history is not about rules.
func (l *life) judged(judge func() error) error {
	if l.unjudged {
		return nil
	}
	return judge()
}

// count notes what a plan has brought about.
func (l *life) count(plan fsm.CommitPlan) {
	for _, a := range plan.Actions {
		switch a := a.(type) {
		case *fsm.StartJob:
			l.seen["start"]++
			if len(a.Places) > 1 {
				l.seen["gang"]++
			}
		case *fsm.StopJob:
			what := string(a.Cause)
			if a.Cause == model.CauseTimeout {
				what = "limit reached"
			}
			l.seen[what]++
		}
	}
}

// told writes a plan.
func (l *life) told(plan fsm.CommitPlan) string {
	var parts []string
	for _, a := range plan.Actions {
		if r, ok := a.(*fsm.ResizeJob); ok {
			parts = append(parts, fmt.Sprintf("resize %s without %v with %v for %s", l.Names[r.Job], r.Leave, r.Join,
				l.Names[r.For]))
			continue
		}
		parts = append(parts, l.Action(a))
	}
	return strings.Join(parts, "; ")
}

// carryOut applies a plan, which the state must accept as a whole.
func (l *life) carryOut(plan fsm.CommitPlan) error {
	result, err := l.Apply(plan)
	if err != nil {
		return err
	}
	for i, refused := range result.([]error) {
		if refused != nil {
			return fmt.Errorf("action %d of %s is refused: %w", i, l.told(plan), refused)
		}
	}
	return nil
}

// observed is what a judge looks at: what the state has, taken out of it, so that a test can
// falsify it.
type observed struct {
	now          model.Instant
	view         *state.View
	nodes        []*model.Node
	jobs         []*model.Job // by id
	reservations []*model.Reservation
	reason       func(model.JobID) model.Reason
	atRest       bool // nothing more is to be done
}

func observe(l *life) *observed {
	v := l.State.View()
	o := &observed{now: l.Now, view: v, nodes: v.Nodes(), reservations: v.Reservations()}
	o.jobs = slices.SortedFunc(v.Jobs(), func(a, b *model.Job) int { return cmp.Compare(a.ID, b.ID) })
	var reasons func(model.JobID) model.Reason
	o.reason = func(id model.JobID) model.Reason {
		if reasons == nil {
			reasons = sched.Reasons(v, l.Now, v.Config().Policy)
		}
		return reasons(id)
	}
	return o
}
