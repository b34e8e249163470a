package fsm

// KindTrimHistory is the kind of [TrimHistory].
var KindTrimHistory = newKind("trim-history/1")

// TrimHistory drops finished jobs with Seq <= UpTo, which a majority has stored durably.
type TrimHistory struct {
	UpTo int64 `json:"up_to"`
}

// Kind implements Command.
func (TrimHistory) Kind() Kind { return KindTrimHistory }

// apply drops finished jobs, oldest first.
func (c TrimHistory) apply(s *State) (any, error) {
	if s.v.unsettled {
		return nil, nil // jobs are still to learn how those ended that they wait for
	}
	for seq := s.v.trimmed + 1; seq <= min(c.UpTo, s.v.lastSeq); seq++ {
		if j, ok := s.v.finished.Get(seq); ok {
			s.v.finished.Drop(seq)
			s.v.jobs.Drop(int64(j.ID))
			s.forget(j)
			s.changedJobs.add(j.ID)
			s.touched.job(j.ID)
			s.v.njobs -= j.Weight()
		}
		s.v.trimmed = seq
	}
	return nil, nil
}
