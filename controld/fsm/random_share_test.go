package fsm

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// divideGPUs lets most jobs of a submission ask for a part of a GPU, now and then for one that
// there is not.
func (c *chaos) divideGPUs(cmd SubmitJobs) Command {
	for _, spec := range cmd.Jobs {
		r := &spec.Groups[0].Tasks[0].Resources
		if r.Cores = 1 + c.IntN(2); c.one(4) {
			continue
		}
		r.GPUs, r.GPU = 1, &jobspec.GPU{Share: 1 + c.IntN(999)}
		if c.one(40) {
			r.GPU.Share = 1000 + c.IntN(3)
		}
	}
	return cmd
}

// sharedPlace is a place on a GPU of a node that others share if there is one, or on any.
func (c *chaos) sharedPlace(p model.Place, at int, share int64) model.Place {
	g := c.s.v.Grid()
	if n := g.BestFitGPU(at, share); n >= 0 && !c.one(4) {
		p.GPUs = []int{n}
		return p
	}
	if shared := g.SharedGPUs(at); shared != 0 && c.one(2) {
		p.GPUs = []int{bits.TrailingZeros64(shared)}
	} else {
		p.GPUs = []int{c.IntN(9)}
	}
	return p
}

// TestRandomShares is TestRandomHistories with most jobs sharing GPUs, while nodes break, leave and
// come back.
func TestRandomShares(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 11)), s: New(cluster.DefaultConfig()), at: 1, seen: seen, sharing: true}
		twin, audit := New(cluster.DefaultConfig()), audited(t, c.s)
		var held []heldView
		for i := uint64(1); i <= 4000; i++ {
			e := c.next()
			_, err := c.s.Apply(i, e)
			if bad := c.broken(audit, i); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			c.noticeShares()
			if c.one(9) {
				v := c.s.View()
				held = append(held, heldView{v, say(t, v)})
			}
			if len(held) > 30 {
				checkHeld(t, seed, held)
				held = held[:0]
			}
		}
	}
	for _, what := range []string{"one", "two", "three", "broken", "beside a whole one"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no GPU was ever %s: %v", what, seen)
		}
	}
}

// noticeShares remembers how GPUs are shared.
func (c *chaos) noticeShares() {
	for i, n := range c.s.v.Nodes() {
		var sharers [model.MaxGPUsPerNode]int
		whole := false
		for _, w := range c.s.v.HeldOn(i) {
			j := c.s.v.Job(w.Job)
			if w.Worker >= j.Workers {
				continue // room for one that joins later
			}
			gpus := j.Live().Workers[w.Worker].GPUs
			if r := j.RequestOf(w.Worker); r.Share() == 0 {
				whole = whole || len(gpus) > 0
				continue
			}
			sharers[gpus[0]]++
		}
		for g, k := range sharers {
			if k == 0 {
				continue
			}
			c.seen[[]string{"", "one", "two", "three"}[min(k, 3)]]++
			if !n.GPUs[g].Healthy {
				c.seen["broken"]++
			}
			if whole {
				c.seen["beside a whole one"]++
			}
		}
	}
}

// A log of jobs with shares is replayed to the same state, whatever the order of what is derived
// from it.
func TestSharesSurviveNodes(t *testing.T) {
	w := newWorld(t)
	w.node("n2", 1)
	a := w.submitPart(1, 250)
	w.ok(w.put(a, "n2", 0))
	for _, name := range []string{"n1", "n3", "n0"} { // before and behind it, with more GPUs than any so far
		w.node(name, 2+len(name)*len(w.log)%7)
	}
	b := w.submitPart(1, 750)
	w.ok(w.put(b, "n2", 0))
	w.restored()
	_, at := w.s.v.Node("n2")
	if g := w.s.v.Grid(); g.FreeShare(at, 0) != 0 || fmt.Sprint(g.LentOn(at)) != "[1000]" {
		t.Fatalf("left %d, lent %v", g.FreeShare(at, 0), g.LentOn(at))
	}
}
