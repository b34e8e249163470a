package state

import (
	"fmt"
	"maps"

	"github.com/rota-hpc/rota/controld/model"
)

// heldBytes counts the bytes of the specifications of all jobs in the state, also of jobs that have ended, by
// user. A script counts once for each user whose jobs have it.
type heldBytes struct {
	users   map[uint32]int64
	scripts map[userScript]int // how many jobs of the user have it
}

type userScript struct {
	uid  uint32
	text *model.Text
}

func newHeldBytes() *heldBytes {
	return &heldBytes{users: map[uint32]int64{}, scripts: map[userScript]int{}}
}

// add counts a user's bytes.
func (h *heldBytes) add(uid uint32, n int64) {
	if h.users[uid] += n; h.users[uid] == 0 {
		delete(h.users, uid)
	}
}

// scriptsOf counts that one more job has its scripts (1), or one less (-1). A child shares those of its parent
// job.
func (h *heldBytes) scriptsOf(j *model.Job, by int) {
	if j.Texts == nil || j.Parent != 0 {
		return
	}
	for _, t := range j.Texts.Scripts {
		if t == nil {
			continue
		}
		key := userScript{j.Owner.UID, t}
		before := h.scripts[key]
		if before+by == 0 {
			delete(h.scripts, key)
			h.add(key.uid, -int64(len(t.Text)))
			continue
		}
		if h.scripts[key] = before + by; before == 0 {
			h.add(key.uid, int64(len(t.Text)))
		}
	}
}

// updateBytes keeps the counts in step with a job that is new (old is nil), has changed, or is forgotten (next
// is nil).
func (s *State) updateBytes(old, next *model.Job) {
	if s.held == nil {
		return // of a fork
	}
	var by int64
	j := next
	if next != nil {
		by = next.Bytes()
	} else {
		j = old
	}
	if old != nil {
		by -= old.Bytes()
	}
	before := s.held.users[j.Owner.UID]
	if by != 0 {
		s.held.add(j.Owner.UID, by)
	}
	switch {
	case old == nil:
		s.held.scriptsOf(next, 1)
	case next == nil:
		s.held.scriptsOf(old, -1)
	}
	s.v.specBytes += s.held.users[j.Owner.UID] - before
}

// HeldBytes returns how many bytes of job specifications a user holds, and how many all users.
func (s *State) HeldBytes(uid uint32) (user, all int64) {
	if s.held == nil {
		return 0, s.v.specBytes
	}
	return s.held.users[uid], s.v.specBytes
}

// BytesOf returns how many bytes more a user would hold with new jobs.
func (s *State) BytesOf(uid uint32, jobs []*model.Job) int64 {
	var n int64
	seen := map[string]bool{}
	for _, j := range jobs {
		n += j.Bytes()
		for i := range j.Spec.Groups {
			for k := range j.Spec.Groups[i].Tasks {
				script := j.Spec.Groups[i].Tasks[k].Script
				if script == "" || seen[script] {
					continue
				}
				seen[script] = true
				t := s.texts.Find(script)
				if s.held == nil || t == nil || s.held.scripts[userScript{uid, t}] == 0 {
					n += int64(len(script))
				}
			}
		}
	}
	return n
}

// checkBytes compares the counts with ones made anew.
func (s *State) checkBytes(note func(error)) {
	if s.held == nil {
		return
	}
	want, all := newHeldBytes(), int64(0)
	for j := range s.v.Jobs() {
		if n := j.Bytes(); n != 0 {
			want.add(j.Owner.UID, n)
		}
		want.scriptsOf(j, 1)
		if j.SpecBytes < 0 || j.Parent != 0 && j.SpecBytes != 0 {
			note(fmt.Errorf("job %d, a child of %d: its specification counts for %d bytes", j.ID, j.Parent, j.SpecBytes))
		}
	}
	for _, n := range want.users {
		all += n
	}
	if !maps.Equal(s.held.users, want.users) || !maps.Equal(s.held.scripts, want.scripts) || s.v.specBytes != all {
		note(fmt.Errorf("users hold %v bytes of specifications, %d in all; made anew %v, %d", s.held.users, s.v.specBytes,
			want.users, all))
	}
}
