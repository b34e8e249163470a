package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Elastic says with how many workers an elastic job may run. Numbers of workers are those of its elastic group.
type Elastic struct {
	Min, Max int // at least and at most so many
	Unit     int // and a multiple of this
	Step     int // by which it grows

	Part  int // of its gang which is elastic
	First int // number of the first elastic worker in the gang; the others follow it
	Fixed int // workers of all other parts together

	Cooldown  Instant // ms for which it is left alone after a start, unless its room is needed
	GrowAfter Instant // ms for which room was free before it grows into it
}

// Has reports whether a job may run with so many elastic workers.
func (e Elastic) Has(size int) bool { return size >= e.Min && size <= e.Max && size%e.Unit == 0 }

// Elastic returns with how many workers a job may run; false if their number is fixed.
func (j *Job) Elastic() (Elastic, bool) {
	if len(j.Parts) == 0 {
		g := j.GroupSpec()
		if g.Elastic == nil {
			return Elastic{}, false
		}
		return rangeOf(g.Elastic), true
	}
	first := 0
	for i, p := range j.Parts {
		if spec := j.Spec.Groups[p.Group].Elastic; spec != nil {
			e := rangeOf(spec)
			e.Part, e.First, e.Fixed = i, first, j.Workers-p.Workers
			return e, true
		}
		first += p.Workers
	}
	return Elastic{}, false
}

func rangeOf(spec *jobspec.Elastic) Elastic {
	unit := max(1, spec.MultipleOf)
	return Elastic{
		Min: spec.Min, Max: spec.Max, Unit: unit, Step: cmp.Or(spec.Step, unit),
		Cooldown: Instant(cmp.Or(spec.Cooldown, defaultCooldown)) * 1000, GrowAfter: Instant(cmp.Or(spec.GrowAfter, defaultGrowAfter)) * 1000,
	}
}

// Size returns how many elastic workers a job has: those of its last attempt while that lives, the fewest while it waits. Of a job with a
// fixed number it is that.
func (j *Job) Size() int {
	e, _ := j.Elastic()
	return j.Workers - e.Fixed
}

// least is with how many workers a group starts at least.
func least(g *jobspec.Group) int {
	if g.Elastic != nil {
		return max(1, g.Elastic.Min)
	}
	return max(1, g.Count)
}

// Most is how many workers a group can have.
func Most(g *jobspec.Group) int {
	if g.Elastic != nil {
		return g.Elastic.Max
	}
	return max(1, g.Count)
}

// MayHave reports whether a job may have an attempt with so many workers in all.
func (j *Job) MayHave(workers int) bool {
	if workers == j.Workers {
		return true
	}
	e, elastic := j.Elastic()
	return elastic && e.Has(workers-e.Fixed)
}

// Resized returns a job as it is laid out with so many workers in all, which it may have: a copy, unless nothing changes.
func (j *Job) Resized(workers int) *Job {
	e, elastic := j.Elastic()
	if !elastic || workers == j.Workers {
		return j
	}
	next := *j
	next.Workers = workers
	if len(j.Parts) > 0 {
		next.Parts = slices.Clone(j.Parts)
		next.Parts[e.Part].Workers = workers - e.Fixed
	}
	return &next
}

// SettleSize lays out an elastic job that waits with the fewest workers.
func (j *Job) SettleSize() {
	if e, elastic := j.Elastic(); elastic {
		*j = *j.Resized(e.Fixed + e.Min)
	}
}

// CheckElastic refuses numbers of workers that make no sense, and groups that could not be stopped and started with another one.
func CheckElastic(spec *jobspec.Job, g *jobspec.Group) error {
	e := g.Elastic
	if e == nil {
		return nil
	}
	unit := max(1, e.MultipleOf)
	bad := func(format string, args ...any) error {
		return &SpecError{fmt.Sprintf("elastic group %q: ", g.Name) + fmt.Sprintf(format, args...)}
	}
	switch {
	case e.Min < 1 || e.Max < e.Min || e.Max > MaxWorkers:
		return bad("min (%d) and max (%d) are in order, from 1 to %d", e.Min, e.Max, MaxWorkers)
	case e.MultipleOf < 0 || e.Min%unit != 0 || e.Max%unit != 0:
		return bad("min (%d) and max (%d) are multiples of multiple_of (%d)", e.Min, e.Max, e.MultipleOf)
	case e.Step < 0 || e.Step%unit != 0:
		return bad("step (%d) is a multiple of multiple_of (%d)", e.Step, e.MultipleOf)
	case e.Cooldown < 0 || e.GrowAfter < 0 || e.Cooldown > MaxDelay || e.GrowAfter > MaxDelay:
		return bad("cooldown and grow_after are from 1 second to ten years")
	case e.Resize != "" && e.Resize != jobspec.ResizeRestart:
		return bad("resize = %q is not supported: it is restart", e.Resize)
	case g.Count != 0:
		return bad("it has no count of its own")
	case g.Gang != nil && !*g.Gang:
		return bad("its workers start together")
	case spec.Class == jobspec.TE:
		return &SpecError{ErrElasticTE}
	}
	return nil
}

// ErrElasticTE is the refusal of an elastic job of class te.
const ErrElasticTE = "a te job is not elastic: it is short, and starts at once with what it asks for"

// CheckOneElastic refuses a gang of which more than one group is elastic.
func CheckOneElastic(spec *jobspec.Job) error {
	n := 0
	for i := range spec.Groups {
		if spec.Groups[i].Elastic != nil {
			n++
		}
	}
	if n > 1 && OneGang(spec) {
		return &SpecError{"at most one group of a gang is elastic"}
	}
	return nil
}

// What an elastic group has that does not say.
const (
	defaultCooldown  = 300 // seconds
	defaultGrowAfter = 60  // seconds
)
