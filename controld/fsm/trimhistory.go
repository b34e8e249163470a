package fsm

// KindTrimHistory is the kind of [TrimHistory].
var KindTrimHistory = newKind("trim-history/1")

// TrimHistory drops finished jobs with Seq <= UpTo, which a majority has stored durably.
type TrimHistory struct {
	UpTo int64 `json:"up_to"` // last number that a majority has stored
}

// Kind implements Command.
func (TrimHistory) Kind() Kind { return KindTrimHistory }

// apply drops finished jobs, oldest first.
func (c TrimHistory) apply(m *Machine) (any, error) {
	if m.v.HasUnsettled() {
		return nil, nil // jobs are still to learn how those ended that they wait for
	}
	m.s.TrimHistory(c.UpTo)
	return nil, nil
}
