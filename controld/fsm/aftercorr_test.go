package fsm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

func indices(text string) func(*jobspec.Job) {
	return func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: text} }
}

// element runs one element of an array to its end, by its index.
func (w *world) element(parent model.JobID, index, exit int) {
	w.t.Helper()
	n := 1 + w.job(parent).Spec.Array.Ordinal(index)
	node := fmt.Sprintf("own%d", w.index)
	w.node(node, 8)
	w.ok(w.plan(&StartJob{Job: parent, TaskNumber: n, Places: []model.Place{w.place(node, 1)}}))
	w.run(parent + model.JobID(n))
	w.report(parent+model.JobID(n), 0, model.WorkerExited, code(exit))
}

func (w *world) wantFamily(id model.JobID, waiting, ready, dropped string) {
	w.t.Helper()
	f := w.job(id).Children
	if f.Waiting.String() != waiting || f.Ready.String() != ready || f.Dropped.String() != dropped {
		w.t.Fatalf("job %d: %s wait, %s are ready, %s are dropped; want %s, %s, %s", id, f.Waiting, f.Ready, f.Dropped,
			waiting, ready, dropped)
	}
}

// TestElementByElement follows an array with another whose elements have other numbers but the same
// indices, and that with a third.
func TestElementByElement(t *testing.T) {
	w := newWorld(t)
	first, err := w.submit2(alice, nil, indices("10-40:10"))
	w.ok(err)
	second := w.depends(fmt.Sprint("aftercorr:", first), indices("20,40"))
	third := w.depends(fmt.Sprint("aftercorr:", second), indices("20-40:20"))
	if !groups.KeyOf(w.job(second)).Held {
		t.Fatal("nothing is ready and it is not held")
	}
	w.element(first, 30, 0) // the counterpart of no task
	w.wantFamily(second, "1-2", "", "")
	w.element(first, 40, 0)
	w.wantFamily(second, "1-2", "2", "")
	if j := w.job(second); j.Blocked() || groups.KeyOf(j).Held {
		t.Fatal("an element is ready and it is held")
	}
	if err := w.plan(&StartJob{Job: second, TaskNumber: 1,
		Places: []model.Place{w.place("own8", 1)}}); err == nil {
		t.Fatal("an element starts before its counterpart has ended")
	}
	w.element(first, 20, 1)
	w.wantFamily(second, "2", "2", "1")
	w.wantFamily(third, "2", "", "1")
	w.element(second, 40, 0)
	w.wantFamily(third, "2", "2", "1")
}

// TestElementByElementLate submits the follower once part of what it follows has ended, and once
// all has.
func TestElementByElementLate(t *testing.T) {
	w := newWorld(t)
	first, err := w.submit2(alice, nil, indices("0-3"))
	w.ok(err)
	w.element(first, 0, 0)
	w.element(first, 1, 1)
	part := w.depends(fmt.Sprint("aftercorr:", first), indices("0-3"))
	w.wantFamily(part, "1,3-4", "1", "2")
	one := w.depends(fmt.Sprintf("afterok:%d_2", first))
	never := w.depends(fmt.Sprintf("afterok:%d_3", first))
	w.element(first, 2, 0)
	if w.job(one).Blocked() {
		t.Fatal("it waits for an element that has ended well")
	}
	w.ok(w.control(model.VerbCancel, 1000, false, first))
	w.state(never, model.Cancelled)
	w.wantFamily(part, "1,3", "1,3", "2,4")
	if len(w.job(part).Dependencies) != 0 {
		t.Fatalf("%+v", w.job(part).Dependencies)
	}
	whole := w.depends(fmt.Sprint("aftercorr:", first), indices("0-3"))
	w.wantFamily(whole, "1,3", "1,3", "2,4")
	lost := w.depends(fmt.Sprint("aftercorr:", first), indices("1,3"))
	w.state(lost, model.Cancelled)
	both := w.depends(fmt.Sprintf("aftercorr:%d,%d", first, part), indices("0,2"))
	w.wantFamily(both, "1-2", "", "")
	w.element(part, 2, 0)
	w.wantFamily(both, "1-2", "2", "")
}

func TestElementByElementRefused(t *testing.T) {
	w := newWorld(t)
	first, err := w.submit2(alice, nil, indices("0-3"))
	w.ok(err)
	plain := w.submit(1, 1)
	for on, edit := range map[string]func(*jobspec.Job){
		fmt.Sprint("aftercorr:", first):              func(*jobspec.Job) {},
		fmt.Sprint("aftercorr:", plain):              indices("0-3"),
		fmt.Sprintf("aftercorr?%d,%d", first, first): indices("0-3"),
		fmt.Sprint("aftercorr:", first, " "):         indices("0-4"),
	} {
		_, err := w.submit2(alice, nil, edit, needs(on))
		if spec := (*model.SpecError)(nil); !errors.As(err, &spec) {
			t.Errorf("%s: %v", on, err)
		}
	}
}

// TestElementsOfTwoArrays follows two arrays by two dependencies: an element waits for its
// counterparts in both.
func TestElementsOfTwoArrays(t *testing.T) {
	w := newWorld(t)
	first, err := w.submit2(alice, nil, indices("1-3"))
	w.ok(err)
	second, err := w.submit2(alice, nil, indices("1-3"))
	w.ok(err)
	both := w.depends(fmt.Sprintf("aftercorr:%d aftercorr:%d", first, second), indices("1-3"))
	w.element(first, 1, 0)
	w.wantFamily(both, "1-3", "", "")
	w.element(second, 1, 0)
	w.wantFamily(both, "1-3", "1", "")
	w.element(second, 2, 0)
	w.wantFamily(both, "1-3", "1", "")
	w.element(first, 2, 1)
	w.wantFamily(both, "1,3", "1", "2")
}

// TestElementsThatHaveLeftTheState are remembered by their array: one that is followed long after
// still lets its followers go, or not.
func TestElementsThatHaveLeftTheState(t *testing.T) {
	w := newWorld(t)
	first, err := w.submit2(alice, nil, indices("1-4"))
	w.ok(err)
	w.element(first, 1, 0)
	w.element(first, 2, 7)
	w.element(first, 3, 0)
	_, err = w.apply(TrimHistory{UpTo: w.s.v.LastSeq()})
	w.ok(err)
	if w.s.v.Job(first+1) != nil {
		t.Fatal("the element is still there")
	}
	late := w.depends(fmt.Sprint("aftercorr:", first), indices("1-4"))
	w.wantFamily(late, "1,3-4", "1,3", "2")
	other, err := w.submit2(alice, nil, indices("1-4"))
	w.ok(err)
	both := w.depends(fmt.Sprintf("aftercorr:%d,%d", first, other), indices("1-4"))
	w.element(other, 1, 0)
	w.wantFamily(both, "1,3-4", "1", "2")
}

// TestReasonNamesTheElement: a job may depend on an array element in a way that can never be met.
// The reason names the element as users write it, even once the array has left the state.
func TestReasonNamesTheElement(t *testing.T) {
	w := newWorld(t)
	array, err := w.submit2(alice, nil, indices("3,5"))
	w.ok(err)
	hold := func(j *jobspec.Job) { j.OnDependencyFailure = "hold" }
	waits := w.depends(fmt.Sprintf("afterok:%d_3", array), hold)
	want := fmt.Sprintf("job %d_3", array)
	if why := w.s.View().DependencyReason(w.job(waits)); !strings.Contains(why.Sentence(), want) {
		t.Errorf("it waits: %s", why.Sentence())
	}
	w.element(array, 3, 1)
	if why := w.job(waits).Reason; !strings.Contains(why.Sentence(), want) {
		t.Errorf("it never starts: %s", why.Sentence())
	}
	plain := w.submit(1, 1)
	waits = w.depends(fmt.Sprint("afterok:", plain), hold)
	w.finished(plain, 1)
	if why := w.job(waits).Reason; why.As != "" || !strings.Contains(why.Sentence(), fmt.Sprintf("job %d ", plain)) {
		t.Errorf("of a job that is no element: %+v", why)
	}
}
