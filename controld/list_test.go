package controld

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

func idsOf(jobs []api.Job) []cluster.JobID {
	ids := []cluster.JobID{}
	for i := range jobs {
		ids = append(ids, jobs[i].ID)
	}
	return ids
}

func TestAListHasOnlyTheFieldsAskedFor(t *testing.T) {
	s := startOne(t)
	c := s.client(user(1000))
	for i := range 5 {
		if _, err := c.Submit(t.Context(), "", job(fmt.Sprintf("j%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	f := api.JobFilter{Fields: []string{"id", "name", "reason"}, Limit: 3}
	list, _, err := c.Jobs(t.Context(), f, api.Read{})
	if err != nil {
		t.Fatal(err)
	}
	if got := idsOf(list.Items); !slices.Equal(got, []cluster.JobID{1, 2, 3}) || list.Next != "3" {
		t.Errorf("page of %v, next %q", got, list.Next)
	}
	if j := list.Items[1]; j.Name != "j1" || j.Reason.Code == "" || j.User != "" || j.Workdir != "" {
		t.Errorf("a row with three fields: %+v", j)
	}
	f.Page = list.Next
	if list, _, err = c.Jobs(t.Context(), f, api.Read{}); err != nil ||
		!slices.Equal(idsOf(list.Items), []cluster.JobID{4, 5}) || list.Next != "" {
		t.Errorf("second page: %+v, %v", list, err)
	}
	for _, fields := range [][]string{nil, {"id", "name"}} {
		var got []cluster.JobID
		_, err := c.EachJob(t.Context(), api.JobFilter{Fields: fields}, api.Read{}, func(j *api.Job) error {
			if (j.User == "") != (fields != nil) {
				t.Errorf("fields %v: streamed %+v", fields, j)
			}
			got = append(got, j.ID)
			return nil
		})
		if err != nil || !slices.Equal(got, []cluster.JobID{1, 2, 3, 4, 5}) {
			t.Errorf("streamed %v, %v", got, err)
		}
	}
	if _, err := c.EachJob(t.Context(), api.JobFilter{User: "nobody"}, api.Read{},
		func(*api.Job) error { return errors.New("a job") }); err != nil {
		t.Errorf("an empty stream: %v", err)
	}
	_, _, err = c.Jobs(t.Context(), api.JobFilter{Fields: []string{"id", "nmae"}}, api.Read{})
	wantProblem(t, err, api.CodeInvalid)
}

// TestAUserWatchesChanges follows one user's list by its changes while another user is busy.
func TestAUserWatchesChanges(t *testing.T) {
	s := startOne(t)
	mine, other := s.client(user(1000)), s.client(user(1001))
	ctx := t.Context()
	for range 3 {
		if _, err := mine.Submit(ctx, "", job("mine")); err != nil {
			t.Fatal(err)
		}
	}
	f := api.JobFilter{User: "u1000", Delta: true}
	list, _, err := mine.Jobs(ctx, f, api.Read{})
	if err != nil || list.Delta || len(list.Items) != 3 {
		t.Fatalf("the first list is a whole one: %+v, %v", list, err)
	}
	_, _, err = mine.Jobs(ctx, api.JobFilter{Delta: true}, api.Read{})
	wantProblem(t, err, api.CodeInvalid)

	for range 20 {
		if _, err := other.Submit(ctx, "", job("theirs")); err != nil {
			t.Fatal(err)
		}
	}
	quiet, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	again, _, err := mine.Jobs(quiet, f, api.Read{After: list.Index, Wait: 50 * time.Millisecond})
	if err != nil || !again.Delta || len(again.Items) != 0 || again.Index <= list.Index {
		t.Errorf("jobs of others are no news: %+v, %v", again, err)
	}

	if err := mine.Cancel(ctx, 2, ""); err != nil {
		t.Fatal(err)
	}
	again, _, err = mine.Jobs(ctx, f, api.Read{After: again.Index, Wait: time.Minute})
	if err != nil || !again.Delta || len(again.Items) != 1 || again.Items[0].ID != 2 ||
		again.Items[0].Code != cluster.Cancelled {
		t.Errorf("one job has ended: %+v, %v", again, err)
	}
	whole, _, err := mine.Jobs(ctx, api.JobFilter{User: "u1000"}, api.Read{})
	if err != nil || !slices.Equal(idsOf(whole.Items), []cluster.JobID{1, 3}) {
		t.Errorf("the whole list: %+v, %v", whole, err)
	}
}
