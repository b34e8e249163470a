package fsm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// migrate has some workers of a job go on at other places, most of the time at free ones.
func (c *chaos) migrate() Action {
	id := c.job()
	j := c.s.v.Job(id)
	if j == nil || j.Live() == nil {
		return &MoveJob{Job: id, Attempt: 1}
	}
	a := j.Live()
	cmd := &MoveJob{Job: id, Attempt: a.N, Expected: []int64{0, 0, 1500}[c.IntN(3)]}
	taken := map[string]uint64{}
	for i := range a.Workers {
		if len(cmd.Leave) > 0 && !a.Suspended() && c.one(3) {
			continue
		}
		cmd.Leave = append(cmd.Leave, i)
		n := c.IntN(len(c.s.v.Nodes()))
		p := model.Place{Node: c.s.v.Nodes()[n].Name}
		for g, free := 0, c.s.v.Grid().FreeGPUs(n)&^taken[p.Node]; g < 64; g++ {
			if free&(1<<g) != 0 && len(p.GPUs) < model.Devices(j, i) {
				p.GPUs = append(p.GPUs, g)
				taken[p.Node] |= 1 << g
			}
		}
		cmd.Join = append(cmd.Join, p)
	}
	if c.one(20) {
		cmd.Leave = cmd.Leave[1:]
	}
	return cmd
}

// leaveReport has the workers of a node that move exit, having saved their state.
func (c *chaos) leaveReport() Command {
	n := c.s.v.Nodes()[c.IntN(len(c.s.v.Nodes()))]
	cmd := NodeReport{Node: n.Name, BootID: n.BootID}
	for j := range c.s.v.Live() {
		a := j.Live()
		for i := range a.Workers {
			if w := &a.Workers[i]; a.Resize() != nil && w.Node == n.Name && !w.State.Final() && !c.one(4) {
				cmd.Workers = append(cmd.Workers, model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i,
					State: model.WorkerExited, ExitCode: 85})
			}
		}
	}
	return cmd
}

// TestRandomMoves is TestRandomTurns with moves, of running and of suspended jobs.
func TestRandomMoves(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 17)), s: New(cluster.DefaultConfig()), at: 1, seen: seen}
		twin := New(cluster.DefaultConfig())
		for i := uint64(1); i <= 3000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}}
			switch n := c.IntN(10); {
			case len(c.s.v.Nodes()) < 5 || n > 2:
				e.Command = c.turnCommand()
			case n == 2:
				e.Command = c.leaveReport()
			default:
				e.Command = CommitPlan{Actions: []Action{c.migrate()}}
			}
			_, err := c.s.Apply(i, e)
			if bad := c.s.Check(); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			c.noticeMoves()
		}
	}
	for _, what := range []string{"moving", "moving while suspended", "moved", "staying in part"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no job was seen %s: %v", what, seen)
		}
	}
}

// noticeMoves remembers what becomes of jobs that move.
func (c *chaos) noticeMoves() {
	for j := range c.s.v.Live() {
		a := j.Live()
		if r := a.Resize(); r != nil {
			c.seen["moving"]++
			if a.Suspended() {
				c.seen["moving while suspended"]++
			}
			if len(r.Leave) < len(a.Workers) {
				c.seen["staying in part"]++
			}
		}
		if slices.ContainsFunc(a.Trials, func(t model.Trial) bool { return t.What == model.TrialMigrate }) {
			c.seen["moved"]++
		}
	}
}
