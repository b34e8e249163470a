package audit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// TestAFloodOfRefusalsIsOneEntry: a caller that is refused again and again does not push the rest
// out of the audit log, whatever it varies. What is done, and refusals of others, have entries of
// their own.
func TestAFloodOfRefusalsIsOneEntry(t *testing.T) {
	var l Log
	for i := range 1000 {
		l.Add(&history.AuditEntry{UID: history.UIDStranger, Origin: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
			Status: http.StatusUnauthorized, Times: 1})
		l.Add(&history.AuditEntry{UID: 7, Origin: "10.0.0.1", Object: fmt.Sprintf("n%d", i), Status: http.StatusForbidden,
			Token: fmt.Sprintf("t%d", i), Account: fmt.Sprintf("a%d", i), Times: 1, Jobs: ranges.Span(2*i, 2*i)})
	}
	l.Add(&history.AuditEntry{UID: 8, Status: http.StatusForbidden, Times: 1})
	l.Add(&history.AuditEntry{UID: 7, Status: http.StatusOK, Times: 1})
	l.Add(&history.AuditEntry{UID: 7, Status: http.StatusOK, Times: 1})
	entries, lost := l.Take()
	if len(entries) != 5 || lost != 0 || entries[0].Times != 1000 || entries[1].Times != 1000 ||
		len(entries[1].Jobs) != history.MaxAuditRanges {
		t.Fatalf("%d entries, %d lost: %+v", len(entries), lost, entries)
	}
	for _, e := range entries[:2] {
		for what, list := range map[string]string{"origin": e.Origin, "object": e.Object, "token": e.Token} {
			if len(list) > 250 {
				t.Errorf("the %s of 1000 requests has %d bytes", what, len(list))
			}
		}
	}
	if e := entries[1]; !strings.HasPrefix(e.Object, "n0, n1, n2,") || !strings.HasSuffix(e.Object, ", ...") {
		t.Errorf("the entry names %q", e.Object)
	}
	if entries, _ := l.Take(); len(entries) != 0 {
		t.Errorf("taken twice: %+v", entries)
	}
}

// TestRequestsOfABusyCallerShareEntries: a caller has 100 entries of its own in a second. Behind
// these, each kind of request has one, and other callers are not touched.
func TestRequestsOfABusyCallerShareEntries(t *testing.T) {
	var l Log
	for i := range 5000 {
		l.Add(&history.AuditEntry{UID: 7, Route: []string{"hold", "release"}[i%2], Status: http.StatusOK, Times: 1,
			Jobs: ranges.Span(i, i)})
	}
	l.Add(&history.AuditEntry{UID: 8, Route: "hold", Status: http.StatusOK, Times: 1})
	entries, _ := l.Take()
	times := 0
	for _, e := range entries[:len(entries)-1] {
		times += e.Times
	}
	if len(entries) != maxApart+2+1 || times != 5000 || entries[len(entries)-1].UID != 8 {
		t.Errorf("%d entries for %d requests", len(entries), times)
	}
}

// TestAFullAuditLogCountsWhatItLoses: while the disk takes nothing, memory is bounded.
func TestAFullAuditLogCountsWhatItLoses(t *testing.T) {
	var l Log
	for i := range maxPending + 7 {
		l.Add(&history.AuditEntry{UID: int64(i), Status: http.StatusOK, Times: 1})
	}
	entries, lost := l.Take()
	if len(entries) != maxPending || lost != 7 {
		t.Errorf("%d entries, %d lost", len(entries), lost)
	}
	l.Add(&history.AuditEntry{UID: 1, Status: http.StatusOK, Times: 1})
	l.putBack(entries[:2])
	if again, _ := l.Take(); len(again) != 3 || again[2].UID != 1 {
		t.Errorf("%d entries after two were put back", len(again))
	}
}

// TestWhichRequestsShareAnEntry: refusals of one kind at once, others of a caller beyond so many.
func TestWhichRequestsShareAnEntry(t *testing.T) {
	entry := func(edit func(*history.AuditEntry)) *history.AuditEntry {
		e := &history.AuditEntry{UID: 7, Method: "POST", Route: "/v1/jobs", Status: 200, Code: "c"}
		edit(e)
		return e
	}
	for name, c := range map[string]struct {
		edit func(*history.AuditEntry)
		own  bool
	}{
		"the same": {func(*history.AuditEntry) {}, false}, "another user": {func(e *history.AuditEntry) { e.UID++ }, true},
		"another route":  {func(e *history.AuditEntry) { e.Route = "x" }, true},
		"another method": {func(e *history.AuditEntry) { e.Method = "PUT" }, true},
		"another status": {func(e *history.AuditEntry) { e.Status = 404 }, true},
		"another code":   {func(e *history.AuditEntry) { e.Code = "x" }, true},
	} {
		var l Log
		refused := func(e *history.AuditEntry) *history.AuditEntry { e.Status = max(e.Status, 400); return e }
		l.Add(refused(entry(func(*history.AuditEntry) {})))
		l.Add(refused(entry(c.edit)))
		if entries, lost := l.Take(); (len(entries) == 2) != c.own || lost != 0 {
			t.Errorf("%s: %d entries, %d lost", name, len(entries), lost)
		}
	}
	var l Log
	for range maxApart + 5 {
		l.Add(entry(func(*history.AuditEntry) {}))
	}
	l.Add(entry(func(e *history.AuditEntry) { e.Status = 399 }))
	l.Add(entry(func(e *history.AuditEntry) { e.UID = 8 }))
	if entries, _ := l.Take(); len(entries) != maxApart+3 {
		t.Errorf("%d entries of a caller that has %d apart, one shared and one of another kind, and of another caller",
			len(entries), maxApart)
	}
	if entries, lost := l.Take(); len(entries) != 0 || lost != 0 {
		t.Errorf("%d entries are taken twice", len(entries))
	}
	l.pending = make([]history.AuditEntry, maxPending-1)
	l.Add(entry(func(*history.AuditEntry) {}))
	l.Add(entry(func(*history.AuditEntry) {}))
	entries, lost := l.Take()
	if len(entries) != maxPending || lost != 1 {
		t.Errorf("%d entries wait, %d are lost", len(entries), lost)
	}
	l.Add(entry(func(e *history.AuditEntry) { e.Status = 500 }))
	l.putBack([]history.AuditEntry{{UID: 1}})
	l.Add(entry(func(e *history.AuditEntry) { e.Status = 500 })) // shares none, as its place has moved
	if entries, _ := l.Take(); len(entries) != 3 || entries[0].UID != 1 {
		t.Errorf("after entries were put back: %+v", entries)
	}
}

// TestEntriesThatTheDiskRefusesAreKept for the next time, and the oldest leave after their time.
func TestEntriesThatTheDiskRefusesAreKept(t *testing.T) {
	store, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l := &Log{History: store, For: time.Hour, Most: 1000, Logger: slog.New(slog.DiscardHandler)}
	now := model.UnixMS(time.Now().UnixMilli())
	for _, at := range []model.UnixMS{now - 2*3_600_000, now} {
		l.Add(&history.AuditEntry{At: at, UID: 7, Method: "POST", Route: "/x", Status: 200, Times: 1})
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if err := l.Store(gone); err == nil || len(l.pending) != 2 {
		t.Errorf("not stored: %v, %d entries wait", err, len(l.pending))
	}
	if err := l.Store(t.Context()); err != nil || len(l.pending) != 0 {
		t.Errorf("stored: %v, %d entries wait", err, len(l.pending))
	}
	if err := l.Store(gone); err != nil {
		t.Errorf("nothing to store: %v", err)
	}
	if got, err := store.Audit(t.Context(), history.AuditFilter{}); err != nil || len(got) != 1 || got[0].At != now {
		t.Errorf("kept: %+v, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	l.Add(&history.AuditEntry{At: now + 1, UID: 8, Method: "POST", Route: "/x", Status: 200, Times: 1})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got, err := store.Audit(t.Context(), history.AuditFilter{})
		if err == nil && len(got) == 2 {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("an entry is not stored: %v, %v", got, err)
		}
	}
	if stop(); <-ended != nil {
		t.Error("the end is an error")
	}
}
