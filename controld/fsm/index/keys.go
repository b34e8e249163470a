package index

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
)

// keyLife is how long an idempotency key is kept: a day of the log's clock.
const keyLife = 24 * 60 * 60 * 1000

// keyName is the scope in which an idempotency key is unique.
type keyName struct {
	UID uint32 `json:"uid"`
	Key string `json:"key"`
}

// Key remembers a submission. Its jobs have consecutive ids unless there are parent jobs among
// them.
type Key struct {
	keyName
	Digest string        `json:"digest"`
	At     model.Instant `json:"at"`
	First  model.JobID   `json:"first"`
	Count  int           `json:"count"`
	IDs    []model.JobID `json:"ids,omitempty"` // where they are not consecutive
}

// NewKey returns the key of a submission that got some ids.
func NewKey(uid uint32, name, digest string, at model.Instant, ids []model.JobID) *Key {
	k := &Key{keyName: keyName{uid, name}, Digest: digest, At: at, First: ids[0], Count: len(ids)}
	if int(ids[len(ids)-1]-ids[0]) != len(ids)-1 {
		k.IDs = slices.Clone(ids)
	}
	return k
}

func (k *Key) ids() []model.JobID {
	if k.IDs != nil {
		return slices.Clone(k.IDs)
	}
	ids := make([]model.JobID, k.Count)
	for i := range ids {
		ids[i] = k.First + model.JobID(i)
	}
	return ids
}

// Keys is the idempotency keys in order of arrival. The zero value has none.
type Keys struct {
	keys        table.Table[*Key]
	at          map[keyName]int64 // of keys; a view has none
	first, next int64
}

// View returns the keys as they are now, to be read only.
func (t *Keys) View() Keys { return Keys{keys: t.keys.View()} }

// Values yields the keys, the oldest first.
func (t *Keys) Values() iter.Seq[*Key] { return t.keys.Values() }

// Recall returns the ids of the jobs that a key stands for. It returns nil for an unknown key, and
// ErrKeyReused if the key stands for a submission with another digest.
func (t *Keys) Recall(uid uint32, name, digest string) ([]model.JobID, error) {
	at, ok := t.at[keyName{uid, name}]
	if !ok || name == "" {
		return nil, nil
	}
	k, _ := t.keys.Get(at)
	if k.Digest != digest {
		return nil, fmt.Errorf("idempotency key %q, first used for job %d: %w", name, k.First, model.ErrKeyReused)
	}
	return k.ids(), nil
}

// Remember stores a key.
func (t *Keys) Remember(k *Key) {
	if t.at == nil {
		t.at = map[keyName]int64{}
	}
	t.at[k.keyName] = t.next
	t.keys.Set(t.next, k)
	t.next++
}

// Expire forgets keys that are a day old, and the oldest while there would be too many.
func (t *Keys) Expire(now model.Instant) {
	for t.first < t.next {
		k, _ := t.keys.Get(t.first)
		if k.At+keyLife > now && t.next-t.first < model.MaxKeys {
			return
		}
		t.keys.Drop(t.first)
		delete(t.at, k.keyName)
		t.first++
	}
}

// Check compares what is found by name with the keys.
func (t *Keys) Check() error {
	want := map[keyName]int64{}
	for i, k := range t.keys.From(0) {
		want[k.keyName] = i
	}
	if !maps.Equal(want, t.at) || int64(len(want)) != t.next-t.first {
		return fmt.Errorf("%d of %d idempotency keys are in the index", len(t.at), len(want))
	}
	return nil
}

// CheckYoungest looks at the youngest key alone.
func (t *Keys) CheckYoungest() error {
	if int64(len(t.at)) != t.next-t.first {
		return fmt.Errorf("%d of %d idempotency keys are in the index", len(t.at), t.next-t.first)
	}
	if t.first == t.next {
		return nil
	}
	k, ok := t.keys.Get(t.next - 1)
	if !ok || t.at[k.keyName] != t.next-1 {
		return fmt.Errorf("the newest of %d idempotency keys is missing from the index", len(t.at))
	}
	return nil
}
