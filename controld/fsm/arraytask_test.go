package fsm

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// The record of a task that is kept without its parent says the same of it, and does not grow with
// the array.
func TestMemberApart(t *testing.T) {
	rows := &jobspec.Array{Columns: []string{"lr", "seed"}}
	for i := range 1000 {
		rows.Rows = append(rows.Rows, []string{fmt.Sprint("0.", i), fmt.Sprint(i)})
	}
	for name, a := range map[string]*jobspec.Array{
		"indices": {Indices: "10-100:10,500"},
		"one":     {Indices: "7"},
		"matrix": {Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1", "2"}},
			{Name: "seed", Values: []string{"a", "b", "c"}}}},
		"rows": rows,
	} {
		for _, n := range []int{1, 5, a.Len()} {
			j := &model.Job{ID: model.JobID(100 + n), Parent: 100, TaskNumber: n, Spec: &jobspec.Job{Name: "sweep", Array: a}}
			if n > a.Len() {
				continue
			}
			data, err := json.Marshal(j.Standalone())
			if err != nil || len(data) > 1000 {
				t.Fatalf("%s: %d bytes, error %v", name, len(data), err)
			}
			back := new(model.Job)
			if err := json.Unmarshal(data, back); err != nil {
				t.Fatal(err)
			}
			index, params := j.ArrayElement()
			if gotIndex, got := back.ArrayElement(); gotIndex != index || !slices.Equal(got, params) || index != a.Index(n-1) {
				t.Errorf("%s: task %d is element %d %v, kept apart %d %v", name, n, index, params, gotIndex, got)
			}
			if again := back.Standalone(); again != back {
				t.Errorf("%s: kept apart twice", name)
			}
		}
	}
}

// Workers that start one by one become elements of an array before they are submitted.
func TestLooseWorkers(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	no := false
	id := w.parent(4, 1, func(j *jobspec.Job) {
		j.Groups[0].Gang = &no
		*j = *j.Loosen()
	})
	if j := w.job(id); j.Children == nil || j.Children.Size != 4 || j.Workers != 1 {
		t.Fatalf("four workers without gang are %+v", j)
	}
	w.ok(w.make(id, 3, "n1"))
	w.state(id+3, model.Configuring)
}

// TestTheCodeOfAnArray is the highest of the elements that ended by themselves: how a cancelled one
// was stopped does not count.
func TestTheCodeOfAnArray(t *testing.T) {
	for exit, want := range map[int]model.JobState{0: model.Cancelled, 3: model.Failed} {
		w := newWorld(t)
		id, err := w.submit2(alice, nil, indices("1-2"))
		w.ok(err)
		w.element(id, 1, exit)
		w.node("n9", 8)
		w.ok(w.plan(&StartJob{Job: id, TaskNumber: 2, Places: []model.Place{w.place("n9", 1)}}))
		w.run(id + 2)
		_, err = w.apply(ControlJobs{Verb: model.VerbCancel, By: alice.UID,
			Targets: []Target{{ID: id, Tasks: ranges.Span(2, 2)}}})
		w.ok(err)
		w.report(id+2, 0, model.WorkerExited, func(r *model.WorkerReport) { r.Signal = 15 })
		if j := w.job(id); j.State != want || j.ExitCode != exit || j.Signal != 0 {
			t.Errorf("elements ended with %d and by cancellation: %s, code %d, signal %d", exit, j.State, j.ExitCode, j.Signal)
		}
	}
}
