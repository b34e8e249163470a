package witness

import (
	"errors"
	"fmt"
	"slices"
)

// Bounds of choices.
const (
	// Fewest is how many nodes make a set: of two nodes neither outvotes the other.
	Fewest = 3
	// Most is the size of a set: 15 members may be gone. In an outage a node asks all members every
	// twentieth part of a lease. In a cluster of a thousand nodes each member gets a request or two
	// a second.
	Most = 31
	// MostSets is how many sets nodes may have at once. Until the oldest is out of use no other is chosen.
	MostSets = 32
)

// Chosen are the sets that nodes with jobs may have, oldest first, and the newest. A *Chosen never changes
// once it is stored. The zero value is that of a cluster that has never chosen.
type Chosen struct {
	Last uint64 `json:"last"` // number of the newest set; 0: none was ever chosen
	Sets []Set  `json:"sets,omitempty"`
}

// ErrChoice says that a choice does not hold (any more).
var ErrChoice = errors.New("the choice of witnesses does not fit the sets that are in use")

// Newest returns the newest set, nil if there is none.
func (c *Chosen) Newest() *Set {
	if len(c.Sets) == 0 {
		return nil
	}
	return &c.Sets[len(c.Sets)-1]
}

// From returns the sets from a number to the newest: a node that is known to have had the first may
// have any of them.
func (c *Chosen) From(number uint64) []Set {
	for i := range c.Sets {
		if c.Sets[i].Number >= number {
			return c.Sets[i:]
		}
	}
	return nil
}

// Silence returns the shortest of the sets, in milliseconds; 0 if there is none.
func (c *Chosen) Silence() int64 {
	var shortest int64
	for i := range c.Sets {
		if s := c.Sets[i].Silence; shortest == 0 || s < shortest {
			shortest = s
		}
	}
	return shortest
}

// With returns c with another set as the newest.
func (c *Chosen) With(s Set) (*Chosen, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Number != c.Last+1 || len(c.Sets) >= MostSets {
		return nil, fmt.Errorf("set %d after %d, %d in use: %w", s.Number, c.Last, len(c.Sets), ErrChoice)
	}
	return &Chosen{Last: s.Number, Sets: append(slices.Clip(c.Sets), s)}, nil
}

// Without returns c without the sets before a number, but always with the newest.
func (c *Chosen) Without(before uint64) *Chosen {
	sets := c.From(min(before, c.Last))
	if len(sets) == len(c.Sets) {
		return c
	}
	return &Chosen{Last: c.Last, Sets: slices.Clone(sets)}
}

// Check says what is wrong with c, which was read from a snapshot.
func (c *Chosen) Check() error {
	for i := range c.Sets {
		if err := c.Sets[i].check(); err != nil {
			return err
		}
		if i > 0 && c.Sets[i].Number != c.Sets[i-1].Number+1 {
			return fmt.Errorf("set %d after %d: %w", c.Sets[i].Number, c.Sets[i-1].Number, ErrChoice)
		}
	}
	if n := c.Newest(); len(c.Sets) > MostSets || n == nil && c.Last > 0 || n != nil && n.Number != c.Last {
		return fmt.Errorf("%d sets up to %d: %w", len(c.Sets), c.Last, ErrChoice)
	}
	return nil
}

func (s *Set) check() error {
	ordered := slices.IsSorted(s.Members) && len(slices.Compact(slices.Clone(s.Members))) == len(s.Members)
	if !ordered || len(s.Members) < Fewest || len(s.Members) > Most || s.Silence <= 0 || s.Hold <= 0 || s.Margin < 0 {
		return fmt.Errorf("set %d has %d members (%d to %d, in order, each once), and spans of %d, %d and %d ms: %w",
			s.Number, len(s.Members), Fewest, Most, s.Silence, s.Hold, s.Margin, ErrChoice)
	}
	return nil
}

// Spans returns the spans of a set, in milliseconds, from the cluster's lease, its margin, and the
// silence after which a node is down. A witness hears of a leader at least every half of that time,
// so twice of it is an outage and no hiccup. A node must notice the outage before its lease ends,
// and has two fifths of the lease for that. An outage may last any time, so an extension is no
// longer than a lease, and a lost job waits hardly longer than without witnesses.
func Spans(lease, margin, down int64) (silence, hold, wait int64) {
	return max(min(2*down, lease*2/5), 1), lease, margin
}

// Candidate is a node that may be a witness.
type Candidate struct {
	Name   string
	Domain string // what fails as a whole, such as its rack or switch; "": unknown
	Up     bool
}

// Choose returns the nodes that should be witnesses, in order; nil if the nodes are too few. nodes are in
// order of their names. Up to most of them all are, so that the set does not change with what fails. Of
// more nodes those that are witnesses already stay if they are up, and the others are taken from the
// domains that have fewest.
func Choose(nodes []Candidate, now *Set, most int) []string {
	if len(nodes) < Fewest {
		return nil
	}
	var chosen []string
	if len(nodes) <= most {
		for _, n := range nodes {
			chosen = append(chosen, n.Name)
		}
		return chosen
	}
	used, taken := map[string]int{}, make([]bool, len(nodes))
	take := func(i int) {
		taken[i] = true
		used[nodes[i].Domain]++
		chosen = append(chosen, nodes[i].Name)
	}
	for i, n := range nodes {
		if now != nil && n.Up && slices.Contains(now.Members, n.Name) && len(chosen) < most {
			take(i)
		}
	}
	for len(chosen) < most {
		best := -1
		for i, n := range nodes {
			if !taken[i] && (best < 0 || n.Up && !nodes[best].Up ||
				n.Up == nodes[best].Up && used[n.Domain] < used[nodes[best].Domain]) {
				best = i
			}
		}
		take(best)
	}
	slices.Sort(chosen)
	return chosen
}
