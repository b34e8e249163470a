package fairshare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestGlance proves that lines are the same whether groups are passed over by their fronts or
// looked at one by one.
func TestGlance(t *testing.T) {
	for _, policy := range []string{"rota", "standard", "fitgpp", "fairshare"} {
		passed := 0
		eachView(t, policy, func(v *state.View, now model.Instant) error {
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

// TestOrderOfGroups decides again on a state in which groups come in another order, because it was
// read from a snapshot. Replicas differ in that, and must not decide otherwise.
func TestOrderOfGroups(t *testing.T) {
	for _, policy := range []string{"rota", "standard", "fairshare"} {
		differ := 0
		eachView(t, policy, func(v *state.View, now model.Instant) error {
			other := reread(t, v)
			if fmt.Sprint(groupsOf(v)) == fmt.Sprint(groupsOf(other)) {
				return nil
			}
			differ++
			plan, _ := sched.Cycle(v, now, v.Config().Policy)
			again, _ := sched.Cycle(other, now, v.Config().Policy)
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

// eachView plays random histories, with limits and without, and looks at a state every now and
// then.
func eachView(t *testing.T, policy string, look func(*state.View, model.Instant) error) {
	const steps = 25
	for seed := range schedtest.Seeds(64, 8_000) {
		c := schedtest.NewContest(1+seed, policy, map[string]int{})
		q := newQuarrel(t, policy, 1+seed, 3, map[string]int{})
		for step := range steps {
			for range 4 {
				c.Step()
			}
			if step%2 == 0 && policy != "fitgpp" {
				q.arrive()
			}
			if err := errors.Join(look(c.State.View(), c.Now), look(q.State.View(), q.Now), c.Settle()); err != nil {
				t.Fatalf("policy %s seed %d step %d: %v", policy, 1+seed, step, err)
			}
			if step%2 == 0 && policy != "fitgpp" {
				q.settle()
			}
		}
	}
}

// reread returns a state as it is read from its snapshot.
func reread(t *testing.T, v *state.View) *state.View {
	var b bytes.Buffer
	if err := v.WriteSnapshot(&b); err != nil {
		t.Fatal(err)
	}
	s, err := fsm.ReadSnapshot(&b)
	if err != nil {
		t.Fatal(err)
	}
	return s.View()
}

// groupsOf lists the first jobs of the groups in their order.
func groupsOf(v *state.View) (list []model.JobID) {
	for g := range v.QueueGroups() {
		list = append(list, g.Head.Job)
	}
	return list
}

func planText(t *testing.T, plan fsm.CommitPlan) string {
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// linesOf writes down the lines that a cycle goes by, and when it would be woken, and counts the
// groups that were passed over.
func linesOf(v *state.View, now model.Instant, quick bool) (text string, passed int) {
	t := schedtest.Expired(v, now)
	f := schedtest.AccountsOn(t)
	f.JobOrder().FullScan = !quick
	if t.Policy.Name == "fairshare" {
		p := fairshare.NewPolicy(f)
		p.FormLine()
		text = orderOf(p.Open()) + orderOf(p.Heads()) + firstsOf(p.First(), nameOf)
	} else {
		o := f.JobOrder()
		if t.Policy.Name != "rota" {
			o = &queue.Order{State: t, FullScan: !quick}
		}
		l := queue.NewLine(o)
		for {
			if h := l.NextHead(); h != nil {
				text += fmt.Sprintf("head %d ", h.Job.ID)
				continue
			}
			if l.Empty() {
				break
			}
			text += fmt.Sprintf("%d ", l.Lead().Job.ID)
			l.Skip()
		}
		if o != f.JobOrder() {
			passed += o.Fronts
		}
	}
	starved := firstsOf(f.FirstsStarved(), nameOf)
	return fmt.Sprintf("%sstarved %swake at %d", text, starved, t.NextWake()), passed + f.JobOrder().Fronts
}

// orderOf writes down the order in which the jobs of a queue have their turns.
func orderOf(q *fairshare.LeafQueue) string {
	var text strings.Builder
	for c, leaf := q.Best(); c != nil; c, leaf = q.Best() {
		fmt.Fprintf(&text, "%d ", c.Job.ID)
		q.Pop(leaf)
	}
	return text.String() + "\n"
}

func firstsOf[K comparable](first queue.Firsts[K], name func(K) string) string {
	var list []string
	for k, f := range first {
		list = append(list, fmt.Sprintf("%s: %d", name(k), f.Job))
	}
	slices.Sort(list)
	return strings.Join(list, " ") + "\n"
}

func nameOf(n *drf.TreeNode) string { return n.Parent().Name + "/" + n.Name }
