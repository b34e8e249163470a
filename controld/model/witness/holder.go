package witness

// Holder is a node's part: whether it asks the witnesses, and until when it extends its leases. Instants
// are on its own clock. The zero value is that of a daemon that started at 0.
type Holder struct {
	rules
	Started int64 // when the daemon started
	Heard   int64 // the last confirmed answer of a leader; 0: none since the start
	asked   int64 // the last round of questions; 0: none since then
	answers map[string]Answer
}

// asksPerHold is how often a node asks in the span of an extension. Some rounds may be lost, and
// the lease is renewed early enough for a slow shim.
const asksPerHold = 20

// AskEvery returns the time between two rounds of questions to a set, in milliseconds.
func (s *Set) AskEvery() int64 { return max(s.Hold/asksPerHold, 1) }

// Hear notes a confirmed answer of a leader. Earlier words of witnesses do not matter any more.
func (h *Holder) Hear(now int64) {
	h.Heard, h.asked = now, 0
	clear(h.answers)
}

// Silent returns what this node says as a witness.
func (h *Holder) Silent(now int64) int64 { return h.silent(now, h.Started, h.Heard) }

// Begin reports whether the witnesses of a set are to be asked now, and notes that they are. A daemon that has
// heard of no leader since it started asks soon: its containers' leases may be about to end.
func (h *Holder) Begin(now int64, s *Set) bool {
	every := s.AskEvery()
	if h.Heard > 0 && now-h.Heard < s.Silence || h.Heard == 0 && now-h.Started < min(every, 2000) ||
		h.asked > 0 && now-h.asked < every {
		return false
	}
	h.asked = now
	return true
}

// Note takes a witness's answer. An answer to an older question than the last one that counts is late.
func (h *Holder) Note(member string, a Answer) {
	if old, has := h.answers[member]; has && old.Asked >= a.Asked || a.Asked <= h.Heard {
		return
	}
	if h.answers == nil {
		h.answers = map[string]Answer{}
	}
	h.answers[member] = a
}

// Extend returns until when this node may extend its leases, on its own clock, and false if it may
// not: see [Set.Extend]. ends is the end of the newest of its leases. After a restart of the daemon
// it is 0, and each shim keeps to its own lease. A lease that is over is never extended, since the
// controllers may have given its job to another node meanwhile.
func (h *Holder) Extend(now, ends int64, s *Set) (until int64, ok bool) {
	until, ok = h.extend(s, h.answers)
	if !ok || until <= max(now, ends) || ends > 0 && ends <= now && !h.revives {
		return 0, false
	}
	return until, true
}
