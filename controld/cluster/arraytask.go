package cluster

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/rota-hpc/rota/jobspec"
)

// Group returns the index in Spec.Groups of the group that the job runs: 0 but for the children of a job whose groups run one by one. A gang
// of several groups has the first one here and all in Parts.
func (j *Job) Group() int {
	if j.Parent == 0 || j.Spec.Array != nil {
		return 0
	}
	return j.Member - 1
}

func (j *Job) group() *jobspec.Group { return &j.Spec.Groups[j.Group()] }

// restart returns what a job says of retries: its group's word comes before its own.
func (j *Job) restart() *jobspec.Restart {
	if r := j.group().Restart; r != nil {
		return r
	}
	return j.Spec.Restart
}

// Member returns child n of a parent job, or nil if it has not been made or has left the state.
func (v *View) Member(record JobID, n int) *Job {
	if j := v.Job(record + JobID(n)); j != nil && j.Parent == record {
		return j
	}
	return nil
}

// Members yields the children that have been made and are in the state, by number. Those that have ended may have left it: the
// history has them.
func (v *View) Members(record JobID) iter.Seq[*Job] {
	j := v.Job(record)
	if j == nil || j.Family == nil {
		return func(func(*Job) bool) {}
	}
	return v.madeTasks(j)
}

func (v *View) madeTasks(record *Job) iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for n := range record.Family.made().All() {
			if m := v.Job(record.ID + JobID(n)); m != nil && !yield(m) {
				return
			}
		}
	}
}

// made returns the numbers of the children that have been made.
func (f *Family) made() Ranges { return Span(1, f.Size).Without(f.Waiting).Without(f.Dropped) }

// Element returns the parent job that an id belongs to and the number of the child, whether it has been made or not. Nil and 0: it is the id of
// no child of a parent job in the state.
func (v *View) Element(id JobID) (*Job, int) {
	r := v.JobBefore(id)
	if r != nil && r.Parent != 0 {
		r = v.Job(r.Parent)
	}
	if r == nil || r.Family == nil || id <= r.ID || id > r.ID+JobID(r.Family.Size) {
		return nil, 0
	}
	return r, int(id - r.ID)
}

// makeTask makes a waiting child, which is as the parent job is now but has a life of its own.
func (j *Job) makeTask(n int) *Job {
	m := *j
	m.ID, m.Parent, m.Member, m.Family = j.ID+JobID(n), j.ID, n, nil
	m.State, m.Hold, m.Reason, m.Needs = Pending, NotHeld, Reason{}, nil
	m.Started, m.Ended, m.Seq, m.Bypassed, m.ExitCode, m.Signal = Stamp{}, Stamp{}, 0, 0, 0, 0
	return &m
}

// startTask makes a child of a parent job and begins its first attempt.
func (s *State) startTask(j *Job, c *StartJob) error {
	made := s.childChangesOf(j.ID).made
	switch f := j.Family; {
	case f == nil || c.Member < 1 || c.Member > f.Size:
		return fmt.Errorf("member %d: %w", c.Member, ErrNoMember)
	case !f.Waiting.Has(c.Member) || made[c.Member]:
		return fmt.Errorf("member %d: %w", c.Member, ErrWrongState)
	case isSetAside(j) || j.Eligible > s.v.at || !j.ready().Has(c.Member):
		return fmt.Errorf("member %d: %w", c.Member, ErrNotEligible)
	case s.childChangesOf(j.ID).live >= j.slots():
		return fmt.Errorf("member %d: %w", c.Member, ErrMaxParallel)
	}
	m := j.makeTask(c.Member)
	if err := s.launch(m, c); err != nil {
		return fmt.Errorf("member %d: %w", c.Member, err)
	}
	changed := s.childChangesOf(j.ID)
	changed.made = withNumber(changed.made, c.Member)
	changed.live++
	return nil
}

// Apart returns a child as it is kept without its parent job: of the array there is only its own element, as one of indices, or as one row of
// parameters. An array has up to 100,000 children, and each would keep all rows. Any other job is returned as it is.
func (j *Job) Apart() *Job {
	if j.Parent == 0 || j.Spec == nil || j.Spec.Array == nil || j.Spec.Array.Len() == 1 {
		return j
	}
	all := j.Spec.Array.Elements()
	array := *j.Spec.Array
	array.Indices, array.Matrix, array.Columns, array.Rows = "", nil, nil, nil
	if params := all.Params(j.Member - 1); params == nil {
		array.Indices = strconv.Itoa(all.Index(j.Member - 1))
	} else {
		row := make([]string, len(params))
		for i, p := range params {
			array.Columns, row[i] = append(array.Columns, p.Name), p.Value
		}
		array.Rows = [][]string{row}
	}
	apart, spec := *j, *j.Spec
	spec.Array = &array
	apart.Spec = &spec
	return &apart
}

// Element returns the index of an array's child and its parameters, also of one that is kept apart from its parent job.
func (j *Job) Element() (index int, params []jobspec.Param) {
	all := j.Spec.Array.Elements()
	switch {
	case all.Len() != 1:
		return all.Index(j.Member - 1), all.Params(j.Member - 1)
	case all.Params(0) == nil:
		return all.Index(0), nil
	}
	return j.Member - 1, all.Params(0)
}
