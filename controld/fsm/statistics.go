package fsm

import (
	"maps"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Statistics returns what the cluster has learnt, nil if that is nothing yet. The caller must not change it.
func (v *View) Statistics() *estimate.Statistics { return v.statistics }

// ownStatistics returns a copy to be changed and stored.
func (s *State) ownStatistics() *estimate.Statistics {
	if s.v.statistics != nil && s.statisticsEpoch == s.epoch {
		return s.v.statistics
	}
	next := &estimate.Statistics{}
	if s.v.statistics != nil {
		*next = *s.v.statistics
	}
	s.v.statistics, s.statisticsEpoch = next, s.epoch
	return next
}

// recordRotation notes when it was last looked whose turn it is.
func (s *State) recordRotation() {
	s.ownStatistics().LastRotation = s.v.at
}

// recordSubmission notes that a job was submitted.
func (s *State) recordSubmission() {
	s.ownStatistics().LastSubmitted = s.v.at
}

// recordStopDuration takes in how long a displaced attempt took to leave.
func (s *State) recordStopDuration(queue string, took model.Instant) {
	l := s.ownStatistics()
	if l.StopDurations = maps.Clone(l.StopDurations); l.StopDurations == nil {
		l.StopDurations = map[string]estimate.StopDurations{}
	}
	g := l.StopDurations[queue]
	g.Add(took)
	l.StopDurations[queue] = g
}

// recordArrival takes in a trial-and-error job that was just submitted.
func (s *State) recordArrival(j *model.Job) {
	if j.Class != jobspec.TE {
		return
	}
	l := s.ownStatistics()
	a := &l.TE
	a.CloseMinutes(s.v.at)
	a.Last = s.v.at
	for i := range j.Workers {
		want := j.RequestOf(i).Active
		a.Sum += want.GPUs
		want.Cores *= 1000
		a.Worker = a.Worker.MoveTowards(want)
	}
	if s.recentEpoch != s.epoch {
		a.Recent, s.recentEpoch = append(make([]model.Vector, 0, estimate.RecentKept+estimate.RecentPerJob), a.Recent...), s.epoch
	}
	a.AddRequests(j)
}

// recordQueueWait takes in whether a job that begins its first attempt has had to wait for it.
func (s *State) recordQueueWait(j *model.Job) {
	if j.Attempt != 0 {
		return
	}
	seen := int64(0)
	if s.v.at-j.Eligible > estimate.AtOnceWithin {
		seen = estimate.WaitsUnit
	}
	w := &s.ownStatistics().Waits
	if j.Class == jobspec.TE {
		w.TE += (seen - w.TE) / estimate.WaitsMemory
	} else {
		w.BE += (seen - w.BE) / estimate.WaitsMemory
	}
}
