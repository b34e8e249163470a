package telemetry

import (
	"maps"
	"math"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Tunables of series. They bound the memory that curves take on the leader.
const (
	// maxPoints is the largest number of points in a series: the width of a terminal, with two
	// points in each character.
	maxPoints = 256
	// minPoints is the number of points that each series may have, however many series there are.
	minPoints = 16
	// allPoints is the number of points of all series together: 32 MiB for up to 8,192 series. With
	// more series, each gets fewer points from its next report on, and those of ended jobs are
	// dropped.
	allPoints = 2 << 20
	// maxMetrics is the number of metrics of a job that have a series. Jobs report a handful.
	maxMetrics = 8
)

// Point is the value of a metric at a step.
type Point struct {
	Step  int64
	Value float64
}

// series is the reported values of one metric, by step. When it is full, every second point is
// dropped, and from then on only every second report is kept.
type series struct {
	points  []Point
	every   int // one report in this number is kept
	skipped int // reports skipped since the last kept one
	last    Point
}

// add adds a point. Points after its step are removed, because an earlier attempt reported them and
// the job repeats these steps. If several workers report a step, the last report counts.
func (s *series) add(p Point, most int) {
	n := len(s.points)
	for n > 0 && s.points[n-1].Step > p.Step {
		n--
	}
	s.points = s.points[:n]
	again := n > 0 && s.last.Step == p.Step
	s.last = p
	switch {
	case n > 0 && s.points[n-1].Step == p.Step:
		s.points[n-1], s.skipped = p, 0
		return
	case again:
		return
	}
	if s.skipped++; s.skipped < s.every && n > 0 {
		return
	}
	for len(s.points) >= most {
		for i := range (len(s.points) + 1) / 2 {
			s.points[i] = s.points[2*i]
		}
		s.points, s.every = slices.Clone(s.points[:(len(s.points)+1)/2]), 2*max(1, s.every)
	}
	s.skipped, s.points = 0, append(s.points, p)
}

// all returns the points, the newest included.
func (s *series) all() []Point {
	list := slices.Clone(s.points)
	if n := len(list); n == 0 || list[n-1] != s.last {
		list = append(list, s.last)
	}
	return list
}

// addPoints adds a job's report of a step. The watched metric always has a series; of the others,
// the first ones have. The caller holds mu.
func (s *Samples) addPoints(id model.JobID, p *AttemptProgress, watched string, ended func(model.JobID) bool) {
	of := s.series[id]
	if of == nil {
		if s.count >= max(s.dropAt, allPoints/maxPoints) {
			s.drop(ended)
			s.dropAt = 2 * s.count
		}
		of = map[string]*series{}
		s.series[id] = of
	}
	for _, name := range slices.Sorted(maps.Keys(p.Metrics)) {
		value := p.Metrics[name]
		if math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		one := of[name]
		if one == nil {
			if len(of) >= maxMetrics && name != watched {
				continue
			}
			one = &series{}
			of[name] = one
			s.count++
		}
		one.add(Point{Step: p.Step, Value: value}, min(maxPoints, max(minPoints, allPoints/s.count&^1)))
	}
}

// Series returns the names of a job's metrics that have a series, in order.
func (s *Samples) Series(id model.JobID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.series[id]))
	if names == nil {
		names = []string{}
	}
	return names
}

// Points returns the series of a job's metric, or nil.
func (s *Samples) Points(id model.JobID, metric string) []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.series[id][metric]; one != nil {
		return one.all()
	}
	return nil
}
