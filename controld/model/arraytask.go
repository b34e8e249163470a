package model

import (
	"strconv"

	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// GroupIndex returns the index in Spec.Groups of the group that the job runs. It is 0 except for
// children of a job whose groups run one by one. A gang of several groups has the first one here
// and all in Parts.
func (j *Job) GroupIndex() int {
	if j.Parent == 0 || j.Spec.Array != nil {
		return 0
	}
	return j.TaskNumber - 1
}

// GroupSpec returns the specification of the group that the job runs.
func (j *Job) GroupSpec() *jobspec.Group { return &j.Spec.Groups[j.GroupIndex()] }

// Restart returns what a job says of retries: its group's word comes before its own.
func (j *Job) Restart() *jobspec.Restart {
	if r := j.GroupSpec().Restart; r != nil {
		return r
	}
	return j.Spec.Restart
}

// MadeTasks returns the numbers of the children that have been made.
func (f *Children) MadeTasks() ranges.Ranges {
	return ranges.Span(1, f.Size).Without(f.Waiting).Without(f.Dropped)
}

// TaskID returns the id of a child. The ids of all children follow the id of their parent job. They
// are taken at submission, although tasks of an array are made when they start.
func (j *Job) TaskID(n int) JobID { return j.ID + JobID(n) }

// MakeTask makes a waiting child, which is as the parent job is now but has a life of its own.
func (j *Job) MakeTask(n int) *Job {
	m := *j
	m.ID, m.Parent, m.TaskNumber, m.Children = j.TaskID(n), j.ID, n, nil
	m.State, m.Hold, m.Reason, m.Dependencies = Pending, NotHeld, Reason{}, nil
	m.Started, m.Ended, m.Seq, m.Bypassed, m.ExitCode, m.Signal = Stamp{}, Stamp{}, 0, 0, 0, 0
	m.CancelledBy = 0 // others were
	m.SpecBytes = 0   // it shares that of the parent job
	return &m
}

// Standalone returns a child in the form that is kept without its parent job. Of the array it has
// only its own element, as its one index or row of parameters. An array has up to 100,000 children,
// and each would keep all rows. Any other job is returned as it is.
func (j *Job) Standalone() *Job {
	if j.Parent == 0 || j.Spec == nil || j.Spec.Array == nil || j.Spec.Array.Len() == 1 {
		return j
	}
	all := j.Spec.Array.Elements()
	array := *j.Spec.Array
	array.Indices, array.Matrix, array.Columns, array.Rows = "", nil, nil, nil
	if params := all.Params(j.TaskNumber - 1); params == nil {
		array.Indices = strconv.Itoa(all.Index(j.TaskNumber - 1))
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

// ArrayElement returns the index of an array's child and its parameters, also of one that is kept
// apart from its parent job.
func (j *Job) ArrayElement() (index int, params []jobspec.Param) {
	all := j.Spec.Array.Elements()
	switch {
	case all.Len() != 1:
		return all.Index(j.TaskNumber - 1), all.Params(j.TaskNumber - 1)
	case all.Params(0) == nil:
		return all.Index(0), nil
	}
	return j.TaskNumber - 1, all.Params(0)
}
