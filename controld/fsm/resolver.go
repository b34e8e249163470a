package fsm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// ErrForgotten says that a job with dependents has left the state, and that the submission does not
// say what the history knows of it. The caller asks the history and tries again.
var ErrForgotten = errors.New("the job has left the queue, and the history has not been queried for it")

// resolver turns the dependencies of one submission into ids.
type resolver struct {
	m     *Machine
	owner model.Identity
	admin bool
	facts map[model.JobID]PastJob
	made  []*model.Job           // jobs of this submission that are not in the state yet, by the ids that they will get
	kin   []*model.Job           // those of them with children, by id
	named map[string]model.JobID // the youngest of each name among the first seen of made
	seen  int

	edges   int                 // jobs waited for, of all jobs of this submission
	waiting map[model.JobID]int // jobs of this submission that wait for a job
}

func (m *Machine) newResolver(owner model.Identity, admin bool, facts []PastJob) *resolver {
	r := &resolver{m: m, owner: owner, admin: admin}
	if len(facts) > 0 {
		r.facts = make(map[model.JobID]PastJob, len(facts))
		for _, f := range facts {
			r.facts[f.ID] = f
		}
	}
	return r
}

// resolve fills in what a drafted job, which has its id, depends on.
func (r *resolver) resolve(j *model.Job) error {
	for i := range j.Spec.Dependencies {
		d := &j.Spec.Dependencies[i]
		n, err := r.need(j, d)
		if err != nil {
			return fmt.Errorf("dependency %d (%s): %w", i+1, d.Type, err)
		}
		if len(n.Jobs) > 0 {
			j.Dependencies = append(j.Dependencies, n)
		}
	}
	return r.limitWaiting(j)
}

// limitWaiting bounds what the end of one job costs. Each job that waits for it is looked at then,
// with all the others that it waits for.
func (r *resolver) limitWaiting(j *model.Job) error {
	targets := j.Targets()
	r.edges += len(targets)
	if err := model.Limit("the number of jobs waited for in one submission", int64(r.edges), model.MaxEdgesPerCall,
		""); err != nil || len(targets) == 0 {
		return err
	}
	if r.waiting == nil {
		r.waiting = map[model.JobID]int{}
	}
	for _, id := range targets {
		r.waiting[id]++
		n := len(r.m.s.DependentsOf(id)) + r.waiting[id]
		what := fmt.Sprintf("the number of jobs that wait for job %d, by one that waits for %d", id, len(targets))
		if len(targets) == 1 {
			what = fmt.Sprintf("the number of jobs that wait for job %d", id)
		}
		if err := model.Limit(what, int64(n), int64(model.MaxWaiting/len(targets)), ""); err != nil {
			return err
		}
	}
	return nil
}

// note remembers a job of this submission for those after it.
func (r *resolver) note(j *model.Job) {
	r.made = append(r.made, j)
	if j.Children != nil {
		r.kin = append(r.kin, j)
	}
}

// need makes one dependency. One without jobs is met.
func (r *resolver) need(j *model.Job, d *jobspec.Dependency) (model.OpenDependency, error) {
	n := model.OpenDependency{Type: d.Type, Any: d.Match == "any", Delay: d.Delay}
	if d.Type == model.NeedSingleton {
		if id := r.openBefore(j); id != 0 {
			n.Jobs = []model.JobID{id}
		}
		return n, nil
	}
	for _, text := range d.Jobs {
		id, err := r.target(text)
		if err != nil {
			return n, err
		}
		n.Jobs = append(n.Jobs, id)
	}
	slices.Sort(n.Jobs)
	n.Jobs = slices.Compact(n.Jobs)
	if d.Type == model.NeedAfterCorr {
		return n, r.checkCounterparts(j, &n)
	}
	return n, nil
}

// openBefore returns the youngest unfinished job of a job's owner and name that is older.
func (r *resolver) openBefore(j *model.Job) model.JobID {
	if id := r.youngest(j.Spec.Name); id != 0 {
		return id
	}
	return r.m.s.OpenNamedBefore(j)
}

// target finds the job that a text names: 123, 123_4, or the name of the owner's newest job.
func (r *resolver) target(text string) (model.JobID, error) {
	t, err := jobspec.ParseTarget(text)
	if err != nil {
		return 0, err
	}
	id := model.JobID(t.ID)
	switch {
	case t.Name != "":
		if id = r.byName(t.Name); id == 0 {
			return 0, fmt.Errorf("job %q of %s: %w", text, r.owner.User, model.ErrNoJob)
		}
		return id, nil
	case !t.Element:
		return id, r.mayDependOn(id, text)
	}
	parent := r.job(id)
	if parent == nil {
		return 0, fmt.Errorf("element %s: its job has left the queue: %w", text, model.ErrNoJob)
	}
	k := -1
	if parent.Spec.Array != nil && parent.Children != nil {
		k = parent.Spec.Array.Ordinal(t.Index)
	}
	if k < 0 {
		return 0, fmt.Errorf("element %s: %w", text, model.ErrNoJob)
	}
	task := id + 1 + model.JobID(k)
	if err := r.mayDependOn(id, text); err != nil {
		return 0, err
	}
	return task, r.mayDependOn(task, text)
}

func (r *resolver) byName(name string) model.JobID {
	if id := r.youngest(name); id != 0 {
		return id
	}
	return r.m.s.NewestNamed(r.owner.UID, name)
}

// job returns a job of this submission or of the state.
func (r *resolver) job(id model.JobID) *model.Job {
	if i, ok := slices.BinarySearchFunc(r.made, id,
		func(j *model.Job, id model.JobID) int { return cmp.Compare(j.ID, id) }); ok {
		return r.made[i]
	}
	return r.m.v.Job(id)
}

// youngest returns the last job of this submission with a name, or 0. Few submissions ask, so names
// are only taken down then.
func (r *resolver) youngest(name string) model.JobID {
	if r.named == nil && len(r.made) > 0 {
		r.named = make(map[string]model.JobID, len(r.made))
	}
	for ; r.seen < len(r.made); r.seen++ {
		r.named[r.made[r.seen].Spec.Name] = r.made[r.seen].ID
	}
	return r.named[name]
}

// mayDependOn refuses jobs that never were, that are another user's, or of which nothing is known
// any more.
func (r *resolver) mayDependOn(id model.JobID, text string) error {
	owner, f := uint32(0), r.facts[id]
	switch j := r.parent(id); {
	case j != nil && (r.job(id) != nil || !r.gone(id, j)):
		owner = j.Owner.UID
	case id > r.m.v.LastJob() || f.Missing:
		return fmt.Errorf("job %s: %w", text, model.ErrNoJob)
	case f.ID == 0:
		return fmt.Errorf("job %s: %w", text, ErrForgotten)
	default:
		owner = f.UID
	}
	if owner != r.owner.UID && !r.admin {
		return fmt.Errorf("job %s is another user's: %w", text, model.ErrNotOwner)
	}
	return nil
}

// parent returns a job, or for a child the parent job that knows of it.
func (r *resolver) parent(id model.JobID) *model.Job {
	if j := r.job(id); j != nil {
		return j
	}
	i, _ := slices.BinarySearchFunc(r.kin, id, func(j *model.Job, id model.JobID) int { return cmp.Compare(j.ID, id) })
	if i > 0 && id <= r.kin[i-1].ID+model.JobID(r.kin[i-1].Children.Size) {
		return r.kin[i-1]
	}
	parent, _ := r.m.v.ParentOf(id)
	return parent
}

// gone reports whether a child of a parent job has been made and has left the state.
func (r *resolver) gone(id model.JobID, parent *model.Job) bool {
	n := int(id - parent.ID)
	return !parent.Children.Waiting.Has(n) && !parent.Children.Dropped.Has(n)
}

// progress returns how far a job has come, as far as state and facts know it. Jobs of this
// submission have not begun.
func (r *resolver) progress(id model.JobID) lifecycle.ParentProgress {
	if f, ok := r.facts[id]; ok && r.m.v.Job(id) == nil {
		return lifecycle.ParentProgress{Started: true, Ended: true, Well: f.Ended == model.Completed}
	}
	if id > r.m.v.LastJob() {
		return lifecycle.ParentProgress{}
	}
	return r.m.v.Progress(id)
}

// settleNew draws the conclusions of what had been decided before a job was submitted. Jobs that
// only the facts know of are looked at here, once; the others as at any other time.
func (r *resolver) settleNew(j *model.Job) {
	if len(j.Dependencies) == 0 {
		return
	}
	r.m.jobs.Reconsider(j.ID) // those of this submission that it waits for may have ended before it was stored
	next := *j
	next.Dependencies = nil
	cancelled := false
	for _, n := range j.Dependencies {
		switch n.Type {
		case model.NeedAfterCorr:
			r.noteAlreadyEnded(&n)
			next.Dependencies = append(next.Dependencies, n)
		case model.NeedSingleton: // its predecessor was unfinished a moment ago
			next.Dependencies = append(next.Dependencies, n)
		default:
			cancelled = !r.m.jobs.Conclude(&next, n, lifecycle.DependencyOn(&n, r.progress)) || cancelled
		}
	}
	if cancelled {
		r.m.jobs.GiveUp(j, model.Cancelled, next.Reason, 0)
		return
	}
	if next.Hold == j.Hold && next.Eligible == j.Eligible &&
		slices.EqualFunc(next.Dependencies, j.Dependencies, sameJobs) {
		return
	}
	r.m.jobs.Put(&next)
	if next.Hold != j.Hold {
		r.m.s.EmitJob(model.EventHeld, &next, "")
	}
}

func sameJobs(a, b model.OpenDependency) bool { return slices.Equal(a.Jobs, b.Jobs) }

// checkCounterparts refuses a dependency element by element on jobs that are no arrays, or that
// lack the counterpart of an element.
func (r *resolver) checkCounterparts(j *model.Job, n *model.OpenDependency) error {
	for _, id := range n.Jobs {
		target := r.job(id)
		if target == nil || target.Children == nil || target.Spec.Array == nil {
			return &model.SpecError{Text: fmt.Sprintf("job %d is no array in the queue: use afterok", id)}
		}
		all := ranges.Span(1, j.Children.Size)
		if back := lifecycle.Counterparts(target, j, lifecycle.Counterparts(j, target, all)); back.Len() < j.Children.Size {
			first := all.Without(back)[0].First
			return &model.SpecError{Text: fmt.Sprintf("job %d has no element %d", id, j.Spec.Array.Index(first-1))}
		}
	}
	return nil
}

// noteAlreadyEnded notes which elements had ended before an array that follows them was submitted.
func (r *resolver) noteAlreadyEnded(n *model.OpenDependency) {
	for _, id := range n.Jobs {
		target := r.m.v.Job(id)
		if target == nil {
			continue
		}
		var well, ill ranges.Ranges
		for m := 1; m <= target.Children.Size; m++ {
			switch f := r.progress(target.TaskID(m)); {
			case f.Well:
				well = append(well, ranges.Range{First: m, Last: m})
			case f.Ended:
				ill = append(ill, ranges.Range{First: m, Last: m})
			}
		}
		pruned := target.Children.Pruned
		r.m.jobs.NoteEndedTasks(jobs.EndedTasks{Parent: id, Tasks: ill.With(nil).Without(pruned)})
		r.m.jobs.NoteEndedTasks(jobs.EndedTasks{Parent: id, Tasks: ill.With(nil).Both(pruned), Pruned: true})
		r.m.jobs.NoteEndedTasks(jobs.EndedTasks{Parent: id, Tasks: well.With(nil), Well: true})
	}
}
