package witness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// large is the random model. Its nodes are witnesses in sets of seven that change, and one node
// holds a job. Leaders come and go, links are slow or cut in one direction or both, nodes pause,
// and daemons restart. Time is in steps of a millisecond.
type large struct {
	*rand.Rand
	rules

	now    int64
	nodes  [9]machine
	mail   []letter
	chosen *Chosen
	leader int // number of the leader; what an older one sent is no echo of it
	trips  Trips

	begins  int64  // when node 0 begins the job, if it may then; it was told of it at 0
	ends    int64  // of the lease that the job's shim has
	known   int64  // of the lease that the daemon of node 0 knows; 0: it has restarted
	heard   int64  // when a leader last heard of node 0
	acked   uint64 // newest set that the log knows node 0 to have
	has     Set    // that node 0 has
	lost    bool
	extends int
	quick   int // messages from one that is slow to the next, on average
	calm    int // steps from one mishap to the next, on average
}

type machine struct {
	Holder
	paused         int64 // until then
	echoOf         int   // the leader whose answer it received last
	echo           int64
	cutTo, cutFrom int64 // until when nothing reaches it, and nothing comes from it
	polls          int64 // when it asks the controllers next
}

// letter is a message under way. do carries it out when it arrives.
type letter struct {
	at int64
	do func()
	to int // node; -1: the leader
}

const (
	largeSilence, largeLease, largeHold, largeMargin = 20, 80, 70, 10
	largeGrace                                       = 3
)

func newLarge(seed uint64, broken rules) *large {
	l := &large{Rand: rand.New(rand.NewPCG(seed, 1)), rules: broken, leader: 1, known: largeLease, chosen: &Chosen{}}
	l.trips.rules = broken
	for i := range l.nodes {
		l.nodes[i].rules = broken
	}
	l.calm, l.quick = 5+l.IntN(60), 2+l.IntN(10)
	if l.ends = largeLease; l.IntN(6) == 0 {
		l.begins, l.ends = int64(1+l.IntN(3*largeLease)), 0 // its image, or its cores, were not there before
	}
	l.choose()
	l.has, l.acked = *l.chosen.Newest(), 1
	return l
}

func nodeName(i int) string { return fmt.Sprint("n", i) }

// choose chooses another set of witnesses, unless nodes may have too many.
func (l *large) choose() {
	s := Set{Number: l.chosen.Last + 1, Silence: largeSilence, Hold: largeHold, Margin: largeMargin}
	for _, i := range l.Perm(len(l.nodes))[:7] {
		s.Members = append(s.Members, nodeName(i))
	}
	slices.Sort(s.Members)
	if next, err := l.chosen.With(s); err == nil {
		l.chosen = next
	}
}

// send has something done at a node, or at the leader, unless it is lost.
func (l *large) send(from, to int, do func()) {
	if from >= 0 && l.nodes[from].cutFrom > l.now || to >= 0 && l.nodes[to].cutTo > l.now {
		return
	}
	delay := int64(l.IntN(3))
	if l.IntN(l.quick) == 0 {
		delay = int64(l.IntN(largeHold))
	}
	l.mail = append(l.mail, letter{l.now + delay, do, to})
}

// poll has a node ask the leader, and echo the last answer.
func (l *large) poll(i int) {
	n, asked := &l.nodes[i], l.now
	echoOf, echo, has := n.echoOf, n.echo, l.has.Number
	l.send(i, -1, func() {
		if echoOf == l.leader || l.oldEchoes {
			l.trips.Note(nodeName(i), echo, l.now, largeSilence)
		}
		if i == 0 {
			if l.lost {
				return // it is told that the job is no longer its own
			}
			if l.heard = l.now; has > l.acked {
				l.acked, l.chosen = has, l.chosen.Without(has)
			}
		}
		leader, sent, newest := l.leader, l.now, *l.chosen.Newest()
		l.send(-1, i, func() {
			n.echoOf, n.echo = leader, sent
			n.Hear(l.now)
			if i != 0 {
				return
			}
			if newest.Number > l.has.Number {
				l.has = newest
			}
			l.known = max(l.known, asked+largeLease)
			if l.ends > l.now {
				l.ends = max(l.ends, asked+largeLease)
			}
		})
	})
}

// ask has node 0 ask the witnesses of its set.
func (l *large) ask() {
	for _, name := range l.has.Members {
		var i int
		fmt.Sscanf(name, "n%d", &i)
		asked, w := l.now, &l.nodes[i]
		l.send(0, i, func() {
			silent := w.Silent(l.now)
			l.send(i, 0, func() { l.nodes[0].Note(name, Answer{Asked: asked, Silent: silent}) })
		})
	}
}

// hold lets node 0 begin its job, ask the witnesses, and extend its leases.
func (l *large) hold() {
	n := &l.nodes[0]
	if l.begins == l.now && l.known > l.now {
		l.ends = l.known
	}
	if n.Begin(l.now, &l.has) {
		l.ask()
	}
	if until, ok := n.Extend(l.now, l.known, &l.has); ok {
		l.known = until
		if l.ends > l.now {
			l.ends = max(l.ends, until)
			l.extends++
		}
	}
}

// mishap does something bad to a node, or to all controllers.
func (l *large) mishap() {
	n := &l.nodes[l.IntN(len(l.nodes))]
	span := l.now + int64(l.IntN(2*largeHold))
	if l.IntN(3) == 0 { // so that the job is lost at all
		n = &l.nodes[0]
	}
	switch l.IntN(9) {
	case 0:
		n.cutTo, n.cutFrom = span, span
	case 1:
		n.cutTo = span
	case 2:
		n.cutFrom = span
	case 3:
		n.paused = l.now + int64(l.IntN(3*largeSilence))
	case 4, 5: // its daemon restarts
		n.Holder, n.echoOf = Holder{rules: l.rules, Started: l.now}, 0
		if n == &l.nodes[0] {
			l.known = 0
			if l.begins > l.now {
				l.begins = 0 // it waits for a leader to say what is to run
			}
		}
	case 6: // a new leader knows of no round trip, and counts leases afresh
		l.leader++
		l.trips = Trips{rules: l.rules}
		l.heard = l.now
	case 7:
		l.choose()
	case 8: // the controllers are gone for a while, for all nodes or some
		span += int64(l.IntN(2 * largeHold))
		for i, of := 0, 1+l.IntN(8); i < len(l.nodes); i++ {
			if until := span - int64(l.IntN(largeSilence)); i == 0 || l.IntN(8) < of {
				l.nodes[i].polls = max(l.nodes[i].polls, until)
			}
		}
	}
}

// step lets a millisecond pass. It reports whether the job may run twice.
func (l *large) step() bool {
	l.now++
	under := l.mail
	l.mail = nil
	for _, m := range under {
		if m.at > l.now || m.to >= 0 && l.nodes[m.to].paused > l.now {
			l.mail = append(l.mail, m)
			continue
		}
		m.do()
	}
	if l.IntN(l.calm) == 0 {
		l.mishap()
	}
	for i := range l.nodes {
		if n := &l.nodes[i]; n.paused <= l.now && n.polls <= l.now {
			n.polls = l.now + int64(1+l.IntN(largeSilence/4))
			l.poll(i)
		}
	}
	if l.nodes[0].paused <= l.now {
		l.hold()
	}
	if l.lost || l.now < l.heard+largeLease+largeMargin || !l.trips.MayStart(l.now, l.chosen.From(l.acked)) {
		return false
	}
	l.lost = true
	return l.ends+largeGrace > l.now || l.begins > l.now && l.known > l.now
}

// play plays a history until the job is lost, and a while longer. It returns whether it may run twice.
func (l *large) play() bool {
	for after := 0; l.now < 1500 && after < 4*largeHold; {
		if l.step() {
			return true
		}
		if l.lost {
			after++
		}
		if l.lost && l.ends > l.now {
			return true
		}
	}
	return false
}

// TestSevenWitnesses plays random histories.
func TestSevenWitnesses(t *testing.T) {
	lost, extended, histories := 0, 0, uint64(400)
	if os.Getenv("ROTA_TEST_LONG") == "1" {
		histories = 4000
	}
	for seed := range histories {
		l := newLarge(seed, rules{})
		if l.play() {
			t.Fatalf("seed %d: at %d the job is started again, and node 0 holds it until %d", seed, l.now, l.ends)
		}
		if l.lost {
			lost++
		}
		extended += min(l.extends, 1)
	}
	t.Logf("of %d histories the job was lost in %d, and held by its witnesses in %d", histories, lost, extended)
	if lost < 15 || extended < 15 {
		t.Errorf("in %d histories the job is lost, in %d it is held: too few", lost, extended)
	}
}

// TestSevenWitnessesNoticeBrokenRules: the model notices that two majorities need not meet, and that
// a leader was out of touch.
func TestSevenWitnessesNoticeBrokenRules(t *testing.T) {
	for name, broken := range map[string]rules{
		"a majority is one short":            {fewer: 1},
		"a gap does not end a leader's wait": {bridgesGaps: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3000) {
				if newLarge(seed, broken).play() {
					t.Logf("seed %d", seed)
					return
				}
			}
			t.Error("no history shows it")
		})
	}
}
