package sched_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestWaitsAreBounded is A9, for the first waiting job of an account that stays within its quota
// with the job. The job waits at most until its room is kept, and then for the longest time that a
// job may hold that room. Under policy rota that is so among best-effort jobs: trial-and-error
// jobs, as many as their accounts may have at once, go before quotas.
func TestWaitsAreBounded(t *testing.T) {
	for _, policy := range []string{"fairshare", "rota"} {
		t.Run(policy, func(t *testing.T) {
			waited, reclaimed := 0, 0
			for seed := uint64(1); seed <= schedtest.Seeds(100, 10_000); seed++ {
				if *schedtest.Seed != 0 && seed != *schedtest.Seed {
					continue
				}
				p := newPatience(seed, policy)
				if err := p.play(); err != nil {
					if *schedtest.Seed != 0 {
						t.Log(strings.Join(p.trail, "\n"))
					}
					t.Fatalf("seed=%d: %v", seed, err)
				}
				waited += p.seen["waits"]
				reclaimed += p.seen["reclaim"]
			}
			t.Logf("%d jobs waited within what they deserve, %d were asked to leave", waited, reclaimed)
			if *schedtest.Seed == 0 && (waited < 100 || reclaimed < 100) {
				t.Errorf("only %d jobs waited within what they deserve, %d were asked to leave", waited, reclaimed)
			}
		})
	}
}

// TestLongWaitsAreTold has jobs wait for room that is never kept for them, and no job asked to
// leave.
func TestLongWaitsAreTold(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		p := newPatience(seed, "fairshare")
		p.must("policy name=standard reserve-after=1000h")
		p.policy = "standard"
		if err := p.play(); err != nil {
			if !strings.Contains(err.Error(), "A9: ") {
				t.Fatalf("seed=%d: %v", seed, err)
			}
			return
		}
	}
	t.Error("no check noticed")
}

// patience is a random history in which three accounts deserve all of a cluster of 8 GPUs.
type patience struct {
	*life
	since map[model.JobID]model.Instant // when the first of an account began to wait within what it deserves
	bound model.Instant
}

const (
	patientLimit = 30 // minutes
	patientGrace = 60 // seconds
)

func newPatience(seed uint64, policy string) *patience {
	l := newLife(seed, policy, map[string]int{})
	l.World, l.faulty, l.prompt = schedtest.NewWorld(), false, true
	l.Unchecked = true
	after := 1 + l.random.IntN(20)
	l.must("policy name=%s p=3 min-runtime=%ds reserve-after=%dm reserve-hold=10h max-bypass=1000", policy,
		30+l.random.IntN(600), after)
	for i := range 2 {
		l.must("node n%d gpus=4 cores=32 memory=64", i)
	}
	for i, d := range []int{2, 4, 2} {
		l.must("account a%d deserved=%d", i, d)
	}
	return &patience{life: l, since: map[model.JobID]model.Instant{},
		bound: model.Instant(after*60+patientLimit*60+patientGrace) * 1000}
}

// play lets one account after another submit for a while.
func (p *patience) play() error {
	busy := 0
	for range 60 {
		if p.random.IntN(6) == 0 {
			busy = p.random.IntN(3)
		}
		for range p.random.IntN(4) {
			p.jobs++
			class := "be"
			if p.random.IntN(6) == 0 && p.policy != "rota" {
				class = "te"
			}
			p.must("submit j%d class=%s gang=%dx%d per-node=2 grace=%ds limit=%dm account=a%d", p.jobs, class,
				1+p.random.IntN(2), 1+p.random.IntN(2),
				1+p.random.IntN(patientGrace), 1+p.random.IntN(patientLimit), busy)
		}
		if err := p.settle(); err != nil {
			return err
		}
		if err := p.pass(model.Instant(1000 * (1 + p.random.Int64N(600)))); err != nil {
			return err
		}
		if err := p.waits(map[string]int64{"a0": 2000, "a1": 4000, "a2": 2000}); err != nil {
			return err
		}
	}
	return nil
}

// waits notes since when the head of each account, in the policy's order, has waited within the
// account's quota. It reports a head that has waited too long.
func (p *patience) waits(deserved map[string]int64) error {
	v := p.State.View()
	compare := schedtest.OrderOn(schedtest.TrialOf(v, p.Now)).Compare
	held := map[string]int64{}
	for j := range v.Live() {
		held[j.Account] += j.Width()
	}
	head := map[string]*model.Job{}
	for j := range v.Jobs() {
		if j.Waits() && (head[j.Account] == nil || compare(j, head[j.Account]) < 0) {
			head[j.Account] = j
		}
	}
	for id := range p.since {
		if j := v.Job(id); head[j.Account] != j {
			delete(p.since, id) // it has started, or another one has come before it
		}
	}
	for account, j := range head {
		if held[account]+j.Width() > deserved[account] {
			delete(p.since, j.ID)
			continue
		}
		if _, known := p.since[j.ID]; !known {
			p.since[j.ID] = p.Now
			p.seen["waits"]++
		}
		if waited := p.Now - p.since[j.ID]; waited > p.bound {
			return fmt.Errorf("A9: %s of %s, which deserves %d and holds %d, has waited for %d ms, more than %d",
				p.Names[j.ID], account,
				deserved[account], held[account], waited, p.bound)
		}
	}
	return nil
}

// TestDeclaredGraceMovesNoJob is A11. Two histories that differ only in the declared grace of jobs
// are the same until a job has to leave. Then the same jobs leave. Progress and metrics the cycle
// cannot know: they are not in the state. Where there are elastic jobs they are the same until one
// grows, which depends on its own grace and takes nothing from others.
func TestDeclaredGraceMovesNoJob(t *testing.T) {
	for _, c := range []struct {
		policy string
		rigid  bool // no job is elastic
	}{{"standard", true}, {"fairshare", true}, {"fitgpp", true}, {"rota", true}, {"standard", false},
		{"fairshare", false}, {"rota", false}, {"elastic", false}} {
		same, shrunk := 0, 0
		for seed := uint64(1); seed <= uint64(schedtest.States(20_000))/150; seed++ {
			a, b := plansOf(seed, c.policy, c.rigid, 1), plansOf(seed, c.policy, c.rigid, 7)
			for i := range max(len(a), len(b)) {
				if takes(c.policy, at(a, i)) || takes(c.policy, at(b, i)) {
					// which job it tries first depends on what it costs, and sometimes so does
					// whether it finds enough of them
					break
				}
				if at(a, i) == grown || at(b, i) == grown {
					break
				}
				if i >= len(a) || i >= len(b) || a[i] != b[i] {
					t.Fatalf("policy %s, seed=%d, plan %d:\n%s\nand with longer graces\n%s", c.policy, seed, i, at(a, i), at(b, i))
				}
				if same++; strings.HasPrefix(a[i], "[") {
					shrunk++
				}
			}
		}
		if same < 500 || !c.rigid && shrunk == 0 && (c.policy == "rota" || c.policy == "elastic") {
			t.Errorf("policy %s: only %d plans were compared, %d by which a job leaves", c.policy, same, shrunk)
		}
	}
}

// takes reports whether a plan gives a job room at the expense of others, where their loss decides.
// That is an account's or user's part, or under policy rota the turn of the first job in order.
func takes(policy, plan string) bool {
	return strings.HasPrefix(plan, "[") && (policy == "fairshare" || strings.Contains(plan, string(model.CauseReclaim)) ||
		strings.Contains(plan, string(model.CauseOrder)))
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// grown stands for a plan by which an elastic job gets more workers.
const grown = "grown"

// plansOf plays a history whose graces are multiplied by a factor. It returns its plans up to the
// first that displaces or resizes a job, and the beneficiary of that one. If a job may leave whole
// or give up workers, the cost decides which. Cost also decides whether a job waits for others that
// are leaving anyway.
func plansOf(seed uint64, policy string, rigid bool, times int) (plans []string) {
	l := newLife(seed, policy, map[string]int{})
	l.calm, l.rigid, l.graceTimes, l.faulty = true, rigid, times, false
	over := false
	l.planned = func(plan fsm.CommitPlan) {
		if over {
			return
		}
		var takers []string
		for _, a := range plan.Actions {
			switch a := a.(type) {
			case *fsm.ResizeJob:
				if a.For == 0 {
					over = true
					plans = append(plans, grown)
					return
				}
			case *fsm.Reserve:
				switch {
				case a.Guaranteed && !rigid:
					takers = append(takers, fmt.Sprintf("%s for %s", model.CauseReclaim, l.Names[a.Job]))
				case a.ForPreemptor && !rigid:
					takers = append(takers, "for "+l.Names[a.Job])
				}
			case *fsm.StopJob:
				if a.Cause.Preempts() && (rigid || a.Cause == model.CauseOrder) {
					takers = append(takers, fmt.Sprintf("%s for %s", a.Cause, l.Names[a.For]))
				}
			}
		}
		if takers != nil {
			slices.Sort(takers)
			over = true
			plans = append(plans, fmt.Sprint(slices.Compact(takers)))
			return
		}
		plans = append(plans, fmt.Sprint(l.Now, l.told(plan)))
	}
	for range 30 {
		if over {
			break
		}
		if err := l.step(); err != nil {
			return append(plans, err.Error())
		}
	}
	return plans
}

// TestDeclaredGraceSparesNoJob is A11 of running jobs: once it is known how long jobs take to
// leave, declaring more is of no use.
func TestDeclaredGraceSparesNoJob(t *testing.T) {
	leaves := func(known int, declared string) string {
		w := schedtest.NewWorld()
		run := func(lines ...string) {
			for _, line := range lines {
				if err := w.Run(line); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
		}
		run("policy name=rota p=100 min-runtime=1s", "node n1 gpus=1", "node n2 gpus=1")
		for i := range known { // each takes a second to leave
			run(fmt.Sprintf("submit v%d gpus=1 save=yes grace=10m account=x", i),
				fmt.Sprintf("submit w%d gpus=1 save=yes grace=10m account=y", i), "cycle",
				fmt.Sprintf("run v%d w%d", i, i), "advance 1h", fmt.Sprintf("submit t%d gpus=1 class=te", i), "cycle", "advance 1s")
			for j := range w.State.View().Live() {
				if j.Live().Stop != nil {
					run("exit code=85 " + w.Names[j.ID])
				}
			}
			run("cycle", fmt.Sprintf("run t%d", i), fmt.Sprintf("exit t%d", i), fmt.Sprintf("cancel v%d w%d", i, i))
			for j := range w.State.View().Live() {
				run("exit " + w.Names[j.ID])
			}
		}
		w.Out.Reset()
		run("submit a gpus=1 save=yes account=x grace="+declared, "submit b gpus=1 save=yes account=y grace=10m", "cycle",
			"run a b", "advance 1h", "submit x gpus=1 class=te")
		v := w.State.View()
		plan, _ := sched.Cycle(v, w.Now, v.Config().Policy)
		for _, a := range plan.Actions {
			if a, ok := a.(*fsm.StopJob); ok {
				return w.Names[a.Job]
			}
		}
		return "nobody"
	}
	if usual, more := leaves(25, "10m"), leaves(25, "20m"); usual != "a" || more != "a" {
		t.Errorf("%s leaves, and %s when a declares more", usual, more)
	}
	if usual, more := leaves(0, "10m"), leaves(0, "20m"); usual != "a" || more != "b" {
		t.Errorf("before anything is known %s leaves, and %s when a declares more", usual, more)
	}
}

// TestNoJobLeavesForNothing is A12. A plan that comes too late, because the beneficiary no longer
// waits, disturbs no job. If a job is already leaving then, judge sees to it that the job goes
// first once it is back.
func TestNoJobLeavesForNothing(t *testing.T) {
	for _, policy := range []string{"fairshare", "fitgpp", "rota"} {
		late, class := 0, "te"
		if policy == "fairshare" {
			class = "be"
		}
		for seed := uint64(1); seed <= uint64(schedtest.States(20_000))/300; seed++ {
			l := newLife(seed, policy, map[string]int{})
			l.faulty = false
			for range 30 {
				if err := l.step(); err != nil {
					t.Fatalf("policy %s, seed=%d: %v", policy, seed, err)
				}
				l.jobs++
				l.must("submit j%d class=%s gpus=1 cores=1 account=a%d", l.jobs, class, l.random.IntN(2))
				n, err := l.comesLate()
				if err != nil {
					t.Fatalf("policy %s, seed=%d: %v", policy, seed, err)
				}
				late += n
			}
		}
		if late < 5 {
			t.Errorf("policy %s: only %d stops came late", policy, late)
		}
	}
}

// comesLate decides, lets the beneficiaries go, commits, and returns how many were to leave.
func (l *life) comesLate() (late int, err error) {
	v := l.State.View()
	plan, _ := sched.Cycle(v, l.Now, v.Config().Policy)
	for _, a := range plan.Actions {
		taker := model.JobID(0)
		switch a := a.(type) {
		case *fsm.Reserve:
			if a.ForPreemptor {
				taker = a.Job // it may count on those that are to leave for others
			}
		case *fsm.StopJob:
			if a.Cause.Preempts() {
				taker = a.For
			}
		}
		if taker == 0 {
			continue
		}
		if j := l.State.View().Job(taker); j.Hold == model.NotHeld && !j.State.Final() {
			l.must("%s %s", [...]string{"hold", "cancel"}[l.random.IntN(2)], l.Names[j.ID])
		}
	}
	result, err := l.Apply(plan)
	if err != nil {
		return 0, err
	}
	for i, refused := range result.([]error) {
		if s, ok := plan.Actions[i].(*fsm.StopJob); ok && s.Cause.Preempts() {
			late++
			if !errors.Is(refused, model.ErrNotWanted) || l.State.View().Job(s.Job).Live().Stop != nil {
				return late, fmt.Errorf("%s leaves for %s, which is gone; refused was: %w", l.Names[s.Job], l.Names[s.For], refused)
			}
		}
	}
	return late, l.judge.state(observe(l))
}
