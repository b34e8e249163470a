package limits

import (
	"fmt"
	"iter"
	"maps"

	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Table is the counts of all owners that have jobs. The zero value is empty.
type Table struct {
	uses  table.Table[*Use]
	slots map[cluster.Owner]int64 // of uses; a view has none
	free  []int64                 // slots
}

// View returns the table as it is now, to be read only.
func (t *Table) View() Table { return Table{uses: t.uses.View()} }

// Fork returns a table of its own that begins as a view is.
func (t *Table) Fork() Table {
	fork := Table{uses: t.uses, slots: map[cluster.Owner]int64{}}
	next := int64(0)
	for slot, u := range t.uses.From(0) {
		for ; next < slot; next++ {
			fork.free = append(fork.free, next)
		}
		fork.slots[u.Owner], next = slot, slot+1
	}
	return fork
}

// Values yields the counts, in no particular order.
func (t *Table) Values() iter.Seq[*Use] { return t.uses.Values() }

// Of returns the count of the owner of a limit, an empty one if it has no jobs. The table must not
// be a view.
func (t *Table) Of(b *cluster.Bound) *Use {
	if slot, known := t.slots[b.Owner]; known {
		u, _ := t.uses.Get(slot)
		return u
	}
	return New(b)
}

// Move enters that a job has changed from old, nil if it is new, to next.
func (t *Table) Move(bounds []cluster.Bound, old, next *model.Job, epoch uint64) {
	was, is := PartOf(old), PartOf(next)
	same := was == is
	for i := range bounds {
		b := &bounds[i]
		if same && (b.Limit.Nodes == nil || !was.Live) {
			continue
		}
		u := t.own(b, epoch)
		u.add(&was, -1)
		u.add(&is, 1)
		if b.Limit.Nodes != nil {
			u.addNodes(nodesOf(old), -1)
			u.addNodes(nodesOf(next), 1)
		}
		if u.empty() {
			slot := t.slots[b.Owner]
			t.uses.Drop(slot)
			t.free = append(t.free, slot)
			delete(t.slots, b.Owner)
		}
	}
}

// own returns the count of an owner ready to be written.
func (t *Table) own(b *cluster.Bound, epoch uint64) *Use {
	slot, known := t.slots[b.Owner]
	if !known {
		slot = int64(len(t.slots))
		if n := len(t.free); n > 0 {
			slot, t.free = t.free[n-1], t.free[:n-1]
		}
		if t.slots == nil {
			t.slots = map[cluster.Owner]int64{}
		}
		t.slots[b.Owner] = slot
		u := New(b)
		u.epoch = epoch
		t.uses.Set(slot, u)
		return u
	}
	u, _ := t.uses.Get(slot)
	if u.epoch == epoch {
		return u
	}
	next := u.Clone()
	next.epoch = epoch
	t.uses.Set(slot, next)
	return next
}

// Check compares the table with one made anew from the jobs.
func (t *Table) Check(want *Table) error {
	if len(t.slots) != len(want.slots) || t.uses.Size() != len(want.slots) {
		return fmt.Errorf("%d owners of limits are counted, and there are %d, for %d", len(t.slots), t.uses.Size(),
			len(want.slots))
	}
	for owner := range maps.Keys(want.slots) {
		got, known := t.slots[owner]
		if !known {
			return fmt.Errorf("the jobs of %s are not counted for its limit", owner)
		}
		have, _ := t.uses.Get(got)
		need, _ := want.uses.Get(want.slots[owner])
		if !have.equal(need) {
			return fmt.Errorf("the count of %s is %+v, made anew %+v", owner, *have, *need)
		}
	}
	return nil
}
