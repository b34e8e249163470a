package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
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
	list, err := endedJobs(x)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != maxList || list.Next != "2" {
		t.Errorf("%d items, next %q", len(list.Items), list.Next)
	}
	x.query = url.Values{"limit": {"2"}, "fields": {"id,name"}}
	some, err := listHistory(x)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"items":[{"id":10001,"name":"j"},{"id":10000,"name":"j"}],"next":"10000"`
	if text, err := json.Marshal(some); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	x.query = url.Values{"fields": {"colour"}}
	if _, err := listHistory(x); err == nil {
		t.Error("a field that there is not was not refused")
	}
}
