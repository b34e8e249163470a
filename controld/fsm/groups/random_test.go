package groups

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// line is a queue and the jobs that it should group.
type line struct {
	*rand.Rand
	now   *View
	q     *Queue
	tally Tally
	jobs  map[model.JobID]*model.Job
	next  model.JobID
}

func newLine(seed uint64) *line {
	l := &line{Rand: rand.New(rand.NewPCG(seed, 3)), now: &View{}, tally: NewTally(), jobs: map[model.JobID]*model.Job{}}
	l.q = New(l.now)
	return l
}

// fresh is a new job of one of a few kinds.
func (l *line) fresh() *model.Job {
	l.next++
	j := &model.Job{ID: l.next, State: model.Pending, Account: fmt.Sprint("a", l.IntN(2)), Workers: 1 + l.IntN(5),
		Owner: model.Identity{User: fmt.Sprint("u", l.IntN(2))}, Class: jobspec.BE, Eligible: model.Instant(l.IntN(9)),
		Spec: &jobspec.Job{Groups: []jobspec.Group{{}}}}
	if l.IntN(4) == 0 {
		j.Class = jobspec.TE
	}
	if l.IntN(6) == 0 {
		j.Spec.Groups[0].Elastic = &jobspec.Elastic{Min: 1, Max: 4}
	}
	return j
}

// changed is what may become of a job that has not ended.
func (l *line) changed(old *model.Job) *model.Job {
	j := *old
	switch l.IntN(8) {
	case 0:
		j.State = model.Running
	case 1:
		j.State = model.Pending
	case 2:
		j.State = model.Completed
	case 3:
		j.Priority = int32(l.IntN(3))
	case 4:
		j.Hold = []model.Hold{model.NotHeld, model.HeldByUser}[l.IntN(2)]
	case 5:
		j.Exclude = []string{"n1"}
	case 6:
		j.OwnRoomFirst = !j.OwnRoomFirst
	case 7:
		j.Eligible++ // which no group depends on
	}
	return &j
}

// command changes some jobs and settles.
func (l *line) command(t *testing.T) {
	var last model.JobID // some change several times
	for range 1 + l.IntN(6) {
		ids := slices.Sorted(maps.Keys(l.jobs))
		var old *model.Job
		if len(ids) > 0 && l.IntN(3) > 0 {
			if old = l.jobs[ids[l.IntN(len(ids))]]; l.IntN(3) == 0 {
				old = l.jobs[ids[0]] // the head of some group
			}
			if same := l.jobs[last]; same != nil && l.IntN(2) == 0 {
				old = same
			}
		}
		next := l.fresh
		if old != nil {
			next = func() *model.Job { return l.changed(old) }
		}
		j := next()
		last = j.ID
		known := l.groups()
		begun := l.q.Update(old, j)
		if l.jobs[j.ID] = j; j.State.Final() {
			delete(l.jobs, j.ID)
		}
		if old != nil && old.StillToStart() {
			l.tally.Count(old, -1)
		}
		if j.StillToStart() {
			l.tally.Count(j, 1)
		}
		_, there := known[KeyOf(j)]
		emptied := old != nil && old.StillToStart() && len(known[KeyOf(old)]) == 1 && KeyOf(old) != KeyOf(j)
		if want := j.StillToStart() && !there; begun != want && !emptied {
			t.Errorf("job %d: a group has begun: %t", j.ID, begun)
		}
	}
	l.q.Settle()
}

// groups is what the groups should be.
func (l *line) groups() map[model.GroupKey][]*model.Job {
	all := map[model.GroupKey][]*model.Job{}
	for _, id := range slices.Sorted(maps.Keys(l.jobs)) {
		if j := l.jobs[id]; j.StillToStart() {
			all[KeyOf(j)] = append(all[KeyOf(j)], j)
		}
	}
	return all
}

// say writes a view's groups, to see whether it changes later.
func say(v *View) string {
	text := fmt.Sprint(v.ElasticHeads())
	for slot, g := range v.Groups().From(0) {
		head, _ := v.Heads().Get(slot)
		text += fmt.Sprintf("\n%d %v %d %d %+v", slot, g.Key, g.Number, g.Leaf, head)
		for _, j := range g.Jobs {
			text += fmt.Sprintf(" %p", j)
		}
	}
	return text
}

// compare holds a queue and its view to what they should be.
func (l *line) compare(t *testing.T, q *Queue, v *View) {
	t.Helper()
	want := l.groups()
	pending, elastic := 0, 0
	shapes, leaves := map[model.Shape]int{}, map[model.Association]int{}
	for k, jobs := range want {
		pending += len(jobs)
		g := q.Find(k)
		if g == nil || g.Key != k || !slices.Equal(g.Jobs, jobs) || g.Workers != k.Shape.Total() ||
			g.Req != k.Shape.Request {
			t.Errorf("group %+v is %+v, want %d jobs", k, g, len(jobs))
			continue
		}
		first := jobs[0]
		head := Head{Job: first.ID, Eligible: first.Eligible, Priority: k.Priority, Shape: int32(g.Number),
			Leaf: int32(g.Leaf), TE: k.Class == jobspec.TE, Held: k.Held,
			Elastic: first.Spec.Groups[0].Elastic != nil,
			Plain:   first.Hold == model.NotHeld && len(first.Exclude) == 0 && !first.OwnRoomFirst}
		if g.Head != head {
			t.Errorf("the head is %+v, want %+v", g.Head, head)
		}
		if head.Elastic {
			elastic++
		}
		others := slices.Collect(maps.Values(shapes))
		if n, known := shapes[k.Shape]; known && n != g.Number || !known && slices.Contains(others, g.Number) {
			t.Errorf("the number %d of a shape: %v", g.Number, shapes)
		}
		others = slices.Collect(maps.Values(leaves))
		if n, known := leaves[k.Association()]; known && n != g.Leaf || !known && slices.Contains(others, g.Leaf) {
			t.Errorf("the number %d of a leaf: %v", g.Leaf, leaves)
		}
		shapes[k.Shape], leaves[k.Association()] = g.Number, g.Leaf
		for _, j := range jobs {
			if !q.Holds(j) || !q.Names(j) || q.Names(&model.Job{ID: 1 << 40, Spec: j.Spec}) {
				t.Errorf("job %d is not found in its group", j.ID)
			}
			other := *j
			if q.Holds(&other) || !q.Names(&other) {
				t.Errorf("an old version of job %d is held", j.ID)
			}
		}
	}
	if q.Size() != len(want) || v.Groups().Size() != len(want) || v.Heads().Size() != len(want) ||
		v.ElasticHeads() != elastic {
		t.Errorf("%d groups, %d in the view, %d heads, %d elastic ones, want %d and %d", q.Size(), v.Groups().Size(),
			v.Heads().Size(), v.ElasticHeads(), len(want), elastic)
	}
	var bad error
	q.Check(pending, func(err error) { bad = errors.Join(bad, err) })
	for k := range want {
		l.tally.Check(q, k, func(err error) { bad = errors.Join(bad, err) })
	}
	if bad != nil || l.tally.Size() != len(want) {
		t.Errorf("the checks say %v; %d groups are tallied", bad, l.tally.Size())
	}
}

// TestGroupsFollowTheJobs compares the groups with the jobs after each command. Views must not
// change with later commands, and forks go on from one without a trace in it.
func TestGroupsFollowTheJobs(t *testing.T) {
	for seed := range uint64(8) {
		l := newLine(seed)
		type seen struct {
			view View
			text string
		}
		var views []*seen
		for step := range 100 {
			l.command(t)
			l.compare(t, l.q, l.now)
			if l.IntN(5) == 0 {
				s := &seen{view: l.q.View()}
				s.text = say(&s.view)
				views = append(views[max(0, len(views)-4):], s)
			}
			if l.IntN(30) == 0 {
				l.fork(t)
			}
			for _, s := range views[:min(len(views), 1+step%3)] {
				if got := say(&s.view); got != s.text {
					t.Errorf("a view has changed from\n%s\nto\n%s", s.text, got)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
	}
}

// fork lets a fork of the present groups go its own way for a while.
func (l *line) fork(t *testing.T) {
	t.Helper()
	before := say(l.now)
	own := &View{}
	*own = l.q.View()
	f := &line{Rand: l.Rand, now: own, q: Fork(own), tally: NewTally(), jobs: maps.Clone(l.jobs), next: l.next}
	for _, j := range f.jobs {
		if j.StillToStart() {
			f.tally.Count(j, 1)
		}
	}
	f.compare(t, f.q, f.now)
	for range 10 {
		f.command(t)
		f.compare(t, f.q, f.now)
	}
	if got := say(l.now); got != before {
		t.Errorf("a fork has changed what it was made from:\n%s\nto\n%s", before, got)
	}
}

// TestNumbersAreSmall has groups come and go: their numbers are given again.
func TestNumbersAreSmall(t *testing.T) {
	var s numbers[string]
	for round := range 10 {
		a, b := s.use(fmt.Sprint("a", round)), s.use(fmt.Sprint("b", round))
		if max(a, b) > 1 || a == b || s.use(fmt.Sprint("a", round)) != a {
			t.Errorf("round %d: the numbers are %d and %d", round, a, b)
		}
		s.leave(fmt.Sprint("a", round))
		if s.use("between") != 2 && round == 0 {
			t.Error("a number is given twice")
		}
		s.leave("between")
		s.leave(fmt.Sprint("a", round))
		s.leave(fmt.Sprint("b", round))
	}
	var f numbers[string]
	f.adopt("x", 4)
	f.adopt("x", 4)
	f.adopt("y", 1)
	f.fill()
	slices.Sort(f.free)
	if !slices.Equal(f.free, []int{0, 2, 3}) {
		t.Errorf("free are %d", f.free)
	}
	f.leave("x")
	if f.use("x") != 4 {
		t.Error("x has another number while a group has it")
	}
}
