package lifecycle

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// ParentProgress is how far a job that others depend on has come.
type ParentProgress struct{ Started, Ended, Well bool }

// Dependency is what has become of one dependency of a job.
type Dependency struct {
	Open  []model.JobID // jobs that are still to decide it
	Met   bool
	Never model.JobID // the job because of which it can never be met, 0 if it can
}

// verdict is what the progress of one job means for a dependency on it.
type verdict int

const (
	open verdict = iota
	yes
	no
)

func decided(is, well bool) verdict {
	switch {
	case !is:
		return open
	case well:
		return yes
	}
	return no
}

func verdictOn(kind string, p ParentProgress) verdict {
	switch kind {
	case model.NeedAfter:
		return decided(p.Started, true)
	case model.NeedAfterOK:
		return decided(p.Ended, p.Well)
	case model.NeedAfterNotOK:
		return decided(p.Ended, !p.Well)
	}
	return decided(p.Ended, true)
}

// DependencyOn looks at the jobs of a dependency, by how far each has come.
func DependencyOn(n *model.OpenDependency, progress func(model.JobID) ParentProgress) Dependency {
	var d Dependency
	for _, id := range n.Jobs {
		switch verdictOn(n.Type, progress(id)) {
		case open:
			d.Open = append(d.Open, id)
		case yes:
			if n.Any {
				return Dependency{Met: true}
			}
		case no:
			d.Never = id
			if !n.Any {
				return d
			}
		}
	}
	if d.Met = len(d.Open) == 0 && d.Never == 0; len(d.Open) > 0 {
		d.Never = 0
	}
	return d
}

// Counterparts returns the tasks of array to that have the indices of some tasks of array from.
func Counterparts(from, to *model.Job, tasks ranges.Ranges) ranges.Ranges {
	a, b := from.Spec.Array, to.Spec.Array
	if a == b || a.Indices == b.Indices && from.Children.Size == to.Children.Size {
		return tasks
	}
	x, y := a.Elements(), b.Elements()
	var out ranges.Ranges
	for m := range tasks.All() {
		if k := y.Ordinal(x.Index(m - 1)); k >= 0 {
			out = append(out, ranges.Range{First: k + 1, Last: k + 1})
		}
	}
	return out.With(nil)
}
