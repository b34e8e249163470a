package witness

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// large is the random model: nodes that are witnesses in sets of seven that change, one of which holds a
// job; leaders that come and go; links that are cut in one direction or both, and slow; nodes that pause,
// and daemons that restart. Time is in steps of a millisecond.
type large struct {
	*rand.Rand
	rules

	now    int64
	nodes  [9]machine
	mail   []letter
	sets   []Set
	leader int // number of the leader; what an older one sent is no echo of it
	trips  Trips

	ends    int64 // of the lease of node 0, which holds the job
	heard   int64 // when a leader last answered node 0
	acked   int   // newest set that the log knows node 0 to have
	knows   []int // sets that node 0 has had, oldest first
	answers map[string]Answer
	asking  int64 // when it asked last
	lost    bool
	extends int
	quick   int // messages from one that is slow to the next, on average
	calm    int // steps from one mishap to the next, on average
}

type machine struct {
	started, heard, paused int64 // paused: until then
	echoOf                 int   // the leader whose answer it received last
	echo                   int64
	cutTo, cutFrom         int64 // until when nothing reaches it, and nothing comes from it
	polls                  int64 // when it asks the controllers next
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

func newLarge(seed uint64) *large {
	l := &large{Rand: rand.New(rand.NewPCG(seed, 1)), leader: 1, ends: largeLease, answers: map[string]Answer{},
		asking: -1000, knows: []int{0}}
	for i := range l.nodes {
		l.nodes[i].heard = -1000
	}
	l.calm, l.quick = 5+l.IntN(60), 2+l.IntN(10)
	l.choose()
	return l
}

func nodeName(i int) string { return fmt.Sprint("n", i) }

// choose chooses another set of witnesses.
func (l *large) choose() {
	s := Set{Number: uint64(len(l.sets)), Silence: largeSilence, Hold: largeHold, Margin: largeMargin}
	for _, i := range l.Perm(len(l.nodes))[:7] {
		s.Members = append(s.Members, nodeName(i))
	}
	l.sets = append(l.sets, s)
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
	echoOf, echo, has := n.echoOf, n.echo, l.knows[len(l.knows)-1]
	l.send(i, -1, func() {
		if echoOf == l.leader || l.oldEchoes {
			l.trips.Note(nodeName(i), echo, l.now, largeSilence)
		}
		if i == 0 {
			if l.lost {
				return // it is told that the job is no longer its own
			}
			l.heard, l.acked = l.now, max(l.acked, has)
		}
		leader, sent, newest := l.leader, l.now, len(l.sets)-1
		l.send(-1, i, func() {
			n.heard, n.echoOf, n.echo = l.now, leader, sent
			if i != 0 {
				return
			}
			if newest > l.knows[len(l.knows)-1] {
				l.knows = append(l.knows, newest)
			}
			if l.ends > l.now {
				l.ends = max(l.ends, asked+largeLease)
			}
		})
	})
}

// set is the one that node 0 asks.
func (l *large) set() *Set {
	return &l.sets[l.knows[len(l.knows)-1]]
}

// ask has node 0 ask the witnesses of its set.
func (l *large) ask() {
	l.asking = l.now
	for _, name := range l.set().Members {
		var i int
		fmt.Sscanf(name, "n%d", &i)
		asked, w := l.now, &l.nodes[i]
		l.send(0, i, func() {
			silent := l.silent(l.now, w.started, w.heard)
			l.send(i, 0, func() {
				if a, has := l.answers[name]; !has || a.Asked < asked {
					l.answers[name] = Answer{Asked: asked, Silent: silent}
				}
			})
		})
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
		n.started, n.heard, n.echoOf = l.now, -1000, 0
		if n == &l.nodes[0] {
			clear(l.answers)
		}
	case 6: // a new leader knows of no round trip, and counts leases afresh
		l.leader++
		l.trips = Trips{rules: l.rules}
		l.heard = l.now
	case 7:
		l.choose()
	case 8: // the controllers are gone for a while
		for i := range l.nodes {
			if until := span - int64(l.IntN(largeSilence)); l.IntN(8) > 0 {
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
	if l.nodes[0].paused <= l.now && l.ends > l.now && l.ends-l.now < largeHold/2 {
		if l.now-l.asking > 6 {
			l.ask()
		}
		if until, ok := l.extend(l.set(), l.answers); ok && until > l.ends {
			l.ends = until
			l.extends++
		}
	}
	if l.lost || l.now < l.heard+largeLease+largeMargin || !l.trips.MayStart(l.now, l.sets[l.acked:]) {
		return false
	}
	l.lost = true
	return l.ends+largeGrace > l.now
}

// play plays a history until the job is lost. It returns whether it may run twice.
func (l *large) play() bool {
	l.trips.rules = l.rules
	for l.now < 1500 && !l.lost {
		if l.step() {
			return true
		}
	}
	return false
}

// TestSevenWitnesses plays random histories.
func TestSevenWitnesses(t *testing.T) {
	lost, extended := 0, 0
	for seed := range uint64(1000) {
		l := newLarge(seed)
		if l.play() {
			t.Fatalf("seed %d: at %d the job is started again, and node 0 holds it until %d", seed, l.now, l.ends)
		}
		if l.lost {
			lost++
		}
		extended += min(l.extends, 1)
	}
	t.Logf("of 1000 histories the job was lost in %d, and held by its witnesses in %d", lost, extended)
	if lost < 50 || extended < 50 {
		t.Errorf("in %d histories the job is lost, in %d it is held: too few", lost, extended)
	}
}

// TestSevenWitnessesNoticeAShortMajority: the model notices that two majorities need not meet.
func TestSevenWitnessesNoticeAShortMajority(t *testing.T) {
	for seed := range uint64(3000) {
		l := newLarge(seed)
		if l.fewer = 1; l.play() {
			t.Logf("seed %d", seed)
			return
		}
	}
	t.Error("no history shows it")
}
