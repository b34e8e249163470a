package estimate

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
)

// UsageTable is what each leaf and each account has used, by a slot for each. The zero value is
// empty.
type UsageTable struct {
	leaves table.Table[*PastUse]
	slots  map[model.Association]int64 // of leaves; a view has none
	next   int64                       // slot
}

// Moment is when a table of the state changes.
type Moment struct {
	At      model.Instant
	Epoch   uint64 // of the state; what carries an older one is shared with a view
	Loading bool   // a snapshot is being read, which says since when leaves are active
}

// View returns the table as it is now, to be read only.
func (t *UsageTable) View() UsageTable { return UsageTable{leaves: t.leaves.View()} }

// Fork returns a table of its own that begins as a view is.
func (t *UsageTable) Fork() UsageTable {
	fork := UsageTable{leaves: t.leaves, slots: map[model.Association]int64{}}
	for at, u := range t.leaves.From(0) {
		fork.slots[u.Association], fork.next = at, at+1
	}
	return fork
}

// Values yields the usage of each leaf, in no particular order.
func (t *UsageTable) Values() iter.Seq[*PastUse] { return t.leaves.Values() }

// Of returns the usage of a leaf, nil if nothing is known of it.
func (t *UsageTable) Of(leaf model.Association) *PastUse {
	at, known := t.slots[leaf]
	if !known {
		return nil
	}
	u, _ := t.leaves.Get(at)
	return u
}

// Charge notes that an amount was held since an instant by a leaf.
func (t *UsageTable) Charge(of model.Association, held model.Vector, since model.Instant, m Moment) {
	if held == (model.Vector{}) || since >= m.At {
		return
	}
	t.enter(of, since, m, func(h *HourUse, ms int64) {
		h.Cores += held.Cores * ms
		h.Memory += int64(held.Memory) / model.Mib * ms / 1000
		h.GPUs += held.GPUs * ms
	})
}

// enter notes something for each hour since an instant.
func (t *UsageTable) enter(of model.Association, since model.Instant, m Moment, add func(h *HourUse, ms int64)) {
	at, ok := t.slotOf(of, m.At)
	if !ok {
		return
	}
	next := t.own(at, of, m.Epoch)
	oldest := int64(m.At)/HourMS - UsedHours + 1
	next.Hours = next.Hours[sort.Search(len(next.Hours), func(i int) bool { return next.Hours[i].Hour >= oldest }):]
	for hour := max(oldest, int64(since)/HourMS); hour*HourMS < int64(m.At); hour++ {
		begin, end := max(int64(since), hour*HourMS), min(int64(m.At), (hour+1)*HourMS)
		add(next.Hour(hour), end-begin)
	}
}

// own returns the usage of a leaf ready to be written.
func (t *UsageTable) own(at int64, of model.Association, epoch uint64) *PastUse {
	old, _ := t.leaves.Get(at)
	if old != nil && old.Epoch == epoch {
		return old
	}
	next := &PastUse{Association: of}
	if old != nil {
		*next = *old
		next.Hours = append(make([]HourUse, 0, len(old.Hours)+1), old.Hours...)
	}
	next.Epoch = epoch
	t.leaves.Set(at, next)
	return next
}

// UpdateActive keeps the active time of a leaf and of its account in step with a change of a job
// from old to next. old is nil for a new job.
func (t *UsageTable) UpdateActive(old, next *model.Job, m Moment) {
	was, is := old != nil && old.Active(), next.Active()
	if was == is {
		return
	}
	by := 1
	if was {
		by = -1
	}
	t.updateActiveLeaf(next.Association(), by, m)
	t.updateActiveLeaf(model.Association{Account: next.Account}, by, m)
}

func (t *UsageTable) updateActiveLeaf(of model.Association, by int, m Moment) {
	at, ok := t.slotOf(of, m.At)
	if !ok {
		return
	}
	u, _ := t.leaves.Get(at)
	if u != nil && u.Active+by == 0 && u.Since != 0 {
		t.enter(of, u.Since, m, func(h *HourUse, ms int64) { h.Active += ms })
	}
	next := t.own(at, of, m.Epoch)
	next.Active = max(0, next.Active+by)
	switch {
	case next.Active == 0:
		next.Since = 0
	case next.Since == 0 && by > 0 && !m.Loading:
		next.Since = m.At
	}
}

// slotOf returns where the usage of a leaf is kept, false if there is no place.
func (t *UsageTable) slotOf(of model.Association, now model.Instant) (int64, bool) {
	if at, ok := t.slots[of]; ok {
		return at, true
	}
	if len(t.slots) >= MaxLeaves {
		t.forget(now)
	}
	if len(t.slots) >= MaxLeaves {
		return 0, false
	}
	if t.slots == nil {
		t.slots = map[model.Association]int64{}
	}
	t.slots[of] = t.next
	t.next++
	return t.next - 1, true
}

// forget drops the leaves that have used nothing for a week.
func (t *UsageTable) forget(now model.Instant) {
	oldest := int64(now)/HourMS - UsedHours
	for _, u := range slices.Collect(t.leaves.Values()) {
		if n := len(u.Hours); u.Active == 0 && (n == 0 || u.Hours[n-1].Hour < oldest) {
			t.leaves.Drop(t.slots[u.Association])
			delete(t.slots, u.Association)
		}
	}
}

// Load stores what a leaf has used, from a snapshot.
func (t *UsageTable) Load(u *PastUse, now model.Instant) error {
	if err := u.Check(); err != nil {
		return fmt.Errorf("%w: %w", model.ErrSnapshot, err)
	}
	at, ok := t.slotOf(u.Association, now)
	known, _ := t.leaves.Get(at)
	if known != nil { // its jobs have been loaded
		u.Active = known.Active
	}
	if !ok || known != nil && (known.Hours != nil || known.Since != 0) {
		return fmt.Errorf("usage of %s in %s: it is duplicated, or there are too many: %w", u.User, u.Account,
			model.ErrSnapshot)
	}
	t.leaves.Set(at, u)
	return nil
}

// Check says whether usage is where it is looked for, in order, and fits the active jobs.
func (t *UsageTable) Check(jobs iter.Seq[*model.Job], note func(error)) {
	want := map[model.Association]int{}
	for j := range jobs {
		if j.Active() {
			want[j.Association()]++
			want[model.Association{Account: j.Account}]++
		}
	}
	n := 0
	for at, u := range t.leaves.From(0) {
		n++
		if u.Active != want[u.Association] && len(t.slots) < MaxLeaves || u.Active == 0 && u.Since != 0 {
			note(fmt.Errorf("%s in %s has %d active jobs, recomputed %d, since %d", u.User, u.Account, u.Active,
				want[u.Association], u.Since))
		}
		note(u.Check())
		if slot, ok := t.slots[u.Association]; !ok || slot != at {
			note(fmt.Errorf("usage of %s in %s is not at its slot", u.User, u.Account))
		}
	}
	if n != len(t.slots) {
		note(fmt.Errorf("%d of %d leaves with usage are in the index", len(t.slots), n))
	}
}

// Sorted returns the usage that a snapshot has, by account and user. Slots, and leaves of which
// nothing is known, depend on what this replica has seen.
func (t *UsageTable) Sorted(now model.Instant) []*PastUse {
	var list []*PastUse
	oldest := int64(now)/HourMS - UsedHours
	for u := range t.leaves.Values() {
		if n := len(u.Hours); u.Since != 0 || n > 0 && u.Hours[n-1].Hour >= oldest {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *PastUse) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User))
	})
	return list
}

// CheckLeaf compares what is kept of a leaf or an account with how many of its jobs are active.
func (t *UsageTable) CheckLeaf(leaf model.Association, active int, note func(error)) {
	at, known := t.slots[leaf]
	full := len(t.slots) >= MaxLeaves
	if !known {
		if active > 0 && !full {
			note(fmt.Errorf("%s in %s has no usage", leaf.User, leaf.Account))
		}
		return
	}
	u, _ := t.leaves.Get(at)
	if u == nil || u.Association != leaf {
		note(fmt.Errorf("usage of %s in %s is not at its slot", leaf.User, leaf.Account))
		return
	}
	note(u.Check())
	if u.Active != active && !full || u.Active == 0 && u.Since != 0 {
		note(fmt.Errorf("%s in %s has %d active jobs, counted %d, since %d", leaf.User, leaf.Account, u.Active, active,
			u.Since))
	}
}
