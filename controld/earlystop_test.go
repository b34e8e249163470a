package controld

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestAnArrayIsPruned runs an array on a node that reports progress, prunes it by hand, and lets
// its own rule cancel the rest.
func TestAnArrayIsPruned(t *testing.T) {
	s := startOne(t)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.hold = make(chan struct{})
	n.run(t.Context())
	c := s.client(user(1000))
	spec := job("sweep")
	spec.Array = &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1", "2", "3", "4"}}}}
	id, err := c.Submit(t.Context(), "", spec)
	if err != nil {
		t.Fatal(err)
	}
	waitFor := func(want int, codes ...string) {
		t.Helper()
		eventually(t, "jobs in the states "+strings.Join(codes, ","), func() error {
			list, _, err := c.Jobs(t.Context(), api.JobFilter{Refs: []string{"1_[0-3]"}, States: codes}, api.Read{})
			if err == nil && len(list.Items) != want {
				err = fmt.Errorf("%d jobs", len(list.Items))
			}
			return err
		})
	}
	waitFor(4, "R")
	one, _, err := c.JobBy(t.Context(), "1_2", api.Read{})
	if err != nil || one.ID != id+3 || one.Array.Job != id || *one.Array.Index != 2 || one.Array.Params["lr"] != "3" {
		t.Fatalf("element 2: %+v, %v", one, err)
	}
	tell := func(losses map[int]float64) {
		t.Helper()
		req := api.ReportRequest{BootID: n.node.BootID}
		for m, loss := range losses {
			req.Samples = append(req.Samples, api.Sample{Job: id + model.JobID(m), Attempt: 1, Step: 7,
				Metrics: map[string]float64{"loss": loss}})
		}
		if _, err := n.c.Report(t.Context(), "n1", req); err != nil {
			t.Fatal(err)
		}
	}
	tell(map[int]float64{1: 0.5, 2: 0.1, 3: 0.9})
	series, _, err := c.SeriesBy(t.Context(), "1_2", "")
	if err != nil || series.Job != id+3 || series.Metric != "loss" || !slices.Equal(series.Metrics, []string{"loss"}) ||
		!slices.Equal(series.Points, []api.Point{{Step: 7, Value: 0.9}}) {
		t.Errorf("the series of task 2: %+v, %v", series, err)
	}
	if none, _, err := c.SeriesBy(t.Context(), "1_3", "loss"); err != nil || none.Points == nil || len(none.Points) > 0 {
		t.Errorf("the series of a task that has reported nothing: %+v, %v", none, err)
	}
	_, _, err = s.client(user(1001)).SeriesBy(t.Context(), "1_2", "")
	wantProblem(t, err, api.CodeDenied)
	_, err = c.Prune(t.Context(), "1", api.PruneRequest{Metric: "loss", Keep: "some"})
	wantProblem(t, err, api.CodeInvalid)
	_, err = s.client(user(1001)).Prune(t.Context(), "1", api.PruneRequest{Metric: "loss", Keep: "top 1"})
	wantProblem(t, err, api.CodeDenied)
	got, err := c.Prune(t.Context(), "1", api.PruneRequest{Metric: "loss", Keep: "top 50%"})
	if err != nil || !slices.Equal(got.Kept, []int{1, 0}) || !slices.Equal(got.Cancelled, []int{2}) ||
		!slices.Equal(got.Silent, []int{3}) {
		t.Fatalf("pruned: %+v, %v", got, err)
	}
	waitFor(1, "CA")
	minute := jobspec.Seconds(-60)
	if _, err := c.Update(t.Context(), "1_1", api.UpdateRequest{AddTime: &minute}); err != nil {
		t.Fatal(err)
	}
	if one, _, err = c.JobBy(t.Context(), "1_1", api.Read{}); err != nil || one.TimeLimit != 24*3600-60 {
		t.Errorf("a minute was taken away: %+v, %v", one, err)
	}
	longer := jobspec.Seconds(60)
	_, err = c.Update(t.Context(), "1_1", api.UpdateRequest{AddTime: &longer})
	wantProblem(t, err, api.CodeDenied)
	close(n.hold)
	waitFor(3, "CD")
	_, err = c.Update(t.Context(), "1_1", api.UpdateRequest{AddTime: &minute})
	wantProblem(t, err, api.CodeWrongState)
}

// TestTheRuleOfAnArrayCancelsTheRest lets elements run into stop { keep }.
func TestTheRuleOfAnArrayCancelsTheRest(t *testing.T) {
	s := startOne(t)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.hold = make(chan struct{})
	n.run(t.Context())
	c := s.client(user(1000))
	spec := job("contest")
	spec.Array = &jobspec.Array{Indices: "0-3",
		Stop: &jobspec.ArrayStop{Metric: "accuracy", Goal: "max", AtStep: 100, Keep: "top 1"}}
	if _, err := c.Submit(t.Context(), "", spec); err != nil {
		t.Fatal(err)
	}
	codes := func() string {
		list, _, err := c.Jobs(t.Context(), api.JobFilter{Refs: []string{"1_[0-3]"}}, api.Read{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, j := range list.Items {
			all = append(all, string(j.Code))
		}
		return strings.Join(all, " ")
	}
	until := func(want string) {
		t.Helper()
		eventually(t, want, func() error {
			if got := codes(); got != want {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
	}
	until("R R R R")
	for i, accuracy := range []float64{0.3, 0.8, 0.5} {
		sample := api.Sample{Job: model.JobID(2 + i), Attempt: 1, Step: 100,
			Metrics: map[string]float64{"accuracy": accuracy}}
		if _, err := n.c.Report(t.Context(), "n1",
			api.ReportRequest{BootID: n.node.BootID, Samples: []api.Sample{sample}}); err != nil {
			t.Fatal(err)
		}
	}
	until("CA R CA R")
	close(n.hold)
	until("CA CD CA CD")
	if j, _, err := c.Job(t.Context(), 1, api.Read{Wait: time.Second}); err != nil || !j.Code.Final() {
		t.Errorf("the array: %+v, %v", j, err)
	}
}
