package sched

import (
	"bytes"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// TestGlance proves that lines are the same whether groups are passed over by their fronts or looked at one by one.
func TestGlance(t *testing.T) {
	for _, policy := range []string{"rota", "standard", "fitgpp", "fairshare"} {
		passed := 0
		eachView(t, policy, func(v *cluster.View, now cluster.Instant) error {
			quick, n := linesOf(v, now, true)
			passed += n
			if slow, _ := linesOf(v, now, false); quick != slow {
				return fmt.Errorf("the lines are\n%s\nand by looking at every group\n%s", quick, slow)
			}
			return nil
		})
		if passed < 100 {
			t.Errorf("policy %s: only %d groups were passed over", policy, passed)
		}
	}
}

// TestOrderOfGroups decides again on a state in which groups come in another order, because it was read from a snapshot. Replicas differ in that,
// and must not decide otherwise.
func TestOrderOfGroups(t *testing.T) {
	for _, policy := range []string{"rota", "standard", "fairshare"} {
		differ := 0
		eachView(t, policy, func(v *cluster.View, now cluster.Instant) error {
			other := reread(t, v)
			if fmt.Sprint(groupsOf(v)) == fmt.Sprint(groupsOf(other)) {
				return nil
			}
			differ++
			plan, _ := Cycle(v, now, v.Config().Policy)
			again, _ := Cycle(other, now, v.Config().Policy)
			if a, b := planText(t, plan), planText(t, again); a != b {
				return fmt.Errorf("the plan is\n%s\nand with groups in another order\n%s", a, b)
			}
			return nil
		})
		if differ < 100 {
			t.Errorf("policy %s: only %d states had their groups in another order", policy, differ)
		}
	}
}

// eachView plays random histories, with limits and without, and looks at a state every now and then.
func eachView(t *testing.T, policy string, look func(*cluster.View, cluster.Instant) error) {
	const steps = 25
	for seed := range uint64(states(4_000) / steps) {
		c := newContest(1+seed, policy, map[string]int{})
		q := newQuarrel(t, policy, 1+seed, 3, map[string]int{})
		for step := range steps {
			for range 4 {
				c.step()
			}
			if step%2 == 0 && policy != "fitgpp" {
				q.arrive()
			}
			if err := errors.Join(look(c.state.View(), c.now), look(q.state.View(), q.now), c.settle()); err != nil {
				t.Fatalf("policy %s seed %d step %d: %v", policy, 1+seed, step, err)
			}
			if step%2 == 0 && policy != "fitgpp" {
				q.settle()
			}
		}
	}
}

// reread returns a state as it is read from its snapshot.
func reread(t *testing.T, v *cluster.View) *cluster.View {
	var b bytes.Buffer
	if err := v.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	s, err := cluster.ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	return s.View()
}

// groupsOf lists the first jobs of the groups in their order.
func groupsOf(v *cluster.View) (list []cluster.JobID) {
	for g := range v.Groups() {
		list = append(list, g.Front.Job)
	}
	return list
}

func planText(t *testing.T, plan cluster.CommitPlan) string {
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// linesOf writes down the lines that a cycle goes by, and when it would be woken, and counts the groups that were passed over.
func linesOf(v *cluster.View, now cluster.Instant, quick bool) (text string, passed int) {
	t := expired(v, now)
	look := func(q *glance, line func(*glance)) {
		if !quick {
			line(nil)
			return
		}
		line(q)
		passed += q.passed
	}
	f := accountsOn(t)
	if t.policy.Name == "fairshare" {
		look(f.glance(&f.seen, f.first), f.line)
		text = orderOf(f.open) + orderOf(f.heads) + firstsOf(f.first, nameOf)
	} else {
		o := &jobOrder{trial: t}
		if t.policy.Name == "rota" {
			o = f.jobOrder
		}
		l := emptyLine(o)
		look(l.glance(), l.form)
		for _, list := range []contenders{l.open, l.heads} {
			for len(list) > 0 {
				text += fmt.Sprintf("%d ", heap.Pop(&list).(*contender).job.ID)
			}
			text += "\n"
		}
		text += firstsOf(l.first, func(account string) string { return account })
	}
	starved := firsts[*shares.Node]{}
	look(f.glance(nil, starved), func(q *glance) { f.firstsStarved(starved, q) })
	return fmt.Sprintf("%sstarved %swake at %d", text, firstsOf(starved, nameOf), t.wake), passed
}

// orderOf writes down the order in which the jobs of a queue have their turns.
func orderOf(q *queue) string {
	var text strings.Builder
	for c, leaf := q.best(); c != nil; c, leaf = q.best() {
		fmt.Fprintf(&text, "%d ", c.job.ID)
		q.pop(leaf)
	}
	return text.String() + "\n"
}

func firstsOf[K comparable](first firsts[K], name func(K) string) string {
	var list []string
	for k, f := range first {
		list = append(list, fmt.Sprintf("%s: %d", name(k), f.job))
	}
	slices.Sort(list)
	return strings.Join(list, " ") + "\n"
}

func nameOf(n *shares.Node) string { return n.Parent().Name + "/" + n.Name }
