package cluster

import "slices"

// simple is a job of one worker in its first attempt, as most are, in one piece of memory instead of three.
type simple struct {
	job      Job
	attempts [1]Attempt
	workers  [1]Worker
}

// copyToChange copies a job and its live attempt to be changed and put back.
func copyToChange(j *Job) (*Job, *Attempt) {
	if len(j.Attempts) == 1 && len(j.Attempts[0].Workers) == 1 {
		d := &simple{*j, [1]Attempt{j.Attempts[0]}, [1]Worker{j.Attempts[0].Workers[0]}}
		d.job.Attempts, d.attempts[0].Workers = d.attempts[:], d.workers[:]
		return &d.job, &d.attempts[0]
	}
	next := *j
	next.Attempts = slices.Clone(j.Attempts)
	a := &next.Attempts[len(next.Attempts)-1]
	a.Workers = slices.Clone(a.Workers)
	return &next, a
}

// copyWithAttempt copies a job to be changed and stored, with one more attempt of so many workers.
func copyWithAttempt(j *Job, workers int) (*Job, *Attempt) {
	if len(j.Attempts) == 0 && workers == 1 {
		d := &simple{job: *j}
		d.job.Attempts, d.attempts[0].Workers = d.attempts[:], d.workers[:]
		return &d.job, &d.attempts[0]
	}
	next := *j
	kept := j.Attempts[max(0, len(j.Attempts)+1-MaxAttemptsKept):]
	next.Attempts = append(slices.Clip(slices.Clone(kept)), Attempt{Workers: make([]Worker, workers)})
	return &next, &next.Attempts[len(kept)]
}

// lose ends, without word from them, the workers for which gone says so.
func (s *State) lose(j *Job, gone func(*Worker) bool, why string) {
	next, a := copyToChange(j)
	for i := range a.Workers {
		w := &a.Workers[i]
		if !w.State.Final() && gone(w) {
			w.State, w.Message = WorkerFailed, why
			s.vacate(next, a, w)
		}
	}
	// The stop is noted also when nobody is left to be stopped: it is what says how the attempt ended.
	if a.Stop == nil || stopStrength[a.Stop.Cause] < stopStrength[CauseNodeLost] {
		s.stop(next, a, Stop{Cause: CauseNodeLost})
	}
	s.advance(next, a)
}

// vacate charges for a worker that has just become final, and gives back its room unless that is kept for the next attempt.
func (s *State) vacate(j *Job, a *Attempt, w *Worker) {
	w.Ended = s.v.at
	held, charged := int64(w.Ended-a.Assigned.At), j.Charged(a, w.Index)
	j.Ledger.GPUMS += GPUTime(held, charged.GPUs)
	j.Ledger.CoreMS += held * charged.Cores
	s.charge(j.Leaf(), charged, a.Assigned.At)
	if a.keeps(w.Index) {
		_, i := s.v.Node(w.Node)
		s.touchNode(i)
		return
	}
	s.vacateRoom(j, w.Index, j.RequestOf(w.Index), &w.Place).freed = s.v.at
}

// advance draws the conclusions from what the workers of an attempt have come to, and stores the job.
func (s *State) advance(j *Job, a *Attempt) {
	least, trouble := 3, Cause("")
	for i := range a.Workers {
		w := &a.Workers[i]
		least = min(least, rank(w.State))
		if w.State.Final() && !w.ok() && !ignored(j, a, i) {
			trouble = worse(trouble, w.trouble())
		}
	}
	if least == 3 {
		s.end(j, a)
		return
	}
	switch {
	case a.Stop == nil && succeeded(j, a):
		s.stop(j, a, Stop{Cause: CauseCompleted})
	case stopsRest(a, trouble):
		s.stop(j, a, Stop{Cause: trouble})
	}
	if a.Stop == nil {
		s.proceed(j, a, least)
	}
	s.put(j)
}

// stopsRest reports whether trouble in one worker makes the others stop. Once a stop was asked for, how workers end is its consequence,
// unless a lease ran out.
func stopsRest(a *Attempt, trouble Cause) bool {
	if trouble == "" || a.Stop == nil {
		return trouble != ""
	}
	return trouble == CauseLease && stopStrength[a.Stop.Cause] < stopStrength[CauseLease]
}

// proceed lets commands start once every container exists, and notes when every command runs.
func (s *State) proceed(j *Job, a *Attempt, least int) {
	if least >= 1 && !a.Released {
		a.Released = true
		s.touch(a)
		s.emitJob(EventCreated, j, "")
	}
	if least >= 2 && a.Started.At == 0 {
		a.Started, j.State = s.now(), Running
		if j.Started.At == 0 {
			j.Started = s.now()
		}
		if j.Parent != 0 {
			s.childChangesOf(j.Parent).ran = true
		}
		s.emitJob(EventStarted, j, "")
	}
}

// ok reports whether a final worker did what it was meant to.
func (w *Worker) ok() bool {
	return w.State == WorkerExited && w.ExitCode == 0 && w.Signal == 0 && !w.OOM && !w.Lease
}

// trouble returns why the rest of a gang must stop after a worker that is not ok.
func (w *Worker) trouble() Cause {
	switch {
	case w.Lease:
		return CauseLease
	case w.State == WorkerFailed && w.Started == 0:
		return CauseLaunch
	}
	return CauseFailed
}

func worse(a, b Cause) Cause {
	if stopStrength[b] > stopStrength[a] {
		return b
	}
	return a
}
