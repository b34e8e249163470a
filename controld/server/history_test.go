package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// TestTheLongestPageOfTheHistorySaysThatThereIsMore has one record more than that.
func TestTheLongestPageOfTheHistorySaysThatThereIsMore(t *testing.T) {
	records, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	ended := make([]*model.Job, maxList+1)
	for i := range ended {
		ended[i] = &model.Job{ID: model.JobID(i + 1), Seq: int64(i + 1), State: model.Completed,
			Spec: &jobspec.Job{Name: "j", Groups: []jobspec.Group{{}}}}
	}
	if err := records.Append(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	x := &exchange{
		s: &Server{Config: Config{History: records, Samples: &telemetry.Samples{}}}, r: httptest.NewRequest(http.MethodGet,
			"/v1/history", nil),
		rt: &route{rule: with(seeJobs, partEnded, partDetails)}, roles: access.User, caller: &identity.Caller{},
		query: url.Values{"limit": {strconv.Itoa(maxList)}}, view: fsm.New(model.DefaultConfig()).View(),
	}
	list, err := listHistory(x)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != maxList || list.Next != "2" {
		t.Errorf("%d items, next %q", len(list.Items), list.Next)
	}
}
