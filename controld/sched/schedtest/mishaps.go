package schedtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// mishaps break and mend nodes and their GPUs while histories go on. They have a source of chance
// of their own, so that a history with them is the one without, as far as it can be.
type mishaps struct {
	*World
	random *rand.Rand
	seen   map[string]int
}

func newMishaps(w *World, seed uint64, seen map[string]int) *mishaps {
	return &mishaps{World: w, random: rand.New(rand.NewPCG(seed, 17)), seen: seen}
}

// perhaps lets something break or be mended, at every third step. Jobs on a rebooted node are lost
// at once; jobs on a node that is down are lost when its lease is over.
func (m *mishaps) perhaps() error {
	if m.random.IntN(3) > 0 {
		return nil
	}
	nodes := m.State.View().Nodes()
	n := nodes[m.random.IntN(len(nodes))]
	if n.State != model.NodeUp && m.random.IntN(2) == 0 {
		return m.note("up", m.setNode("up", []string{n.Name}))
	}
	switch m.random.IntN(8) {
	case 0:
		return m.note("down", m.setNode("down", []string{n.Name}))
	case 1:
		return m.note("drained", m.setNode("drain", []string{n.Name}))
	case 2:
		again := *n
		again.BootID = fmt.Sprintf("%s-boot-%d", n.Name, m.Index)
		return m.note("booted", m.register(again))
	case 3, 4, 5:
		return m.gpus(n, true)
	}
	return m.gpus(n, false)
}

// gpus breaks one of a node's GPUs, or mends all of them.
func (m *mishaps) gpus(n *model.Node, broken bool) error {
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
		if slices.ContainsFunc(m.State.View().JobsOnNode(nil, m.at(n)), func(id model.JobID) bool { return true }) {
			what = "GPU of a busy node broken"
		}
	}
	return m.note(what, m.register(next))
}

func (m *mishaps) at(n *model.Node) int {
	_, at := m.State.View().Node(n.Name)
	return at
}

func (m *mishaps) register(n model.Node) error {
	_, err := m.Apply(fsm.RegisterNode{Node: n})
	return err
}

func (m *mishaps) note(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	m.seen[what]++
	return nil
}

// PlayMishaps plays random histories, each with its world and what its next step is, with mishaps
// between the steps.
func PlayMishaps(t *testing.T, history func(seed uint64, seen map[string]int) (*World, func() error)) {
	const steps = 25
	seen := map[string]int{}
	first, last := uint64(1), uint64(States(1_000)/steps)
	if *Seed != 0 {
		first, last = *Seed, *Seed
	}
	for seed := first; seed <= last; seed++ {
		w, step := history(seed, seen)
		m := newMishaps(w, seed, seen)
		for n := range steps {
			if err := errors.Join(m.perhaps(), step()); err != nil {
				t.Fatalf("seed=%d step %d: %v", seed, n, err)
			}
		}
	}
	t.Logf("%v", seen)
	for _, what := range []string{"up", "down", "drained", "booted", "GPU of a busy node broken", "GPUs mended"} {
		if *Seed == 0 && seen[what] == 0 {
			t.Errorf("no node was hit by %q: %v", what, seen)
		}
	}
}
