package system

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhatTheStateSaysOfItself: its check, and whether it is ready.
func TestWhatTheStateSaysOfItself(t *testing.T) {
	s := newSite(t)
	got, err := s.check(s.Of(servertest.Named("adm", 5), ""))
	if err != nil || !got.OK || got.Violations == nil || len(got.Violations) != 0 || len(got.Digest) != 64 ||
		got.Index != s.Replica.View().Index() {
		t.Errorf("%+v, %v", got, err)
	}
	if again, _ := s.check(s.Of(servertest.Named("adm", 5), "")); again.Digest != got.Digest {
		t.Error("the same state has another digest")
	}
	one, two, three := errors.New("1"), errors.New("2"), errors.New("3")
	for _, c := range []struct {
		err  error
		want []error
	}{{nil, nil}, {one, []error{one}}, {errors.Join(one, errors.Join(two, three)), []error{one, two, three}}} {
		if got := unjoin(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%v is %v", c.err, got)
		}
	}
	if h, err := healthz(nil); err != nil || h.Status != "ok" {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err := s.readyz(s.Of(nil, "")); err != nil || h.Status != "ready" {
		t.Errorf("%+v, %v", h, err)
	}
	s.Replica.StopLeading() // it is the leader of the log still
	_, err = s.readyz(s.Of(nil, ""))
	if servertest.CodeOf(err) != api.CodeNoLeader || !strings.Contains(err.Error(), "becoming the leader") {
		t.Errorf("while it is about to lead: %v", err)
	}
	s.Replica.StartLeading()
}

// TestRecordsForAnotherController: a range of ended jobs, and an error without a history.
func TestRecordsForAnotherController(t *testing.T) {
	s := newSite(t)
	ended := make([]*model.Job, 4)
	for i := range ended {
		ended[i] = &model.Job{ID: model.JobID(1000 + i), Seq: int64(1000 + i), State: model.Completed,
			Spec: &jobspec.Job{Name: "old", Groups: []jobspec.Group{{}}}}
	}
	if err := s.History.Append(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if got, err := s.internalRecords(func() *exchange.Exchange {
		x := s.Of(nil, "")
		x.Query = url.Values{"from": {"1001"}, "to": {"1002"}}
		return x
	}()); err != nil || len(got.([]*model.Job)) != 2 {
		t.Errorf("records: %v, %v", got, err)
	}
	x := s.Of(nil, "")
	x.Query = url.Values{"from": {"5000"}, "to": {"6000"}}
	if got, err := s.internalRecords(x); err != nil || got.([]*model.Job) == nil {
		t.Errorf("no records: %#v, %v", got, err)
	}
	s.History.Close()
	if _, err := s.internalRecords(s.Of(nil, "")); servertest.CodeOf(err) != api.CodeInternal {
		t.Errorf("without a history: %v", err)
	}
}
