// Package jobref finds jobs by the names that users write, in the state and in the history.
//
// A job is named by its id, 123. A task of an array is also named by the array's id and its index,
// 123_4, several of them by 123_[4-9,12]. A group of a job with several groups is named 123.train.
package jobref

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// Ref is the name of a job, or of several tasks of an array, resolved.
type Ref struct {
	Text    string
	Job     *model.Job    // of the id; nil if there is none
	ID      model.JobID   // of Job
	Members ranges.Ranges // of Job, if the name goes on after the id
}

// One returns the id of the job that r names, and false if it names several.
func (r *Ref) One() (model.JobID, bool) {
	switch {
	case len(r.Members) == 0:
		return r.ID, true
	case r.Members.Len() == 1:
		return r.ID + model.JobID(r.Members[0].First), true
	}
	return 0, false
}

// Spans returns the ids of all jobs that r names, with those of array tasks that have not been made
// yet. The ids of an array's tasks follow its own.
func (r *Ref) Spans() ranges.Ranges {
	id := int(r.ID)
	if len(r.Members) > 0 {
		spans := make(ranges.Ranges, len(r.Members))
		for i, m := range r.Members {
			spans[i] = ranges.Range{First: id + m.First, Last: id + m.Last}
		}
		return spans
	}
	if r.Job != nil && r.Job.Children != nil {
		return ranges.Span(id, id+r.Job.Children.Size)
	}
	return ranges.Span(id, id)
}

// Targets returns the ids that r names. An array's id stands for its tasks.
func (r *Ref) Targets() []model.JobID {
	if len(r.Members) == 0 {
		return []model.JobID{r.ID}
	}
	var ids []model.JobID
	for id := range r.Spans().All() {
		ids = append(ids, model.JobID(id))
	}
	return ids
}

// Finder finds jobs in one view of the state and in the history of this machine.
type Finder struct {
	Replica *replica.Replica // has the jobs of each user
	View    *state.View
	History *history.Store
	Hides   func(*model.Job) bool // whether a job is to be taken for one that there is not; nil: none
}

// Resolve reads the name of a job. It is an error that there is no such job only if the name goes
// on after the id.
func (f *Finder) Resolve(ctx context.Context, text string) (*Ref, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil || n < 1 {
		return nil, problem.Invalid("%q is not a job: write an id such as 123, 123_4 or 123_[4-9] for array tasks, "+
			"123.train for a group", text)
	}
	r := &Ref{Text: text, ID: model.JobID(n)}
	if r.Job, err = f.Find(ctx, r.ID); err != nil {
		return nil, err
	}
	rest := text[end:]
	switch {
	case rest == "":
		return r, nil
	case r.Job == nil:
		return nil, problem.NotFound("unknown job %d", r.ID)
	case rest[0] == '_' && len(rest) > 1:
		r.Members, err = elementsOf(r.Job, rest[1:])
	case rest[0] == '.' && len(rest) > 1:
		r.Members, err = groupOf(r.Job, rest[1:])
	default:
		err = problem.Invalid("%q is not a job: after %d only _INDEX or .GROUP can follow", text, r.ID)
	}
	return r, err
}

// Find returns a job of the state or the history, nil if it is in neither.
func (f *Finder) Find(ctx context.Context, id model.JobID) (*model.Job, error) {
	j := f.View.Job(id)
	if j == nil {
		j = Unmade(f.View, id)
	}
	if j != nil {
		return f.shown(j), nil
	}
	j, err := f.ended(ctx, id)
	if errors.Is(err, history.ErrNoJob) {
		return nil, nil
	}
	return j, err
}

// shown returns a job, nil if it is hidden.
func (f *Finder) shown(j *model.Job) *model.Job {
	if j != nil && f.Hides != nil && f.Hides(j) {
		return nil
	}
	return j
}

// ended returns a job of the history. A hidden one is an error, as one that is not there.
func (f *Finder) ended(ctx context.Context, id model.JobID) (*model.Job, error) {
	j, err := f.History.Get(ctx, id)
	if err == nil && f.shown(j) == nil {
		return nil, history.ErrNoJob
	}
	return j, err
}

// Unmade returns a task that an array has not made yet, as it would be made, nil if id is of no
// such task. The id of a task is the array's and the task's number, so the array has the greatest
// id below it in the state.
func Unmade(v *state.View, id model.JobID) *model.Job {
	record := v.JobBefore(id)
	if record != nil && record.Parent != 0 {
		record = v.Job(record.Parent)
	}
	if record == nil || record.Children == nil || record.Spec.Array == nil {
		return nil
	}
	member := int(id - record.ID)
	waiting, dropped := record.Children.Waiting.Has(member), record.Children.Dropped.Has(member)
	if !waiting && !dropped {
		return nil
	}
	j := *record
	j.ID, j.Parent, j.TaskNumber, j.Children = id, record.ID, member, nil
	j.State, j.Attempt, j.Attempts, j.Seq = model.Pending, 0, nil, 0
	j.Started, j.Ended = model.Stamp{}, model.Stamp{}
	j.ExitCode, j.Signal, j.Ledger = 0, 0, model.Ledger{}
	if record.Children.Fate != model.Cancelled {
		j.CancelledBy = 0 // others were cancelled by that user
	}
	if dropped {
		j.State, j.Ended, j.Reason = model.Cancelled, record.Ended, model.Reason{Text: record.Reason.Text}
	}
	return &j
}

// elementsOf returns the members of an array that indices such as 4 or [4-9,12] name.
func elementsOf(record *model.Job, indices string) (ranges.Ranges, error) {
	if record.Children == nil || record.Spec.Array == nil {
		return nil, problem.Invalid("job %d is not an array: it has no task %s", record.ID, indices)
	}
	elements := record.Spec.Array.Elements()
	spans, missing, err := elements.Select(indices)
	if err != nil {
		return nil, problem.Invalid("tasks %s of array %d: %v", indices, record.ID, err)
	}
	if missing > 0 || len(spans) == 0 {
		return nil, problem.NotFound("array %d has no task %s: its tasks are %s", record.ID, indices,
			elements.Text([]jobspec.Span{{First: 0, Last: elements.Len() - 1}}))
	}
	members := make(ranges.Ranges, len(spans))
	for i, s := range spans {
		members[i] = ranges.Range{First: s.First + 1, Last: s.Last + 1}
	}
	return members.With(nil), nil
}

// groupOf returns the member that runs a group.
func groupOf(record *model.Job, name string) (ranges.Ranges, error) {
	i := slices.IndexFunc(record.Spec.Groups, func(g jobspec.Group) bool { return g.Name == name })
	if record.Children == nil || record.Spec.Array != nil || i < 0 {
		return nil, problem.NotFound("job %d has no group %q with a job of its own", record.ID, name)
	}
	return ranges.Span(i+1, i+1), nil
}
