package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// stretch makes some of a submission's jobs elastic.
func (c *chaos) stretch(cmd SubmitJobs) Command {
	for _, spec := range cmd.Jobs {
		if c.one(5) {
			continue
		}
		g := &spec.Groups[0]
		unit := 1 + c.IntN(2)
		e := &jobspec.Elastic{Min: unit * (1 + c.IntN(2)), MultipleOf: unit, Step: unit * c.IntN(3)}
		e.Max = e.Min + unit*c.IntN(4) - c.IntN(40)/39
		g.Count, g.Elastic = 0, e
		if g.Tasks[0].Resources.GPUs > 2 {
			g.Tasks[0].Resources.GPUs = c.IntN(3)
		}
		switch {
		case c.one(4):
			spec.Array = &jobspec.Array{Indices: "0-2"}
		case c.one(3):
			server := jobspec.Group{Name: "server", Count: 1, Tasks: []jobspec.Task{{Resources: g.Tasks[0].Resources}}}
			g.Name, spec.GangScope = "work", model.GangScopeJob
			spec.Groups = []jobspec.Group{server, *g}
			if c.one(2) {
				spec.Groups[0], spec.Groups[1] = spec.Groups[1], spec.Groups[0]
			}
		case c.one(2):
			g.Exclusive = true
		}
	}
	return cmd
}

// workersOf picks with how many workers a job starts.
func (c *chaos) workersOf(j *model.Job) int {
	e, elastic := j.Elastic()
	if !elastic || c.one(3) {
		return j.Workers
	}
	return e.Fixed + e.Min + e.Unit*c.IntN((e.Max-e.Min)/e.Unit+1)
}

// resize picks an elastic job, most of the time one that runs, and has some of its workers leave or
// others join.
func (c *chaos) resize() *ResizeJob {
	var live []*model.Job
	for j := range c.s.v.Live() {
		if _, elastic := j.Elastic(); elastic {
			live = append(live, j)
		}
	}
	j := c.s.v.Job(c.job())
	if len(live) > 0 && !c.one(10) {
		j = live[c.IntN(len(live))]
	}
	if j == nil {
		return &ResizeJob{Job: c.job()}
	}
	r := &ResizeJob{Job: j.ID, Attempt: j.Attempt}
	if c.one(4) {
		r.For = c.job()
	}
	e, _ := j.Elastic()
	few := max(1, e.Unit) * (1 + c.IntN(2))
	if c.one(2) {
		for range few {
			r.Join = append(r.Join, c.placeOf(j, r.Join))
		}
	}
	if len(r.Join) == 0 || c.one(4) {
		if most := j.Size() - e.Min; most > 0 && !c.one(8) {
			few = min(few, most)
		}
		for i := range min(few, j.Size()) {
			r.Leave = append(r.Leave, e.First+i+c.IntN(8)/7)
		}
	}
	return r
}

// placeOf is a place for one more elastic worker of a job: most of the time one where there is
// room.
func (c *chaos) placeOf(j *model.Job, more []model.Place) model.Place {
	taken := slices.Clone(more)
	if a := j.Live(); a != nil {
		for i := range a.Workers {
			taken = append(taken, a.Workers[i].Place)
		}
	}
	need := j.Request
	if e, _ := j.Elastic(); len(j.Parts) > 0 {
		need = j.Parts[e.Part].Request
	}
	p := model.Place{Node: c.nodeName()}
	for _, i := range c.Perm(len(c.s.v.Nodes())) {
		n := c.s.v.Nodes()[i]
		shared := slices.ContainsFunc(taken, func(o model.Place) bool { return o.Node == n.Name })
		if c.s.v.Grid().Obstacle(i, need, nil) != model.ReasonNone || shared && !c.one(20) {
			continue
		}
		p.Node = n.Name
		for g, free := 0, c.s.v.Grid().FreeGPUs(i); g < 64 && int64(len(p.GPUs))*1000 < need.Active.GPUs; g++ {
			if free&(1<<g) != 0 {
				p.GPUs = append(p.GPUs, g)
			}
		}
		break
	}
	return p
}

// unfold picks an elastic job that waits, and places for it where there is room.
func (c *chaos) unfold() *StartJob {
	var waiting []*model.Job
	for g := range c.s.v.QueueGroups() {
		for _, j := range g.Jobs {
			if _, elastic := j.Elastic(); elastic && !g.Key.Held {
				waiting = append(waiting, j)
			}
		}
	}
	if len(waiting) == 0 {
		return c.start()
	}
	j := waiting[c.IntN(len(waiting))]
	cmd := &StartJob{Job: j.ID}
	if j.Children != nil {
		cmd.TaskNumber = 1 + c.IntN(j.Children.Size)
	}
	for range c.workersOf(j) {
		cmd.Places = append(cmd.Places, c.placeOf(j, cmd.Places))
	}
	c.givePorts(j, cmd)
	return cmd
}

// givePorts chooses the ports of a start: the lowest that are free.
func (c *chaos) givePorts(j *model.Job, cmd *StartJob) {
	taken := map[string][]int{}
	free := func(node string) int {
		port, _ := c.s.v.FreePort(node, taken[node]...)
		taken[node] = append(taken[node], port)
		return port
	}
	if len(cmd.Places) > 1 {
		cmd.Port = free(cmd.Places[0].Node)
	}
	for i := range cmd.Places {
		if len(j.Parts) > 0 {
			cmd.Places[i].Port = free(cmd.Places[i].Node)
		}
	}
}

// noticeElastic remembers what has become of elastic jobs.
func (c *chaos) noticeElastic() {
	for j := range c.s.v.Live() {
		a := j.Live()
		e, elastic := j.Elastic()
		if !elastic {
			continue
		}
		what := "elastic job"
		switch {
		case j.Spec.Array != nil:
			what = "elastic element"
		case len(j.Parts) > 0:
			what = "elastic part"
		case j.Request.Exclusive:
			what = "elastic job on whole nodes"
		}
		if a.Resize() != nil {
			c.seen[fmt.Sprintf("%s about to %s", what, a.Stop.Cause)]++
		}
		if n := len(j.Attempts); n > 1 && a.Assigned == j.Attempts[n-2].Ended {
			c.seen[what+" that goes on with other workers"]++
		}
		if j.Size() > e.Min {
			c.seen[what+" with more than the fewest"]++
		}
	}
}

// TestRandomResizes is TestRandomHistories with most jobs elastic, so that they are resized often
// and in every way.
func TestRandomResizes(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 7)), s: New(cluster.DefaultConfig()), at: 1, seen: seen, stretchy: true}
		twin := New(cluster.DefaultConfig())
		for i := uint64(1); i <= 8000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}, Command: c.elasticCommand()}
			_, err := c.s.Apply(i, e)
			if bad := c.s.Check(); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			c.noticeElastic()
		}
	}
	for _, what := range []string{"elastic job", "elastic element", "elastic part", "elastic job on whole nodes"} {
		for _, how := range []string{" about to shrink", " about to grow", " that goes on with other workers",
			" with more than the fewest"} {
			if seen[what+how] == 0 && *seedFlag == 0 {
				t.Errorf("there was no %s: %v", what+how, seen)
			}
		}
	}
}

func (c *chaos) elasticCommand() Command {
	open := 0
	for j := range c.s.v.Jobs() {
		if !j.State.Final() && j.Parent == 0 {
			open++
		}
	}
	switch n := c.IntN(100); {
	case len(c.s.v.Nodes()) < 5:
		return c.register()
	case n < 3:
		return SetNodeState{Node: c.nodeName(), State: []model.NodeState{model.NodeUp, model.NodeUp, model.NodeUp,
			model.NodeUp, model.NodeDown, model.NodeDrained}[c.IntN(6)]}
	case n < 4:
		return c.register()
	case n < 14 && open < 10:
		if cmd, ok := c.submit().(SubmitJobs); ok {
			return c.stretch(cmd)
		}
		return c.submit()
	case n < 16:
		return c.control2()
	case n < 17:
		return TrimHistory{UpTo: c.s.v.LastSeq() - c.Int64N(40)}
	case n < 30:
		return CommitPlan{Actions: []Action{c.unfold()}}
	case n < 42:
		return CommitPlan{Actions: []Action{c.resize()}}
	case n < 45:
		return c.plan()
	}
	return c.report()
}
