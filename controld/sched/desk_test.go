package sched

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// TestDesk plays random histories with one desk for each, and has every decision made on a new one as well: the plans must be the same, also when
// the desk is used with what a state shows in passing. What of the desk's memory was of use is counted, or the test would prove nothing.
func TestDesk(t *testing.T) {
	for _, policy := range []string{"rota", "fairshare", "fitgpp", "elastic", "standard"} {
		t.Run(policy, func(t *testing.T) {
			repeated, due := 0, 0
			for seed := range uint64(states(1_500) / 30) {
				l := newLife(1+seed, policy, map[string]int{})
				desk := &Desk{}
				l.decide = func(v *cluster.View, now cluster.Instant, p cluster.Policy) (cluster.CommitPlan, cluster.Instant) {
					if l.random.IntN(2) == 0 {
						v = l.state.Present()
					}
					plan, wake := desk.Cycle(v, now, p)
					if desk.candidates.unused == 0 && desk.candidates.last != nil {
						repeated += desk.candidates.last.repeated
					}
					due += len(desk.due.is)
					want, wakeWant := Cycle(v, now, p)
					if !reflect.DeepEqual(plan, want) || wake != wakeWant {
						t.Fatalf("policy %s seed %d: %s, wake at %d, and on a new desk %s, wake at %d", policy, 1+seed, l.told(plan), wake, l.told(want), wakeWant)
					}
					return plan, wake
				}
				for step := range 30 {
					if step%10 == 9 { // ids are used up, so that attempts are on several pages
						l.must("submit x%d array=0-299 gpus=64", step)
						l.must("cancel x%d", step)
					}
					if err := l.step(); err != nil {
						t.Fatalf("seed %d step %d: %v", 1+seed, step, err)
					}
				}
			}
			if displaces := policy == "rota" || policy == "fitgpp"; due < 1000 || displaces && repeated < 50 {
				t.Errorf("%d pages were looked at for what is due, and victims of %d taken over", due, repeated)
			}
		})
	}
}

// TestHeadroomCount compares which nodes would take the jobs to come, found by their empty GPUs, with what is found by asking every node.
func TestHeadroomCount(t *testing.T) {
	counted := 0
	for seed := range uint64(states(3_000) / 25) {
		c := newContest(1+seed, "rota", map[string]int{})
		for range 12 {
			c.must("node m%02d gpus=%d cores=%d memory=%d", c.random.IntN(40), 2+c.random.IntN(7), 8+c.random.IntN(8), 8+c.random.IntN(24))
		}
		for step := range 25 {
			for range 4 {
				c.step()
			}
			v := c.state.View()
			tr := trialOf(v, c.now)
			h := newHeadroom(tr, &headroomCache{})
			if h == nil {
				continue
			}
			h.soon.want = max(1, h.soon.want)
			h.countAll()
			for node := range v.Nodes() {
				for _, o := range []*outlook{&h.now, &h.soon} {
					if want := o.takes(tr.room, node, cluster.Request{}, o.all()); o.on[node] != want {
						t.Fatalf("seed %d step %d: node %d would take %b, said to take %b", 1+seed, step, node, want, o.on[node])
					}
				}
			}
			counted++
		}
	}
	if counted < 100 {
		t.Errorf("room was counted %d times: too seldom to prove anything", counted)
	}
}

// TestShutNodes proves that a node which is passed over by its GPUs alone would have offered nothing.
func TestShutNodes(t *testing.T) {
	passed := 0
	for seed := range uint64(states(2_000) / 25) {
		c := newContest(1+seed, "rota", map[string]int{})
		for step := range 25 {
			c.step()
			v := c.state.View()
			tr := trialOf(v, c.now)
			m := makerOn(tr)
			r := m.all()
			for j := range v.Jobs() {
				if !j.Waits() {
					continue
				}
				g := fit.NewGang(v, j)
				s := newSearch(tr, r, &g, 0)
				bound := int64(c.random.IntN(8)) * one
				for node := range v.Nodes() {
					if !s.shut(node, &g.Part) || s.leastOn(node, bound) != bound || tr.room.Whole(node) {
						continue
					}
					passed++
					if o, offers := s.offer(&g.Part, node, bound); offers {
						t.Fatalf("seed %d step %d: node %d offers %s", 1+seed, step, node, fmt.Sprint(o))
					}
				}
			}
		}
	}
	if passed < 1000 {
		t.Errorf("%d nodes were passed over: too few to prove anything", passed)
	}
}
