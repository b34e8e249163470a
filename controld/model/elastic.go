package model

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Elastic says with how many workers an elastic job may run. Numbers of workers are those of its
// elastic group.
type Elastic struct {
	Min, Max int // at least and at most so many
	Unit     int // and a multiple of this
	Step     int // by which it grows

	Part  int // of its gang which is elastic
	First int // number of the first elastic worker in the gang; the others follow it
	Fixed int // workers of all other parts together

	// Signal says that it is resized while it runs: the last elastic workers leave, or others join
	// after them. Gangs of several groups and jobs that have whole nodes are stopped to be resized.
	Signal bool

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
		e := rangeOf(g.Elastic)
		e.Signal = e.Signal && !j.Request.Exclusive
		return e, true
	}
	first := 0
	for i, p := range j.Parts {
		if spec := j.Spec.Groups[p.Group].Elastic; spec != nil {
			e := rangeOf(spec)
			e.Part, e.First, e.Fixed = i, first, j.Workers-p.Workers
			e.Signal = false
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
		Signal:    spec.Resize == jobspec.ResizeSignal,
		Cooldown:  Instant(cmp.Or(spec.Cooldown, jobspec.DefaultCooldown)) * 1000,
		GrowAfter: Instant(cmp.Or(spec.GrowAfter, jobspec.DefaultGrowAfter)) * 1000,
	}
}

// Size returns how many elastic workers a job has: those of its last attempt while that lives, the
// fewest while it waits. Of a job with a fixed number it is that.
func (j *Job) Size() int {
	e, _ := j.Elastic()
	return j.Workers - e.Fixed
}

// MayHave reports whether a job may have an attempt with so many workers in all.
func (j *Job) MayHave(workers int) bool {
	if workers == j.Workers {
		return true
	}
	e, elastic := j.Elastic()
	return elastic && e.Has(workers-e.Fixed)
}

// Resized returns a job as it is laid out with so many workers in all, which it may have: a copy,
// unless nothing changes.
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
