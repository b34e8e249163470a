package index

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// jobs is a state that changes at random: what the indexes are compared with.
type jobs struct {
	*rand.Rand
	all map[model.JobID]*model.Job
}

func (s *jobs) each() iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.all)) {
			if !yield(s.all[id]) {
				return
			}
		}
	}
}

// fresh makes a job that may depend on older ones, or be a child.
func (s *jobs) fresh(id model.JobID) *model.Job {
	j := &model.Job{ID: id, State: model.Pending, Owner: model.Identity{UID: uint32(s.IntN(2))},
		Spec: &jobspec.Job{Name: fmt.Sprint("n", s.IntN(3))}}
	if s.IntN(6) == 0 {
		j.Parent = 1
	}
	for range s.IntN(3) {
		var on []model.JobID
		for range 1 + s.IntN(2) {
			on = append(on, model.JobID(1+s.IntN(int(id))))
		}
		j.Dependencies = append(j.Dependencies, model.OpenDependency{Type: model.NeedAfterAny, Jobs: on})
	}
	return j
}

// changed is what becomes of a job: it ends, it has another name, or its dependencies are met.
func (s *jobs) changed(old *model.Job) *model.Job {
	next := *old
	switch s.IntN(4) {
	case 0:
		next.State = model.Completed
	case 1:
		next.Spec = &jobspec.Job{Name: fmt.Sprint("n", s.IntN(3))}
	case 2:
		next.Dependencies = next.Dependencies[:s.IntN(len(next.Dependencies)+1)]
	case 3:
		next.State = model.Running
	}
	return &next
}

// TestIndexesFollowTheJobs compares what is found in the indexes with a search of all jobs. They are
// first asked somewhere on the way.
func TestIndexesFollowTheJobs(t *testing.T) {
	for seed := range uint64(20) {
		s := &jobs{Rand: rand.New(rand.NewPCG(seed, 3)), all: map[model.JobID]*model.Job{}}
		names, dependents := NewNames(s.each), Dependents{}
		if !dependents.Empty() {
			t.Fatal("a new index has dependents")
		}
		asks := s.IntN(100)
		next := model.JobID(0)
		for step := range 300 {
			var changed *model.Job
			switch ids := slices.Sorted(maps.Keys(s.all)); {
			case len(ids) == 0 || s.IntN(3) == 0:
				next++
				changed = s.fresh(next)
				s.all[next] = changed
				names.Update(nil, changed)
				dependents.Update(nil, changed)
			case s.IntN(5) == 0:
				gone := s.all[ids[s.IntN(len(ids))]]
				if !gone.State.Final() {
					continue
				}
				delete(s.all, gone.ID)
				names.Forget(gone)
			default:
				old := s.all[ids[s.IntN(len(ids))]]
				if old.State.Final() {
					continue
				}
				changed = s.changed(old)
				s.all[old.ID] = changed
				names.Update(old, changed)
				dependents.Update(old, changed)
			}
			if changed != nil && dependents.Knows(changed.ID) != dependents.Has(changed) {
				t.Fatalf("seed %d, step %d: the index has an old version of job %d", seed, step, changed.ID)
			}
			if step >= asks {
				s.compareNames(t, &names)
			}
			s.compareDependents(t, &dependents, step >= asks, next)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

func (s *jobs) compareNames(t *testing.T, names *Names) {
	t.Helper()
	for uid := range uint32(2) {
		for i := range 3 {
			name := Name{uid, fmt.Sprint("n", i)}
			var all, open []model.JobID
			for j := range s.each() {
				if j.Parent != 0 || NameOf(j) != name {
					continue
				}
				all = append(all, j.ID)
				if !j.State.Final() {
					open = append(open, j.ID)
				}
			}
			newest := model.JobID(0)
			if len(all) > 0 {
				newest = all[len(all)-1]
			}
			if got := names.Newest(name); got != newest {
				t.Errorf("the newest job %v is %d, want %d", name, got, newest)
			}
			for id := range newest + 2 {
				before := model.JobID(0)
				for _, o := range open {
					if o < id {
						before = o
					}
				}
				if got := names.OpenBefore(id, name); got != before {
					t.Errorf("the open job %v before %d is %d, want %d", name, id, got, before)
				}
			}
			if err := names.CheckCount(name, NameCount{len(all), len(open)}); err != nil {
				t.Error(err)
			}
			if names.CheckCount(name, NameCount{len(all) + 1, len(open)}) == nil ||
				names.CheckCount(name, NameCount{len(all), len(open) + 1}) == nil {
				t.Errorf("a wrong count of %v is right", name)
			}
		}
	}
	if err := names.Check(); err != nil {
		t.Error(err)
	}
	for j := range s.each() {
		if j.Parent != 0 {
			continue
		}
		other := *j
		if other.State = model.Completed; j.State.Final() {
			other.State = model.Pending
		}
		if err := names.CheckJob(j); err != nil || names.CheckJob(&other) == nil {
			t.Errorf("job %d: %v, and it might be open or not", j.ID, err)
		}
	}
	if names.CheckJob(&model.Job{ID: 1, Spec: &jobspec.Job{Name: "none"}}) == nil {
		t.Error("a job of an unknown name is found")
	}
}

func (s *jobs) compareDependents(t *testing.T, d *Dependents, ask bool, last model.JobID) {
	t.Helper()
	var waiting []*model.Job
	by := map[model.JobID][]model.JobID{}
	for j := range s.each() {
		if len(j.Dependencies) == 0 || j.State.Final() {
			continue
		}
		waiting = append(waiting, j)
		for _, target := range j.Targets() {
			by[target] = append(by[target], j.ID)
		}
	}
	view := d.View()
	if got := slices.Collect(view.Jobs()); !slices.Equal(got, waiting) || d.Size() != len(waiting) ||
		d.Empty() != (len(waiting) == 0) {
		t.Errorf("%d jobs have dependencies, want %d", len(got), len(waiting))
	}
	for id := model.JobID(1); id <= last; id++ {
		in := slices.ContainsFunc(waiting, func(j *model.Job) bool { return j.ID == id })
		if d.Knows(id) != in {
			t.Errorf("job %d is known: %t", id, !in)
		}
		if !ask {
			continue
		}
		if got := d.Of(id); !slices.Equal(got, by[id]) {
			t.Errorf("the dependents of %d are %d, want %d", id, got, by[id])
		}
		if d.CheckTarget(id, by[id]) != nil || d.CheckTarget(id, append(slices.Clone(by[id]), last+1)) == nil {
			t.Errorf("the check of the dependents of %d", id)
		}
	}
	d.Check(s.each(), func(err error) { t.Error(err) })
}

// TestListsOfIDs compares lists that grow and shrink at random with a sorted set.
func TestListsOfIDs(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		var list []model.JobID
		set := map[model.JobID]bool{}
		for range 200 {
			id := model.JobID(r.IntN(30))
			if r.IntN(2) == 0 {
				list, set[id] = withID(list, id), true
			} else {
				list = withoutID(list, id)
				delete(set, id)
			}
			if want := slices.Sorted(maps.Keys(set)); !slices.Equal(list, want) {
				t.Fatalf("seed %d: %d, want %d", seed, list, want)
			}
		}
	}
}

// TestKeys remembers submissions and forgets those that are a day old.
func TestKeys(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	var keys Keys
	if err := errors.Join(keys.Check(), keys.CheckYoungest()); err != nil {
		t.Error(err)
	}
	recall := func(uid uint32, name, digest string, want ...model.JobID) {
		t.Helper()
		got, err := keys.Recall(uid, name, digest)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("key %s of %d: %d, %v, want %d", name, uid, got, err, want)
		}
	}
	recall(1, "a", "x")
	keys.Remember(NewKey(1, "a", "x", 1000, []model.JobID{5, 6, 7}))
	keys.Remember(NewKey(2, "a", "y", 2000, []model.JobID{8, 20, 21}))
	keys.Remember(NewKey(1, "b", "z", 3000, []model.JobID{30}))
	keys.Remember(NewKey(1, "", "z", 3000, []model.JobID{31}))
	check := func(n int) {
		t.Helper()
		if got := len(slices.Collect(keys.Values())); got != n {
			t.Errorf("%d keys, want %d", got, n)
		}
		if err := errors.Join(keys.Check(), keys.CheckYoungest()); err != nil {
			t.Error(err)
		}
	}
	check(4)
	recall(1, "a", "x", 5, 6, 7)
	recall(2, "a", "y", 8, 20, 21)
	recall(1, "b", "z", 30)
	recall(3, "a", "x")
	recall(1, "", "z") // no key is no key
	if ids, err := keys.Recall(1, "a", "other"); !errors.Is(err, model.ErrKeyReused) || ids != nil {
		t.Errorf("another submission with the key: %d, %v", ids, err)
	}
	got, _ := keys.Recall(2, "a", "y")
	got[0] = 99
	recall(2, "a", "y", 8, 20, 21) // what a caller does to its copy does not matter
	keys.Expire(1000 + day - 1)
	check(4)
	keys.Expire(1000 + day)
	check(3)
	recall(1, "a", "x")
	recall(2, "a", "y", 8, 20, 21)
	before := keys.View()
	keys.Expire(2000 + day)
	check(2)
	if n := len(slices.Collect(before.Values())); n != 3 {
		t.Errorf("a view from before has %d keys", n)
	}
	keys.Expire(3000 + 2*day)
	check(0)
	keys.Remember(NewKey(1, "a", "x", 1000, []model.JobID{40, 41}))
	check(1)
	recall(1, "a", "x", 40, 41)
}

// TestTheOldestKeysMakeRoom fills the keys.
func TestTheOldestKeysMakeRoom(t *testing.T) {
	var keys Keys
	for i := range model.JobID(model.MaxKeys - 1) {
		keys.Remember(NewKey(1, fmt.Sprint(i), "d", 1, []model.JobID{i + 1}))
	}
	keys.Expire(2)
	if n := keys.next - keys.first; n != model.MaxKeys-1 {
		t.Errorf("%d keys are left", n)
	}
	keys.Remember(NewKey(1, "last", "d", 1, []model.JobID{1}))
	keys.Expire(2)
	if n := keys.next - keys.first; n != model.MaxKeys-1 {
		t.Errorf("%d keys are left, so that the next one finds no room", n)
	}
	if ids, _ := keys.Recall(1, "0", "d"); ids != nil {
		t.Error("the oldest key is there still")
	}
	if ids, _ := keys.Recall(1, "1", "d"); ids == nil {
		t.Error("the second oldest key is gone")
	}
}

// TestTheYoungestKeyIsChecked damages one thing at a time.
func TestTheYoungestKeyIsChecked(t *testing.T) {
	for name, damage := range map[string]func(*Keys){
		"it is not known":       func(k *Keys) { delete(k.at, keyName{1, "b"}) },
		"it is found elsewhere": func(k *Keys) { k.at[keyName{1, "b"}] = 0 },
		"it is not there":       func(k *Keys) { k.keys.Drop(1) },
	} {
		var keys Keys
		keys.Remember(NewKey(1, "a", "d", 1, []model.JobID{1}))
		keys.Remember(NewKey(1, "b", "d", 2, []model.JobID{2}))
		if damage(&keys); keys.CheckYoungest() == nil {
			t.Errorf("%s: the check says nothing", name)
		}
	}
}
