package jobref

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/server/submission"
	"github.com/rota-hpc/rota/jobspec"
)

// Facts returns what the history has of the jobs that a submission depends on and the state has no
// more. It writes their ids where tasks or groups were named, or jobs by a name that the state has
// no more.
func (f *Finder) Facts(ctx context.Context, owner string, jobs []*jobspec.Job) ([]fsm.PastJob, error) {
	var facts []fsm.PastJob
	known := names{f: f, owner: owner}
	for i, j := range jobs {
		for d := range j.Dependencies {
			for k := range j.Dependencies[d].Jobs {
				text := &j.Dependencies[d].Jobs[k]
				fact, err := f.fact(ctx, &known, text)
				if err != nil {
					p := problem.Of(err)
					p.Detail = submission.Prefix(jobs, i) + "dependency on " + *text + ": " + p.Detail
					return nil, p
				}
				if fact != nil {
					facts = append(facts, *fact)
				}
			}
		}
		known.add(j.Name)
	}
	return facts, nil
}

// names has the names of one owner's jobs, of those in the state and those of the same submission.
type names struct {
	f     *Finder
	owner string
	all   map[string]bool // nil until it is needed
	more  []string        // of the same submission
}

func (n *names) add(name string) {
	if n.all != nil {
		n.all[name] = true
		return
	}
	n.more = append(n.more, name)
}

func (n *names) has(name string) bool {
	if n.all == nil {
		n.all = map[string]bool{}
		for _, one := range n.more {
			n.all[one] = true
		}
		for _, id := range n.f.Replica.JobsOf(n.owner) {
			if j := n.f.View.Job(id); j != nil && j.Parent == 0 {
				n.all[j.Spec.Name] = true
			}
		}
	}
	return n.all[name]
}

// leftBefore reports whether a member has ended and left the state before its array.
func leftBefore(v *state.View, record *model.Job, id model.JobID) bool {
	f, n := record.Children, int(id-record.ID)
	return n > 0 && f != nil && v.Job(id) == nil && !f.Waiting.Has(n) && !f.Dropped.Has(n)
}

// namesGroup reports whether a text has the form 123.train. Names of jobs may have it too.
func namesGroup(text string) bool {
	job, _, ok := strings.Cut(text, ".")
	return ok && job != "" && strings.Trim(job, "0123456789") == ""
}

// fact is what the history says of one job that is depended on, nil when the state knows it.
func (f *Finder) fact(ctx context.Context, known *names, target *string) (*fsm.PastJob, error) {
	text := *target
	t, err := jobspec.ParseTarget(text)
	if err != nil {
		return nil, nil // the state will say so
	}
	if t.Name != "" && !namesGroup(text) {
		return f.factByName(ctx, known, target)
	}
	if !t.Element && t.ID > 0 && f.shown(f.View.Job(model.JobID(t.ID))) != nil {
		return nil, nil
	}
	r, err := f.Resolve(ctx, text)
	if p := (*api.Problem)(nil); t.Name != "" && errors.As(err, &p) && p.Code == api.CodeNotFound {
		return f.factByName(ctx, known, target) // a name that looks like a group
	}
	if err != nil {
		return nil, err
	}
	id, single := r.One()
	if !single {
		return nil, problem.Invalid("it names %d array tasks: name the whole array, or a single task", r.Members.Len())
	}
	record := f.shown(f.View.Job(r.ID))
	if record == nil || strings.Contains(text, ".") { // the state reads 123_4, as long as it has 123
		*target = strconv.FormatInt(int64(id), 10)
	}
	if record != nil && !leftBefore(f.View, record, id) {
		return nil, nil // the state knows the array, and by it the task
	}
	j, err := f.ended(ctx, id)
	if errors.Is(err, history.ErrNoJob) {
		return nil, problem.NotFound("unknown job")
	}
	if err != nil {
		return nil, err
	}
	return factOf(j), nil
}

func factOf(j *model.Job) *fsm.PastJob {
	return &fsm.PastJob{ID: j.ID, Code: j.ExitCode, Ended: j.State, UID: j.Owner.UID}
}

// factByName finds the owner's newest job of a name in the history, if the state has none. That
// there is none is for the state to say.
func (f *Finder) factByName(ctx context.Context, known *names, target *string) (*fsm.PastJob, error) {
	if known.has(*target) {
		return nil, nil
	}
	found, err := f.History.Query(ctx, history.Filter{User: known.owner, Name: *target, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	j := found[0]
	if j.Parent != 0 { // its array ends after it and has not been stored yet
		return nil, nil
	}
	*target = strconv.FormatInt(int64(j.ID), 10)
	return factOf(j), nil
}
