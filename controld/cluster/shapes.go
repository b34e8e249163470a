package cluster

import "fmt"

// shapes numbers the shapes of waiting jobs, so that a cycle can keep what it finds out about one in an array. The numbers mean nothing
// else and may differ between replicas.
type shapes struct {
	known map[Shape]*shapeUse
	free  []int
}

type shapeUse struct{ number, groups int }

// use returns the number of a shape for one more group.
func (s *shapes) use(shape Shape) int {
	u := s.known[shape]
	if u == nil {
		u = &shapeUse{number: len(s.known)}
		if n := len(s.free); n > 0 {
			u.number, s.free = s.free[n-1], s.free[:n-1]
		}
		if s.known == nil {
			s.known = map[Shape]*shapeUse{}
		}
		s.known[shape] = u
	}
	u.groups++
	return u.number
}

// leave gives a number back when the last group of its shape has gone.
func (s *shapes) leave(shape Shape) {
	u := s.known[shape]
	if u.groups--; u.groups == 0 {
		delete(s.known, shape)
		s.free = append(s.free, u.number)
	}
}

// adopt notes a group that has its number already: of the state that a fork is made from.
func (s *shapes) adopt(g *Group) {
	if s.known == nil {
		s.known = map[Shape]*shapeUse{}
	}
	u := s.known[g.Key.Shape]
	if u == nil {
		u = &shapeUse{number: g.Number}
		s.known[g.Key.Shape] = u
	}
	u.groups++
}

// fill makes all numbers below the greatest that are not known free.
func (s *shapes) fill() {
	most, used := -1, map[int]bool{}
	for _, u := range s.known {
		most, used[u.number] = max(most, u.number), true
	}
	for n := range most {
		if !used[n] {
			s.free = append(s.free, n)
		}
	}
}

// check says whether groups have the number of their shape, and different shapes different ones.
func (s *shapes) check(groups *table[*Group]) error {
	count, owner := map[Shape]int{}, map[int]Shape{}
	for g := range groups.values() {
		shape := g.Key.Shape
		if other, taken := owner[g.Number]; taken && other != shape {
			return fmt.Errorf("two shapes have the number %d", g.Number)
		}
		owner[g.Number] = shape
		count[shape]++
		if u := s.known[shape]; u == nil || u.number != g.Number {
			return fmt.Errorf("the number of a shape is not that of its group, %d", g.Number)
		}
	}
	for shape, u := range s.known {
		if u.groups != count[shape] {
			return fmt.Errorf("shape %d is said to have %d groups of %d", u.number, u.groups, count[shape])
		}
	}
	return nil
}
