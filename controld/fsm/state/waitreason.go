package state

import (
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// HasUnsettled reports whether more follows from jobs that have ended than one entry of the log may
// do. A plan with a Settle goes on with it.
func (v *View) HasUnsettled() bool { return v.unsettled }

// DependencyReason says what a job waits for because of its dependencies, and nothing if it has
// none that are open.
func (v *View) DependencyReason(j *model.Job) model.Reason {
	if len(j.Dependencies) == 0 {
		return model.Reason{}
	}
	texts := make([]string, len(j.Dependencies))
	for i := range j.Dependencies {
		texts[i] = v.needText(&j.Dependencies[i])
	}
	return model.Reason{Code: model.ReasonDependency, For: j.Dependencies[0].Jobs[0], Text: "it waits for " +
		strings.Join(texts, ", and for ")}
}

// needText says in words what one dependency waits for: job 12 to end well (afterok).
func (v *View) needText(n *model.OpenDependency) string {
	what := map[string]string{
		model.NeedAfter: "to start", model.NeedAfterOK: "to end well", model.NeedAfterAny: "to end",
		model.NeedAfterNotOK: "to end otherwise than well",
		model.NeedAfterCorr:  "to have elements that ended well", model.NeedSingleton: "of its name to end",
	}[n.Type]
	return fmt.Sprintf("%s %s (%s)", v.jobsText(n), what, n.Type)
}

// namedAtMost bounds the jobs that a reason names one by one.
const namedAtMost = 3

func (v *View) jobsText(n *model.OpenDependency) string {
	var names []string
	for _, id := range n.Jobs[:min(len(n.Jobs), namedAtMost)] {
		names = append(names, "job "+v.NameOf(id))
	}
	if more := len(n.Jobs) - namedAtMost; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	link := " and "
	if n.Any {
		link = " or "
	}
	return strings.Join(names, link)
}

// NameOf writes a job's id as its user would: 123, or 123_4 for an array task. A group of a job
// whose groups run one by one is 123.train.
func (v *View) NameOf(id model.JobID) string {
	r, n := v.ParentOf(id)
	switch {
	case r == nil:
		return fmt.Sprint(id)
	case r.Spec.Array != nil:
		return fmt.Sprintf("%d_%d", r.ID, r.Spec.Array.Index(n-1))
	}
	return fmt.Sprintf("%d.%s", r.ID, r.Spec.Groups[n-1].Name)
}
