package telemetry

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

func report(s *Samples, id model.JobID, attempt int, step int64, metrics map[string]float64) {
	s.Put(id, AttemptProgress{Attempt: attempt, Step: step, Metrics: metrics}, "loss",
		func(id model.JobID) bool { return id >= endedFrom })
}

// endedFrom: jobs with a higher number have ended.
const endedFrom = 1_000_000

func loss(v float64) map[string]float64 { return map[string]float64{"loss": v} }

// TestCurveOfALongJob: however long a job reports, its curve goes from its first report to the
// newest, in order, with a bounded number of points that lie evenly.
func TestCurveOfALongJob(t *testing.T) {
	var s Samples
	for step := int64(1); step <= 100_000; step++ {
		report(&s, 7, 1, step, loss(1/float64(step)))
		report(&s, 7, 1, step-1, loss(99)) // another worker is behind
	}
	p := s.Points(7, "loss")
	if n := len(p); n < maxPoints/2 || n > maxPoints+1 {
		t.Fatalf("%d points", n)
	}
	if p[0].Step != 1 || p[len(p)-1] != (Point{100_000, 1e-5}) {
		t.Errorf("it goes from %v to %v", p[0], p[len(p)-1])
	}
	gap := p[1].Step - p[0].Step
	for i := 1; i < len(p)-1; i++ {
		if p[i].Value != 1/float64(p[i].Step) || p[i].Step-p[i-1].Step != gap {
			t.Fatalf("point %d is %v after %v", i, p[i], p[i-1])
		}
	}
}

// TestCurveOfAJobOfTwoWorkers: workers that report the same steps make the curve that one would
// make, of what the last of them says of each step.
func TestCurveOfAJobOfTwoWorkers(t *testing.T) {
	var one, two Samples
	for step := int64(1); step <= 10_000; step++ {
		report(&one, 7, 1, step, loss(1/float64(step)))
		report(&two, 7, 1, step, loss(99))
		report(&two, 7, 1, step, loss(1/float64(step)))
	}
	if a, b := one.Points(7, "loss"), two.Points(7, "loss"); !slices.Equal(a, b) {
		t.Errorf("of one worker %d points up to %v, of two %d up to %v", len(a), a[len(a)-1], len(b), b[len(b)-1])
	}
}

// TestCurvesOfEndedJobs stay until there are too many. Then they make room, and take no points from
// the curves of jobs that run.
func TestCurvesOfEndedJobs(t *testing.T) {
	var s Samples
	const most = allPoints / maxPoints
	report(&s, 7, 1, 0, loss(0))
	for i := range model.JobID(3 * most) {
		report(&s, endedFrom+i, 1, 0, loss(0))
		report(&s, 7, 1, int64(i)+1, loss(0))
		if i == most-2 && len(s.Points(endedFrom, "loss")) != 1 {
			t.Error("the curve of an ended job is dropped although there is room")
		}
	}
	if s.count > most || len(s.last) != s.count || len(s.series) != s.count || s.Of(endedFrom).Attempt != 0 {
		t.Errorf("%d curves, %d jobs with curves, %d jobs; at most %d", s.count, len(s.series), len(s.last), most)
	}
	if n := len(s.Points(7, "loss")); n < maxPoints/2 {
		t.Errorf("the job that runs has %d points", n)
	}
	for _, one := range s.series[7] {
		if cap(one.points) > maxPoints {
			t.Errorf("its points take the memory of %d", cap(one.points))
		}
	}
}

// TestTooManySamples: those of ended jobs are forgotten before those of jobs that run.
func TestTooManySamples(t *testing.T) {
	var s Samples
	report(&s, 7, 1, 5, nil)
	for i := range model.JobID(maxSamples) {
		report(&s, endedFrom+i, 1, 0, nil)
	}
	if s.Of(7).Step != 5 || len(s.last) > 2 {
		t.Errorf("%d samples, that of job 7 is %+v", len(s.last), s.Of(7))
	}
	for i := range model.JobID(maxSamples) {
		report(&s, 8+i, 1, 0, nil)
	}
	if s.Of(7).Step != 0 || len(s.last) > maxSamples {
		t.Errorf("%d samples of jobs that run", len(s.last))
	}
}

// TestCurveOfAJobThatGoesBack: a second attempt goes on from a checkpoint, and does again what came
// after it.
func TestCurveOfAJobThatGoesBack(t *testing.T) {
	var s Samples
	for step := range int64(10) {
		report(&s, 7, 1, step, loss(float64(step)))
	}
	report(&s, 7, 2, 6, loss(60))
	report(&s, 7, 1, 9, loss(9)) // the first attempt is over
	report(&s, 7, 2, 7, loss(70))
	var steps []int64
	for _, p := range s.Points(7, "loss") {
		steps = append(steps, p.Step)
	}
	if !slices.Equal(steps, []int64{0, 1, 2, 3, 4, 5, 6, 7}) || s.Points(7, "loss")[6].Value != 60 {
		t.Errorf("it is %v", s.Points(7, "loss"))
	}
	report(&s, 7, 3, 0, loss(5)) // from scratch
	if got := s.Points(7, "loss"); !slices.Equal(got, []Point{{0, 5}}) {
		t.Errorf("from scratch it is %v", got)
	}
}

// TestCurvesAreBounded: a job with many metrics has curves of some, and of the watched one; a
// cluster with many jobs has shorter curves.
func TestCurvesAreBounded(t *testing.T) {
	var s Samples
	many := map[string]float64{"nan": math.NaN(), "inf": math.Inf(1)}
	for i := range 20 {
		many["a"+strconv.Itoa(100+i)] = float64(i)
	}
	many["loss"] = 1
	report(&s, 7, 1, 1, many)
	names := s.Series(7)
	if len(names) != maxMetrics+1 || !slices.Contains(names, "loss") || slices.Contains(names, "nan") ||
		slices.Contains(names, "inf") {
		t.Errorf("curves of %v", names)
	}
	if names := s.Series(8); names == nil || len(names) != 0 || s.Points(8, "loss") != nil {
		t.Errorf("an unknown job has %v", names)
	}
	s.Clear()
	if len(s.Series(7)) != 0 || s.count != 0 {
		t.Error("a new leader begins with the curves of another time")
	}
	const jobs = allPoints / maxPoints * 4
	for id := range model.JobID(jobs) {
		report(&s, id+1, 1, 0, loss(0))
	}
	for step := range int64(1000) {
		report(&s, 1, 1, step, loss(0))
	}
	if n := len(s.Points(1, "loss")); n > maxPoints/4+1 || n < maxPoints/8 {
		t.Errorf("with %d curves one has %d points", jobs, n)
	}
}
