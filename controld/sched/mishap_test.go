package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
)

// mishaps break and mend nodes and their GPUs while histories go on. They have a source of chance of their own, so that a history with them is the
// one without, as far as it can be.
type mishaps struct {
	*world
	random *rand.Rand
	seen   map[string]int
}

func newMishaps(w *world, seed uint64, seen map[string]int) *mishaps {
	return &mishaps{world: w, random: rand.New(rand.NewPCG(seed, 17)), seen: seen}
}

// perhaps lets something break or be mended, at every third step. What ran on a node that is booted anew is lost at once; on one that is down when its
// lease is over.
func (m *mishaps) perhaps() error {
	if m.random.IntN(3) > 0 {
		return nil
	}
	nodes := m.state.View().Nodes()
	n := nodes[m.random.IntN(len(nodes))]
	if n.State != cluster.NodeUp && m.random.IntN(2) == 0 {
		return m.note("up", m.setNode("up", []string{n.Name}))
	}
	switch m.random.IntN(8) {
	case 0:
		return m.note("down", m.setNode("down", []string{n.Name}))
	case 1:
		return m.note("drained", m.setNode("drain", []string{n.Name}))
	case 2:
		again := *n
		again.BootID = fmt.Sprintf("%s-boot-%d", n.Name, m.index)
		return m.note("booted", m.register(again))
	case 3, 4, 5:
		return m.gpus(n, true)
	}
	return m.gpus(n, false)
}

// gpus breaks one of a node's GPUs, or mends all of them.
func (m *mishaps) gpus(n *cluster.Node, broken bool) error {
	if len(n.GPUs) == 0 {
		return nil
	}
	next, what := *n, "GPUs mended"
	next.GPUs = slices.Clone(n.GPUs)
	for i := range next.GPUs {
		next.GPUs[i].Healthy, next.GPUs[i].Problem = next.GPUs[i].Healthy || !broken, ""
	}
	if g := &next.GPUs[m.random.IntN(len(next.GPUs))]; broken {
		g.Healthy, g.Problem, what = false, "it fell off the bus", "GPU broken"
		if slices.ContainsFunc(m.state.View().Running(nil, m.at(n)), func(id cluster.JobID) bool { return true }) {
			what = "GPU of a busy node broken"
		}
	}
	return m.note(what, m.register(next))
}

func (m *mishaps) at(n *cluster.Node) int {
	_, at := m.state.View().Node(n.Name)
	return at
}

func (m *mishaps) register(n cluster.Node) error {
	_, err := m.apply(cluster.RegisterNode{Node: n})
	return err
}

func (m *mishaps) note(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	m.seen[what]++
	return nil
}

// TestMishaps plays the random histories of all kinds while GPUs break, and nodes go down, are drained and are booted anew. What must hold does so all
// the same: whatever is planned the state takes, it comes to rest, rules are kept, and nobody waits who could start.
func TestMishaps(t *testing.T) {
	const steps = 25
	histories := map[string]func(seed uint64, policy string, seen map[string]int) (*world, func() error){
		"life": func(seed uint64, policy string, seen map[string]int) (*world, func() error) {
			l := newLife(seed, policy, seen)
			l.faulty = true
			return l.world, func() error {
				l.judge.integrate(observe(l)) // who was lost holds nothing from now on
				return l.step()
			}
		},
		"contest": func(seed uint64, policy string, seen map[string]int) (*world, func() error) {
			c := newContest(seed, policy, seen)
			c.faulty = true
			return c.world, func() error { c.step(); return c.settle() }
		},
		"sharing": func(seed uint64, policy string, seen map[string]int) (*world, func() error) {
			c := newContest(seed, policy, seen)
			c.faulty = true
			return c.world, func() error { c.stepShared(); return c.settle() }
		},
		"stretched": func(seed uint64, policy string, seen map[string]int) (*world, func() error) {
			s := newStretched(seed, policy, seen)
			return s.world, func() error { s.step(); return s.settle() }
		},
		"quarrel": func(seed uint64, policy string, seen map[string]int) (*world, func() error) {
			q := newQuarrel(t, policy, seed, 17, seen)
			return q.world, q.next
		},
	}
	for kind, policies := range map[string][]string{
		"life": {"standard", "fairshare", "fitgpp", "rota", "elastic"}, "contest": {"rota", "fitgpp", "rand"}, "quarrel": {"fairshare", "rota"},
		"sharing": {"standard", "rota", "fairshare", "backfill", "easy"}, "stretched": {"elastic", "dragon", "static", "rota"},
	} {
		for _, policy := range policies {
			t.Run(kind+" "+policy, func(t *testing.T) {
				seen := map[string]int{}
				first, last := uint64(1), uint64(states(1_000)/steps)
				if *seedFlag != 0 {
					first, last = *seedFlag, *seedFlag
				}
				for seed := first; seed <= last; seed++ {
					w, step := histories[kind](seed, policy, seen)
					m := newMishaps(w, seed, seen)
					for n := range steps {
						if err := errors.Join(m.perhaps(), step()); err != nil {
							t.Fatalf("seed=%d step %d: %v", seed, n, err)
						}
					}
				}
				t.Logf("%v", seen)
				for _, what := range []string{"up", "down", "drained", "booted", "GPU of a busy node broken", "GPUs mended"} {
					if *seedFlag == 0 && seen[what] == 0 {
						t.Errorf("no node was hit by %q: %v", what, seen)
					}
				}
			})
		}
	}
}
