package trace

import (
	"strings"
	"testing"
)

// A job learns ever more slowly, and reaches an accuracy when it says so and not before.
func TestLearning(t *testing.T) {
	const work = 30 * minute
	for _, half := range []int64{1, 10 * second, 3 * minute, 10 * hour, maxSearchWork} {
		l := Learning{Final: 850, Half: half}
		if got := l.Accuracy(work, work); got != 850 {
			t.Errorf("half %d: %d after all work", half, got)
		}
		if l.Accuracy(work, 0) != 0 || l.Accuracy(work, 2*work) != 850 {
			t.Errorf("half %d: it learns before it begins, or after its end", half)
		}
		last := int64(0)
		for done := int64(0); done <= work; done += 7 * second {
			now := l.Accuracy(work, done)
			if now < last {
				t.Fatalf("half %d: %d after %d ms, and %d before", half, now, done, last)
			}
			last = now
		}
		for accuracy := int64(1); accuracy <= 850; accuracy += 50 {
			at, ok := l.Reaches(work, accuracy)
			if !ok || l.Accuracy(work, at) < accuracy || l.Accuracy(work, at-1) >= accuracy {
				t.Errorf("half %d: %d thousandths are reached after %d ms, %v", half, accuracy, at, ok)
			}
		}
		if at, ok := l.Reaches(work, 851); ok {
			t.Errorf("half %d: more than its final accuracy after %d ms", half, at)
		}
	}
	l := Learning{Final: 1000, Half: maxSearchWork}
	if got := l.Accuracy(maxSearchWork, maxSearchWork); got != 1000 {
		t.Errorf("the longest work overflows: %d", got)
	}
}

func TestSearchesAreChecked(t *testing.T) {
	for _, test := range []struct {
		change func(*Job)
		want   string
	}{
		{func(j *Job) {}, ""},
		{func(j *Job) { j.Learning = nil }, "need values for learning"},
		{func(j *Job) { j.Search = nil }, "need values for learning"},
		{func(j *Job) { j.Search.Goal = 0 }, "goal"},
		{func(j *Job) { j.Learning.Final = 1001 }, "accuracy"},
		{func(j *Job) { j.Search.Keep = 0 }, "a search needs either both"},
		{func(j *Job) { j.Search.AtStep = 0 }, "a search needs either both"},
		{func(j *Job) { j.Learning.Half = 0 }, "1 ms"},
		{func(j *Job) { j.Work = maxSearchWork + 1 }, "1 ms"},
	} {
		j := NewJob("a")
		j.Work, j.Search, j.Learning = minute, &Search{Goal: 840, AtStep: 5, Keep: 1}, &Learning{Final: 850, Half: second}
		j.Fill()
		test.change(j)
		if err := j.Check(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want one with %q", err, test.want)
		}
	}
}
