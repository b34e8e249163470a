package introspect

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

func anywhere(*Seat, int) bool { return true }

func TestEvenOut(t *testing.T) {
	one, four := []int64{1000, 1000}, []int64{4000, 4000, 4000}
	seat := func(id model.JobID, node int, edit ...func(*Seat)) Seat {
		s := Seat{Job: id, Account: "a", Node: node, Load: 1000, Cost: 1000}
		for _, e := range edit {
			e(&s)
		}
		return s
	}
	converged := func(since model.Instant) func(*Seat) {
		return func(s *Seat) { s.Class, s.Since = convergence.Converged, since }
	}
	watching := func(s *Seat) { s.Class = convergence.Watching }
	cheap := func(s *Seat) { s.Cost = 10 }
	stays := func(s *Seat) { s.Stays = true }
	of := func(account string) func(*Seat) { return func(s *Seat) { s.Account = account } }
	wide := func(s *Seat) { s.Load = 2000 }
	many := func(n int, node int, edit ...func(*Seat)) (list []Seat) {
		for i := range n {
			list = append(list, seat(model.JobID(100*node+i+1), node, edit...))
		}
		return list
	}
	for name, test := range map[string]struct {
		sizes []int64
		seats []Seat
		want  model.JobID // 0: none
		to    int
	}{
		"two more than the emptiest": {one, []Seat{seat(1, 0), seat(2, 0)}, 2, 1},
		"one more":                   {one, []Seat{seat(1, 0), seat(2, 0), seat(3, 1)}, 0, -1},
		"the cheapest":               {one, []Seat{seat(1, 0), seat(2, 0, cheap), seat(3, 0)}, 2, 1},
		"the one that has converged last": {one, []Seat{seat(1, 0, converged(5)), seat(2, 0, converged(9)),
			seat(3, 0, converged(7)), seat(4, 0, cheap)}, 2, 1},
		"one that is watched":         {one, []Seat{seat(1, 0, watching), seat(2, 0, cheap), seat(3, 0)}, 2, 1},
		"one that stays":              {one, []Seat{seat(1, 0), seat(2, 0, converged(1), stays), seat(3, 0)}, 3, 1},
		"all stay":                    {one, []Seat{seat(1, 0, stays), seat(2, 0, stays), seat(3, 0, stays)}, 0, -1},
		"none of another account":     {one, []Seat{seat(1, 0, cheap), seat(2, 0, converged(1), of("b"))}, 1, 1},
		"nothing is in its way":       {four, many(4, 0), 0, -1},
		"GPUs count":                  {four, append(many(3, 0, wide), many(5, 1)...), 3, 2},
		"a wide one would swap loads": {four, slices.Concat(many(3, 0, wide), many(4, 1), many(4, 2)), 0, -1},
		"larger nodes take more":      {[]int64{2000, 8000}, append(many(3, 0), many(6, 1)...), 3, 1},
		"a node that takes none":      {[]int64{1000, 0}, []Seat{seat(1, 0), seat(2, 0)}, 0, -1},
		"no jobs":                     {one, nil, 0, -1},
	} {
		got, to := EvenOut(test.sizes, test.seats, anywhere)
		id := model.JobID(0)
		if got != nil {
			id = got.Job
		}
		if id != test.want || to != test.to {
			t.Errorf("%s: job %d moves to %d, want %d to %d", name, id, to, test.want, test.to)
		}
	}
	if s, _ := EvenOut(one, []Seat{seat(1, 0), seat(2, 0)}, func(s *Seat, _ int) bool { return s.Job == 1 }); s.Job != 1 {
		t.Errorf("job %d moves, although it does not fit", s.Job)
	}
}

// crowd draws jobs of three accounts on some nodes.
func crowd(r *rand.Rand) (sizes []int64, seats []Seat) {
	for range 2 + r.IntN(4) {
		sizes = append(sizes, 1000*int64(r.IntN(5)))
	}
	for i := range r.IntN(30) {
		seats = append(seats, Seat{Job: model.JobID(i + 1), Account: string(rune('a' + r.IntN(3))), Node: r.IntN(len(sizes)),
			Load: 1000 * int64(1+r.IntN(2)), Class: anyClass(r), Since: model.Instant(r.IntN(5)), Cost: int64(r.IntN(3)),
			Stays: r.IntN(4) == 0})
	}
	return sizes, seats
}

func anyClass(r *rand.Rand) convergence.Class {
	return append([]convergence.Class{""}, convergence.Classes...)[r.IntN(4)]
}

// TestEvenOutEnds checks that moves come to an end. Each move starts at the fuller node and leaves
// it no emptier than the other. Afterwards no permitted move could even out loads further.
func TestEvenOutEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		sizes, seats := crowd(r)
		moves := 0
		for {
			s, to := EvenOut(sizes, seats, anywhere)
			if s == nil {
				break
			}
			from, before := s.Node, loadsOf(sizes, seats)
			if s.Stays || sizes[to] == 0 || before[from]*sizes[to] <= (before[to]+s.Load)*sizes[from] {
				t.Fatalf("job %d moves from %d to %d of %v, loads %v", s.Job, from, to, sizes, before)
			}
			s.Node = to
			if moves++; moves > 500 {
				t.Fatal("it goes on for ever")
			}
		}
		loads := loadsOf(sizes, seats)
		for _, s := range seats {
			for to, size := range sizes {
				if !s.Stays && size > 0 && sizes[s.Node] > 0 && loads[s.Node] > sizes[s.Node] &&
					(loads[to]+s.Load)*sizes[s.Node] < loads[s.Node]*size {
					t.Fatalf("job %d would do better on %d: loads %v of %v", s.Job, to, loads, sizes)
				}
			}
		}
	}
}

func loadsOf(sizes []int64, seats []Seat) []int64 {
	loads := make([]int64, len(sizes))
	for _, s := range seats {
		loads[s.Node] += s.Load
	}
	return loads
}

// TestAClassIsAMatterOfItsAccount (A11) flips the class of one job. In the eyes of other accounts
// the same moves are made: between the same nodes, and of the same jobs of theirs.
func TestAClassIsAMatterOfItsAccount(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	flipped, told := 0, 0
	for range 5000 {
		sizes, seats := crowd(r)
		if len(seats) == 0 {
			continue
		}
		liar := r.IntN(len(seats))
		was, to := EvenOut(sizes, seats, anywhere)
		seats[liar].Class, seats[liar].Since = anyClass(r), model.Instant(r.IntN(9))
		is, at := EvenOut(sizes, seats, anywhere)
		if (was == nil) != (is == nil) || to != at {
			t.Fatalf("job %d claims to be %q, and a move comes or goes", seats[liar].Job, seats[liar].Class)
		}
		if was == nil {
			continue
		}
		told++
		if was.Job == is.Job {
			continue
		}
		flipped++
		if was.Account != seats[liar].Account || is.Account != seats[liar].Account || was.Node != is.Node {
			t.Fatalf("job %d claims to be %q, and job %d moves in place of job %d", seats[liar].Job, seats[liar].Class, is.Job,
				was.Job)
		}
	}
	if told < 1000 || flipped < 50 {
		t.Errorf("only %d moves were made, and %d changed", told, flipped)
	}
}

// TestWeights shows what classes do, and that all jobs of an account get together what they got
// without them (A11).
func TestWeights(t *testing.T) {
	const pc, wc, cc = convergence.Progressing, convergence.Watching, convergence.Converged
	for _, test := range []struct {
		jobs []Taker
		want []int
	}{
		{[]Taker{{1000, pc}, {1000, cc}}, []int{134, 66}},
		{[]Taker{{1000, pc}, {1000, wc}, {1000, cc}}, []int{134, 100, 66}},
		{[]Taker{{1000, cc}, {1000, cc}}, []int{100, 100}},
		{[]Taker{{1000, ""}, {1000, pc}}, []int{100, 100}},
		{[]Taker{{1000, cc}}, []int{100}},
		{[]Taker{{4000, cc}, {1000, pc}}, []int{83, 167}},
		{[]Taker{{0, cc}, {0, pc}}, []int{100, 100}},
		{nil, []int{}},
	} {
		got := Weights(test.jobs)
		if len(got) != len(test.want) {
			t.Fatalf("%v: got %v", test.jobs, got)
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%v: got %v, want %v", test.jobs, got, test.want)
				break
			}
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		var jobs []Taker
		widest := int64(0)
		for range 1 + r.IntN(12) {
			jobs = append(jobs, Taker{GPUs: 1000 << r.IntN(4), Class: anyClass(r)})
			widest = max(widest, jobs[len(jobs)-1].GPUs)
		}
		all, usual := int64(0), int64(0)
		for i, w := range Weights(jobs) {
			all += int64(w) * jobs[i].GPUs
			usual += 100 * jobs[i].GPUs
			if w < 50 || w > 200 {
				t.Fatalf("%v: weight %d", jobs, w)
			}
		}
		if all > usual || usual-all > widest {
			t.Fatalf("%v get %d in all, want %d", jobs, all, usual)
		}
	}
}
