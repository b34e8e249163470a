package show

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Suspension returns why a job pauses, nil if it does not.
func Suspension(j *api.Job) *api.Suspension {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].End == nil {
		return j.Attempts[n-1].Suspension
	}
	return nil
}

// Suspended writes since when a job is suspended and for which job, and when it goes on; "" of one
// that is not.
func Suspended(j *api.Job, utc bool) string {
	s := Suspension(j)
	if s == nil {
		return ""
	}
	text := "will pause as soon as it can"
	if s.Since != nil {
		text = "since " + Time(s.Since, utc)
	}
	if s.For != 0 {
		text += fmt.Sprintf(" for job %d", s.For)
	}
	goesOn := "continues when it is its turn"
	if s.Cause.Preempts() {
		goesOn = "continues where its room comes free"
	}
	return fmt.Sprintf("%s (%s), %s", text, s.Cause, goesOn)
}

// SuspendedFor is Suspended behind where a job is.
func SuspendedFor(j *api.Job, utc bool) string {
	if text := Suspended(j, utc); text != "" {
		return " " + text
	}
	return ""
}

// Thousandths writes thousandths as a number with two decimals.
func Thousandths(n int64) string { return fmt.Sprintf("%d.%02d", (n+5)/1000, (n+5)%1000/10) }

// Trial writes what was tried with an attempt, and what it brought. Nodes are those of the attempt,
// "" if they are not known.
func Trial(t *api.Trial, nodes string) string {
	text := string(t.What)
	switch t.What {
	case model.TrialPack:
		text = "packed"
		if t.With != 0 {
			text = fmt.Sprintf("packed with %d", t.With)
		}
	case model.TrialMigrate:
		text = "moved"
		if nodes != "" {
			text += " to " + nodes
		}
	}
	var said []string
	switch {
	case t.ExpectedGain > 0 && t.MeasuredGain > 0:
		said = append(said, Thousandths(t.ExpectedGain)+"x expected", Thousandths(t.MeasuredGain)+"x measured")
	case t.ExpectedGain > 0:
		said = append(said, Thousandths(t.ExpectedGain)+"x expected")
	case t.MeasuredGain > 0:
		said = append(said, Thousandths(t.MeasuredGain)+"x")
	}
	switch {
	case t.Undone && t.What == model.TrialPack && t.MeasuredGain == 0:
		said = append(said, "never measured, undone")
	case t.Undone && t.What == model.TrialPack:
		said = append(said, "undone")
	case t.Undone: // the job stays where it has moved
		said = append(said, "brought nothing")
	case t.MeasuredGain > 0 && t.What == model.TrialPack:
		said = append(said, "kept")
	case t.MeasuredGain == 0:
		said = append(said, "not measured yet")
	}
	if len(said) == 0 {
		return text
	}
	return text + ": " + strings.Join(said, ", ")
}

// EventText writes what an event says beside its columns.
func EventText(e *api.Event) string {
	if e.What == "" {
		return Clean(e.Text)
	}
	return Trial(&api.Trial{What: e.What, With: e.With, ExpectedGain: e.ExpectedGain, MeasuredGain: e.MeasuredGain,
		Undone: e.Undone}, e.Node)
}
