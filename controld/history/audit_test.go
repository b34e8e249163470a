package history

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// TestAuditLog: entries are found by user, job, time and refusal, the newest first, also after the
// file was closed. Old entries and those beyond the limit are dropped.
func TestAuditLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.db")
	s, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	entries := []AuditEntry{
		{At: 100, UID: 1, User: "ann", Token: "t", Origin: "10.0.0.1", Method: "POST", Route: "/v1/jobs",
			Jobs: ranges.Span(5, 9), Account: "vision", Status: 200, Times: 1},
		{At: 200, UID: 2, User: "bob", Method: "POST", Route: "/v1/jobs/{id}/cancel",
			Jobs:   ranges.Ranges{{First: 3, Last: 3}, {First: 7, Last: 7}},
			Status: 403, Code: "denied", Times: 4},
		{At: 300, UID: -1, Method: "GET", Route: "/v1/jobs", Status: 401, Code: "unauthorised", Times: 1},
	}
	if err := s.AppendAudit(t.Context(), entries, 0, 10); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(file); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	uid := uint32(2)
	find := func(f AuditFilter) []int64 {
		t.Helper()
		got, err := s.Audit(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		var at []int64
		for i := range got {
			at = append(at, int64(got[i].At))
		}
		return at
	}
	for what, c := range map[string]struct {
		f    AuditFilter
		want []int64
	}{
		"all": {AuditFilter{}, []int64{300, 200, 100}}, "user": {AuditFilter{User: "ann"}, []int64{100}},
		"uid": {AuditFilter{UID: &uid}, []int64{200}}, "job": {AuditFilter{Job: 7}, []int64{200, 100}},
		"other job": {AuditFilter{Job: 4}, nil}, "denied": {AuditFilter{Denied: true}, []int64{300, 200}},
		"since": {AuditFilter{Since: 200}, []int64{300, 200}}, "until": {AuditFilter{Until: 200}, []int64{100}},
		"limit": {AuditFilter{Limit: 1}, []int64{300}},
	} {
		if got := find(c.f); !slices.Equal(got, c.want) {
			t.Errorf("by %s: %v, want %v", what, got, c.want)
		}
	}
	got, err := s.Audit(t.Context(), AuditFilter{User: "ann"})
	want := entries[0]
	want.Seq = 1
	if err != nil || len(got) != 1 || got[0].Jobs.String() != "5-9" || got[0].Token != "t" ||
		got[0].Origin != "10.0.0.1" ||
		got[0].Account != "vision" || got[0].Times != 1 || got[0].Seq != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := s.AppendAudit(t.Context(), []AuditEntry{{At: 400, Times: 1}}, 150, 10); err != nil {
		t.Fatal(err)
	}
	if got := find(AuditFilter{}); !slices.Equal(got, []int64{400, 300, 200}) {
		t.Errorf("entries from before 150 are kept: %v", got)
	}
	if got := find(AuditFilter{Job: 5}); got != nil {
		t.Errorf("jobs of an entry that was dropped: %v", got)
	}
	last := []AuditEntry{{At: 500, Times: 1}, {At: 600, UID: 1, Times: 1}}
	if err := s.AppendAudit(t.Context(), last, 0, 2); err != nil {
		t.Fatal(err)
	}
	if got := find(AuditFilter{}); !slices.Equal(got, []int64{600, 500}) {
		t.Errorf("more than the last 2 are kept: %v", got)
	}
}

// TestAnAuditEntryIsBounded: one request for very many jobs does not fill the log. Ranges beyond the
// limit widen the last one, so that each job still finds the entry.
func TestAnAuditEntryIsBounded(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "h.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var jobs ranges.Ranges
	for i := range 10 * MaxAuditRanges {
		jobs = append(jobs, ranges.Range{First: 10 * i, Last: 10 * i})
	}
	if err := s.AppendAudit(t.Context(), []AuditEntry{{At: 1, Jobs: jobs, Times: 1}}, 0, 10); err != nil {
		t.Fatal(err)
	}
	for _, r := range []ranges.Range{jobs[0], jobs[MaxAuditRanges], jobs[len(jobs)-1]} {
		got, err := s.Audit(t.Context(), AuditFilter{Job: model.JobID(r.First)})
		if r.First > 0 && (err != nil || len(got) != 1 || len(got[0].Jobs) != MaxAuditRanges) {
			t.Errorf("job %d: %+v, %v", r.First, got, err)
		}
	}
}

// TestAFloodKeepsTheEntriesOfOthers: callers that fill the audit log for hours lose their own oldest
// entries. Those of other callers stay, and so does what a caller did before it was refused.
func TestAFloodKeepsTheEntriesOfOthers(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "h.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const most = 2000
	at := model.UnixMS(1)
	add := func(n int, uid int64, status int) {
		t.Helper()
		batch := make([]AuditEntry, n)
		for i := range batch {
			at++
			batch[i] = AuditEntry{At: at, UID: uid, Method: "POST", Route: "/v1/jobs", Jobs: ranges.Span(int(at), int(at)),
				Status: status, Times: 1}
		}
		if err := s.AppendAudit(t.Context(), batch, 0, most); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(table, condition string) (n int) {
		t.Helper()
		if err := s.db.QueryRow("SELECT count(*) FROM " + table + " WHERE " + condition).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	add(3, 7, 200)
	add(2, 8, 200)
	for range 100 {
		add(100, 8, 403) // 10,000 refusals
		add(100, UIDStranger, 401)
		add(100, UIDMachine, 200)
		add(100, 9, 200)
	}
	for condition, c := range map[string]struct{ least, most int }{
		"uid = 7": {3, 3}, "uid = 8 AND status = 200": {2, 2}, "uid = 8 AND status = 403": {most / 100, most/100 + 100},
		"uid = -1": {most / 100, most/100 + 100}, "uid = -2": {most / 10, most/10 + 120},
		"uid = 9": {most / 10, most/10 + 120},
	} {
		if n := rows("audit", condition); n < c.least || n > c.most {
			t.Errorf("%d entries with %s, want %d to %d", n, condition, c.least, c.most)
		}
	}
	if n, all := rows("audit_job", "TRUE"), rows("audit", "TRUE"); n != all {
		t.Errorf("%d entries with a job each have %d ranges of jobs", all, n)
	}
}
