package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// prospects is what reservations can still count on, node by node.
type prospects struct {
	*trial
	left map[int]cluster.Request // free, or held by those who are leaving, and not promised to an earlier reservation
	goes map[int]bool            // somebody is leaving
}

func newProspects(t *trial) *prospects {
	return &prospects{trial: t, left: map[int]cluster.Request{}, goes: map[int]bool{}}
}

// inVain returns whose firm reservations are for room that does not come: a node that they claim is not up, has less than it had, or those who were
// to leave it have not been asked to, because the plan came too late. They would wait in vain until their reservations expire. What is free, or will
// be when all have left who are leaving, is kept for them. Nil: nobody's is in vain.
func inVain(t *trial) map[cluster.JobID]bool {
	var firm []*cluster.Reservation
	for _, r := range t.view.Reservations() {
		if r.Firm {
			firm = append(firm, r)
		}
	}
	if firm == nil {
		return nil
	}
	slices.SortFunc(firm, func(a, b *cluster.Reservation) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job)) })
	p := newProspects(t)
	var vain map[cluster.JobID]bool
	for _, r := range firm {
		if p.cover(r) {
			continue
		}
		if vain == nil {
			vain = map[cluster.JobID]bool{}
		}
		vain[r.Job] = true
	}
	return vain
}

// cover reports whether there is, or will be, as much as a reservation claims, and takes it from what is left for later ones.
func (p *prospects) cover(r *cluster.Reservation) bool {
	for _, c := range r.Claims {
		_, node := p.view.Node(c.Node)
		if node < 0 || !p.room.Up(node) || !fit.Covers(p.at(node), p.claimed(node, c.Room)) || !p.apiece(node, r.Job) {
			return false
		}
	}
	for _, c := range r.Claims {
		_, node := p.view.Node(c.Node)
		p.left[node] = fit.Minus(p.at(node), p.claimed(node, c.Room))
	}
	return true
}

// at returns what is left of a node.
func (p *prospects) at(node int) cluster.Request {
	left, known := p.left[node]
	if known {
		return left
	}
	left = p.room.Free(node)
	for _, id := range p.view.Running(nil, node) {
		run := p.view.Run(id)
		if run == nil || !run.Stopping {
			continue
		}
		for i := range run.Frees {
			if f := &run.Frees[i]; f.Node == node {
				left, p.goes[node] = fit.Plus(left, f.Room), true
			}
		}
	}
	p.left[node] = left
	return left
}

// claimed is what a claim is for, without the GPUs that are broken: they are part of a claim for a whole node.
func (p *prospects) claimed(node int, room cluster.Vector) cluster.Request {
	healthy := int64(0)
	for _, g := range p.view.Nodes()[node].GPUs {
		if g.Healthy {
			healthy += wholeGPU
		}
	}
	room.GPUs = min(room.GPUs, healthy)
	return cluster.Request{Active: room, Resident: cluster.Vector{Memory: room.Memory}}
}

// apiece reports whether the GPUs of a node that some share can hold a job of one worker once nobody leaves there any more: what is left of several
// of them is of no use to it.
func (p *prospects) apiece(node int, id cluster.JobID) bool {
	j := p.view.Job(id)
	if p.goes[node] || j == nil || !p.room.Shares(node) {
		return true
	}
	g := p.gang(j)
	if g.Size() > 1 || g.Request.Active.GPUs == 0 {
		return true
	}
	each, n := min(wholeGPU, g.Request.Active.GPUs), 0
	for _, left := range p.room.Left(node) {
		if left >= each {
			n++
		}
	}
	return n >= g.Request.Devices()
}
