// Package witness decides if jobs may go on at a node that hears of no controller. An outage of the
// controllers then ends no job, and still no job runs twice. Some nodes are witnesses. A node whose
// lease ends asks them: if a majority has had no leader's answer for a while, the node extends its
// leases ([Set.Extend]). A leader starts a lost job again only after a span without doubt. It was
// then in touch with a majority of the same witnesses for longer than an extension lasts
// ([Trips.MayStart]). docs/decisions has the proof, and the tests of this package check it.
//
// Times are in milliseconds of the CLOCK_BOOTTIME of the machine that reads them. They are never
// compared with those of another machine, except that a leader gets back what it has sent.
package witness

import "slices"

// Set is a set of witnesses, with the spans that hold for it. Sets are numbered in the log: a change of
// members or spans is another set.
type Set struct {
	Number  uint64   `json:"number"`
	Members []string `json:"members"`    // names of nodes
	Silence int64    `json:"silence_ms"` // without a leader's answer, after which a witness says that there is none
	Hold    int64    `json:"hold_ms"`    // how long after its question a node may extend its leases
	Margin  int64    `json:"margin_ms"`  // for clocks that drift, and for containers that take time to stop
}

// Answer is a witness's answer to a node.
type Answer struct {
	Asked  int64 // when the node sent the question, on the node's clock
	Silent int64 // for how long the witness has had no leader's answer, as [Silent] returns it
}

// rules are what the proof needs. Tests break one of them at a time. The zero value breaks none.
type rules struct {
	fewer         int  // members that are missing to a majority
	ignoresUptime bool // a witness that has just started says that it has heard nothing for ever
	oldEchoes     bool // a leader counts an echo however old it is
	bridgesGaps   bool // a gap does not end a leader's wait
	revives       bool // a node extends leases that are over
}

// majority returns how many members outvote the others. A tie is none.
func (r rules) majority(members int) int { return members/2 + 1 - r.fewer }

// Silent returns for how long a witness has had no leader's answer for sure. It has not heard one since
// the last that it has received, and knows nothing from before its daemon started.
func Silent(now, started, heard int64) int64 { return rules{}.silent(now, started, heard) }

func (r rules) silent(now, started, heard int64) int64 {
	if r.ignoresUptime {
		return now - heard
	}
	return now - max(started, heard)
}

// Extend returns until when a node may extend its leases, on its own clock. It adds the span of its
// newest set to the time of the oldest question that counts. It reports false if no majority of the
// set says that it hears no leader; then the leases end. answers has the last answer of each
// member.
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

// Trips are round trips of one leader with witnesses. A trip is a report that echoes an answer
// which this leader sent a short time before. The zero value is that of a new leader, which knows
// of none.
type Trips struct {
	rules
	of map[string]streak
}

// streak is a series of round trips without a gap.
type streak struct{ first, last int64 }

// Note takes a report of a witness at an instant, with the instant at which the leader sent the answer
// that it echoes. silence is the shortest of the sets that matter.
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
// set the leader must have been in touch with the same majority for longer than an extension lasts.
// sets are all from the one that the lost node is known to have to the newest.
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

// Missing returns the members of a set with which the leader has not been in touch for so long.
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
