package groups

import (
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestChecksFindDamage damages sound groups in one way at a time. The check of the whole queue must
// report it, and so must the tally if it can see it.
func TestChecksFindDamage(t *testing.T) {
	for _, c := range []struct {
		name    string
		damage  func(q *Queue, j *model.Job)
		want    string
		tallied bool
	}{
		{"a group at no slot", func(q *Queue, j *model.Job) { delete(q.slots, KeyOf(j)) }, "group", true},
		{"a group with the head of another", func(q *Queue, j *model.Job) { q.Find(KeyOf(j)).Head.Job++ }, "head of group",
			true},
		{"a shape with another number", func(q *Queue, j *model.Job) { q.shapes.known[model.ShapeOf(j)].number += 7 },
			"number of a shape", true},
		{"a shape of too many groups", func(q *Queue, j *model.Job) { q.shapes.known[model.ShapeOf(j)].groups++ }, "groups",
			true},
		{"a leaf with another number", func(q *Queue, j *model.Job) { q.leaves.known[j.Association()].number += 7 },
			"number of a leaf", true},
		{"a group of no job", func(q *Queue, j *model.Job) { q.Find(KeyOf(j)).Jobs = nil }, "group", true},
		{"a group of another slot", func(q *Queue, j *model.Job) { q.slots[KeyOf(j)] += 7 }, "group", true},
		{"an elastic job that does not wait", func(q *Queue, _ *model.Job) { q.now.elastic++ }, "elastic job first", false},
	} {
		spec := &jobspec.Job{Groups: []jobspec.Group{{}}}
		q, tally := New(&View{}), NewTally()
		jobs := []*model.Job{
			{ID: 1, State: model.Pending, Spec: spec, Account: "a", Workers: 1},
			{ID: 2, State: model.Pending, Spec: spec, Account: "a", Workers: 1},
			{ID: 3, State: model.Pending, Spec: spec, Account: "b", Workers: 2},
		}
		for _, j := range jobs {
			q.Update(nil, j)
			tally.Count(j, 1)
		}
		q.Settle()
		verify := func() (whole, one error) {
			q.Check(len(jobs), func(err error) { whole = errors.Join(whole, err) })
			tally.Check(q, KeyOf(jobs[0]), func(err error) { one = errors.Join(one, err) })
			return whole, one
		}
		if whole, one := verify(); whole != nil || one != nil || !q.Holds(jobs[1]) || q.Size() != tally.Size() {
			t.Fatalf("sound groups: %v, %v", whole, one)
		}
		var gone error
		other := KeyOf(&model.Job{Spec: spec, Account: "none"})
		q.slots[other] = 0
		if tally.Check(q, other, func(err error) { gone = errors.Join(gone, err) }); gone == nil {
			t.Error("a group that no job is in has a slot")
		}
		delete(q.slots, other)
		c.damage(q, jobs[0])
		whole, one := verify()
		if whole == nil || !strings.Contains(whole.Error(), c.want) {
			t.Errorf("%s: got %v, want something about %q", c.name, whole, c.want)
		}
		if c.tallied && (one == nil || !strings.Contains(one.Error(), c.want)) {
			t.Errorf("%s: the tally says %v, want something about %q", c.name, one, c.want)
		}
	}
}
