// Package convergence classifies how far the training of a job has come, by the metric that the job
// reports (SpeCon, Mao et al., 2020). A job that still learns fast is progressing. A job that slows
// down is watched, and one that has slowed down further is converged.
//
// The node that runs the job evaluates it, the controllers keep the class alone, and the simulator
// uses the same [Meter]. A class says nothing about the quality of a model, and a job can make it
// up. It may therefore move a job only among the jobs of its own account.
package convergence

import (
	"math"
	"slices"
)

// Class is the progress class of a job; "" is one whose class is not known.
type Class string

// Classes, in the order in which a job takes them. From each it may return to Progressing.
const (
	Progressing Class = "progressing" // PC in the paper
	Watching    Class = "watching"    // WC
	Converged   Class = "converged"   // CC
)

// Classes lists them.
var Classes = []Class{Progressing, Watching, Converged}

// Known reports whether there is such a class.
func (c Class) Known() bool { return slices.Contains(Classes, c) }

// Weight is the part of a node that a job of a class gets beside others of its account, in tenths
// of a converged job's part: 20, 15 and 10 (2, 1.5 and 1 in the paper). A job that says nothing
// counts as progressing.
func (c Class) Weight() int64 {
	switch c {
	case Watching:
		return 15
	case Converged:
		return 10
	}
	return 20
}

// Tunables are the numbers that steer the classes.
type Tunables struct {
	// Interval, in ms: a job is evaluated so often. Reason: the reports of an interval are averaged,
	// and a log entry follows from a change only. Evidence: the paper's own setting, and
	// cmd/lab/papers.md, "SpeCon".
	Interval int64
	// AlphaWall, in the range of the metric so far by second: what changes faster is progressing.
	// Reason: it is all that is known of a job whose share of a processor is not. Evidence: the
	// paper's own setting.
	AlphaWall float64
	// AlphaProcessor is the same by second of processor time that the job received. Reason: a job that
	// waits for its turn does not converge. Evidence: five jobs share a worker in the paper's runs, so
	// that it is the same bound there; cmd/lab/papers.md, "SpeCon".
	AlphaProcessor float64
	// MinReports, in reports: before there are so many a job has no class. Reason: with fewer there is
	// no second change to compare with the first.
	MinReports int
	// LeastRange, as a part of the first report: a metric that has changed by less has no range.
	// Reason: a metric that stands still ranges over its rounding and its noise, and averages of that
	// look like one that has slowed down. Evidence: TestAMetricThatStandsStill in noded/progress.
	LeastRange float64
}

// Use are the values in use. They never change.
var Use = Tunables{Interval: 30_000, AlphaWall: 0.01, AlphaProcessor: 0.05, MinReports: 3, LeastRange: 0.01}

// Origin is what a [Meter] needs to know of earlier attempts of its job: its first report and its
// best one.
type Origin struct {
	First, Best float64
	Known       bool
}

// Meter classifies one attempt of a job. Its memory is bounded. The zero value is ready for use
// with a metric that is to become small; a value may be copied.
type Meter struct {
	Alpha  float64 // see [Tunables.AlphaWall]; 0: that
	Max    bool    // the metric is to become large
	Origin Origin

	class   Class
	reports int     // until now, at most Use.MinReports
	sum     float64 // of the reports since the last evaluation
	n       int     // of these reports
	bad     bool    // one of them was no finite number

	mean float64 // of the reports before the last evaluation
	at   int64   // when that was, in ms
	has  bool    // there was one
	rate float64 // G of the last evaluation
	had  bool    // there was one
}

// Class returns the present class.
func (m *Meter) Class() Class { return m.class }

// Report notes a value of the metric.
func (m *Meter) Report(value float64) {
	m.reports = min(m.reports+1, Use.MinReports)
	if math.IsNaN(value) || math.IsInf(value, 0) {
		m.bad = true
		return
	}
	switch o := &m.Origin; {
	case !o.Known:
		*o = Origin{First: value, Best: value, Known: true}
	case m.Max:
		o.Best = max(o.Best, value)
	default:
		o.Best = min(o.Best, value)
	}
	m.sum += value
	m.n++
}

// Evaluate classifies the job at an instant on its clock, in ms: wall-clock time, or the processor
// time that it received, as Alpha says. It reports whether the class has changed. Without a report
// since the last evaluation it has not.
func (m *Meter) Evaluate(at int64) (Class, bool) {
	if m.n == 0 && !m.bad {
		return m.class, false
	}
	rate, known := m.change(at)
	m.sum, m.n, m.bad = 0, 0, false
	if m.reports < Use.MinReports {
		return m.class, false
	}
	next := m.next(rate, known)
	if known && !math.IsNaN(rate) {
		m.rate, m.had = rate, true
	}
	changed := next != m.class
	m.class = next
	return next, changed
}

// change returns G: the change of the metric's mean per second, relative to its range. It is NaN if
// the metric is no number or stands still. It is not known at the first evaluation, and when time
// has gone back.
func (m *Meter) change(at int64) (rate float64, known bool) {
	mean := m.sum / float64(m.n)
	if m.bad || math.IsNaN(mean) || math.IsInf(mean, 0) {
		m.has, m.had = false, false
		return math.NaN(), true
	}
	before, elapsed, has := m.mean, at-m.at, m.has
	m.mean, m.at, m.has = mean, at, true
	if !has || elapsed <= 0 {
		return 0, false
	}
	spread := math.Abs(m.Origin.First - m.Origin.Best)
	rate = math.Abs(mean-before) / spread * 1000 / float64(elapsed)
	if spread == 0 || spread < Use.LeastRange*math.Abs(m.Origin.First) || math.IsInf(spread, 0) || math.IsInf(rate, 0) {
		return math.NaN(), true
	}
	return rate, true
}

// next returns the class that follows from G. A job moves on by one class in an evaluation, and
// only if G has not grown since the last one.
func (m *Meter) next(rate float64, known bool) Class {
	switch {
	case m.class == "":
		return Progressing
	case !known:
		return m.class
	case math.IsNaN(rate) || rate >= m.alpha():
		return Progressing
	case !m.had || rate > m.rate:
		return m.class
	case m.class == Progressing:
		return Watching
	}
	return Converged
}

func (m *Meter) alpha() float64 {
	if m.Alpha == 0 {
		return Use.AlphaWall
	}
	return m.Alpha
}
