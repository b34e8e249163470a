package witness

import (
	"reflect"
	"testing"
)

func setOf(number uint64, members ...string) Set {
	return Set{Number: number, Members: members, Silence: 30_000, Hold: 600_000, Margin: 30_000}
}

// silentAt has all members of a set say that they hear no leader, asked at an instant.
func silentAt(h *Holder, s *Set, asked int64) {
	for _, m := range s.Members {
		h.Note(m, Answer{Asked: asked, Silent: s.Silence})
	}
}

// TestANodeAsksInAnOutageOnly: a node that hears its leader asks no witness. A node that does not
// asks each twentieth part of a lease, and sooner after a restart.
func TestANodeAsksInAnOutageOnly(t *testing.T) {
	s, h := setOf(1, "a", "b", "c"), &Holder{}
	h.Hear(1000)
	for _, step := range []struct {
		at   int64
		asks bool
	}{{1000, false}, {30_999, false}, {31_000, true}, {31_001, false}, {60_999, false}, {61_000, true}} {
		if got := h.Begin(step.at, &s); got != step.asks {
			t.Errorf("at %d: asks %v", step.at, got)
		}
	}
	h.Hear(70_000)
	if h.Begin(71_000, &s) {
		t.Error("a node asks that has just heard its leader")
	}
	restarted := &Holder{Started: 5000}
	if restarted.Begin(6999, &s) || !restarted.Begin(7000, &s) {
		t.Error("a daemon that has restarted asks 2 s later, not before")
	}
}

// TestWhatEndsALease: an extension counts from the question, needs a majority, and never revives a lease.
func TestWhatEndsALease(t *testing.T) {
	s := setOf(1, "a", "b", "c", "d")
	for _, test := range []struct {
		name      string
		silent    int // members that hear no leader
		now, ends int64
		until     int64 // 0: it does not extend
	}{
		{"a majority", 3, 200_000, 300_000, 700_000},
		{"a tie", 2, 200_000, 300_000, 0},
		{"its lease is over", 3, 300_000, 300_000, 0},
		{"it does not know its lease", 3, 200_000, 0, 700_000},
		{"it knows a later one", 3, 200_000, 800_000, 0},
		{"answers that are too old", 3, 700_000, 0, 0},
	} {
		h := &Holder{}
		for i, m := range s.Members {
			a := Answer{Asked: 100_000, Silent: s.Silence - 1}
			if i < test.silent {
				a.Silent = s.Silence
			}
			h.Note(m, a)
		}
		if until, ok := h.Extend(test.now, test.ends, &s); until != test.until || ok != (test.until > 0) {
			t.Errorf("%s: %d, %v; want %d", test.name, until, ok, test.until)
		}
	}
	h := &Holder{}
	silentAt(h, &s, 100_000)
	h.Hear(150_000)
	silentAt(h, &s, 149_000) // late answers
	if _, ok := h.Extend(200_000, 0, &s); ok {
		t.Error("answers from before a leader was heard count")
	}
}

// TestChosenSets: sets are numbered without a gap, and kept from the oldest that a node may have.
func TestChosenSets(t *testing.T) {
	c := &Chosen{}
	if c.Newest() != nil || c.From(0) != nil || c.Silence() != 0 || c.Check() != nil {
		t.Error("a cluster that has never chosen has a set")
	}
	for n := range uint64(3) {
		s := setOf(n+1, "a", "b", "c")
		s.Silence += int64(n)
		next, err := c.With(s)
		if err != nil {
			t.Fatal(err)
		}
		c = next
	}
	if got := c.From(2); len(got) != 2 || got[0].Number != 2 {
		t.Errorf("from 2: %+v", got)
	}
	if got := c.From(0); len(got) != 3 || c.Silence() != 30_000 {
		t.Errorf("from 0: %+v, silence %d", got, c.Silence())
	}
	if got := c.Without(2); len(got.Sets) != 2 || got.Last != 3 || len(c.Sets) != 3 || got.Silence() != 30_001 {
		t.Errorf("without 1: %+v", got)
	}
	if got := c.Without(9); len(got.Sets) != 1 || got.Newest().Number != 3 {
		t.Errorf("the newest is dropped: %+v", got)
	}
	for name, s := range map[string]Set{
		"a gap": setOf(5, "a", "b", "c"), "two members": setOf(4, "a", "b"), "disorder": setOf(4, "b", "a", "c"),
		"one twice": setOf(4, "a", "a", "b"), "no silence": {Number: 4, Members: []string{"a", "b", "c"}, Hold: 1},
	} {
		if _, err := c.With(s); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for n := c.Last + 1; len(c.Sets) < MostSets; n++ {
		c, _ = c.With(setOf(n, "a", "b", "c"))
	}
	if _, err := c.With(setOf(c.Last+1, "a", "b", "c")); err == nil || c.Check() != nil {
		t.Errorf("more than %d sets are kept: %v", MostSets, c.Check())
	}
}

// TestChoose: small clusters have none, all nodes are witnesses up to a bound, and of more those in most domains.
func TestChoose(t *testing.T) {
	var nodes []Candidate
	for i, domain := range []string{"r1", "r1", "r1", "r2", "r2", "r3"} {
		nodes = append(nodes, Candidate{Name: string(rune('a' + i)), Domain: domain, Up: true})
	}
	if got := Choose(nodes[:2], nil, Most); got != nil {
		t.Errorf("two nodes choose %v", got)
	}
	if got := Choose(nodes, nil, Most); !reflect.DeepEqual(got, []string{"a", "b", "c", "d", "e", "f"}) {
		t.Errorf("six nodes choose %v", got)
	}
	if got := Choose(nodes, nil, 3); !reflect.DeepEqual(got, []string{"a", "d", "f"}) {
		t.Errorf("three of six: %v", got)
	}
	now := setOf(1, "a", "b", "c")
	nodes[1].Up = false
	if got := Choose(nodes, &now, 3); !reflect.DeepEqual(got, []string{"a", "c", "d"}) {
		t.Errorf("in place of a node that is down: %v", got)
	}
}

// TestSpans: the silence is short enough for a node to hear of the outage before its lease ends.
func TestSpans(t *testing.T) {
	for _, test := range [][4]int64{{600_000, 30_000, 15_000, 30_000}, {6000, 2000, 2000, 2400}, {10, 0, 100, 4}} {
		if silence, hold, margin := Spans(test[0], test[1], test[2]); silence != test[3] || hold != test[0] ||
			margin != test[1] {
			t.Errorf("%v: %d, %d, %d", test, silence, hold, margin)
		}
	}
}
