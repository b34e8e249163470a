// Package convergence classifies a job's training progress by the metric that it reports (SpeCon,
// Mao et al., 2020). A job that still learns fast is progressing, a job that slows down is watched,
// and a job that has slowed down further is converged.
//
// The job's node computes the class; the controllers store only the class; the simulator uses the
// same [Meter]. A class says nothing about a model's quality, and a job can fake it. Therefore the
// class only orders jobs of the same account.
package convergence

import (
	"math"
	"slices"
)

// Class is the progress class of a job; "" means unknown.
type Class string

// Classes, in the order in which a job passes through them. A job may return from any of them to
// Progressing.
const (
	Progressing Class = "progressing" // PC in the paper
	Watching    Class = "watching"    // WC
	Converged   Class = "converged"   // CC
)

// Classes lists them.
var Classes = []Class{Progressing, Watching, Converged}

// Known reports whether c is one of the classes.
func (c Class) Known() bool { return slices.Contains(Classes, c) }

// Weight is a job's part of a node relative to other jobs of its account. It is in tenths of a
// converged job's part: 20, 15 and 10 (2, 1.5 and 1 in the paper). A job without a class counts as
// progressing.
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
	// Interval in ms: the time between two evaluations of a job. Reason: an interval's reports are
	// averaged, and only a change of the class costs a log entry. Evidence: the paper's own
	// setting, and cmd/lab/papers.md, "SpeCon".
	Interval int64
	// AlphaWall is the bound of progressing: a metric that changes faster, relative to its range so
	// far, per second. Reason: the wall clock is all that is known if a job's processor share is
	// unknown. Evidence: the paper's own setting.
	AlphaWall float64
	// AlphaProcessor is the same bound per second of processor time that the job received. Reason:
	// a job that waits for its turn does not converge. Evidence: five jobs share a worker in the
	// paper's runs, so the bound is equivalent there; cmd/lab/papers.md, "SpeCon".
	AlphaProcessor float64
	// MinReports is the number of reports before a job gets a class. Reason: fewer reports give no
	// second change to compare with the first.
	MinReports int
	// LeastRange is a fraction of the first report: a metric that has changed by less has no range.
	// Reason: the range of a constant metric is rounding and noise, and averages of noise look like
	// a metric that slows down. Evidence: TestAMetricThatStandsStill in noded/progress.
	LeastRange float64
}

// Use are the tunables in use. They never change.
var Use = Tunables{Interval: 30_000, AlphaWall: 0.01, AlphaProcessor: 0.05, MinReports: 3, LeastRange: 0.01}

// Origin is a [Meter]'s memory of earlier attempts of its job: the first report and the best
// report.
type Origin struct {
	First, Best float64
	Known       bool
}

// Meter classifies one attempt of a job. It uses bounded memory. The zero value is ready to use for
// a metric to minimise; a value may be copied.
type Meter struct {
	Alpha  float64 // see [Tunables.AlphaWall]; 0: that
	Max    bool    // the metric is to be maximised
	Origin Origin

	class   Class
	reports int     // number of reports so far, at most Use.MinReports
	sum     float64 // sum of the reports since the last evaluation
	n       int     // number of these reports
	bad     bool    // one of them was not finite

	mean float64 // mean of the reports before the last evaluation
	at   int64   // time of the last evaluation, in ms
	has  bool    // mean and at are set
	rate float64 // G of the last evaluation
	had  bool    // rate is set
}

// Class returns the current class.
func (m *Meter) Class() Class { return m.class }

// Report adds a value of the metric.
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

// Evaluate updates the class at a time in ms: wall-clock time, or processor time received, as Alpha
// says. It returns true if the class has changed. Without a new report, the class stays.
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

// change returns G: the change of the metric's mean per second, relative to its range. G is NaN if
// the metric is not finite or constant. G is unknown at the first evaluation, and if time went
// backwards.
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

// next returns the class after an evaluation with G. A job advances by one class per evaluation,
// and only if G has not grown since the last evaluation.
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
