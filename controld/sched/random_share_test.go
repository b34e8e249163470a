package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// stepShared does something at random where jobs share GPUs.
func (c *contest) stepShared() {
	if c.random.IntN(3) > 0 {
		c.step()
		return
	}
	for range 1 + c.random.IntN(4) {
		c.jobs++
		gang := ""
		if c.random.IntN(6) == 0 {
			gang = fmt.Sprintf(" gang=%dx1 per-node=%d", 2+c.random.IntN(2), 1+c.random.IntN(3))
		}
		options := fmt.Sprintf("class=%s cores=1 memory=1 grace=%ds account=a%d%s%s", [...]string{"te", "be", "be", "be"}[c.random.IntN(4)],
			1+c.random.IntN(600), c.random.IntN(2), [...]string{"", " save=yes"}[c.random.IntN(2)], gang)
		c.mustShare(fmt.Sprintf("j%d", c.jobs), 1+c.random.IntN(999), options)
	}
}

// mustShare submits a job of whose GPU it gets a part, whatever else is said of it.
func (c *contest) mustShare(name string, share int, options string) {
	_, rest := split(append([]string{name}, strings.Fields(options)...))
	spec, err := c.makeJob(name, rest)
	if err == nil {
		r := &spec.Groups[0].Tasks[0].Resources
		r.GPUs, r.GPU = 1, &jobspec.GPU{Share: share}
		err = c.add(name, spec)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
}

// brokenShares are histories in which a rule was broken once: more was promised of a node than would be free there, a promise was made and given up for
// ever, and two who were promised a node waited for each other.
var brokenShares = map[string][]uint64{"rota": {516, 977, 1490, 4977}}

// TestSharedContests plays random histories of jobs that share GPUs. Whatever is planned the state takes, nothing is
// promised twice, and what could start does.
func TestSharedContests(t *testing.T) {
	const steps = 25
	for _, policy := range []string{"standard", "rota", "fairshare", "backfill", "easy", "fitgpp", "rand"} {
		t.Run(policy, func(t *testing.T) {
			seen := map[string]int{}
			n := states(1_000) / steps
			if policy == "rota" {
				n *= 5
			}
			seeds := slices.Clone(brokenShares[policy])
			for seed := range uint64(n) {
				seeds = append(seeds, seed+1)
			}
			if *seedFlag != 0 {
				seeds = []uint64{*seedFlag}
			}
			for _, seed := range seeds {
				c := newContest(seed, policy, seen)
				for step := range steps {
					c.stepShared()
					if err := c.settle(); err != nil {
						t.Fatalf("seed=%d step %d: %v", seed, step, err)
					}
					seen["shared"] += shared(c.state.View().Grid())
				}
			}
			t.Logf("%v", seen)
			if *seedFlag == 0 && seen["shared"] < n {
				t.Errorf("GPUs were shared too seldom: %v", seen)
			}
		})
	}
}

// shared counts the nodes with GPUs that somebody shares.
func shared(g *cluster.Grid) int {
	n := 0
	for i := range g.Len() {
		if g.Shared(i) != 0 {
			n++
		}
	}
	return n
}

// frees reports whether a gang fits on the nodes of a set when all have left that are asked to.
func frees(m *maker, set *victimSet, g *fit.Gang) bool {
	_, ok := m.freed(set, g)
	return ok
}

// TestEvictionHolds: whoever is asked to leave for a job frees a place for it, GPU by GPU, and where nobody is asked for it no one victim would
// have been enough.
func TestEvictionHolds(t *testing.T) {
	found, none := 0, 0
	first, last := uint64(1), uint64(states(1_000))
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		c := newContest(seed, "rota", map[string]int{})
		for k := range 4 + c.random.IntN(8) {
			c.mustShare(fmt.Sprintf("v%d", k), 100+c.random.IntN(899), fmt.Sprintf("cores=%d memory=%d grace=%ds", 1+c.random.IntN(3), 1+c.random.IntN(4), 1+c.random.IntN(600)))
		}
		c.must("submit w gpus=%d cores=1 memory=1", 1+c.random.IntN(2))
		c.must("cycle")
		c.must("advance 1h")
		if seed%2 == 0 {
			c.must("submit x class=te gpus=%d cores=%d memory=%d", 1+c.random.IntN(3), 1+c.random.IntN(6), 1+c.random.IntN(8))
		} else {
			c.mustShare("x", 100+c.random.IntN(899), fmt.Sprintf("class=te cores=%d memory=%d", 1+c.random.IntN(6), 1+c.random.IntN(8)))
		}
		v := c.state.View()
		m := makerOn(trialOf(v, c.now))
		m.all()
		g := m.gang(v.Job(c.ids["x"]))
		m.room.WaiveSoft()
		set := m.evict(&g, 0)
		if set != nil {
			if found++; !frees(m, set, &g) {
				t.Fatalf("seed=%d: %v leave node %d for %+v, which does not fit there then", seed, set.victims, set.claims[0].Node, g.Request)
			}
			continue
		}
		none++
		for i := range m.roster.victims {
			one := &victimSet{victims: []int32{int32(i)}}
			for n := range v.Nodes() {
				one.claims = append(one.claims, cluster.NodeRoom{Node: n, Room: g.Request})
			}
			if frees(m, one, &g) {
				t.Fatalf("seed=%d: nobody is found to leave for %+v, but %d alone would do", seed, g.Request, i)
			}
		}
	}
	if *seedFlag == 0 && (found < int(last)/4 || none == 0) {
		t.Errorf("%d sets found and %d times none: that proves too little", found, none)
	}
}
