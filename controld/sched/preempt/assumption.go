package preempt

import (
	"maps"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// assumption is what a search assumes beside what the cycle has decided. A search that tries
// something out works on a copy of itself with an assumption of its own, and drops both afterwards.
type assumption struct {
	leave map[int32]bool        // candidates that leave in any case, by number
	room  map[int]model.Request // by node: what comes free by that, less what other parts of the gang get
}

// assuming returns a search like s in which some more candidates leave in any case.
func (s *search) assuming(given []int32) *search {
	next := *s
	next.assumed = assumption{leave: map[int32]bool{}, room: map[int]model.Request{}}
	maps.Copy(next.assumed.leave, s.assumed.leave)
	maps.Copy(next.assumed.room, s.assumed.room)
	for _, i := range given {
		next.assumed.add(i, &s.candidates.List[i])
	}
	return &next
}

// add assumes that one more candidate leaves.
func (a *assumption) add(i int32, v *Candidate) {
	a.leave[i] = true
	for _, s := range v.Rooms {
		a.room[s.Node] = a.room[s.Node].Plus(s.Room)
	}
}

// drop undoes add.
func (a *assumption) drop(i int32, v *Candidate) {
	delete(a.leave, i)
	for _, s := range v.Rooms {
		a.room[s.Node] = a.room[s.Node].Minus(s.Room)
	}
}

// excludes reports whether a candidate is assumed to leave already, whole or in part.
func (a *assumption) excludes(r *Candidates, i int32) bool {
	if len(a.leave) == 0 {
		return false
	}
	return a.leave[i] || a.leave[r.List[i].alternative-1]
}

// draining returns the room of a node that is being freed and counts for the search.
func (s *search) draining(node int) model.Request {
	room := s.question.draining(s.candidates, node)
	if s.assumed.room == nil {
		return room
	}
	return room.Plus(s.assumed.room[node])
}

// coming returns the room that a node will have for a part once all leaving and assumed victims
// have left, less the claims of others. It can be negative.
func (s *search) coming(node int, p *fit.Component) model.Request {
	return s.state.Room.AvailableTo(node, p).Plus(s.draining(node))
}
