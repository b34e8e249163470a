package jobs

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/jobref"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// jobFilter selects jobs by the parameters of a list.
type jobFilter struct {
	refs                        []*jobref.Ref // jobs, with all members of an array or pipeline job
	named                       ranges.Ranges // their ids, as ranges: a name of a few letters may stand for 100,000
	user, account, queue, class string
	name                        string
	states                      []model.JobState
	all                         bool
	now                         model.Instant // for the states that depend on the time
}

func (h *Handlers) jobFilter(x *exchange.Exchange) (jobFilter, error) {
	q := x.Query
	f := jobFilter{user: q.Get("user"), account: q.Get("account"), queue: q.Get("queue"), class: q.Get("class"),
		name: q.Get("name"), all: x.Flag("all")}
	if f.queue != "" {
		f.queue = x.Config().QueueName(f.queue)
	}
	err := selectNamed(x, &f, splitAll(q["id"]))
	if err != nil {
		return f, err
	}
	if f.states, err = parseStates(splitAll(q["state"])); slices.Contains(f.states, model.Checkpointing) {
		f.now = h.Replica.Now(x.View)
	}
	return f, err
}

// maxSpans bounds the ranges of ids that one request may name: every other task of four of the
// largest arrays.
const maxSpans = 200_000

// selectNamed has a filter select jobs by their names.
func selectNamed(x *exchange.Exchange, f *jobFilter, words []string) error {
	for _, s := range words {
		r, err := x.Finder().Resolve(x.Context(), s)
		if err != nil {
			return err
		}
		f.refs, f.named = append(f.refs, r), append(f.named, r.Spans()...)
		if len(f.named) > maxSpans {
			return problem.Invalid("the request names more than %d jobs and ranges of array tasks: name fewer at a time",
				maxSpans)
		}
	}
	f.named = f.named.With(nil)
	return nil
}

// splitAll returns the values of a parameter that may be repeated and may be a list with commas.
func splitAll(values []string) []string {
	var all []string
	for _, v := range values {
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// parseStates reads letters or long names of states.
func parseStates(words []string) ([]model.JobState, error) {
	var states []model.JobState
next:
	for _, w := range words {
		for code, name := range present.StateNames {
			if strings.EqualFold(w, string(code)) || strings.EqualFold(w, name) {
				states = append(states, code)
				continue next
			}
		}
		return nil, problem.Invalid("%q is not a state of a job: write letters such as PD or R, or a name such as PENDING", w)
	}
	return states, nil
}

func (f *jobFilter) selects(j *model.Job) bool {
	switch {
	case f.user != "" && f.user != j.Owner.User,
		f.account != "" && f.account != j.Account,
		f.queue != "" && f.queue != j.Queue,
		f.class != "" && f.class != string(j.Class),
		f.name != "" && f.name != j.Spec.Name,
		len(f.refs) > 0 && !f.named.Has(int(j.ID)):
		return false
	case len(f.states) > 0:
		return slices.Contains(f.states, j.State) || slices.Contains(f.states, j.ShownState(f.now)) ||
			j.Children != nil && j.Waits() && slices.Contains(f.states, model.Pending)
	}
	return f.all || len(f.refs) > 0 || !j.State.Final()
}

// selection returns what a filter selects of a job: the whole of it or, of an array, some tasks
// that have not been made. Those that have been made are jobs of their own; an array that is
// selected as a whole takes them along.
func (f *jobFilter) selection(j *model.Job) (members ranges.Ranges, whole bool) {
	single := len(f.states) > 0 || len(f.refs) > 0
	switch {
	case j.Children == nil:
		return nil, f.selects(j) && (single || j.Parent == 0)
	case !single:
		return nil, f.selects(j)
	}
	waiting, rest := j.Children.Waiting, *f
	rest.states, rest.refs, rest.named = nil, nil, nil
	if !rest.selects(j) || len(f.states) > 0 && !slices.Contains(f.states, model.Pending) {
		return nil, false
	}
	if len(f.refs) == 0 {
		return waiting, false
	}
	for _, r := range f.refs {
		switch {
		case r.ID != j.ID:
		case len(r.Members) == 0:
			return waiting, false
		default:
			members = members.With(r.Members.Both(waiting))
		}
	}
	return members, false
}
