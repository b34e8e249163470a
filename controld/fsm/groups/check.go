package groups

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// Size counts the groups.
func (q *Queue) Size() int { return len(q.slots) }

// Holds reports whether a pending job is in its group, as it is now.
func (q *Queue) Holds(j *model.Job) bool {
	g := q.Find(KeyOf(j))
	if g == nil {
		return false
	}
	i, found := findJob(g.Jobs, j.ID)
	return found && g.Jobs[i] == j
}

// Names reports whether a group has a job with the id of j in the group of j.
func (q *Queue) Names(j *model.Job) bool {
	g := q.Find(KeyOf(j))
	if g == nil {
		return false
	}
	_, found := findJob(g.Jobs, j.ID)
	return found
}

// Check reports what is wrong with the groups, of which the jobs are pending in number. That each
// pending job is in its group is for [Queue.Holds] to say.
func (q *Queue) Check(pending int, note func(error)) {
	grouped, groups, elastic := 0, 0, 0
	for slot, g := range q.now.groups.From(0) {
		groups++
		grouped += len(g.Jobs)
		if at, ok := q.slots[g.Key]; !ok || at != slot || len(g.Jobs) == 0 {
			note(fmt.Errorf("group %+v is empty or not at its slot", g.Key))
			continue
		}
		note(q.checkHeadAt(slot, g))
		if g.Head.Elastic {
			elastic++
		}
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{{"pending", grouped, pending}, {"groups", len(q.slots), groups}, {"groups with an elastic job first", q.now.elastic,
		elastic}} {
		if c.got != c.want {
			note(fmt.Errorf("index of %s has %d entries for %d", c.what, c.got, c.want))
		}
	}
	note(q.shapes.check("shape", &q.now.groups, func(g *Group) (model.Shape, int) { return g.Key.Shape, g.Number }))
	note(q.leaves.check("leaf", &q.now.groups,
		func(g *Group) (model.Association, int) { return g.Key.Association(), g.Leaf }))
}

// checkHeadAt says whether a group's head is that of its jobs, in the group and in the table of
// heads.
func (q *Queue) checkHeadAt(slot int64, g *Group) error {
	if err := checkHead(g); err != nil {
		return err
	}
	if h, _ := q.now.heads.Get(slot); h != g.Head {
		return fmt.Errorf("the entry with the number of group %+v is %+v, not %+v", g.Key, h, g.Head)
	}
	return nil
}

// Tally counts the jobs of each group as they come and go, to compare a queue with.
type Tally struct {
	groups map[model.GroupKey]int      // jobs in each
	shapes numbered[model.Shape]       // that groups have
	leaves numbered[model.Association] // likewise
}

// NewTally returns a tally without jobs.
func NewTally() Tally {
	return Tally{groups: map[model.GroupKey]int{}, shapes: newNumbered[model.Shape](),
		leaves: newNumbered[model.Association]()}
}

// Size counts the groups that have jobs.
func (t *Tally) Size() int { return len(t.groups) }

// Count enters a pending job, or takes it out with by = -1.
func (t *Tally) Count(j *model.Job, by int) {
	k := KeyOf(j)
	before := t.groups[k]
	t.groups[k] += by
	switch {
	case before == 0:
		t.shapes.count(k.Shape, 1)
		t.leaves.count(k.Association(), 1)
	case before+by == 0:
		delete(t.groups, k)
		t.shapes.count(k.Shape, -1)
		t.leaves.count(k.Association(), -1)
	}
}

// Check compares the group with a key with the tally, and reports what differs.
func (t *Tally) Check(q *Queue, k model.GroupKey, note func(error)) {
	g, n := q.Find(k), t.groups[k]
	if n == 0 {
		if _, known := q.slots[k]; known {
			note(fmt.Errorf("group %+v is empty or not at its slot", k))
		}
		return
	}
	if g == nil || g.Key != k || len(g.Jobs) != n {
		note(fmt.Errorf("group %+v: its %d jobs are not at its slot", k, n))
		return
	}
	note(q.checkHeadAt(q.slots[k], g))
	note(t.shapes.check("shape", &q.shapes, k.Shape, g.Number))
	note(t.leaves.check("leaf", &q.leaves, k.Association(), g.Leaf))
}
