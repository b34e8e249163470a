package estimate

import (
	"fmt"
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
)

// UsageCounterTable is what every leaf holds and asks for that does either. The zero value is
// empty.
type UsageCounterTable struct {
	counters table.Table[*UsageCounter]
	slots    map[model.Association]int64 // of counters; a view has none
	free     []int64                     // slots
}

// Demand is what a waiting job asks for: so many attempts that could start, and what each counts
// for.
type Demand struct {
	Attempts int64
	Each     model.Amounts
}

// View returns the table as it is now, to be read only.
func (t *UsageCounterTable) View() UsageCounterTable {
	return UsageCounterTable{counters: t.counters.View()}
}

// Fork returns a table of its own that begins as a view is.
func (t *UsageCounterTable) Fork() UsageCounterTable {
	fork := UsageCounterTable{counters: t.counters, slots: map[model.Association]int64{}}
	next := int64(0)
	for slot, c := range t.counters.From(0) {
		for ; next < slot; next++ {
			fork.free = append(fork.free, next)
		}
		fork.slots[c.Association], next = slot, slot+1
	}
	return fork
}

// Values yields the counters, in no particular order.
func (t *UsageCounterTable) Values() iter.Seq[*UsageCounter] { return t.counters.Values() }

// Of returns the counter of a leaf, nil if it neither holds nor asks for anything.
func (t *UsageCounterTable) Of(leaf model.Association) *UsageCounter {
	slot, known := t.slots[leaf]
	if !known {
		return nil
	}
	c, _ := t.counters.Get(slot)
	return c
}

// Size counts the leaves that have a counter.
func (t *UsageCounterTable) Size() int { return len(t.slots) }

// Move enters that a job of a leaf had one attempt in progress and demand, and has others now. Nil
// is no attempt.
func (t *UsageCounterTable) Move(leaf model.Association, was, is *LiveAttempt, before, after Demand, epoch uint64) {
	c := t.own(leaf, epoch)
	c.AddRun(was, -1)
	c.AddRun(is, 1)
	c.AddDemand(before, -1)
	c.AddDemand(after, 1)
	if c.Jobs == 0 {
		slot := t.slots[leaf]
		t.counters.Drop(slot)
		t.free = append(t.free, slot)
		delete(t.slots, leaf)
	}
}

// own returns the counter of a leaf ready to be written.
func (t *UsageCounterTable) own(leaf model.Association, epoch uint64) *UsageCounter {
	slot, known := t.slots[leaf]
	if !known {
		slot = int64(len(t.slots))
		if n := len(t.free); n > 0 {
			slot, t.free = t.free[n-1], t.free[:n-1]
		}
		if t.slots == nil {
			t.slots = map[model.Association]int64{}
		}
		t.slots[leaf] = slot
		t.counters.Set(slot, &UsageCounter{Association: leaf, epoch: epoch})
	}
	c, _ := t.counters.Get(slot)
	if c.epoch == epoch {
		return c
	}
	next := *c
	next.epoch, next.Since = epoch, slices.Clone(c.Since)
	next.Held.Models, next.Requested.Models = slices.Clone(c.Held.Models), slices.Clone(c.Requested.Models)
	t.counters.Set(slot, &next)
	return &next
}

// Check compares the table with one made anew from the jobs.
func (t *UsageCounterTable) Check(want *UsageCounterTable, note func(error)) {
	for leaf := range want.slots {
		note(t.CheckLeaf(want.Of(leaf)))
	}
	if len(want.slots) != len(t.slots) || t.counters.Size() != len(want.slots) {
		note(fmt.Errorf("%d leaves have a usage counter, the table has %d, and there are %d leaves", len(t.slots),
			t.counters.Size(),
			len(want.slots)))
	}
}

// CheckLeaf compares the counter of one leaf with one made anew.
func (t *UsageCounterTable) CheckLeaf(want *UsageCounter) error {
	got := t.Of(want.Association)
	if got == nil || got.Association != want.Association || got.Jobs != want.Jobs || !got.Held.Equal(&want.Held) ||
		!got.Requested.Equal(&want.Requested) || !slices.EqualFunc(got.Since, want.Since, HourHoldings.Equal) {
		return fmt.Errorf("the usage counter of %s in %s is %+v, recomputed %+v", want.User, want.Account, got, want)
	}
	return nil
}
