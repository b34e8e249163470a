package sim

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
)

// kind is the kind of an event. At one instant lower kinds come first.
type kind uint8

const (
	learned   kind = iota // a job of a search is where the search looks at it
	jobEnds               // its work is done
	graceEnds             // it has been stopped and its grace period is over
	guessEnds             // its time limit was an estimate, and runs out
	rateKnown             // it has made progress for long enough that its speed is known
	paused                // it has paused and given its GPUs back
	goesOn                // it has its GPUs again and works
	measured              // it has worked long enough for a measurement of its GPU
)

// event is something that will happen to a job, unless its attempt has ended by then.
type event struct {
	at      model.Instant
	kind    kind
	job     int32 // index in engine.runs
	attempt int32
	stretch int32 // of the attempt, as run.stretch, or run.switches for paused and goesOn; graces depend on none
}

// void reports whether a job has changed its activity since an event was foreseen.
func (e *event) void(r *run) bool {
	switch e.kind {
	case graceEnds:
		return false
	case paused, goesOn:
		return int(e.stretch) != r.switches
	}
	return e.stretch != r.stretch
}

func (e *event) compare(o *event) int {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.kind, o.kind), cmp.Compare(e.job, o.job),
		cmp.Compare(e.attempt, o.attempt))
}

// agenda is a heap of events, the next one first. It does not use container/heap, which allocates
// for every element.
type agenda []event

func (a *agenda) push(e event) {
	h := append(*a, e)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[i].compare(&h[up]) >= 0 {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*a = h
}

func (a *agenda) pop() event {
	h := *a
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && h[child].compare(&h[least]) < 0 {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*a = h
	return first
}
