package fsm

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
)

// Usages yields what each leaf has used, in no particular order.
func (v *View) Usages() iter.Seq[*estimate.Usage] { return v.usage.Values() }

// charge notes that an amount was held since an instant by a leaf.
func (s *State) charge(of model.Association, held model.Vector, since model.Instant) {
	if held == (model.Vector{}) || since >= s.v.at {
		return
	}
	s.enter(of, since, func(h *estimate.HourUse, ms int64) {
		h.Cores += held.Cores * ms
		h.Memory += int64(held.Memory) / model.Mib * ms / 1000
		h.GPUs += held.GPUs * ms
	})
}

// enter notes something for each hour since an instant.
func (s *State) enter(of model.Association, since model.Instant, add func(h *estimate.HourUse, ms int64)) {
	at, ok := s.usageSlot(of)
	if !ok {
		return
	}
	next := s.ownUsage(at, of)
	oldest := int64(s.v.at)/estimate.HourMS - estimate.UsedHours + 1
	next.Hours = next.Hours[sort.Search(len(next.Hours), func(i int) bool { return next.Hours[i].Hour >= oldest }):]
	for hour := max(oldest, int64(since)/estimate.HourMS); hour*estimate.HourMS < int64(s.v.at); hour++ {
		begin, end := max(int64(since), hour*estimate.HourMS), min(int64(s.v.at), (hour+1)*estimate.HourMS)
		add(next.Hour(hour), end-begin)
	}
}

// ownUsage returns the usage of a leaf ready to be written.
func (s *State) ownUsage(at int64, of model.Association) *estimate.Usage {
	old, _ := s.v.usage.Get(at)
	if old != nil && old.Epoch == s.epoch {
		return old
	}
	next := &estimate.Usage{Association: of}
	if old != nil {
		*next = *old
		next.Hours = append(make([]estimate.HourUse, 0, len(old.Hours)+1), old.Hours...)
	}
	next.Epoch = s.epoch
	s.v.usage.Set(at, next)
	return next
}

// updateActive keeps the time in step for which a leaf and its account have been active, with a job that has changed from old to next.
func (s *State) updateActive(old, next *model.Job) {
	was, is := old != nil && old.Active(), next.Active()
	if was == is {
		return
	}
	by := 1
	if was {
		by = -1
	}
	s.updateActiveLeaf(next.Association(), by)
	s.updateActiveLeaf(model.Association{Account: next.Account}, by)
}

func (s *State) updateActiveLeaf(of model.Association, by int) {
	at, ok := s.usageSlot(of)
	if !ok {
		return
	}
	u, _ := s.v.usage.Get(at)
	if u != nil && u.Active+by == 0 && u.Since != 0 {
		s.enter(of, u.Since, func(h *estimate.HourUse, ms int64) { h.Active += ms })
	}
	next := s.ownUsage(at, of)
	next.Active = max(0, next.Active+by)
	switch {
	case next.Active == 0:
		next.Since = 0
	case next.Since == 0 && by > 0 && !s.loading:
		next.Since = s.v.at
	}
}

// usageSlot returns where the usage of a leaf is kept, false if there is no place.
func (s *State) usageSlot(of model.Association) (int64, bool) {
	if at, ok := s.usageAt[of]; ok {
		return at, true
	}
	if len(s.usageAt) >= estimate.MaxLeaves {
		s.forgetUsage()
	}
	if len(s.usageAt) >= estimate.MaxLeaves {
		return 0, false
	}
	s.usageAt[of] = s.nextUsage
	s.nextUsage++
	return s.nextUsage - 1, true
}

// forgetUsage drops the leaves that have used nothing for a week.
func (s *State) forgetUsage() {
	oldest := int64(s.v.at)/estimate.HourMS - estimate.UsedHours
	for _, u := range slices.Collect(s.v.usage.Values()) {
		if n := len(u.Hours); u.Active == 0 && (n == 0 || u.Hours[n-1].Hour < oldest) {
			s.v.usage.Drop(s.usageAt[u.Association])
			delete(s.usageAt, u.Association)
		}
	}
}

// loadUsage stores what a leaf has used, from a snapshot.
func (s *State) loadUsage(u *estimate.Usage) error {
	if err := u.Check(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrSnapshot, err)
	}
	at, ok := s.usageSlot(u.Association)
	known, _ := s.v.usage.Get(at)
	if known != nil { // its jobs have been loaded
		u.Active = known.Active
	}
	if !ok || known != nil && (known.Hours != nil || known.Since != 0) {
		return fmt.Errorf("usage of %s in %s: there twice, or too many: %w", u.User, u.Account, model.ErrSnapshot)
	}
	s.v.usage.Set(at, u)
	return nil
}

// checkUsage says whether usage is where it is looked for, and in order.
func (s *State) checkUsage(note func(error)) {
	want := map[model.Association]int{}
	for j := range s.v.jobs.Values() {
		if j.Active() {
			want[j.Association()]++
			want[model.Association{Account: j.Account}]++
		}
	}
	n := 0
	for at, u := range s.v.usage.From(0) {
		n++
		if u.Active != want[u.Association] && len(s.usageAt) < estimate.MaxLeaves || u.Active == 0 && u.Since != 0 {
			note(fmt.Errorf("%s in %s has %d active jobs, made anew %d, since %d", u.User, u.Account, u.Active, want[u.Association], u.Since))
		}
		note(u.Check())
		if slot, ok := s.usageAt[u.Association]; !ok || slot != at {
			note(fmt.Errorf("usage of %s in %s is not at its slot", u.User, u.Account))
		}
	}
	if n != len(s.usageAt) {
		note(fmt.Errorf("%d leaves are known of %d with usage", len(s.usageAt), n))
	}
}

// sortedUsage returns what a snapshot has of usage, by account and user: slots, and leaves of which nothing is known, depend on what this
// replica has seen.
func (v *View) sortedUsage() []*estimate.Usage {
	var list []*estimate.Usage
	oldest := int64(v.at)/estimate.HourMS - estimate.UsedHours
	for u := range v.usage.Values() {
		if n := len(u.Hours); u.Since != 0 || n > 0 && u.Hours[n-1].Hour >= oldest {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *estimate.Usage) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User))
	})
	return list
}
