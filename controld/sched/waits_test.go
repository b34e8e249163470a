package sched

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// TestWaitsAreBounded is A9: the first waiting job of an account, as long as the account would hold no more with it than it deserves, starts
// at the latest after the time after which its room is kept and the longest time for which somebody may hold that.
func TestWaitsAreBounded(t *testing.T) {
	const limit, grace = 30, 60 // minutes, seconds
	waited, reclaimed := 0, 0
	for seed := uint64(1); seed <= uint64(states(20_000))/100; seed++ {
		if *seedFlag != 0 && seed != *seedFlag {
			continue
		}
		seen := map[string]int{}
		l := newLife(seed, "fairshare", seen)
		l.world, l.faulty, l.prompt = newWorld(), false, true
		l.unchecked = true
		after := 1 + l.random.IntN(20)
		l.must("policy name=fairshare min-runtime=%ds reserve-after=%dm reserve-hold=10h max-bypass=1000", 30+l.random.IntN(600), after)
		for i := range 2 {
			l.must("node n%d gpus=4 cores=32 memory=64", i)
		}
		for i, d := range []int{2, 4, 2} {
			l.must("account a%d deserved=%d", i, d)
		}
		since := map[cluster.JobID]cluster.Instant{}
		bound := cluster.Instant(after*60+limit*60+grace) * 1000
		busy := 0
		for range 60 {
			if l.random.IntN(6) == 0 {
				busy = l.random.IntN(3)
			}
			for range l.random.IntN(4) {
				l.jobs++
				class := "be"
				if l.random.IntN(6) == 0 {
					class = "te"
				}
				l.must("submit j%d class=%s gang=%dx%d per-node=2 grace=%ds limit=%dm account=a%d", l.jobs, class, 1+l.random.IntN(2), 1+l.random.IntN(2),
					1+l.random.IntN(grace), 1+l.random.IntN(limit), busy)
			}
			if err := l.settle(); err != nil {
				t.Fatalf("seed=%d: %v", seed, err)
			}
			if err := l.pass(cluster.Instant(1000 * (1 + l.random.Int64N(600)))); err != nil {
				t.Fatalf("seed=%d: %v", seed, err)
			}
			if err := l.waits(since, bound, map[string]int64{"a0": 2000, "a1": 4000, "a2": 2000}); err != nil {
				if *seedFlag != 0 {
					t.Log(strings.Join(l.trail, "\n"))
				}
				t.Fatalf("seed=%d: %v", seed, err)
			}
		}
		waited += seen["waits"]
		reclaimed += seen["reclaim"]
	}
	if *seedFlag == 0 && (waited < 100 || reclaimed < 100) {
		t.Errorf("only %d jobs waited within what they deserve, %d were asked to leave", waited, reclaimed)
	}
}

// waits notes since when the head of each account has waited within what its account deserves, and reports one that has for too long.
func (l *life) waits(since map[cluster.JobID]cluster.Instant, bound cluster.Instant, deserved map[string]int64) error {
	v := l.state.View()
	held := map[string]int64{}
	for j := range v.Live() {
		held[j.Account] += j.Width()
	}
	head := map[string]*cluster.Job{}
	for j := range v.Jobs() {
		if j.Waits() && (head[j.Account] == nil || compare(j, head[j.Account]) < 0) {
			head[j.Account] = j
		}
	}
	for id := range since {
		if j := v.Job(id); head[j.Account] != j {
			delete(since, id) // it has started, or another one has come before it
		}
	}
	for account, j := range head {
		if held[account]+j.Width() > deserved[account] {
			delete(since, j.ID)
			continue
		}
		if _, known := since[j.ID]; !known {
			since[j.ID] = l.now
			l.seen["waits"]++
		}
		if waited := l.now - since[j.ID]; waited > bound {
			return fmt.Errorf("A9: %s of %s, which deserves %d and holds %d, has waited for %d ms, more than %d", l.names[j.ID], account,
				deserved[account], held[account], waited, bound)
		}
	}
	return nil
}

// TestDeclaredGraceMovesNobody is A11: two histories that differ in what jobs declare as their grace alone are the same until somebody has to
// leave, and then it is for the same jobs. Progress and metrics the cycle cannot know: they are not in the state.
func TestDeclaredGraceMovesNobody(t *testing.T) {
	for _, policy := range []string{"standard", "fairshare", "fitgpp", "rota"} {
		same := 0
		for seed := uint64(1); seed <= uint64(states(20_000))/150; seed++ {
			a, b := plansOf(seed, policy, 1), plansOf(seed, policy, 7)
			for i := range max(len(a), len(b)) {
				if policy == "fairshare" && (strings.HasPrefix(at(a, i), "[") || strings.HasPrefix(at(b, i), "[")) {
					break // whom it tries first depends on what he costs, and sometimes so does whether it finds enough of them
				}
				if i >= len(a) || i >= len(b) || a[i] != b[i] {
					t.Fatalf("policy %s, seed=%d, plan %d:\n%s\nand with longer graces\n%s", policy, seed, i, at(a, i), at(b, i))
				}
				same++
			}
		}
		if same < 500 {
			t.Errorf("policy %s: only %d plans were compared", policy, same)
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// plansOf plays a history whose graces are so many times as long, and returns its plans up to the first that displaces somebody, of that one
// for whom.
func plansOf(seed uint64, policy string, times int) (plans []string) {
	l := newLife(seed, policy, map[string]int{})
	l.calm, l.rigid, l.graceTimes, l.faulty = true, true, times, false // what an elastic job grows by depends on its own grace
	over := false
	l.planned = func(plan cluster.CommitPlan) {
		if over {
			return
		}
		var takers []string
		for _, a := range plan.Actions {
			if a.Stop != nil && displacing(a.Stop.Cause) {
				takers = append(takers, fmt.Sprintf("%s for %s", a.Stop.Cause, l.names[a.Stop.For]))
			}
		}
		if takers != nil {
			slices.Sort(takers)
			over = true
			plans = append(plans, fmt.Sprint(slices.Compact(takers)))
			return
		}
		plans = append(plans, fmt.Sprint(l.now, l.told(plan)))
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

// TestNobodyIsSparedByWhatHeDeclares is A11 of those who run: once it is known how long jobs take to leave, declaring more is of no use.
func TestNobodyIsSparedByWhatHeDeclares(t *testing.T) {
	leaves := func(known int, declared string) string {
		w := newWorld()
		run := func(lines ...string) {
			for _, line := range lines {
				if err := w.run(line); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
		}
		run("policy name=rota p=100 min-runtime=1s", "node n1 gpus=1", "node n2 gpus=1")
		for i := range known { // each takes a second to leave
			run(fmt.Sprintf("submit v%d gpus=1 save=yes grace=10m account=x", i), fmt.Sprintf("submit w%d gpus=1 save=yes grace=10m account=y", i), "cycle",
				fmt.Sprintf("run v%d w%d", i, i), "advance 1h", fmt.Sprintf("submit t%d gpus=1 class=te", i), "cycle", "advance 1s")
			for j := range w.state.View().Live() {
				if j.Live().Stop != nil {
					run("exit code=85 " + w.names[j.ID])
				}
			}
			run("cycle", fmt.Sprintf("run t%d", i), fmt.Sprintf("exit t%d", i), fmt.Sprintf("cancel v%d w%d", i, i))
			for j := range w.state.View().Live() {
				run("exit " + w.names[j.ID])
			}
		}
		w.out.Reset()
		run("submit a gpus=1 save=yes account=x grace="+declared, "submit b gpus=1 save=yes account=y grace=10m", "cycle", "run a b", "advance 1h", "submit x gpus=1 class=te")
		v := w.state.View()
		plan, _ := Cycle(v, w.now, v.Config().Policy)
		for _, a := range plan.Actions {
			if a.Stop != nil {
				return w.names[a.Stop.Job]
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

// TestNobodyLeavesForNobody is A12: a plan that comes too late, because the job does not wait any more for which others were to leave, disturbs
// nobody; and who is leaving already when that happens goes first once he is back, which judge sees to.
func TestNobodyLeavesForNobody(t *testing.T) {
	for _, policy := range []string{"fairshare", "fitgpp", "rota"} {
		late, class := 0, "te"
		if policy == "fairshare" {
			class = "be"
		}
		for seed := uint64(1); seed <= uint64(states(20_000))/300; seed++ {
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
	v := l.state.View()
	plan, _ := Cycle(v, l.now, v.Config().Policy)
	for _, a := range plan.Actions {
		taker := cluster.JobID(0)
		switch {
		case a.Reserve != nil && a.Reserve.Firm:
			taker = a.Reserve.Job // it may count on those who are to leave for others
		case a.Stop != nil && displacing(a.Stop.Cause):
			taker = a.Stop.For
		default:
			continue
		}
		if j := l.state.View().Job(taker); j.Hold == cluster.NotHeld && !j.State.Final() {
			l.must("%s %s", [...]string{"hold", "cancel"}[l.random.IntN(2)], l.names[j.ID])
		}
	}
	result, err := l.apply(plan)
	if err != nil {
		return 0, err
	}
	for i, refused := range result.([]error) {
		if s := plan.Actions[i].Stop; s != nil && displacing(s.Cause) {
			late++
			if !errors.Is(refused, cluster.ErrNotWanted) || l.state.View().Job(s.Job).Live().Stop != nil {
				return late, fmt.Errorf("%s leaves for %s, which is gone; refused was: %w", l.names[s.Job], l.names[s.For], refused)
			}
		}
	}
	return late, l.judge.state(observe(l))
}
