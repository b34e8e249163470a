package cluster

import (
	"container/heap"
	"slices"
)

// Types of dependencies.
const (
	needAfter      = "after"      // all have started, or have ended without
	needAfterOK    = "afterok"    // all have ended well
	needAfterAny   = "afterany"   // all have ended
	needAfterNotOK = "afternotok" // all have ended otherwise than well
	needAfterCorr  = "aftercorr"  // of an array: each element waits for the one with its index
	needSingleton  = "singleton"  // every older job of the same owner and name has ended
)

// maxSettled bounds how many jobs one entry of the log ends or lets go because of others. The rest follows with the next entries, so that
// the failure of one job on which very many depend does not keep everybody else waiting.
const maxSettled = 10_000

// fate is how far a job that others depend on has come.
type fate struct{ started, ended, well bool }

// fate returns that of a job or of a child of a parent job, which may not have been made yet.
func (s *State) fate(id JobID) fate {
	if j := s.v.Job(id); j != nil {
		ended := j.State.Final()
		return fate{started: ended || j.Started.At != 0, ended: ended, well: j.State == Completed}
	}
	r, n := s.v.Element(id)
	switch {
	case r == nil:
		return fate{started: true, ended: true}
	case r.Family.Waiting.Has(n):
		return fate{}
	}
	return fate{started: true, ended: true, well: !r.Family.Dropped.Has(n) && !r.Family.Ill.Has(n)}
}

// Blocked reports whether a waiting job may not start because of the jobs that it depends on. An array that follows another element by
// element is not blocked while some of its elements are ready.
func (j *Job) Blocked() bool {
	for i := range j.Needs {
		if j.Needs[i].Type != needAfterCorr || j.Family == nil {
			return true
		}
	}
	return len(j.Needs) > 0 && len(j.MayStart()) == 0
}

// MayStart returns the children that are not made yet and may be, as far as the jobs that it depends on element by element are
// concerned.
func (j *Job) MayStart() Ranges {
	for i := range j.Needs {
		if j.Needs[i].Type == needAfterCorr {
			return j.Family.Waiting.Both(j.Family.Ready)
		}
	}
	return j.Family.Waiting
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
	case needAfter:
		return decided(f.started, true)
	case needAfterOK:
		return decided(f.ended, f.well)
	case needAfterNotOK:
		return decided(f.ended, !f.well)
	}
	return decided(f.ended, true)
}

// weighed is what has become of one dependency.
type weighed struct {
	rest  []JobID // still open
	met   bool
	never JobID // the job because of which it can never be met, 0 if it can
}

// considerNeed looks at the jobs of a dependency anew.
func considerNeed(n *Need, fate func(JobID) fate) weighed {
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
func (s *State) reconsiderNeed(j *Job, n *Need) weighed {
	w := considerNeed(n, s.fate)
	if n.Type == needSingleton && w.met {
		if before := s.openBefore(j.ID, j.Owner.UID, j.Spec.Name); before != 0 {
			w = weighed{rest: []JobID{before}}
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
		s.settleJob(s.v.Job(heap.Pop(&s.due).(JobID)))
		s.settleParents()
		s.matchCounterparts()
		s.settleParents()
	}
	s.skipSettled()
	s.v.unsettled = len(s.due) > 0
}

// requeueAllDependents notes every job with dependencies as due to be looked at.
func (s *State) requeueAllDependents() {
	for id := range s.v.needing.from(0) {
		s.due = append(s.due, JobID(id)) // ascending is a heap
	}
}

// skipSettled forgets the jobs at the front of those to look at for which nothing has been decided.
func (s *State) skipSettled() {
	for len(s.due) > 0 && !s.unsettled(s.v.Job(s.due[0])) {
		heap.Pop(&s.due)
	}
}

// unsettled reports whether something of a job's dependencies has been decided and not been drawn conclusions from.
func (s *State) unsettled(j *Job) bool {
	if j == nil || j.State.Final() {
		return false
	}
	for i := range j.Needs {
		if w := s.reconsiderNeed(j, &j.Needs[i]); w.met || w.never != 0 || !slices.Equal(w.rest, j.Needs[i].Jobs) {
			return true
		}
	}
	return false
}

// settleJob draws the conclusions for one job.
func (s *State) settleJob(j *Job) {
	next := *j
	next.Needs = nil
	for i := range j.Needs {
		n := j.Needs[i]
		switch w := s.reconsiderNeed(j, &n); {
		case w.never != 0 && !keepsWaiting(j):
			s.giveUp(j, Cancelled, unsatisfiable(&n, w.never))
			return
		case w.never != 0:
			holdUnsatisfiable(&next, unsatisfiable(&n, w.never))
		case w.met:
			next.postpone(s.v.at.after(n.Delay), s.v.at)
		default:
			n.Jobs = w.rest
			next.Needs = append(next.Needs, n)
		}
	}
	if next.Hold != j.Hold {
		s.unreserve(j.ID)
	}
	s.put(&next)
	if next.Hold != j.Hold {
		s.emitJob(EventHeld, &next, "")
	}
}

// postpone moves the instant from which a job may start. The time that it has spent waiting for others is no reason to be reserved for.
func (j *Job) postpone(until, now Instant) {
	j.Eligible = max(j.Eligible, until)
	if until > now && j.Eligible == until && j.Hold == NotHeld {
		j.Reason = Reason{Code: ReasonDependency, Until: until}
	}
}

// keepsWaiting reports whether a job is held, and not cancelled, when what it needs can never come. A group of a job is never: the job as a
// whole has no use for one that waits for ever.
func keepsWaiting(j *Job) bool {
	return j.Spec.OnDependencyFailure == "hold" && (j.Parent == 0 || j.Spec.Array != nil)
}

// holdUnsatisfiable keeps a job from starting until somebody says that it may do so all the same. An operator's hold stays one, and says why the
// operator might think twice.
func holdUnsatisfiable(j *Job, why Reason) {
	if j.Hold == HeldByAdmin {
		j.Reason = Reason{Code: ReasonHeldAdmin, For: why.For, Text: why.Sentence()}
		return
	}
	j.Hold, j.Reason = HeldNever, why
}

func unsatisfiable(n *Need, id JobID) Reason {
	return Reason{Code: ReasonNeverMet, For: id, Text: n.Type}
}

// idHeap is ids, the least first.
type idHeap []JobID

func (h idHeap) Len() int           { return len(h) }
func (h idHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h idHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *idHeap) Push(x any) { *h = append(*h, x.(JobID)) }

// Pop implements heap.Interface.
func (h *idHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
