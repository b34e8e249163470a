// Package witness decides whether jobs may continue on a node that gets no answer from a
// controller. An outage of the controllers then ends no job, and still no job runs twice. Some
// nodes are witnesses. A node whose lease is about to end asks them: if a majority has had no
// leader's answer for a while, the node extends its leases ([Set.Extend]). A leader restarts a lost
// job only after a time in which no lease can have been extended. During this time it was in touch
// with a majority of the same witnesses, for longer than an extension lasts ([Trips.MayStart]).
// docs/decisions has the proof, and this package's tests check it.
//
// Times are in milliseconds of the CLOCK_BOOTTIME of the machine that reads them. They are never
// compared between machines, except that a leader gets back its own times.
package witness

import "slices"

// Set is a set of witnesses with its time spans. The log numbers the sets; a change of members or
// spans makes a new set.
type Set struct {
	Number  uint64   `json:"number"`
	Members []string `json:"members"`    // names of nodes
	Silence int64    `json:"silence_ms"` // a witness reports "no leader" after this time without a leader's answer
	Hold    int64    `json:"hold_ms"`    // a node may extend its leases by this time after its question
	Margin  int64    `json:"margin_ms"`  // allowance for clock drift, and for the time that containers need to stop
}

// Answer is a witness's answer to a node.
type Answer struct {
	Asked  int64 // when the node sent the question, on the node's clock
	Silent int64 // time since the witness's last answer from a leader, as returned by [Silent]
}

// rules are the rules that the proof needs. Tests break one rule at a time. The zero value keeps
// all rules.
type rules struct {
	fewer         int  // a majority is smaller by this number
	ignoresUptime bool // a witness that has just started claims that it never heard a leader
	oldEchoes     bool // a leader accepts an echo of any age
	bridgesGaps   bool // a gap does not reset a leader's wait
	revives       bool // a node extends expired leases
}

// majority returns the number of members that outvote the others. A tie is no majority.
func (r rules) majority(members int) int { return members/2 + 1 - r.fewer }

// Silent returns for how long a witness has certainly had no leader's answer. It counts from the
// last answer, or from the start of its daemon, because it knows nothing from before.
func Silent(now, started, heard int64) int64 { return rules{}.silent(now, started, heard) }

func (r rules) silent(now, started, heard int64) int64 {
	if r.ignoresUptime {
		return now - heard
	}
	return now - max(started, heard)
}

// Extend returns until when a node may extend its leases, on its own clock. It adds the hold time
// of its newest set to the time of the oldest question that counts. It returns false if no majority
// of the set reports "no leader"; then the leases end. answers has the last answer of each member.
func (s *Set) Extend(answers map[string]Answer) (until int64, ok bool) {
	return rules{}.extend(s, answers)
}

func (r rules) extend(s *Set, answers map[string]Answer) (until int64, ok bool) {
	var asked []int64
	for _, m := range s.Members {
		if a, has := answers[m]; has && a.Silent >= s.Silence {
			asked = append(asked, a.Asked)
		}
	}
	need := r.majority(len(s.Members))
	if len(asked) < need || need == 0 {
		return 0, false
	}
	slices.Sort(asked)
	return asked[len(asked)-need] + s.Hold, true
}

// Trips are round trips between one leader and witnesses. A trip is a report that echoes an answer
// which this leader sent a short time before. The zero value is right for a new leader, which has
// made no trips.
type Trips struct {
	rules
	of map[string]streak
}

// streak is a series of round trips without a gap.
type streak struct{ first, last int64 }

// Note records a report of a witness, with the time at which the leader sent the answer that the
// report echoes. silence is the shortest Silence of the sets in use.
func (t *Trips) Note(member string, sent, now, silence int64) {
	if now-sent >= silence/2 && !t.oldEchoes {
		return
	}
	s, known := t.of[member]
	if !known || now-s.last > silence/2 && !t.bridgesGaps {
		s.first = now
	}
	s.last = now
	if t.of == nil {
		t.of = map[string]streak{}
	}
	t.of[member] = s
}

// MayStart reports whether no node that asks one of the sets can hold an extended lease. For each
// set, the leader must have been in touch with the same majority for longer than an extension
// lasts. sets are all sets from the one that the lost node is known to have, up to the newest.
func (t *Trips) MayStart(now int64, sets []Set) bool {
	var silence, wait int64
	for i := range sets {
		if s := &sets[i]; i == 0 {
			silence, wait = s.Silence, s.Hold+s.Margin
		} else {
			silence, wait = min(silence, s.Silence), max(wait, s.Hold+s.Margin)
		}
	}
	for i := range sets {
		if len(t.Missing(now, silence, wait, &sets[i])) > len(sets[i].Members)-t.majority(len(sets[i].Members)) {
			return false
		}
	}
	return true
}

// Missing returns the members of a set without contact to the leader for this time.
func (t *Trips) Missing(now, silence, wait int64, of *Set) []string {
	var missing []string
	for _, m := range of.Members {
		s, known := t.of[m]
		if !known || now-s.last > silence/2 && !t.bridgesGaps || now-s.first < wait {
			missing = append(missing, m)
		}
	}
	return missing
}
