package state

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
)

// checkChanged checks a job that has changed from old to next; either is nil if it was not, or is
// not, in the state.
func (a *Auditor) checkChanged(old, next *model.Job) {
	switch {
	case next == nil && old != nil:
		a.checkGone(old)
		return
	case next == nil:
		return
	}
	a.note(lifecycle.CheckJob(next))
	a.note(lifecycle.CheckLedger(next))
	a.note(a.s.checkJob(next))
	if next.Parent != 0 {
		a.note(a.s.checkTask(next))
	} else {
		a.note(a.s.names.CheckJob(next))
		if parent, n := a.s.v.ParentOf(next.ID); parent != nil && parent.ID != next.ID {
			a.bad("job %d has the id of task %d of job %d", next.ID, n, parent.ID)
		}
	}
	if run := a.s.v.LiveAttempt(next.ID); next.Live() != nil {
		a.note(a.s.checkRun(next))
	} else if run != nil {
		a.bad("the index of runs is wrong for job %d", next.ID)
	}
	if old != nil && old.StillToStart() && (!next.StillToStart() || groups.KeyOf(old) != groups.KeyOf(next)) {
		a.checkLeft(old)
	}
	a.checkListed(next)
}

// checkListed checks the tables of jobs with dependencies and with deadlines.
func (a *Auditor) checkListed(j *model.Job) {
	needs := !j.State.Final() && len(j.Dependencies) > 0
	if d := &a.s.v.dependents; d.Knows(j.ID) != needs || needs && !d.Has(j) {
		a.bad("the index of jobs with dependencies is wrong for job %d", j.ID)
	}
	if needs {
		a.note(a.s.checkSettled(j))
	}
	if got, in := a.s.v.dated.Get(int64(j.ID)); in != (j.Deadline != 0 && j.StillToStart()) || in && got != j {
		a.bad("the index of jobs with deadlines is wrong for job %d", j.ID)
	}
}

// checkGone checks that nothing knows a job that has left the state.
func (a *Auditor) checkGone(j *model.Job) {
	v, id := &a.s.v, int64(j.ID)
	for what, t := range map[string]*table.Table[*model.Job]{"live jobs": &v.live, "jobs with deadlines": &v.dated} {
		if _, in := t.Get(id); in {
			a.bad("job %d has left the state, but is still in the index of %s", j.ID, what)
		}
	}
	if _, in := v.finished.Get(j.Seq); in || v.LiveAttempt(j.ID) != nil || v.dependents.Knows(j.ID) || j.StillToStart() {
		a.bad("job %d has left the state, but is still in an index", j.ID)
	}
}

// checkLeft checks that a job is not in a group any more.
func (a *Auditor) checkLeft(j *model.Job) {
	if a.s.groups.Names(j) {
		a.bad("job %d is still in a group that it has left", j.ID)
	}
}

// checkGroup checks a group in which jobs have come, gone or changed.
func (a *Auditor) checkGroup(k model.GroupKey) {
	a.groups.Check(a.s.groups, k, a.note)
	if a.s.groups.Find(k) == nil {
		return
	}
	a.note(a.s.v.nodeSets.CheckKnown(k.Shape))
}

// checkLeaf checks what is noted of a leaf or an account.
func (a *Auditor) checkLeaf(leaf model.Association) {
	if want := a.usageCounters[leaf]; want != nil {
		a.note(a.s.v.usageCounters.CheckLeaf(want))
	} else if a.s.v.usageCounters.Of(leaf) != nil {
		a.bad("%s in %s has a usage counter, but neither holds nor requests anything", leaf.User, leaf.Account)
	}
	a.s.v.usage.CheckLeaf(leaf, a.active[leaf], a.note)
}

// checkFamily compares what a parent job knows of its children with what they have come to.
func (a *Auditor) checkFamily(id model.JobID) {
	j, k := a.s.v.Job(id), a.children[id]
	if j == nil || j.Children == nil || k == nil {
		return
	}
	f := j.Children
	if k.live != f.Live || k.completed+k.gone.Completed != f.Completed || k.failed+k.gone.Failed != f.Failed ||
		k.cancelled+k.gone.Cancelled != f.Cancelled {
		a.bad("parent job %d has counted %+v, but its tasks are %d live, %d completed, %d failed and %d cancelled", id, *f,
			k.live,
			k.completed, k.failed, k.cancelled)
	}
	if j.ID+model.JobID(f.Size) > a.s.v.lastJob {
		a.bad("parent job %d: the ids of its tasks have not been assigned yet", id)
	}
}

// checkNode checks what a node holds, and the room on it, made anew.
func (a *Auditor) checkNode(name string) {
	n, i := a.s.v.Node(name)
	if n == nil {
		a.bad("jobs are on unknown node %s", name)
		return
	}
	h, _ := a.s.v.holdings.Get(int64(i))
	want := a.holdings[name]
	if want == nil {
		want = &holding{}
	}
	if h == nil || !slices.Equal(h.workers, want.workers) || !slices.Equal(h.ports, want.ports) {
		a.bad("node %s is recorded as holding %+v, but its jobs hold %+v", name, h, want)
		return
	}
	if len(slices.Compact(slices.Clone(h.ports))) != len(h.ports) {
		a.bad("node %s: a port has two owners: %v", name, h.ports)
	}
	a.note(a.s.checkOwners(i))
	a.checkRoom(n, i)
	if a.around.stock {
		a.s.v.nodeSets.CheckNode(i, n, a.note)
	}
}

// checkRoom compares the room on a node with that made anew, and says whether more is held than
// there is.
func (a *Auditor) checkRoom(n *model.Node, i int) {
	got, anew := a.s.v.grid, grid.NewGrid([]*model.Node{n})
	if got.Len() != len(a.s.v.nodes) {
		a.bad("the grid has %d of %d nodes", got.Len(), len(a.s.v.nodes))
		return
	}
	anew.Rebuild(0, a.s.heldOn(i))
	if err := got.CompareNode(i, n, anew, 0); err != nil {
		a.bad("%v", err)
	}
	if got.Claimed(i) != a.claims[n.Name] {
		a.bad("claims on node %s are %+v, recomputed %+v", n.Name, got.Claimed(i), a.claims[n.Name])
	}
}
