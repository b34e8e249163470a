package jobs

import (
	"container/heap"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// MaxSettled bounds how many jobs one entry of the log ends or lets go because of others. The rest
// follows with the next entries, so that the failure of one job on which very many depend does not
// keep everybody else waiting.
const MaxSettled = 10_000

// settleDependencies lets go, ends or holds the jobs that depend on what this entry, and those
// before it, have changed. Consequences of consequences are done too, oldest first, up to
// MaxSettled jobs. That order makes the remainder a function of the state alone, so a replica that
// restores a snapshot goes on in the same way.
func (s *Store) settleDependencies() {
	s.matchCounterparts()
	s.settleParents()
	for settled := 0; settled < MaxSettled; settled++ {
		if s.skipSettled(); len(s.due) == 0 {
			break
		}
		s.settleJob(s.view.Job(heap.Pop(&s.due).(model.JobID)))
		s.settleParents()
		s.matchCounterparts()
		s.settleParents()
	}
	s.skipSettled()
	s.state.SetUnsettled(len(s.due) > 0)
}

// skipSettled forgets the jobs at the head of those to look at for which nothing has been decided.
func (s *Store) skipSettled() {
	for len(s.due) > 0 && !s.state.Unsettled(s.view.Job(s.due[0])) {
		heap.Pop(&s.due)
	}
}

// Conclude draws the conclusion of what has become of one dependency in a draft of its job. False:
// the job is to be cancelled, for the reason in the draft.
func (s *Store) Conclude(next *model.Job, n model.OpenDependency, d lifecycle.Dependency) bool {
	switch {
	case d.Never != 0 && !model.KeepsWaiting(next):
		next.Reason = model.Unsatisfiable(&n, d.Never, s.view.NameOf(d.Never))
		return false
	case d.Never != 0:
		model.HoldUnsatisfiable(next, model.Unsatisfiable(&n, d.Never, s.view.NameOf(d.Never)))
	case d.Met:
		next.Postpone(s.view.At().After(n.Delay), s.view.At())
	default:
		n.Jobs = d.Open
		next.Dependencies = append(next.Dependencies, n)
	}
	return true
}

// settleJob draws the conclusions for one job.
func (s *Store) settleJob(j *model.Job) {
	next := *j
	next.Dependencies = nil
	for _, n := range j.Dependencies {
		if !s.Conclude(&next, n, s.state.Reconsider(j, &n)) {
			s.GiveUp(j, model.Cancelled, next.Reason, 0)
			return
		}
	}
	if next.Hold != j.Hold {
		s.state.Unreserve(j.ID)
	}
	s.Put(&next)
	if next.Hold != j.Hold {
		s.state.EmitJob(model.EventHeld, &next, "")
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
func (s *Store) notifyDependents(old, next *model.Job) {
	if old == nil || s.view.NoDependencies() {
		return
	}
	started := old.Started.At == 0 && next.Started.At != 0
	ended := !old.State.Final() && next.State.Final()
	if started || ended {
		s.requeueDependents(next.ID)
	}
	if next.Parent != 0 && ended {
		s.NoteEndedTasks(EndedTasks{Parent: next.Parent, Tasks: ranges.Span(next.TaskNumber, next.TaskNumber),
			Well: next.State == model.Completed, Pruned: next.State == model.Cancelled && next.Pruned})
	}
	if next.Children != nil && next.Children != old.Children {
		s.notifyDroppedTasks(next, next.Children.Dropped.Without(old.Children.Dropped))
	}
}

func (s *Store) notifyDroppedTasks(parent *model.Job, dropped ranges.Ranges) {
	if len(dropped) == 0 {
		return
	}
	s.NoteEndedTasks(EndedTasks{Parent: parent.ID, Tasks: dropped.Without(parent.Children.Pruned)})
	s.NoteEndedTasks(EndedTasks{Parent: parent.ID, Tasks: dropped.Both(parent.Children.Pruned), Pruned: true})
	for n := range dropped.All() {
		s.requeueDependents(parent.TaskID(n))
	}
}

// Reconsider looks at the dependencies of a job at the end of this entry.
func (s *Store) Reconsider(id model.JobID) { heap.Push(&s.due, id) }

func (s *Store) requeueDependents(target model.JobID) {
	for _, id := range s.state.DependentsOf(target) {
		s.Reconsider(id)
	}
}
