package steering

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// MaxDisplacements is how many displacements a dry run remembers. Beyond it further ones are not
// recorded until some are over.
const MaxDisplacements = 100

// Rest is how long the records for one job stay before others take their place. A policy that draws
// victims at random would otherwise write into the log without end.
const Rest model.Instant = 60_000

// Displacement is what a cycle would have done to a running job.
type Displacement struct {
	Job     model.JobID `json:"job"`
	Attempt int         `json:"attempt"`
	For     model.JobID `json:"for,omitempty"` // that would get the room; 0: no job in particular
	Cause   model.Cause `json:"cause"`
	Workers int         `json:"workers,omitempty"`  // that the job would give up; 0: all
	GraceMS int64       `json:"grace_ms,omitempty"` // time that it has asked for to leave
	LostMS  int64       `json:"lost_ms,omitempty"`  // work that it would lose, in ms of one GPU
	Since   model.Stamp `json:"since,omitzero"`     // when it was recorded
}

// Cost says what it would cost the job.
func (d *Displacement) Cost() string {
	text := fmt.Sprintf("grace %d s, %d GPU s lost", d.GraceMS/1000, d.LostMS/1000)
	if d.Workers > 0 {
		text = fmt.Sprintf("%d workers, ", d.Workers) + text
	}
	return text
}

// same reports whether two records say the same; what it costs changes all the time.
func (d *Displacement) same(o *Displacement) bool {
	return d.Job == o.Job && d.Attempt == o.Attempt && d.For == o.For && d.Cause == o.Cause && d.Workers == o.Workers
}

// Record returns the displacements that are known after a cycle would have made some, and those
// among them that are new. Displacements that are no longer possible are dropped. For a job that
// would get room what the cycle found takes the place of what was known, if that has rested.
func Record(known, would []Displacement, now model.Stamp,
	possible func(*Displacement) bool) (all, fresh []Displacement) {
	rests, found := map[model.JobID]bool{}, map[model.JobID]bool{}
	for i := range would {
		found[would[i].For] = true
	}
	for i := range known {
		d := &known[i]
		if possible(d) && d.For != 0 && now.At-d.Since.At < Rest {
			rests[d.For] = true
		}
	}
	for i := range known {
		d := &known[i]
		again := slices.ContainsFunc(would, func(o Displacement) bool { return d.same(&o) })
		if possible(d) && (again || d.For == 0 || !found[d.For] || rests[d.For]) {
			all = append(all, *d)
		}
	}
	for _, d := range would {
		if rests[d.For] || len(all) >= MaxDisplacements || !possible(&d) ||
			slices.ContainsFunc(all, func(o Displacement) bool { return d.same(&o) }) {
			continue
		}
		d.Since = now
		all, fresh = append(all, d), append(fresh, d)
	}
	return all, fresh
}
