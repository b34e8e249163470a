package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// storedText is a script in a snapshot.
type storedText struct {
	Digest string `json:"digest"`
	Text   string `json:"text"`
}

// snapshotLines yields a job as a snapshot has it, and before it those of its scripts that have not
// been written yet. A child comes without the specification that it shares with its parent job.
func snapshotLines(j *model.Job, written map[*model.Text]bool, yield func(snapshotLine) bool) bool {
	stored := model.StoredJob(*j)
	r := snapshotLine{Job: &stored}
	if j.Parent != 0 {
		stored.Spec = nil
		return yield(r)
	}
	stored.Spec = j.SpecWith(false)
	if j.Texts != nil {
		for _, t := range j.Texts.Scripts {
			if t == nil {
				r.Scripts = append(r.Scripts, "")
				continue
			}
			digest := hex.EncodeToString(t.Digest[:])
			r.Scripts = append(r.Scripts, digest)
			if !written[t] && !yield(snapshotLine{Text: &storedText{digest, t.Text}}) {
				return false
			}
			written[t] = true
		}
	}
	return yield(r)
}

// loadText stores a script from a snapshot, for the jobs after it.
func (s *State) loadText(t *storedText) error {
	digest := sha256.Sum256([]byte(t.Text))
	if hex.EncodeToString(digest[:]) != t.Digest || !s.texts.Load(t.Text) {
		return fmt.Errorf("a script does not match its digest %q, or is duplicated: %w", t.Digest, model.ErrSnapshot)
	}
	return nil
}

// loadStored gives a job from a snapshot its scripts back and stores it.
func (s *State) loadStored(j *model.Job, scripts []string) error {
	k := 0
	if j.Spec != nil && len(scripts) > 0 {
		for i := range j.Spec.Groups {
			for n := range j.Spec.Groups[i].Tasks {
				if k >= len(scripts) {
					return fmt.Errorf("job %d: a task has no script: %w", j.ID, model.ErrSnapshot)
				}
				var digest model.Digest
				if b, err := hex.DecodeString(scripts[k]); err == nil && len(b) == len(digest) {
					copy(digest[:], b)
					if t := s.texts.Script(digest); t != nil {
						j.Spec.Groups[i].Tasks[n].Script = t.Text
					}
				}
				if (j.Spec.Groups[i].Tasks[n].Script == "") != (scripts[k] == "") {
					return fmt.Errorf("job %d: script %q is not in the snapshot: %w", j.ID, scripts[k], model.ErrSnapshot)
				}
				k++
			}
		}
	}
	if k != len(scripts) {
		return fmt.Errorf("job %d: %d scripts for %d tasks: %w", j.ID, len(scripts), k, model.ErrSnapshot)
	}
	return s.loadJob(j)
}
