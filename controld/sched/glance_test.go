package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// TestGlance proves that lines are the same whether groups are passed over by their fronts or looked at one by one.
func TestGlance(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"rota", "standard", "fitgpp", "fairshare"} {
		passed := 0
		for seed := range uint64(states(4_000) / steps) {
			c := newContest(1+seed, policy, map[string]int{})
			for step := range steps {
				for range 4 {
					c.step()
				}
				v := c.state.View()
				quick, n := linesOf(v, c.now, true)
				if slow, _ := linesOf(v, c.now, false); quick != slow {
					t.Fatalf("policy %s seed %d step %d: the lines are\n%s\nand by looking at every group\n%s", policy, 1+seed, step, quick, slow)
				}
				passed += n
				if err := c.settle(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if passed < 100 {
			t.Errorf("policy %s: only %d groups were passed over", policy, passed)
		}
	}
}

// linesOf writes down the lines that a cycle goes by, and when it would be woken, and counts the groups that were passed over.
func linesOf(v *cluster.View, now cluster.Instant, quick bool) (text string, passed int) {
	t := newTrial(v, now, v.Config().Policy)
	expire(t)
	t.byService = t.policy.Name == "rota"
	look := func(q *glance, line func(*glance)) {
		if !quick || q == nil {
			line(nil)
			return
		}
		line(q)
		passed += q.passed
	}
	f := t.accounts()
	if t.policy.Name == "fairshare" {
		look(f.glance(&f.seen, f.first), f.line)
		text = orderOf(f.open) + orderOf(f.heads) + firstsOf(f.first, nameOf)
	} else {
		l := newLine()
		look(l.glance(t), func(q *glance) { l.form(t, q) })
		for _, list := range []contenders{l.open, l.heads} {
			for _, c := range list {
				text += fmt.Sprintf("%d ", c.job.ID)
			}
			text += "\n"
		}
		text += firstsOf(l.first, func(account string) string { return account })
	}
	starved := foremosts[*shares.Node]{}
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

func firstsOf[K comparable](first foremosts[K], name func(K) string) string {
	var list []string
	for k, f := range first {
		if f.job != nil {
			list = append(list, fmt.Sprintf("%s: %d", name(k), f.job.ID))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ") + "\n"
}

func nameOf(n *shares.Node) string { return n.Parent().Name + "/" + n.Name }
