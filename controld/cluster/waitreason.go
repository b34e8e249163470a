package cluster

import (
	"fmt"
	"strings"
)

// Unsettled reports whether more follows from jobs that have ended than one entry of the log may do. A plan with a Settle goes on with it.
func (v *View) Unsettled() bool { return v.unsettled }

// Waiting says what a job waits for because of its dependencies, and nothing if it has none that are open.
func (v *View) Waiting(j *Job) Reason {
	if len(j.Needs) == 0 {
		return Reason{}
	}
	texts := make([]string, len(j.Needs))
	for i := range j.Needs {
		texts[i] = v.needText(&j.Needs[i])
	}
	return Reason{Code: ReasonDependency, For: j.Needs[0].Jobs[0], Text: "it waits for " + strings.Join(texts, ", and for ")}
}

// needText says in words what one dependency waits for: job 12 to end well (afterok).
func (v *View) needText(n *Need) string {
	what := map[string]string{
		needAfter: "to start", needAfterOK: "to end well", needAfterAny: "to end", needAfterNotOK: "to end otherwise than well",
		needAfterCorr: "to have elements that ended well", needSingleton: "of its name to end",
	}[n.Type]
	return fmt.Sprintf("%s %s (%s)", v.jobsText(n), what, n.Type)
}

// namedAtMost bounds the jobs that a reason names one by one.
const namedAtMost = 3

func (v *View) jobsText(n *Need) string {
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

// NameOf writes a job's id as its user would: 123, for an element of an array 123_4, for a group of a job whose groups run one by one
// 123.train.
func (v *View) NameOf(id JobID) string {
	r, n := v.Element(id)
	switch {
	case r == nil:
		return fmt.Sprint(id)
	case r.Spec.Array != nil:
		return fmt.Sprintf("%d_%d", r.ID, r.Spec.Array.Index(n-1))
	}
	return fmt.Sprintf("%d.%s", r.ID, r.Spec.Groups[n-1].Name)
}
