package present

import (
	"fmt"
	"strconv"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// addFamily fills in a job's place in an array or among groups, its dependencies, and when it may
// begin. The view is nil for a job of the history.
func addFamily(out *api.Job, j *model.Job, v *state.View) {
	switch a := j.Spec.Array; {
	case a != nil && j.Parent != 0:
		out.Array = taskPlace(j)
	case a != nil && j.Children != nil:
		out.Array = arrayPlace(a, j.Children)
	case j.Parent != 0:
		out.Group = &api.GroupPlace{Job: j.Parent, Name: j.Spec.Groups[j.GroupIndex()].Name}
	case len(j.Spec.Groups) > 1:
		out.Groups = groupStates(out, j, v)
	}
	for _, n := range j.Dependencies {
		d := api.Dependency{Type: n.Type, Jobs: n.Jobs, Delay: n.Delay}
		if n.Any {
			d.Match = "any"
		}
		out.Dependencies = append(out.Dependencies, d)
	}
	if v == nil {
		return
	}
	if j.State == model.Pending && j.Eligible > v.At() {
		out.Eligible = wallOf(v, j.Eligible)
	}
	if j.Deadline != 0 {
		out.Deadline = wallOf(v, j.Deadline)
	}
}

// Ref names a job as users do: 123, 123_4, 123.train, and 123_[0-9] for the tasks of an array that
// wait.
func Ref(v *state.View, j *model.Job) string {
	if j.Spec.Array != nil && j.Children != nil {
		return fmt.Sprintf("%d_[%s]", j.ID, arrayPlace(j.Spec.Array, j.Children).Indices)
	}
	return v.NameOf(j.ID)
}

// wallOf is an instant of the log as a time to show.
func wallOf(v *state.View, at model.Instant) *api.Time {
	return api.At(v.Wall() + model.UnixMS(at-v.At()))
}

// TimeOf is an instant of the log as a time to show.
func TimeOf(v *state.View, at model.Instant) *api.Time { return wallOf(v, at) }

// taskPlace says which task of which array a job is.
func taskPlace(j *model.Job) api.ArrayPlace {
	index, params := j.ArrayElement()
	place := api.ArrayPlace{Job: j.Parent, Index: &index}
	for _, p := range params {
		if place.Params == nil {
			place.Params = map[string]string{}
		}
		place.Params[p.Name] = p.Value
	}
	return place
}

func arrayPlace(a *jobspec.Array, f *model.Children) api.ArrayPlace {
	place := api.ArrayPlace{Size: f.Size, MaxParallel: a.MaxParallel, Live: f.Live, Completed: f.Completed,
		Failed:    f.Failed,
		Cancelled: f.Cancelled + f.Dropped.Len(), Indices: indices(a, f.Waiting), Dropped: indices(a, f.Dropped)}
	if a.MaxParallel > 0 && place.Indices != "" {
		place.Indices += "%" + strconv.Itoa(a.MaxParallel)
	}
	return place
}

// indices writes members of an array by their indices.
func indices(a *jobspec.Array, members ranges.Ranges) string {
	spans := make([]jobspec.Span, len(members))
	for i, r := range members {
		spans[i] = jobspec.Span{First: r.First - 1, Last: r.Last - 1}
	}
	return a.Elements().Text(spans)
}

// groupStates lists the groups of a job with several groups. Each has the state of the job that
// runs it or, in a gang of all groups, the job's own state.
func groupStates(out *api.Job, j *model.Job, v *state.View) []api.GroupState {
	var list []api.GroupState
	for i := range j.Spec.Groups {
		g := &j.Spec.Groups[i]
		s := api.GroupState{Name: g.Name, Code: out.Code, Workers: g.Fewest()}
		if j.Children != nil {
			s.ID = j.ID + model.JobID(i+1)
			if v != nil && v.Job(s.ID) != nil {
				s.Code = v.Job(s.ID).ShownState(v.At())
			}
		}
		list = append(list, s)
	}
	return list
}
