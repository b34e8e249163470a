package witness

import (
	"slices"
	"strings"
	"testing"
)

// The exhaustive model has three witnesses, a node X that holds a job and hears of no controller,
// and one leader at a time. Its clock ticks; what happens within a tick may happen in any order. An
// adversary chooses everything else. Answers may be late or lost, witnesses may restart, and a new
// leader may take over. X may ask and decide at any time, and witnesses may look at the question at
// any time. The model visits every reachable state by the product's own functions. It looks for a
// state in which a leader may start the job while X still holds it.
type small struct {
	rules
	fromReceipt                  bool     // X counts its extension from when the answers are there
	has                          []string // the set that X has; nil: all three, which is the newest
	newestOnly                   bool     // the leader counts the newest set alone
	silence, lease, hold, margin int8
}

// member is one witness and what the leader knows of it. Ages are in ticks, and stay at a value beyond
// which they make no difference.
type member struct {
	silent int8 // since its last answer or its start
	echo   int8 // since the leader sent the answer that it has received last
	first  int8 // since the first round trip of its streak; -1: there is none
	last   int8 // since the last one
	answer int8 // to X's question: 0 none yet, 1 silent, 2 not
}

// moment is a state of the model.
type moment struct {
	of    [3]member
	holds int8 // ticks for which X holds the job; 0: it has stopped it
	asked int8 // since X asked; -1: it has not
	old   int8 // ticks until the old lease and the margin are over for the leader
}

// sorted puts witnesses that are alike into one order, so that fewer states are visited.
func (s *small) sorted(m moment) moment {
	out := m
	if s.has != nil {
		return out
	}
	slices.SortFunc(out.of[:], func(a, b member) int { return strings.Compare(fmt3(a), fmt3(b)) })
	return out
}

func fmt3(m member) string {
	return string([]byte{byte(m.silent), byte(m.echo), byte(m.first + 1), byte(m.last), byte(m.answer)})
}

var three = []string{"a", "b", "c"}

func (s *small) set(members []string) *Set {
	return &Set{Members: members, Silence: int64(s.silence), Hold: int64(s.hold), Margin: int64(s.margin)}
}

// sets returns the set that X has, and the newest.
func (s *small) sets() []*Set {
	newest := s.set(three)
	if s.has == nil {
		return []*Set{newest}
	}
	return []*Set{s.set(s.has), newest}
}

// counted returns the sets that the leader counts.
func (s *small) counted() []Set {
	var counted []Set
	for i, set := range s.sets() {
		if i > 0 || !s.newestOnly || s.has == nil {
			counted = append(counted, *set)
		}
	}
	return counted
}

const present = 1000 // an instant far from 0

// trips is what the leader of a moment knows.
func (s *small) trips(m *moment) *Trips {
	t := &Trips{rules: s.rules, of: map[string]streak{}}
	for i, w := range m.of {
		if w.first >= 0 {
			t.of[three[i]] = streak{present - int64(w.first), present - int64(w.last)}
		}
	}
	return t
}

// tick lets one tick pass.
func (s *small) tick(m moment) moment {
	up := func(n *int8, most int8) {
		if *n >= 0 {
			*n = min(*n+1, most)
		}
	}
	for i := range m.of {
		w := &m.of[i]
		up(&w.silent, s.silence)
		up(&w.echo, s.silence)
		up(&w.first, s.hold+s.margin)
		if w.last = min(w.last+1, s.silence/2+1); w.last > s.silence/2 && !s.bridgesGaps {
			w.first, w.last = -1, 0 // the same as none
		}
	}
	m.holds, m.old = max(m.holds-1, 0), max(m.old-1, 0)
	if up(&m.asked, s.hold); m.asked == s.hold && !s.fromReceipt { // of no use any more
		m.asked = -1
		for i := range m.of {
			m.of[i].answer = 0
		}
	}
	return m
}

// next yields what one event can make of a moment.
func (s *small) next(m moment, yield func(moment)) {
	yield(s.tick(m))
	leader := m
	for i := range m.of {
		leader.of[i].echo, leader.of[i].first, leader.of[i].last = s.silence, -1, 0
		s.ofMember(m, i, yield)
	}
	yield(leader)
	if m.holds == 0 {
		return
	}
	asked := m
	asked.asked = 0
	for i := range asked.of {
		asked.of[i].answer = 0
	}
	yield(asked)
	if m.asked < 0 {
		return
	}
	answers := map[string]Answer{}
	for i, w := range m.of {
		if w.answer == 1 {
			answers[three[i]] = Answer{Asked: present - int64(m.asked), Silent: int64(s.silence)}
		}
	}
	if until, ok := s.extend(s.sets()[0], answers); ok {
		extended := m
		extended.holds = max(m.holds, int8(until-present))
		if s.fromReceipt {
			extended.holds = s.hold
		}
		yield(extended)
	}
}

// ofMember yields what can happen at one witness.
func (s *small) ofMember(m moment, i int, yield func(moment)) {
	w := m.of[i]
	with := func(w member) {
		m.of[i] = w
		yield(m)
	}
	for age := int8(0); age <= s.silence; age++ { // an answer arrives that was sent so long ago
		heard := w
		heard.silent, heard.echo = 0, min(w.echo, age)
		with(heard)
	}
	restarted := w
	if restarted.silent = int8(s.silent(present, present, present-int64(s.silence))); restarted.silent != w.silent {
		with(restarted)
	}
	// the leader gets a report that echoes the last answer
	m.of[i] = w
	t := s.trips(&m)
	t.Note(three[i], present-int64(w.echo), present, int64(s.silence))
	if got, known := t.of[three[i]]; known {
		noted := w
		noted.first, noted.last = int8(present-got.first), int8(present-got.last)
		with(noted)
	}
	if m.asked >= 0 && m.holds > 0 && w.answer == 0 {
		answered := w
		if answered.answer = 2; w.silent >= s.silence {
			answered.answer = 1
		}
		with(answered)
	}
}

// search visits every state and returns the first in which the job may run twice, and how many there were.
func (s *small) search(most int) (bad *moment, visited int) {
	w := member{silent: 0, echo: s.silence, first: -1}
	first := moment{of: [3]member{w, w, w}, holds: s.lease, asked: -1, old: s.lease + s.margin}
	seen := map[moment]struct{}{first: {}}
	todo := []moment{first}
	for len(todo) > 0 && bad == nil && len(seen) < most {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m.holds > 0 && m.old == 0 && s.trips(&m).MayStart(present, s.counted()) {
			return &m, len(seen)
		}
		if m.holds == 0 {
			continue // nothing that happens afterwards can make it run twice
		}
		s.next(m, func(n moment) {
			n = s.sorted(n)
			if _, known := seen[n]; !known {
				seen[n] = struct{}{}
				todo = append(todo, n)
			}
		})
	}
	return nil, len(seen)
}

// TestThreeWitnesses visits every state of the model.
func TestThreeWitnesses(t *testing.T) {
	s := &small{silence: 2, lease: 4, hold: 3, margin: 1}
	bad, n := s.search(1 << 62)
	if bad != nil {
		t.Fatalf("the job may run twice: %+v", *bad)
	}
	if n < 10_000 {
		t.Errorf("only %d states: the model does not move", n)
	}
	t.Logf("%d states", n)
}

// TestAnOlderSetOfOneWitness: X has an older set, of which the newest has two members more.
func TestAnOlderSetOfOneWitness(t *testing.T) {
	s := &small{silence: 2, lease: 3, hold: 2, margin: 1, has: three[:1]}
	if bad, n := s.search(1 << 62); bad != nil || n < 10_000 {
		t.Errorf("after %d states the job may run twice: %+v", n, bad)
	}
}

// TestThreeWitnessesNoticeBrokenRules breaks one rule at a time. The model finds for each that the job may
// run twice.
func TestThreeWitnessesNoticeBrokenRules(t *testing.T) {
	for name, s := range map[string]*small{
		"a majority is one short":            {rules: rules{fewer: 1}},
		"a witness ignores its uptime":       {rules: rules{ignoresUptime: true}},
		"a leader takes an old echo":         {rules: rules{oldEchoes: true}},
		"a gap does not end a leader's wait": {rules: rules{bridgesGaps: true}},
		"a leader counts the newest set":     {newestOnly: true, has: three[:1]},
		"an extension counts from receipt":   {fromReceipt: true},
	} {
		s.silence, s.lease, s.hold, s.margin = 2, 4, 3, 1
		bad, n := s.search(20_000_000)
		if bad == nil {
			t.Errorf("%s: nothing found in %d states", name, n)
			continue
		}
		t.Logf("%s: found after %d states: %+v", name, n, *bad)
	}
}
