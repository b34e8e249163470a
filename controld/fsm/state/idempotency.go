package state

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
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
	Digest string        `json:"digest"`
	At     model.Instant `json:"at"`
	First  model.JobID   `json:"first"`
	Count  int           `json:"count"`
	IDs    []model.JobID `json:"ids,omitempty"` // where they are not consecutive
}

func (k *key) ids() []model.JobID {
	if k.IDs != nil {
		return slices.Clone(k.IDs)
	}
	ids := make([]model.JobID, k.Count)
	for i := range ids {
		ids[i] = k.First + model.JobID(i)
	}
	return ids
}

// SubmittedWithKey returns the ids of the jobs that an idempotency key stands for, nil if it is not known, and ErrKeyReused if it
// stands for a submission with another digest.
func (s *State) SubmittedWithKey(uid uint32, name, digest string) ([]model.JobID, error) {
	at, ok := s.keyAt[keyName{uid, name}]
	if !ok || name == "" {
		return nil, nil
	}
	k, _ := s.v.keys.Get(at)
	if k.Digest != digest {
		return nil, fmt.Errorf("idempotency key %q, first used for job %d: %w", name, k.First, model.ErrKeyReused)
	}
	return k.ids(), nil
}

// RememberKey notes that an idempotency key stands for the jobs with some ids.
func (s *State) RememberKey(uid uint32, name, digest string, ids []model.JobID) {
	k := &key{keyName: keyName{uid, name}, Digest: digest, At: s.v.at, First: ids[0], Count: len(ids)}
	if int(ids[len(ids)-1]-ids[0]) != len(ids)-1 {
		k.IDs = slices.Clone(ids)
	}
	s.remember(k)
}

// remember stores a key, oldest last to be found by ExpireKeys.
func (s *State) remember(k *key) {
	s.keyAt[k.keyName] = s.nextKey
	s.v.keys.Set(s.nextKey, k)
	s.nextKey++
}

// ExpireKeys forgets keys that are a day old, and the oldest while there would be too many.
func (s *State) ExpireKeys() {
	for s.firstKey < s.nextKey {
		k, _ := s.v.keys.Get(s.firstKey)
		if k.At+keyLife > s.v.at && s.nextKey-s.firstKey < model.MaxKeys {
			return
		}
		s.v.keys.Drop(s.firstKey)
		delete(s.keyAt, k.keyName)
		s.firstKey++
	}
}
