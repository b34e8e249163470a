package fsm

import (
	"container/heap"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// maxSettled bounds how many jobs one entry of the log ends or lets go because of others. The rest follows with the next entries, so that
// the failure of one job on which very many depend does not keep everybody else waiting.
const maxSettled = 10_000

// fate is how far a job that others depend on has come.
type fate struct{ started, ended, well bool }

// fate returns that of a job or of a child of a parent job, which may not have been made yet.
func (s *State) fate(id model.JobID) fate {
	if j := s.v.Job(id); j != nil {
		ended := j.State.Final()
		return fate{started: ended || j.Started.At != 0, ended: ended, well: j.State == model.Completed}
	}
	r, n := s.v.ParentOf(id)
	switch {
	case r == nil:
		return fate{started: true, ended: true}
	case r.Children.Waiting.Has(n):
		return fate{}
	}
	return fate{started: true, ended: true, well: !r.Children.Dropped.Has(n) && !r.Children.Unsuccessful.Has(n)}
}

// verdict is what the fate of one job means for a dependency on it.
type verdict int

const (
	open verdict = iota
	yes
	no
)

func decided(is, well bool) verdict {
	switch {
	case !is:
		return open
	case well:
		return yes
	}
	return no
}

func verdictOn(kind string, f fate) verdict {
	switch kind {
	case model.NeedAfter:
		return decided(f.started, true)
	case model.NeedAfterOK:
		return decided(f.ended, f.well)
	case model.NeedAfterNotOK:
		return decided(f.ended, !f.well)
	}
	return decided(f.ended, true)
}

// weighed is what has become of one dependency.
type weighed struct {
	rest  []model.JobID // still open
	met   bool
	never model.JobID // the job because of which it can never be met, 0 if it can
}

// considerNeed looks at the jobs of a dependency anew.
func considerNeed(n *model.OpenDependency, fate func(model.JobID) fate) weighed {
	var w weighed
	for _, id := range n.Jobs {
		switch verdictOn(n.Type, fate(id)) {
		case open:
			w.rest = append(w.rest, id)
		case yes:
			if n.Any {
				return weighed{met: true}
			}
		case no:
			w.never = id
			if !n.Any {
				return w
			}
		}
	}
	if w.met = len(w.rest) == 0 && w.never == 0; len(w.rest) > 0 {
		w.never = 0
	}
	return w
}

// reconsiderNeed is weigh for a job in the state. A singleton whose predecessor has ended waits for the one before that.
func (s *State) reconsiderNeed(j *model.Job, n *model.OpenDependency) weighed {
	w := considerNeed(n, s.fate)
	if n.Type == model.NeedSingleton && w.met {
		if before := s.openBefore(j.ID, j.Owner.UID, j.Spec.Name); before != 0 {
			w = weighed{rest: []model.JobID{before}}
		}
	}
	return w
}

// settleNeeds lets go, ends or holds the jobs that depend on what this entry, and those before it, have changed. What follows from that in
// turn is done too, oldest first, up to maxSettled jobs. That order makes what is left over a function of the state alone, so that a
// replica that restores a snapshot goes on in the same way.
func (s *State) settleNeeds() {
	s.matchCounterparts()
	s.settleParents()
	if s.v.unsettled && len(s.due) == 0 {
		s.requeueAllDependents()
	}
	for settled := 0; settled < maxSettled; settled++ {
		if s.skipSettled(); len(s.due) == 0 {
			break
		}
		s.settleJob(s.v.Job(heap.Pop(&s.due).(model.JobID)))
		s.settleParents()
		s.matchCounterparts()
		s.settleParents()
	}
	s.skipSettled()
	s.v.unsettled = len(s.due) > 0
}

// requeueAllDependents notes every job with dependencies as due to be looked at.
func (s *State) requeueAllDependents() {
	for id := range s.v.needing.From(0) {
		s.due = append(s.due, model.JobID(id)) // ascending is a heap
	}
}

// skipSettled forgets the jobs at the front of those to look at for which nothing has been decided.
func (s *State) skipSettled() {
	for len(s.due) > 0 && !s.unsettled(s.v.Job(s.due[0])) {
		heap.Pop(&s.due)
	}
}

// unsettled reports whether something of a job's dependencies has been decided and not been drawn conclusions from.
func (s *State) unsettled(j *model.Job) bool {
	if j == nil || j.State.Final() {
		return false
	}
	for i := range j.Dependencies {
		if w := s.reconsiderNeed(j, &j.Dependencies[i]); w.met || w.never != 0 || !slices.Equal(w.rest, j.Dependencies[i].Jobs) {
			return true
		}
	}
	return false
}

// settleJob draws the conclusions for one job.
func (s *State) settleJob(j *model.Job) {
	next := *j
	next.Dependencies = nil
	for i := range j.Dependencies {
		n := j.Dependencies[i]
		switch w := s.reconsiderNeed(j, &n); {
		case w.never != 0 && !model.KeepsWaiting(j):
			s.giveUp(j, model.Cancelled, model.Unsatisfiable(&n, w.never))
			return
		case w.never != 0:
			model.HoldUnsatisfiable(&next, model.Unsatisfiable(&n, w.never))
		case w.met:
			next.Postpone(s.v.at.After(n.Delay), s.v.at)
		default:
			n.Jobs = w.rest
			next.Dependencies = append(next.Dependencies, n)
		}
	}
	if next.Hold != j.Hold {
		s.unreserve(j.ID)
	}
	s.put(&next)
	if next.Hold != j.Hold {
		s.emitJob(model.EventHeld, &next, "")
	}
}

// idHeap is ids, the least first.
type idHeap []model.JobID

func (h idHeap) Len() int           { return len(h) }
func (h idHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h idHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *idHeap) Push(x any) { *h = append(*h, x.(model.JobID)) }

// Pop implements heap.Interface.
func (h *idHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
