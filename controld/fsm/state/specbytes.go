package state

import (
	"fmt"
	"maps"

	"github.com/rota-hpc/rota/controld/model"
)

// heldBytes counts the bytes of the specifications of all jobs in the state, also of jobs that have ended, by
// user. A script counts once for each user whose jobs have it.
type heldBytes struct {
	users map[uint32]int64
	// how many jobs of a user have a script, beyond those that the script itself counts
	scripts map[userScript]int
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
		uid := j.Owner.UID
		before := h.count(uid, t)
		h.setCount(uid, t, before+by)
		switch {
		case before == 0:
			h.add(uid, int64(len(t.Text)))
		case before+by == 0:
			h.add(uid, -int64(len(t.Text)))
		}
	}
}

// count returns how many jobs of a user have a script.
func (h *heldBytes) count(uid uint32, t *model.Text) int {
	if t.Held > 0 && t.HeldBy == uid {
		return int(t.Held)
	}
	return h.scripts[userScript{uid, t}]
}

// setCount stores a count: in the script itself for the user that came first, since most scripts are of one
// user.
func (h *heldBytes) setCount(uid uint32, t *model.Text, n int) {
	key := userScript{uid, t}
	_, apart := h.scripts[key]
	switch {
	case !apart && (t.Held == 0 || t.HeldBy == uid):
		t.HeldBy, t.Held = uid, int32(n)
	case n == 0:
		delete(h.scripts, key)
	default:
		h.scripts[key] = n
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

// BytesOfUser returns how many bytes of job specifications a user holds, as [cluster.Config.MaxSpecBytes] counts
// them. It looks at all jobs.
func (v *View) BytesOfUser(uid uint32) (n int64) {
	seen := map[*model.Text]bool{}
	for j := range v.Jobs() {
		if j.Owner.UID != uid {
			continue
		}
		n += j.Bytes()
		if j.Texts == nil || j.Parent != 0 {
			continue
		}
		for _, t := range j.Texts.Scripts {
			if t != nil && !seen[t] {
				seen[t] = true
				n += int64(len(t.Text))
			}
		}
	}
	return n
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
				if s.held == nil || t == nil || s.held.count(uid, t) == 0 {
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
	want, all, scripts := newHeldBytes(), int64(0), map[userScript]int{}
	for j := range s.v.Jobs() {
		want.add(j.Owner.UID, j.Bytes())
		if j.SpecBytes < 0 || j.Parent != 0 && j.SpecBytes != 0 {
			note(fmt.Errorf("job %d, a child of %d: its specification is counted with %d bytes", j.ID, j.Parent, j.SpecBytes))
		}
		if j.Texts == nil || j.Parent != 0 {
			continue
		}
		for _, t := range j.Texts.Scripts {
			if t != nil {
				scripts[userScript{j.Owner.UID, t}]++
			}
		}
	}
	for key, n := range scripts {
		want.add(key.uid, int64(len(key.text.Text)))
		if got := s.held.count(key.uid, key.text); got != n {
			note(fmt.Errorf("specifications of %d jobs of user %d have script %x, but %d are recorded", n,
				key.uid, key.text.Digest, got))
		}
	}
	for key, n := range s.held.scripts {
		if scripts[key] == 0 {
			note(fmt.Errorf("specifications of %d jobs of user %d are recorded with a script that no job has", n,
				key.uid))
		}
	}
	for _, n := range want.users {
		all += n
	}
	if !maps.Equal(s.held.users, want.users) || s.v.specBytes != all {
		note(fmt.Errorf("users hold %v bytes of specifications, %d in all; recomputed %v, %d", s.held.users, s.v.specBytes,
			want.users, all))
	}
}
