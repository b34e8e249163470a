package jobs

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
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
	ended := make([]*model.Job, exchange.MaxList+1)
	for i := range ended {
		ended[i] = &model.Job{ID: model.JobID(i + 1), Seq: int64(i + 1), State: model.Completed,
			Spec: &jobspec.Job{Name: "j", Groups: []jobspec.Group{{}}}}
	}
	if err := records.Append(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	s := &Handlers{History: records, Samples: &telemetry.Samples{}}
	x := exchangetest.On(&exchange.Service{}, httptest.NewRequest(http.MethodGet, "/v1/history", nil),
		url.Values{"limit": {strconv.Itoa(exchange.MaxList)}})
	x.Route = &exchange.Route{Rule: access.SeeJobs.With(access.PartEnded, access.PartDetails)}
	x.Roles, x.Caller, x.View = access.User, &identity.Caller{}, fsm.New(cluster.DefaultConfig()).View()
	list, err := s.endedJobs(x)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != exchange.MaxList || list.Next != "2" {
		t.Errorf("%d items, next %q", len(list.Items), list.Next)
	}
	x.Query = url.Values{"limit": {"2"}, "fields": {"id,name"}}
	some, err := s.listHistory(x)
	if err != nil {
		t.Fatal(err)
	}
	const want = `"items":[{"id":10001,"name":"j"},{"id":10000,"name":"j"}],"next":"10000"`
	if text, err := json.Marshal(some); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	x.Query = url.Values{"fields": {"colour"}}
	if _, err := s.listHistory(x); err == nil {
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
	s := &Handlers{Name: "c1", History: records}
	x := exchangetest.On(&exchange.Service{}, httptest.NewRequest(http.MethodGet, "/v1/history", nil), nil)
	x.View = fsm.New(cfg).View()
	day := func(n int) model.UnixMS { return model.UnixMS(n * 86_400_000) }
	says := func(when string, q history.Filter, found int, want ...string) {
		t.Helper()
		got := s.notKept(x, q, found)
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
	gap := "2 jobs are missing from the history of controller c1 among the jobs that ended before 1970-01-10T00:00:00Z"
	says("all, with a gap", history.Filter{}, 9, gap)
	says("before the gap's end", history.Filter{Since: day(9) - 1}, 2, gap)
	says("after the gap", history.Filter{Since: day(9)}, 2)
	if _, err := records.Prune(t.Context(), day(5)); err != nil {
		t.Fatal(err)
	}
	const kept = `jobs that ended before 1970-01-06T00:00:00Z are no longer kept (history { keep = "5d" })`
	says("all", history.Filter{}, 0, kept, gap)
	says("since before", history.Filter{Since: day(5) - 1}, 0, kept, gap)
	says("since then", history.Filter{Since: day(5)}, 0, gap)
	named := history.Filter{IDs: ranges.Span(3, 3)}
	says("a named job that is not there", named, 0, kept, gap)
	says("a named job that is", named, 1)
}

// TestEndedJobsThatAreNotStoredYet are listed with those that are, by the same words.
func TestEndedJobsThatAreNotStoredYet(t *testing.T) {
	s := newSite(t)
	j := s.Replica.View().Job(s.Ended)
	at, seq, id := j.Ended.Wall, j.Seq, int(j.ID)
	for name, c := range map[string]struct {
		q    history.Filter
		want int
	}{
		"all":           {history.Filter{}, 1},
		"since then":    {history.Filter{Since: at}, 1},
		"since later":   {history.Filter{Since: at + 1}, 0},
		"until then":    {history.Filter{Until: at}, 0},
		"until later":   {history.Filter{Until: at + 1}, 1},
		"before it":     {history.Filter{Before: seq}, 0},
		"behind it":     {history.Filter{Before: seq + 1}, 1},
		"it":            {history.Filter{IDs: ranges.Span(id, id)}, 1},
		"another":       {history.Filter{IDs: ranges.Span(id+1, id+1)}, 0},
		"its user":      {history.Filter{User: "ann"}, 1},
		"another user":  {history.Filter{User: "bob"}, 0},
		"its name":      {history.Filter{Name: "j"}, 1},
		"another name":  {history.Filter{Name: "k"}, 0},
		"another state": {history.Filter{States: []model.JobState{model.Completed}}, 0},
	} {
		c.q.Limit = 10
		if got, err := s.finished(s.Request("/v1/history", "", "", ""), c.q); err != nil || len(got) != c.want {
			t.Errorf("%s: %d jobs, %v", name, len(got), err)
		}
	}
	list := func(seqs ...int64) (jobs []*model.Job) {
		for _, n := range seqs {
			jobs = append(jobs, &model.Job{Seq: n})
		}
		return jobs
	}
	for _, c := range []struct {
		a, b  []*model.Job
		limit int
		want  string
	}{{list(5, 4), list(4, 3), 10, "5 4 3"}, {list(5, 4), list(4, 3), 2, "5 4"}, {nil, list(1, 2), 2, "2 1"}, {nil, nil,
		3, ""}} {
		var got []string
		for _, j := range mergeBySeq(c.a, c.b, c.limit) {
			got = append(got, strconv.FormatInt(j.Seq, 10))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("merged: %v, want %s", got, c.want)
		}
	}
}

// TestAPageOfTheHistory goes on behind its last job, and hides what is not for its caller.
func TestAPageOfTheHistory(t *testing.T) {
	s := newSite(t)
	var ended []*model.Job
	for i, user := range []string{"ann", "bob", "ann", "bob"} {
		ended = append(ended, &model.Job{ID: model.JobID(1000 + i), Seq: int64(1000 + i), State: model.Completed,
			Account: "a", Owner: model.Identity{UID: uint32(7 + i%2), User: user},
			Ended: model.Stamp{At: 1, Wall: 1_000_000}, Spec: &jobspec.Job{Name: "old",
				Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"secret"}}}}}}})
	}
	if err := s.History.Append(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	page := func(query string) (ids []model.JobID, next string, list *api.List[api.Job]) {
		t.Helper()
		list, err := s.endedJobs(s.Request("/v1/history", "", query, ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range list.Items {
			ids = append(ids, j.ID)
		}
		return ids, list.Next, list
	}
	for _, c := range []struct {
		query string
		want  []model.JobID
		next  string
	}{
		{"name=old", []model.JobID{1003, 1002, 1001, 1000}, ""},
		{"name=old&limit=4", []model.JobID{1003, 1002, 1001, 1000}, ""},
		{"name=old&limit=3", []model.JobID{1003, 1002, 1001}, "1001"},
		{"name=old&limit=3&page=1001", []model.JobID{1000}, ""},
		{"name=old&user=bob", []model.JobID{1003, 1001}, ""},
		{"id=1002,1001", []model.JobID{1002, 1001}, ""},
		{"name=old&since=1970-01-01T00:16:41Z", nil, ""}, {"name=old&until=1970-01-01T00:16:40Z", nil, ""},
		{"name=old&until=1970-01-01T00:16:41Z&limit=1", []model.JobID{1003}, "1003"},
	} {
		if ids, next, _ := page(c.query); !slices.Equal(ids, c.want) || next != c.next {
			t.Errorf("%s: %v, next %q, want %v, next %q", c.query, ids, next, c.want, c.next)
		}
	}
	for _, word := range []string{cluster.PrivateJobs, cluster.PrivateUsage} {
		s.Private(word)
		if ids, _, _ := page("name=old"); !slices.Equal(ids, []model.JobID{1002, 1000}) {
			t.Errorf("with %s private a user sees %v", word, ids)
		}
		if ids, _, _ := page("name=old&user=bob"); len(ids) != 0 {
			t.Errorf("with %s private a user sees another's %v", word, ids)
		}
	}
}
