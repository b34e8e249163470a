package controld

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/jobspec"
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
	if fields, err := fieldsOf([]string{"id", "name", "id"}); err != nil || len(fields) != 2 {
		t.Errorf("a field that is named twice is there twice: %v, %v", fields, err)
	}
	if j := list.Items[1]; j.Name != "j1" || j.Reason.Code == "" || j.User != "" || j.Workdir != "" {
		t.Errorf("a row with three fields: %+v", j)
	}
	f.Page = list.Next
	if list, _, err = c.Jobs(t.Context(), f, api.Read{}); err != nil || !slices.Equal(idsOf(list.Items), []cluster.JobID{4, 5}) || list.Next != "" {
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
	if _, err := c.EachJob(t.Context(), api.JobFilter{User: "nobody"}, api.Read{}, func(*api.Job) error { return errors.New("a job") }); err != nil {
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
	if err != nil || !again.Delta || len(again.Items) != 1 || again.Items[0].ID != 2 || again.Items[0].Code != cluster.Cancelled {
		t.Errorf("one job has ended: %+v, %v", again, err)
	}
	whole, _, err := mine.Jobs(ctx, api.JobFilter{User: "u1000"}, api.Read{})
	if err != nil || !slices.Equal(idsOf(whole.Items), []cluster.JobID{1, 3}) {
		t.Errorf("the whole list: %+v, %v", whole, err)
	}
}

// TestFeedsFollowTheState compares the index of who has which jobs with the state it is of.
func TestFeedsFollowTheState(t *testing.T) {
	m := newMachine()
	at := cluster.Instant(1)
	apply := func(c cluster.Command) {
		at++
		e := cluster.Entry{Command: c}
		e.At = at
		data, err := cluster.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		m.Apply(uint64(at), [][]byte{data})
	}
	var seen uint64
	for i := range 6 * maxChanges {
		name := fmt.Sprintf("u%d", i%3)
		apply(cluster.SubmitJobs{Owner: cluster.Identity{UID: uint32(i % 3), User: name}, Jobs: specs(job("x"))})
		if i%2 == 0 {
			apply(cluster.ControlJobs{Verb: cluster.VerbCancel, Targets: []cluster.Target{{ID: cluster.JobID(i/2 + 1)}}, Admin: true})
		}
		if i%500 == 0 {
			apply(cluster.TrimHistory{UpTo: m.view.Load().LastSeq() - 10})
		}
		if i == 6*maxChanges-5 {
			seen = m.view.Load().Index()
		}
	}
	v := m.view.Load()
	for u := range 3 {
		name := fmt.Sprintf("u%d", u)
		var want, changed []cluster.JobID
		for j := range v.Jobs() {
			if j.Owner.User == name {
				want = append(want, j.ID)
				if v.JobModified(j.ID) > seen {
					changed = append(changed, j.ID)
				}
			}
		}
		if got := m.feeds.jobs(name); !slices.Equal(got, want) {
			t.Errorf("%s has %d jobs, the feed says %d", name, len(want), len(got))
		}
		if got, known := m.feeds.since(name, seen); !known || !slices.Equal(got, changed) {
			t.Errorf("%s: changed since %d are %v, the feed says %v", name, seen, changed, got)
		}
		if _, known := m.feeds.since(name, 1); known {
			t.Errorf("%s: the feed says that it remembers every change", name)
		}
	}
}

// TestAFeedThatBeganAnew remembers nothing of before, also of a user who has no jobs any more: whoever kept a list of them must hear of it.
func TestAFeedThatBeganAnew(t *testing.T) {
	m := newMachine()
	e := cluster.Entry{Stamp: cluster.Stamp{At: 1}, Command: cluster.SubmitJobs{Owner: user(1), Jobs: specs(job("x"))}}
	data, err := cluster.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	m.Apply(1, [][]byte{data})
	v := m.view.Load()
	m.feeds.rebuild(v)
	if _, known := m.feeds.since("u2", v.Index()-1); known {
		t.Error("it claims to know what happened before it began")
	}
	if !m.feeds.changedAfter("u2", v.Index()-1)(v) {
		t.Error("whoever is behind waits in vain")
	}
	if ids, known := m.feeds.since("u2", v.Index()); !known || len(ids) > 0 || m.feeds.changedAfter("u2", v.Index())(v) {
		t.Errorf("since it began: %v, %t", ids, known)
	}
}

func specs(jobs ...*jobspec.Job) []*jobspec.Job {
	for _, j := range jobs {
		j.Default()
	}
	return jobs
}

// TestTheLongestPageOfTheHistorySaysThatThereIsMore has one record more than that.
func TestTheLongestPageOfTheHistorySaysThatThereIsMore(t *testing.T) {
	records, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	ended := make([]*cluster.Job, maxList+1)
	for i := range ended {
		ended[i] = &cluster.Job{ID: cluster.JobID(i + 1), Seq: int64(i + 1), State: cluster.Completed, Spec: job("j")}
	}
	if err := records.Append(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	d := &daemon{machine: newMachine(), records: records}
	x := &exchange{d: d, r: httptest.NewRequest(http.MethodGet, "/v1/history", nil), query: url.Values{"limit": {strconv.Itoa(maxList)}}, view: d.machine.view.Load()}
	answer, err := listHistory(x)
	if err != nil {
		t.Fatal(err)
	}
	if list := answer.(*api.List[api.Job]); len(list.Items) != maxList || list.Next != "2" {
		t.Errorf("%d items, next %q", len(list.Items), list.Next)
	}
}
