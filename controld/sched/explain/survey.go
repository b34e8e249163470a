package explain

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/topology"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// diagnose finds the obstacle of a gang. It checks obstacles that no waiting would change, then
// room that is taken, then jobs that come first. For several parts it describes the worst off.
func (r *Reasons) diagnose(j *model.Job, g *fit.Gang) model.Reason {
	t := r.before
	s := worst(t, g)
	p := g.At(s.part)
	why := model.Reason{Need: p.Request.Active, Want: p.Workers}
	switch {
	case s.everywhere < p.Workers:
		why.Code, why.Fit = model.ReasonBadConstraint, s.everywhere
		why.Node, why.Have = s.largest, s.largestHas
		if s.largest == "" {
			why.Need, why.Text = model.Vector{}, topology.UnmetConstraints(t.View.Nodes(), p.Constraints)
		}
	case s.ever < p.Workers:
		why.Code, why.Node, why.Fit = s.obstacle(p)
	case s.free < p.Workers:
		why.Fit = s.free
		why.Node, why.Have = s.nearest, s.nearestHas
		why.Code = shortageCode(&s, p)
		if p.Request.Exclusive && s.free == 0 {
			why.Node, why.Have, why.Text = "", why.Need, "it asks for whole nodes, and no suitable node is empty"
		}
	case t.Room.Fits(g):
		return r.beaten(why)
	case s.unclaimed < p.Workers:
		why.Code, why.For, why.Fit = model.ReasonReservation, s.claimant, s.unclaimed
	case len(g.More) > 0:
		return together(t, j, g)
	default:
		why.Code, why.Fit, why.Text = model.ReasonResources, s.unclaimed,
			"every port that its workers could use as MASTER_PORT is taken"
	}
	if len(g.More) > 0 && why.Text == "" {
		why.Text = fmt.Sprintf("group %q", groupOf(j, s.part))
	}
	return why
}

// groupOf returns the name of the group that is a part of a gang.
func groupOf(j *model.Job, part int) string { return j.Spec.Groups[j.Parts[part].Group].Name }

// together explains why parts that fit one by one do not fit together, and names the part that
// finds no room.
func together(t *scratch.State, j *model.Job, g *fit.Gang) model.Reason {
	if ok, never := t.View.NearestFit(g.Shape); !ok {
		return never
	}
	why := model.Reason{Code: model.ReasonGang, Need: g.Request.Active, Want: g.Size()}
	reached, missing := t.Room.Reach(g)
	if why.Fit = reached; missing >= 0 {
		why.Need = g.At(missing).Request.Active
		why.Text = fmt.Sprintf("group %q finds no room together with the other groups", groupOf(j, missing))
	}
	return why
}

// beaten returns the job that a gang waits for which would fit.
func (r *Reasons) beaten(why model.Reason) model.Reason {
	why.Code, why.For, why.Fit = model.ReasonPriority, r.first, why.Want
	switch {
	case r.first != 0:
	case r.keeper != 0:
		why.Code, why.For = model.ReasonReservation, r.keeper
	default:
		why.Text = "it is left free for jobs to come"
	}
	return why
}

// shortageCode tells apart three ways of having too little room now.
func shortageCode(s *surveyed, p *fit.Component) model.ReasonCode {
	need := p.Request.Active.GPUs
	switch {
	case s.free > 0:
		return model.ReasonGang
	case need > 0 && s.freeGPUs >= need*int64(p.Workers) && s.nearestHas.GPUs < need:
		return model.ReasonFragmentation
	}
	return model.ReasonResources
}

// surveyed counts the workers of a part that nodes could hold under ever harder conditions.
type surveyed struct {
	part       int
	everywhere int // on empty nodes that meet its constraints, whatever their state
	ever       int // on those that are up and not avoided
	free       int // with the free room, claims disregarded
	unclaimed  int // with the free room less the claims of others

	largest, nearest       string // the node that holds most in total, and that has most free
	largestHas, nearestHas model.Vector
	freeGPUs               int64  // on nodes that count for ever
	down, barred           string // a node that would help if it were up; or not drained or avoided
	claimant               model.JobID
}

// stage is how many of the conditions a part gets past.
func (s *surveyed) stage(p *fit.Component) int {
	for i, holds := range []int{s.everywhere, s.ever, s.free, s.unclaimed} {
		if holds < p.Workers {
			return i
		}
	}
	return 4
}

// worst surveys the parts of a gang and returns the part that passes the fewest conditions, the
// first of several.
func worst(t *scratch.State, g *fit.Gang) surveyed {
	lifted := t.Room.Lift(g.For)
	defer lifted.Restore()
	var out surveyed
	for i := range g.Parts() {
		s := survey(t, g, i)
		if i == 0 || s.stage(g.At(i)) < out.stage(g.At(out.part)) {
			out = s
		}
	}
	return out
}

// obstacle names the reason that excludes nodes. Down comes before drained or avoided, because it
// passes. A job that wants certain nodes is told that these are not available.
func (s *surveyed) obstacle(p *fit.Component) (model.ReasonCode, string, int) {
	if s.down != "" && p.Constraints == "" {
		return model.ReasonNodeDown, s.down, s.ever
	}
	return model.ReasonNotAvail, cmp.Or(s.down, s.barred), s.ever
}

// survey counts the nodes that each sieve lets pass, for one part of a gang. Claims that do not
// bind its gang have been waived.
func survey(t *scratch.State, g *fit.Gang, part int) surveyed {
	s, p := surveyed{part: part}, g.At(part)
	for i, n := range t.View.Nodes() {
		if !p.Wants(i) {
			continue
		}
		total := t.Room.Total(i)
		if s.largest == "" || nearer(p.Request.Active, total, s.largestHas) {
			s.largest, s.largestHas = n.Name, total
		}
		could := fit.Capacity(p, fit.Both(total))
		s.everywhere += could
		if !t.Room.Usable(i, p, g.Exclude) {
			s.bar(n, could)
			continue
		}
		s.ever += could
		s.surveyFree(t, i, g, p)
	}
	return s
}

// bar notes a node that is left out and would have helped.
func (s *surveyed) bar(n *model.Node, could int) {
	switch {
	case could == 0:
	case n.State == model.NodeDown && s.down == "":
		s.down = n.Name
	case n.State != model.NodeDown && s.barred == "":
		s.barred = n.Name
	}
}

func (s *surveyed) surveyFree(t *scratch.State, node int, g *fit.Gang, p *fit.Component) {
	free := t.Room.Open(node, p)
	if free != (model.Request{}) {
		s.freeGPUs += t.Room.Free(node).Active.GPUs
	}
	holds := fit.Capacity(p, free)
	left := fit.Capacity(p, t.Room.Unclaimed(node, p))
	s.free += holds
	s.unclaimed += left
	if left < holds && s.claimant == 0 {
		s.claimant = t.Room.Claimant(node, g.For)
	}
	if s.nearest == "" || nearer(p.Request.Active, free.Active, s.nearestHas) {
		s.nearest, s.nearestHas = t.View.Nodes()[node].Name, free.Active
	}
}

// nearer reports whether x comes nearer to need than y does: by GPUs, then cores, then memory,
// counting nothing beyond the need.
func nearer(need, x, y model.Vector) bool {
	return cmp.Or(cmp.Compare(min(x.GPUs, need.GPUs), min(y.GPUs, need.GPUs)),
		cmp.Compare(min(x.Cores, need.Cores), min(y.Cores, need.Cores)),
		cmp.Compare(min(x.Memory, need.Memory), min(y.Memory, need.Memory))) > 0
}
