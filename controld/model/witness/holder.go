package witness

// Holder is the node's side: it decides when to ask the witnesses, and until when to extend the
// leases. Instants are on the node's own clock. The zero value belongs to a daemon that started at
// 0.
type Holder struct {
	rules
	Started int64 // start of the daemon
	Heard   int64 // last confirmed answer of a leader; 0: none since the start
	asked   int64 // last round of questions; 0: none since then
	answers map[string]Answer
}

// asksPerHold is the number of rounds of questions within an extension. Some rounds may be lost,
// and a slow shim needs its lease renewed early.
const asksPerHold = 20

// AskEvery returns the time between two rounds of questions to a set, in milliseconds.
func (s *Set) AskEvery() int64 { return max(s.Hold/asksPerHold, 1) }

// Hear records a confirmed answer of a leader. Earlier answers of witnesses no longer matter.
func (h *Holder) Hear(now int64) {
	h.Heard, h.asked = now, 0
	clear(h.answers)
}

// Silent returns this node's answer as a witness.
func (h *Holder) Silent(now int64) int64 { return h.silent(now, h.Started, h.Heard) }

// Begin reports whether to ask the witnesses of a set now, and records that they are asked. A
// daemon without a leader's answer since its start asks soon, because its containers' leases may be
// about to end.
func (h *Holder) Begin(now int64, s *Set) bool {
	every := s.AskEvery()
	if h.Heard > 0 && now-h.Heard < s.Silence || h.Heard == 0 && now-h.Started < min(every, 2000) ||
		h.asked > 0 && now-h.asked < every {
		return false
	}
	h.asked = now
	return true
}

// Note records a witness's answer. An answer to an older question than the last counted one is late
// and ignored.
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
// not: see [Set.Extend]. ends is the end of the node's newest lease. After a restart of the daemon
// it is 0, and each shim relies on its own lease. An expired lease is never extended, because the
// controllers may have given its job to another node.
func (h *Holder) Extend(now, ends int64, s *Set) (until int64, ok bool) {
	until, ok = h.extend(s, h.answers)
	if !ok || until <= max(now, ends) || ends > 0 && ends <= now && !h.revives {
		return 0, false
	}
	return until, true
}
