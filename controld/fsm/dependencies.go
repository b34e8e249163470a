package fsm

import (
	"container/heap"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// maxSettled bounds how many jobs one entry of the log ends or lets go because of others. The rest
// follows with the next entries, so that the failure of one job on which very many depend does not
// keep everybody else waiting.
const maxSettled = 10_000

// settleDependencies lets go, ends or holds the jobs that depend on what this entry, and those
// before it, have changed. Consequences of consequences are done too, oldest first, up to
// maxSettled jobs. That order makes the remainder a function of the state alone, so a replica that
// restores a snapshot goes on in the same way.
func (m *Machine) settleDependencies() {
	m.matchCounterparts()
	m.settleParents()
	for settled := 0; settled < maxSettled; settled++ {
		if m.skipSettled(); len(m.due) == 0 {
			break
		}
		m.settleJob(m.v.Job(heap.Pop(&m.due).(model.JobID)))
		m.settleParents()
		m.matchCounterparts()
		m.settleParents()
	}
	m.skipSettled()
	m.s.SetUnsettled(len(m.due) > 0)
}

// skipSettled forgets the jobs at the head of those to look at for which nothing has been decided.
func (m *Machine) skipSettled() {
	for len(m.due) > 0 && !m.s.Unsettled(m.v.Job(m.due[0])) {
		heap.Pop(&m.due)
	}
}

// conclude draws the conclusion of what has become of one dependency in a draft of its job. False:
// the job is to be cancelled, for the reason in the draft.
func (m *Machine) conclude(next *model.Job, n model.OpenDependency, d lifecycle.Dependency) bool {
	switch {
	case d.Never != 0 && !model.KeepsWaiting(next):
		next.Reason = model.Unsatisfiable(&n, d.Never, m.v.NameOf(d.Never))
		return false
	case d.Never != 0:
		model.HoldUnsatisfiable(next, model.Unsatisfiable(&n, d.Never, m.v.NameOf(d.Never)))
	case d.Met:
		next.Postpone(m.v.At().After(n.Delay), m.v.At())
	default:
		n.Jobs = d.Open
		next.Dependencies = append(next.Dependencies, n)
	}
	return true
}

// settleJob draws the conclusions for one job.
func (m *Machine) settleJob(j *model.Job) {
	next := *j
	next.Dependencies = nil
	for _, n := range j.Dependencies {
		if !m.conclude(&next, n, m.s.Reconsider(j, &n)) {
			m.giveUp(j, model.Cancelled, next.Reason, 0)
			return
		}
	}
	if next.Hold != j.Hold {
		m.s.Unreserve(j.ID)
	}
	m.put(&next)
	if next.Hold != j.Hold {
		m.s.EmitJob(model.EventHeld, &next, "")
	}
}

// idHeap is ids, the least first.
type idHeap []model.JobID

// Len implements heap.Interface.
func (h idHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h idHeap) Less(i, j int) bool { return h[i] < h[j] }

// Swap implements heap.Interface.
func (h idHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *idHeap) Push(x any) { *h = append(*h, x.(model.JobID)) }

// Pop implements heap.Interface.
func (h *idHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// notifyDependents notes the jobs to be reconsidered because of a change, at the end of this entry.
func (m *Machine) notifyDependents(old, next *model.Job) {
	if old == nil || m.v.NoDependencies() {
		return
	}
	started := old.Started.At == 0 && next.Started.At != 0
	ended := !old.State.Final() && next.State.Final()
	if started || ended {
		m.requeueDependents(next.ID)
	}
	if next.Parent != 0 && ended {
		m.noteEndedTasks(endedTasks{parent: next.Parent, tasks: ranges.Span(next.TaskNumber, next.TaskNumber),
			well: next.State == model.Completed, pruned: next.State == model.Cancelled && next.Pruned})
	}
	if next.Children != nil && next.Children != old.Children {
		m.notifyDroppedTasks(next, next.Children.Dropped.Without(old.Children.Dropped))
	}
}

func (m *Machine) notifyDroppedTasks(parent *model.Job, dropped ranges.Ranges) {
	if len(dropped) == 0 {
		return
	}
	m.noteEndedTasks(endedTasks{parent: parent.ID, tasks: dropped.Without(parent.Children.Pruned)})
	m.noteEndedTasks(endedTasks{parent: parent.ID, tasks: dropped.Both(parent.Children.Pruned), pruned: true})
	for n := range dropped.All() {
		m.requeueDependents(parent.TaskID(n))
	}
}

func (m *Machine) requeueDependents(target model.JobID) {
	for _, id := range m.s.DependentsOf(target) {
		heap.Push(&m.due, id)
	}
}
