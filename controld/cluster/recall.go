package cluster

// Recall returns the ids of the jobs that an idempotency key stands for, nil if it is not known, and ErrKeyReused if it stands for a
// submission with another digest.
func (s *State) Recall(uid uint32, key, digest string) ([]JobID, error) {
	return s.recall(SubmitJobs{Owner: Identity{UID: uid}, Key: key, Digest: digest})
}
