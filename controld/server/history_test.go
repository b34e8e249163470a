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
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/ranges"
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
		query: url.Values{"limit": {strconv.Itoa(maxList)}}, view: fsm.New(cluster.DefaultConfig()).View(),
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

// TestAnswersSayWhatIsNotKept: which jobs that were asked for the history does not have any more, or
// never had.
func TestAnswersSayWhatIsNotKept(t *testing.T) {
	records, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	var ended []*model.Job
	for seq := int64(1); seq <= 10; seq++ {
		ended = append(ended, &model.Job{ID: model.JobID(seq), Seq: seq, State: model.Completed,
			Ended: model.Stamp{At: 1, Wall: model.UnixMS(seq * 86_400_000)}})
	}
	cfg := cluster.DefaultConfig()
	cfg.HistoryKeep = 5 * 86_400
	x := &exchange{s: &Server{Config: Config{Name: "c1", History: records}}, view: fsm.New(cfg).View()}
	day := func(n int) model.UnixMS { return model.UnixMS(n * 86_400_000) }
	says := func(when string, q history.Filter, found int, want ...string) {
		t.Helper()
		got := x.notKept(q, found)
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", when, got, want)
			return
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", when, got[i], want[i])
			}
		}
	}
	says("nothing is lost", history.Filter{}, 0)
	if err := records.Append(t.Context(), append(ended[:6:6], ended[8:]...)); err != nil {
		t.Fatal(err)
	}
	if err := records.NoteGaps(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	gap := "2 jobs are missing from the history of controller c1 among those that ended before 1970-01-10T00:00:00Z"
	says("all, with a gap", history.Filter{}, 9, gap)
	says("before the gap's end", history.Filter{Since: day(9) - 1}, 2, gap)
	says("after the gap", history.Filter{Since: day(9)}, 2)
	if _, err := records.Prune(t.Context(), day(5)); err != nil {
		t.Fatal(err)
	}
	const kept = `jobs that ended before 1970-01-06T00:00:00Z are not kept any more (history { keep = "5d" })`
	says("all", history.Filter{}, 0, kept, gap)
	says("since before", history.Filter{Since: day(5) - 1}, 0, kept, gap)
	says("since then", history.Filter{Since: day(5)}, 0, gap)
	named := history.Filter{IDs: ranges.Span(3, 3)}
	says("a named job that is not there", named, 0, kept, gap)
	says("a named job that is", named, 1)
}
