package fsm

import (
	"errors"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// clock returns the time of day that is seconds after the world's present, as a job file would have
// it.
func (w *world) clock(seconds int64) string {
	return jobspec.FormatTime((int64(w.at)+1_700_000_000_000)/1000 + seconds)
}

func (w *world) timed(begin, deadline int64, edit ...func(*jobspec.Job)) (model.JobID, error) {
	w.t.Helper()
	return w.submit2(alice, nil, append(edit, func(j *jobspec.Job) {
		if begin != 0 {
			j.Begin = w.clock(begin)
		}
		if deadline != 0 {
			j.Deadline = w.clock(deadline)
		}
	})...)
}

func limited(d jobspec.Seconds) func(*jobspec.Job) { return func(j *jobspec.Job) { j.TimeLimit = d } }

func TestBegin(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	id, err := w.timed(60, 0)
	w.ok(err)
	if j := w.job(id); j.Reason.Code != model.ReasonBegin || j.Eligible != w.at+60_000 || j.Reason.Until != j.Eligible {
		t.Fatalf("eligible at %d, %+v", j.Eligible, j.Reason)
	}
	w.refused(w.start(id, "n"), model.ErrNotEligible)
	w.ok(w.control(model.VerbHold, 1000, false, id))
	w.ok(w.control(model.VerbRelease, 1000, false, id))
	if j := w.job(id); j.Reason.Code != model.ReasonBegin {
		t.Fatalf("after its release it waits for %+v", j.Reason)
	}
	w.wait(60)
	w.ok(w.start(id, "n"))
	past, err := w.timed(-60, 0)
	w.ok(err)
	if j := w.job(past); j.Eligible != w.at || j.Reason.Code != model.ReasonNone {
		t.Fatalf("a time to begin that has passed: eligible at %d, %+v", j.Eligible, j.Reason)
	}
}

func TestDeadline(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	giveUp := func(id model.JobID) error { return w.plan(&GiveUp{Job: id}) }
	free, err := w.timed(0, 100)
	w.ok(err)
	tight, err := w.timed(0, 100, limited(40))
	w.ok(err)
	none := w.submit(1, 1)
	w.wait(60)
	w.refused(giveUp(tight), model.ErrNotPastDue) // it could start at this very instant
	w.at++
	w.ok(giveUp(tight))
	w.state(tight, model.PastDue)
	if j := w.job(tight); j.Reason.Code != model.ReasonDeadline || j.Seq == 0 {
		t.Fatalf("%+v", j.Reason)
	}
	w.wait(40)
	w.ok(giveUp(free))
	w.refused(giveUp(free), model.ErrWrongState)
	w.refused(giveUp(none), model.ErrNotPastDue)
	w.refused(giveUp(99), model.ErrNoJob)
	late, err := w.timed(0, 10)
	w.ok(err)
	w.ok(w.start(late, "n"))
	w.wait(20)
	w.refused(giveUp(late), model.ErrWrongState)
}

func TestTimesRefused(t *testing.T) {
	w := newWorld(t)
	for _, c := range [][3]int64{{0, -5, 0}, {0, 50, 60}, {100, 50, 0}, {30, 50, 40}} {
		_, err := w.timed(c[0], c[1], limited(jobspec.Seconds(c[2])))
		if spec := (*model.SpecError)(nil); !errors.As(err, &spec) {
			t.Errorf("begin %d, deadline %d, time_limit %d: %v", c[0], c[1], c[2], err)
		}
	}
	_, err := w.submit2(alice, nil, func(j *jobspec.Job) { j.Begin = "tomorrow" })
	if spec := (*model.SpecError)(nil); !errors.As(err, &spec) {
		t.Error(err)
	}
}
