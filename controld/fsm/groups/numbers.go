package groups

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm/table"
)

// numbers gives numbers to the shapes and leaves of groups. So a cycle can keep its findings about
// each of them in an array. The numbers mean nothing else and may differ between replicas.
type numbers[K comparable] struct {
	known map[K]*numberUse
	free  []int
}

type numberUse struct{ number, groups int }

// use returns the number of a key for one more group.
func (s *numbers[K]) use(key K) int {
	u := s.known[key]
	if u == nil {
		u = &numberUse{number: len(s.known)}
		if n := len(s.free); n > 0 {
			u.number, s.free = s.free[n-1], s.free[:n-1]
		}
		if s.known == nil {
			s.known = map[K]*numberUse{}
		}
		s.known[key] = u
	}
	u.groups++
	return u.number
}

// leave gives a number back when the last group with its key has gone.
func (s *numbers[K]) leave(key K) {
	u := s.known[key]
	if u.groups--; u.groups == 0 {
		delete(s.known, key)
		s.free = append(s.free, u.number)
	}
}

// adopt notes a group that has its number already: of the state that a fork is made from.
func (s *numbers[K]) adopt(key K, number int) {
	if s.known == nil {
		s.known = map[K]*numberUse{}
	}
	u := s.known[key]
	if u == nil {
		u = &numberUse{number: number}
		s.known[key] = u
	}
	u.groups++
}

// fill makes all numbers below the greatest that are not known free.
func (s *numbers[K]) fill() {
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

// check says whether groups have the number of their key, and different keys different ones.
func (s *numbers[K]) check(what string, groups *table.Table[*Group], of func(*Group) (K, int)) error {
	count, owner := map[K]int{}, map[int]K{}
	for g := range groups.Values() {
		key, number := of(g)
		if other, taken := owner[number]; taken && other != key {
			return fmt.Errorf("number %d of a %s is used twice", number, what)
		}
		owner[number] = key
		count[key]++
		if u := s.known[key]; u == nil || u.number != number {
			return fmt.Errorf("the number of a %s differs from the number of its group, %d", what, number)
		}
	}
	for key, u := range s.known {
		if u.groups != count[key] {
			return fmt.Errorf("%s %d is recorded with %d groups, but has %d", what, u.number, u.groups, count[key])
		}
	}
	return nil
}

// numbered is what an auditor knows of keys that have numbers.
type numbered[K comparable] struct {
	groups map[K]int // of each
	owners map[int]K // of numbers, as last seen
}

func newNumbered[K comparable]() numbered[K] {
	return numbered[K]{groups: map[K]int{}, owners: map[int]K{}}
}

// count enters a group with a key, or takes it out with by = -1.
func (a *numbered[K]) count(key K, by int) {
	if a.groups[key] += by; a.groups[key] == 0 {
		delete(a.groups, key)
	}
}

// check says whether a group has the number of its key, and no other key has it.
func (a *numbered[K]) check(what string, s *numbers[K], key K, number int) error {
	if u := s.known[key]; u == nil || u.number != number || u.groups != a.groups[key] {
		return fmt.Errorf("the number of a %s differs from the number of its group, %d, or its groups are not %d", what,
			number,
			a.groups[key])
	}
	if other, taken := a.owners[number]; taken && other != key && a.groups[other] > 0 {
		if u := s.known[other]; u != nil && u.number == number {
			return fmt.Errorf("number %d of a %s is used twice", number, what)
		}
	}
	a.owners[number] = key
	return nil
}
