package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// instant turns a time in a job (RFC 3339) into an instant on the log's clock. Its distance from
// now is its distance from the wall clock of this entry.
func (m *Machine) instant(text string) model.Instant {
	seconds, _ := jobspec.ParseTime(text)
	return m.v.At() + model.Instant(seconds*1000-int64(m.v.Wall()))
}

// setTimes fills in from when a drafted job may start and when it is given up.
func (m *Machine) setTimes(j *model.Job) error {
	if text := j.Spec.Begin; text != "" {
		if at := m.instant(text); at > j.Eligible {
			j.Eligible = at
			if j.Hold == model.NotHeld {
				j.Reason = model.Reason{Code: model.ReasonBegin, Until: at}
			}
		}
	}
	if j.Spec.Deadline == "" {
		return nil
	}
	j.Deadline = m.instant(j.Spec.Deadline)
	switch {
	case j.Deadline <= m.v.At():
		return &model.SpecError{Text: fmt.Sprintf("deadline %s has passed", j.Spec.Deadline)}
	case j.PastDue(m.v.At()):
		return &model.SpecError{Text: fmt.Sprintf(
			"deadline %s comes before a job that begins then and runs for its time_limit could end", j.Spec.Deadline)}
	}
	return nil
}
