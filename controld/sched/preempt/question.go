package preempt

import (
	"maps"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Never is the reluctance of a candidate that may not be taken.
const Never = -1

// Question is one question to the search for victims: which candidates leave so that a gang finds
// room. It holds all that differs from search to search. The candidates themselves stay as they are,
// so that no search leaves a mark for the next.
type Question struct {
	Gang *fit.Gang
	// Limit is the greatest reluctance of the candidates that may be taken.
	Limit int
	// Reluctance says how readily each candidate may be taken, by its number: 0 at once, greater
	// numbers later, Never not at all. nil: each candidate at once.
	Reluctance []int8

	barred map[int32]bool // candidates that are left out: their accounts may not lose so much
	// by node: draining room that goes back to the jobs that leave it; nil: all draining room
	// counts
	returning map[int]model.Request
}

// Ask returns the question for a gang, with the reluctance that a policy finds in each candidate.
func (m *Preemptor) Ask(g *fit.Gang, reluctance func(*Candidate) int) Question {
	r := m.All()
	q := Question{Gang: g, Reluctance: make([]int8, len(r.List))}
	for i, v := range r.Each() {
		q.Reluctance[i] = int8(reluctance(v))
	}
	return q
}

// WithoutReturning returns the question without the room that goes back to the jobs that are
// leaving it. Only jobs before them in the queue may count on that room.
func (m *Preemptor) WithoutReturning(q Question) Question {
	q.returning = map[int]model.Request{}
	for _, s := range m.All().returning {
		q.returning[s.Node] = q.returning[s.Node].Plus(s.Room)
	}
	return q
}

// Degrees returns the degrees of reluctance that occur among the candidates, as bits.
func (q *Question) Degrees() (set uint64) {
	for _, degree := range q.Reluctance {
		if degree >= 0 {
			set |= 1 << degree
		}
	}
	return set
}

// Bar returns the question without some candidates, by number, beside those that it leaves out
// already.
func (q *Question) Bar(list ...int32) Question {
	next := *q
	next.barred = make(map[int32]bool, len(q.barred)+len(list))
	maps.Copy(next.barred, q.barred)
	for _, i := range list {
		next.barred[i] = true
	}
	return next
}

// Bars reports whether the question leaves a candidate out.
func (q *Question) Bars(i int32) bool { return q.barred[i] }

// without returns the question without the candidates that a function selects, for good.
func (q *Question) without(r *Candidates, selects func(*Candidate) bool) Question {
	next := *q
	next.Reluctance = make([]int8, len(r.List))
	for i, v := range r.Each() {
		if next.Reluctance[i] = int8(q.reluctance(int32(i))); selects(v) {
			next.Reluctance[i] = Never
		}
	}
	return next
}

// reluctance returns how readily a candidate may be taken.
func (q *Question) reluctance(i int32) int {
	if q.Reluctance == nil {
		return 0
	}
	return int(q.Reluctance[i])
}

// mayTake reports whether a candidate may be taken. A job with two entries loses one of them only.
func (q *Question) mayTake(r *Candidates, i int32) bool {
	v := &r.List[i]
	if other := v.alternative - 1; other >= 0 {
		if o := &r.List[other]; o.Taken || q.barred[other] && (v.Pauses || o.Pauses) {
			return false
		}
	}
	degree := q.reluctance(i)
	return !v.Taken && degree >= 0 && degree <= q.Limit && !q.barred[i]
}

// draining returns the room of a node that is being freed and counts for the question.
func (q *Question) draining(r *Candidates, node int) model.Request {
	if q.returning == nil {
		return r.Draining[node]
	}
	return r.Draining[node].Minus(q.returning[node])
}
