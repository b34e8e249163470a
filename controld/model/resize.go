package model

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// RateAfterMS is for how long, in milliseconds, an attempt makes progress before it is told how
// fast it is, at most: see [RateAfter].
const RateAfterMS = 60_000

// MaxRate bounds the rates that nodes report, in steps in 1,000 s: a step takes a nanosecond at
// least.
const MaxRate = 1_000_000_000_000

// RateAfter returns for how long, in milliseconds, an attempt of an elastic group makes progress
// before it is told how fast it is. A group that may be resized sooner is measured sooner, as well
// as that goes.
func RateAfter(spec *jobspec.Elastic) Instant { return min(RateAfterMS, rangeOf(spec).Cooldown) }

// RateAfterOf returns how long, in milliseconds, an attempt makes progress before a worker of the
// group reports its rate; false: nothing depends on the rate. A gang with a fixed number of workers
// may move if it can save its state.
func RateAfterOf(j *jobspec.Job, group int) (Instant, bool) {
	g := &j.Groups[group]
	if g.Elastic != nil {
		return RateAfter(g.Elastic), true
	}
	return RateAfterMS, g.Count > 1 && j.Checkpoint != nil
}

// RateAfter is [RateAfter] of the group.
func (e Elastic) RateAfter() Instant { return min(RateAfterMS, e.Cooldown) }

// Resize is what a stop leaves to the next attempt of an elastic job, or of one that moves.
type Resize struct {
	Leave []int   `json:"leave,omitempty"`
	Join  []Place `json:"join,omitempty"`
	// of a move: what the rate is expected to be, in thousandths of what it was; 0: it is not known
	Expected int64 `json:"expected,omitempty"`
}

// Check returns as what a resize counts.
func (r *Resize) Check(j *Job, a *Attempt) (Cause, error) {
	e, elastic := j.Elastic()
	switch {
	case !elastic:
		return "", ErrNotElastic
	case a.Stop != nil:
		return "", ErrStopping
	case slices.ContainsFunc(a.Workers, func(w Worker) bool { return w.State.Final() }):
		return "", fmt.Errorf("a worker has ended: %w", ErrWrongState)
	}
	return r.cause(j, e)
}

// CheckMove returns why an attempt of a job with a fixed number of workers may not go on at other
// places with so many workers. A suspended one leaves as a whole: nothing of it runs that could
// stay.
func (r *Resize) CheckMove(j *Job, a *Attempt) error {
	switch {
	case a.Stop != nil:
		return ErrStopping
	case a.AnyFinal():
		return fmt.Errorf("a worker has ended: %w", ErrWrongState)
	case a.Suspending() || a.Resuming():
		return ErrSwitching
	case a.Suspended() && len(r.Leave) != len(a.Workers):
		return fmt.Errorf("it is suspended, and %d of %d workers leave: %w", len(r.Leave), len(a.Workers), ErrBadMove)
	}
	return r.checkMove(j)
}

func (r *Resize) checkMove(j *Job) error {
	if _, elastic := j.Elastic(); elastic || len(j.Parts) > 0 {
		return ErrDoesNotMove
	}
	if len(r.Leave) == 0 || len(r.Leave) != len(r.Join) || r.Expected < 0 {
		return fmt.Errorf("%d workers leave and %d join: %w", len(r.Leave), len(r.Join), ErrBadMove)
	}
	for i, w := range r.Leave {
		if w < 0 || w >= j.Workers || i > 0 && r.Leave[i-1] >= w {
			return fmt.Errorf("worker %d is to leave: %w", w, ErrBadMove)
		}
	}
	return nil
}

// cause says whether a job shrinks, grows or moves, or why it may not.
func (r *Resize) cause(j *Job, e Elastic) (Cause, error) {
	size := j.Size()
	for i, w := range r.Leave {
		if w < e.First || w >= e.First+size || i > 0 && r.Leave[i-1] >= w {
			return "", fmt.Errorf("worker %d is to leave: %w", w, ErrBadSize)
		}
	}
	next := size - len(r.Leave) + len(r.Join)
	if len(r.Leave)+len(r.Join) == 0 || !e.Has(next) {
		return "", fmt.Errorf("%d instead of %d: %w", next, size, ErrBadSize)
	}
	switch {
	case next < size:
		return CauseShrink, nil
	case next > size:
		return CauseGrow, nil
	}
	return CauseMigrate, nil
}

// Places are those of the next attempt, in its order: workers that join come after the other
// elastic workers. Ports are chosen when it begins.
func (r *Resize) Places(j *Job, a *Attempt) []Place {
	e, _ := j.Elastic()
	last := e.First + j.Size() - 1
	places := make([]Place, 0, len(a.Workers)+len(r.Join))
	for i := range a.Workers {
		if !slices.Contains(r.Leave, i) {
			p := a.Workers[i].Place
			p.Port = 0
			places = append(places, p)
		}
		if i == last {
			places = append(places, r.Join...)
		}
	}
	return places
}

// Resize returns what the attempt leaves to the next one, nil if that is nothing.
func (a *Attempt) Resize() *Resize {
	if a.Stop == nil {
		return nil
	}
	return a.Stop.Resize
}

// Keeps reports whether the room of a worker, which has exited, is kept for the next attempt.
func (a *Attempt) Keeps(worker int) bool {
	r := a.Resize()
	return r != nil && !slices.Contains(r.Leave, worker)
}

// Held yields the numbers of workers under which a live attempt holds room, and the places. They
// are workers that are not final, then those whose room is kept, then those that are to join.
func (a *Attempt) Held(yield func(worker int, p *Place) bool) {
	for i := range a.Workers {
		if w := &a.Workers[i]; (!w.State.Final() || a.Keeps(i)) && !yield(i, &w.Place) {
			return
		}
	}
	r := a.Resize()
	if r == nil {
		return
	}
	for k := range r.Join {
		if !yield(len(a.Workers)+k, &r.Join[k]) {
			return
		}
	}
}

// CheckResize says whether what is kept for the next attempt of a job is what it may have.
func CheckResize(j *Job, a *Attempt) error {
	r := a.Resize()
	if r == nil {
		return nil
	}
	e, elastic := j.Elastic()
	if !elastic {
		if a.Stop.Cause != CauseMigrate {
			return ErrNotElastic
		}
		return r.checkMove(j)
	}
	cause, err := r.cause(j, e)
	if err == nil && cause != a.Stop.Cause {
		err = fmt.Errorf("it is to %s: %w", cause, ErrBadCause)
	}
	return err
}

// Refusals of resizes.
var (
	ErrNotElastic = errors.New("the job has a fixed number of workers")
	ErrBadSize    = errors.New("the job may not run with so many workers")

	ErrBadMove     = errors.New("as many workers must join as leave")
	ErrDoesNotMove = errors.New("elastic jobs move when they are resized, and jobs of several groups do not move")
)
