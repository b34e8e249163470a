package cluster

import (
	"fmt"
	"slices"
)

// keyLife is how long an idempotency key is kept: a day of the log's clock.
const keyLife = 24 * 60 * 60 * 1000

// keyName is the scope in which an idempotency key is unique.
type keyName struct {
	UID uint32 `json:"uid"`
	Key string `json:"key"`
}

// key remembers a submission. Its jobs have consecutive ids unless there are records among them.
type key struct {
	keyName
	Digest string  `json:"digest"`
	At     Instant `json:"at"`
	First  JobID   `json:"first"`
	Count  int     `json:"count"`
	IDs    []JobID `json:"ids,omitempty"` // where they are not consecutive
}

func (k *key) ids() []JobID {
	if k.IDs != nil {
		return slices.Clone(k.IDs)
	}
	ids := make([]JobID, k.Count)
	for i := range ids {
		ids[i] = k.First + JobID(i)
	}
	return ids
}

// Recall returns the ids of the jobs that an idempotency key stands for, nil if it is not known, and ErrKeyReused if it
// stands for a submission with another digest.
func (s *State) Recall(uid uint32, key, digest string) ([]JobID, error) {
	return s.recall(SubmitJobs{Owner: Identity{UID: uid}, Key: key, Digest: digest})
}

// recall returns the jobs of an earlier submission with the same key, or nil if there was none.
func (s *State) recall(c SubmitJobs) ([]JobID, error) {
	at, ok := s.keyAt[keyName{c.Owner.UID, c.Key}]
	if !ok || c.Key == "" {
		return nil, nil
	}
	k, _ := s.v.keys.get(at)
	if k.Digest != c.Digest {
		return nil, fmt.Errorf("idempotency key %q, first used for job %d: %w", c.Key, k.First, ErrKeyReused)
	}
	return k.ids(), nil
}

// remember stores a key, oldest last to be found by expireKeys.
func (s *State) remember(k *key) {
	s.keyAt[k.keyName] = s.nextKey
	s.v.keys.set(s.nextKey, k)
	s.nextKey++
}

// expireKeys forgets keys that are a day old, and the oldest while there would be too many.
func (s *State) expireKeys() {
	for s.firstKey < s.nextKey {
		k, _ := s.v.keys.get(s.firstKey)
		if k.At+keyLife > s.v.at && s.nextKey-s.firstKey < MaxKeys {
			return
		}
		s.v.keys.drop(s.firstKey)
		delete(s.keyAt, k.keyName)
		s.firstKey++
	}
}
