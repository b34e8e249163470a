package controld

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/jobspec"
)

// A job is named by its id, 123; an element of an array also by the record's id and its index, 123_4, several of them as 123_[4-9,12]; and a
// group of a job with several as 123.train.

// reference is such a name, resolved.
type reference struct {
	text    string
	job     *cluster.Job   // what 123 is; nil if there is none such
	id      cluster.JobID  // of job
	members cluster.Ranges // of job, when the name goes on behind the id
}

// one returns the id that a reference to a single job stands for, and false when it stands for several.
func (r *reference) one() (cluster.JobID, bool) {
	switch {
	case len(r.members) == 0:
		return r.id, true
	case r.members.Len() == 1:
		return r.id + cluster.JobID(r.members[0].First), true
	}
	return 0, false
}

// spans returns the ids of all jobs that are meant, those of members that are not made included: the ids of members follow their record's.
func (r *reference) spans() cluster.Ranges {
	id := int(r.id)
	if len(r.members) > 0 {
		spans := make(cluster.Ranges, len(r.members))
		for i, m := range r.members {
			spans[i] = cluster.Range{First: id + m.First, Last: id + m.Last}
		}
		return spans
	}
	if r.job != nil && r.job.Family != nil {
		return cluster.Span(id, id+r.job.Family.Size)
	}
	return cluster.Span(id, id)
}

// targets returns the ids that are meant, a record standing for its members.
func (r *reference) targets() []cluster.JobID {
	if len(r.members) == 0 {
		return []cluster.JobID{r.id}
	}
	var ids []cluster.JobID
	for id := range r.spans().All() {
		ids = append(ids, cluster.JobID(id))
	}
	return ids
}

// resolve reads the name of a job. That there is no such job is an error only when the name goes on behind the id.
func (x *exchange) resolve(text string) (*reference, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil || n < 1 {
		return nil, invalid("%q is not a job: write an id such as 123, 123_4 or 123_[4-9] for elements of an array, 123.train for a group", text)
	}
	r := &reference{text: text, id: cluster.JobID(n)}
	if r.job, err = x.lookUp(r.id); err != nil {
		return nil, err
	}
	rest := text[end:]
	switch {
	case rest == "":
		return r, nil
	case r.job == nil:
		return nil, notFound("there is no job %d", r.id)
	case rest[0] == '_':
		r.members, err = elementsOf(r.job, rest[1:])
	case rest[0] == '.':
		r.members, err = groupOf(r.job, rest[1:])
	default:
		err = invalid("%q is not a job: what follows %d is neither _INDEX nor .GROUP", text, r.id)
	}
	return r, err
}

// lookUp finds a job in the state or in the history; nil if it is in neither.
func (x *exchange) lookUp(id cluster.JobID) (*cluster.Job, error) {
	if x.view == nil {
		x.view = x.d.machine.view.Load()
	}
	if j := x.view.Job(id); j != nil {
		return j, nil
	}
	if j := x.notMade(id); j != nil {
		return j, nil
	}
	j, err := x.d.records.Get(x.ctx(), id)
	if errors.Is(err, history.ErrNoJob) {
		return nil, nil
	}
	return j, err
}

// notMade returns an element that an array has not made yet, as it would be made: its id is the record's and its number. The record is the
// greatest id below it in the state.
func (x *exchange) notMade(id cluster.JobID) *cluster.Job {
	record := x.view.JobBefore(id)
	if record != nil && record.Parent != 0 {
		record = x.view.Job(record.Parent)
	}
	if record == nil || record.Family == nil || record.Spec.Array == nil {
		return nil
	}
	member := int(id - record.ID)
	waiting, dropped := record.Family.Waiting.Has(member), record.Family.Dropped.Has(member)
	if !waiting && !dropped {
		return nil
	}
	j := *record
	j.ID, j.Parent, j.Member, j.Family = id, record.ID, member, nil
	j.State, j.Attempt, j.Attempts, j.Seq = cluster.Pending, 0, nil, 0
	j.Started, j.Ended = cluster.Stamp{}, cluster.Stamp{}
	j.ExitCode, j.Signal, j.Ledger = 0, 0, cluster.Ledger{}
	if dropped {
		j.State, j.Ended, j.Reason = cluster.Cancelled, record.Ended, cluster.Reason{Text: record.Reason.Text}
	}
	return &j
}

// elementsOf returns the members of an array that indices such as 4 or [4-9,12] name.
func elementsOf(record *cluster.Job, indices string) (cluster.Ranges, error) {
	if record.Family == nil || record.Spec.Array == nil {
		return nil, invalid("job %d is not an array: it has no element %s", record.ID, indices)
	}
	elements := record.Spec.Array.Elements()
	spans, missing, err := elements.Select(indices)
	if err != nil {
		return nil, invalid("elements %s of job %d: %v", indices, record.ID, err)
	}
	if missing > 0 || len(spans) == 0 {
		return nil, notFound("array %d has no element %s: its elements are %s", record.ID, indices,
			elements.Text([]jobspec.Span{{First: 0, Last: elements.Len() - 1}}))
	}
	members := make(cluster.Ranges, len(spans))
	for i, s := range spans {
		members[i] = cluster.Range{First: s.First + 1, Last: s.Last + 1}
	}
	return members.With(nil), nil
}

// groupOf returns the member that runs a group.
func groupOf(record *cluster.Job, name string) (cluster.Ranges, error) {
	i := slices.IndexFunc(record.Spec.Groups, func(g jobspec.Group) bool { return g.Name == name })
	if record.Family == nil || record.Spec.Array != nil || i < 0 {
		return nil, notFound("job %d has no group %q that runs by itself", record.ID, name)
	}
	return cluster.Span(i+1, i+1), nil
}

// jobRef reads the {id} of the path.
func (x *exchange) jobRef() (*reference, error) { return x.resolve(x.r.PathValue("id")) }

// jobID reads the {id} of the path where it must be one job.
func (x *exchange) jobID() (cluster.JobID, error) {
	r, err := x.jobRef()
	if err != nil {
		return 0, err
	}
	id, single := r.one()
	if !single {
		return 0, invalid("%q names %d jobs: name one", r.text, r.members.Len())
	}
	return id, nil
}

// facts looks up what the history says of jobs that a submission of owner's depends on and the state has no more, and writes their ids where
// elements or groups were named, or jobs by a name that the state has no more.
func (x *exchange) facts(ctx context.Context, owner string, jobs []*jobspec.Job) ([]cluster.Fact, error) {
	var facts []cluster.Fact
	known := names{x: x, owner: owner}
	for i, j := range jobs {
		for d := range j.Dependencies {
			for k := range j.Dependencies[d].Jobs {
				text := &j.Dependencies[d].Jobs[k]
				fact, err := x.fact(ctx, &known, text)
				if err != nil {
					p := problemOf(err)
					p.Detail = prefix(jobs, i) + "dependency on " + *text + ": " + p.Detail
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

// names knows by which names the state, and what is submitted with it, has jobs of one owner.
type names struct {
	x     *exchange
	owner string
	all   map[string]bool // nil until somebody asks
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
		for _, id := range n.x.d.machine.feeds.jobs(n.owner) {
			if j := n.x.view.Job(id); j != nil && j.Parent == 0 {
				n.all[j.Spec.Name] = true
			}
		}
	}
	return n.all[name]
}

// leftBefore reports whether a member has ended and left the state before its record.
func leftBefore(v *cluster.View, record *cluster.Job, id cluster.JobID) bool {
	f, n := record.Family, int(id-record.ID)
	return n > 0 && f != nil && v.Job(id) == nil && !f.Waiting.Has(n) && !f.Dropped.Has(n)
}

// namesGroup reports whether a text has the form 123.train. Names of jobs may have it too.
func namesGroup(text string) bool {
	job, _, ok := strings.Cut(text, ".")
	return ok && job != "" && strings.Trim(job, "0123456789") == ""
}

// fact is what the history says of one job that is depended on, nil when the state knows it.
func (x *exchange) fact(ctx context.Context, known *names, target *string) (*cluster.Fact, error) {
	text := *target
	t, err := jobspec.ParseTarget(text)
	if err != nil {
		return nil, nil // the state will say so
	}
	if t.Name != "" && !namesGroup(text) {
		return x.factByName(ctx, known, target)
	}
	if !t.Element && t.ID > 0 && x.view.Job(cluster.JobID(t.ID)) != nil {
		return nil, nil
	}
	r, err := x.resolve(text)
	if p := (*api.Problem)(nil); t.Name != "" && errors.As(err, &p) && p.Code == api.CodeNotFound {
		return x.factByName(ctx, known, target) // a name that looks like a group
	}
	if err != nil {
		return nil, err
	}
	id, single := r.one()
	if !single {
		return nil, invalid("it names %d elements: name the array, or one element", r.members.Len())
	}
	record := x.view.Job(r.id)
	if record == nil || strings.Contains(text, ".") { // the state reads 123_4, as long as it has 123
		*target = strconv.FormatInt(int64(id), 10)
	}
	if record != nil && !leftBefore(x.view, record, id) {
		return nil, nil // the state knows the record, and by it the element
	}
	j, err := x.d.records.Get(ctx, id)
	if errors.Is(err, history.ErrNoJob) {
		return nil, notFound("there is no such job")
	}
	if err != nil {
		return nil, err
	}
	return factOf(j), nil
}

func factOf(j *cluster.Job) *cluster.Fact {
	return &cluster.Fact{ID: j.ID, Code: j.ExitCode, Ended: j.State, UID: j.Owner.UID}
}

// factByName finds the owner's newest job of a name in the history, if the state has none. That there is none is for the state to say.
func (x *exchange) factByName(ctx context.Context, known *names, target *string) (*cluster.Fact, error) {
	if known.has(*target) {
		return nil, nil
	}
	found, err := x.d.records.Query(ctx, history.Filter{User: known.owner, Name: *target, Limit: 1})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	j := found[0]
	if j.Parent != 0 { // its record ends after it and has not been stored yet
		return nil, nil
	}
	*target = strconv.FormatInt(int64(j.ID), 10)
	return factOf(j), nil
}
