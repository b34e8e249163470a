package forecast

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
)

// Signals and codes with which attempts end in a play.
const (
	killed = 9
	saved  = 85 // a job that was asked to leave goes on later
)

// reports is what nodes say at one instant, by node.
type reports map[string][]model.WorkerReport

// follow has the nodes obey the state at once. New workers run, workers that are to leave have
// gone, and orders to pause and to go on are carried out.
func (p *play) follow() {
	for range maxCycles { // the end of one attempt may begin the next one
		all := reports{}
		for j := range p.machine.View().Live() {
			a := j.Live()
			for i := range a.Workers {
				if r, news := followed(j, a, i); news {
					all[a.Workers[i].Node] = append(all[a.Workers[i].Node], r)
				}
			}
		}
		if len(all) == 0 || !p.send(all) {
			return
		}
	}
}

// followed returns what the node of a worker reports of it, if that is news.
func followed(j *model.Job, a *model.Attempt, i int) (r model.WorkerReport, news bool) {
	w := &a.Workers[i]
	r = model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i, State: model.WorkerRunning, Joined: w.Joined}
	switch {
	case w.State.Final() || a.Stop != nil:
		return r, false
	case w.Leaving:
		r.State, r.Signal = model.WorkerExited, killed
		return r, true
	case w.State != model.WorkerRunning:
		return r, true
	case a.Switch != nil && w.Switch < a.Switch.Number:
		r.Switch = a.Switch.Number
		if a.Suspending() {
			r.Means = "freezer"
		}
		return r, true
	}
	return r, false
}

// endDue ends the attempts whose time has come, and starts what the state begins in their place.
func (p *play) endDue() {
	all := reports{}
	for j := range p.machine.View().Live() {
		at := p.endOf(j)
		if at == 0 || at > p.now {
			continue
		}
		a := j.Live()
		e := event{job: j.ID, at: p.now, live: p.ran[j.ID]}
		if h, ok := p.rules.(*habits); ok && a.Stop == nil {
			e.from = h.source(j)
		}
		for i := range a.Workers {
			w := &a.Workers[i]
			if w.State.Final() {
				continue
			}
			r := model.WorkerReport{Job: j.ID, Attempt: a.N, Worker: i, State: model.WorkerExited, Joined: w.Joined, Own: true}
			if s := a.Stop; s != nil {
				r.Own, r.ExitCode = false, saved
				if s.Cause == model.CauseTimeout || s.Cause == model.CauseCancelled {
					r.ExitCode, r.Signal = 0, killed
				}
			}
			all[w.Node] = append(all[w.Node], r)
			if !slices.Contains(e.nodes, w.Node) {
				e.nodes = append(e.nodes, w.Node)
			}
		}
		p.ends = append(p.ends, e)
		delete(p.ran, j.ID) // a later attempt is no running job of now
	}
	if p.send(all) {
		p.follow()
	}
}

// send applies the reports of nodes, in order of their names. It reports whether all were taken.
func (p *play) send(all reports) bool {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	ok := true
	for _, name := range names {
		n, _ := p.machine.View().Node(name)
		ok = n != nil && p.apply(fsm.NodeReport{Node: name, BootID: n.BootID, Workers: all[name]}) && ok
	}
	return ok
}
