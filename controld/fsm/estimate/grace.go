package estimate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// # Measured grace
//
// A job that declares a long grace period costs more to displace, so declaring one must not pay for
// a job that leaves at once. Jobs of one user with one name are alike: the times that they took to
// leave are compared with the times that they declared. The next one counts by the same part of its
// declaration. Parts carry over where jobs of one name declare different periods. A job whose name
// is not known counts as all jobs of its user do, so that a new name helps no more.

// MeasuredGrace is how long jobs that were asked to leave took, and what they had declared. Each
// further one makes those before it count for a little less.
type MeasuredGrace struct {
	Took     int64         `json:"took"`     // ms
	Declared int64         `json:"declared"` // ms
	At       model.Instant `json:"at"`       // when the last one left
}

// Bounds of what is kept of grace periods.
const (
	maxGraceKinds = 1024  // when there are more, the one of which none has left for longest is forgotten
	graceFades    = 8     // one part of so many is forgotten with each further one
	leastGrace    = 1_000 // ms: less is not told apart
)

// GraceKind names jobs that are taken to be alike.
type GraceKind struct {
	own   string // of the user, with the name of the job
	users int    // so much of it names all jobs of the user
}

// GraceKindOf returns the kind of a job.
func GraceKindOf(j *model.Job) GraceKind {
	users := j.Account + "/" + j.Owner.User + "/"
	return GraceKind{users + j.Spec.Name, len(users)}
}

// ExpectedGrace returns how long a job of a kind with a declared grace period, in ms, will take to
// leave. It is less if jobs like it left sooner than they declared.
func (s *Statistics) ExpectedGrace(kind GraceKind, declared int64) int64 {
	if s == nil || len(s.Graces) == 0 {
		return declared
	}
	g, known := s.Graces[kind.own]
	if !known {
		g, known = s.Graces[kind.own[:kind.users]]
	}
	if !known {
		return declared
	}
	return min(declared, max(leastGrace, model.MulDiv(declared, g.Took, max(1, g.Declared))))
}

// Grace takes in how many ms an attempt took to leave when it was asked to, of those that it had
// declared.
func (r *Recorder) Grace(j *model.Job, took model.Instant) {
	s := r.own()
	if r.graces != r.Epoch || s.Graces == nil {
		s.Graces, r.graces = cloned(s.Graces), r.Epoch
	}
	declared := DeclaredGrace(j.Spec)
	kind := GraceKindOf(j)
	for _, key := range []string{kind.own[:kind.users], kind.own} {
		g, known := s.Graces[key]
		if !known && len(s.Graces) >= maxGraceKinds {
			delete(s.Graces, oldestGrace(s.Graces))
		}
		s.Graces[key] = MeasuredGrace{
			Took:     g.Took - g.Took/graceFades + min(declared, int64(max(0, took))),
			Declared: g.Declared - g.Declared/graceFades + declared,
			At:       r.At,
		}
		if len(key) == len(kind.own) {
			break // the job has no name
		}
	}
}

// oldestGrace returns the kind of which none has left for longest.
func oldestGrace(all map[string]MeasuredGrace) string {
	oldest := ""
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if oldest == "" || all[key].At < all[oldest].At {
			oldest = key
		}
	}
	return oldest
}

// checkGraces says whether grace periods are kept within their bounds.
func checkGraces(all map[string]MeasuredGrace) error {
	if len(all) > maxGraceKinds {
		return fmt.Errorf("grace history: it has %d kinds of jobs", len(all))
	}
	for key, g := range all {
		if g.Took < 0 || g.Declared < g.Took {
			return fmt.Errorf("grace history: the entry of kind %s is out of range", key)
		}
	}
	return nil
}
