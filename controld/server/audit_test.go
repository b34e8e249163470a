package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// TestAFloodOfRefusalsIsOneEntry: a caller that is refused again and again does not push the rest
// out of the audit log, whatever it varies. What is done, and refusals of others, have entries of
// their own.
func TestAFloodOfRefusalsIsOneEntry(t *testing.T) {
	var l auditLog
	for i := range 1000 {
		l.add(&history.AuditEntry{UID: history.UIDStranger, Origin: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
			Status: http.StatusUnauthorized, Times: 1})
		l.add(&history.AuditEntry{UID: 7, Origin: "10.0.0.1", Object: fmt.Sprintf("n%d", i), Status: http.StatusForbidden,
			Token: fmt.Sprintf("t%d", i), Account: fmt.Sprintf("a%d", i), Times: 1, Jobs: ranges.Span(2*i, 2*i)})
	}
	l.add(&history.AuditEntry{UID: 8, Status: http.StatusForbidden, Times: 1})
	l.add(&history.AuditEntry{UID: 7, Status: http.StatusOK, Times: 1})
	l.add(&history.AuditEntry{UID: 7, Status: http.StatusOK, Times: 1})
	entries, lost := l.take()
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
	if entries, _ := l.take(); len(entries) != 0 {
		t.Errorf("taken twice: %+v", entries)
	}
}

// TestRequestsOfABusyCallerShareEntries: a caller has 100 entries of its own in a second. Behind
// these, each kind of request has one, and other callers are not touched.
func TestRequestsOfABusyCallerShareEntries(t *testing.T) {
	var l auditLog
	for i := range 5000 {
		l.add(&history.AuditEntry{UID: 7, Route: []string{"hold", "release"}[i%2], Status: http.StatusOK, Times: 1,
			Jobs: ranges.Span(i, i)})
	}
	l.add(&history.AuditEntry{UID: 8, Route: "hold", Status: http.StatusOK, Times: 1})
	entries, _ := l.take()
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
	var l auditLog
	for i := range maxPending + 7 {
		l.add(&history.AuditEntry{UID: int64(i), Status: http.StatusOK, Times: 1})
	}
	entries, lost := l.take()
	if len(entries) != maxPending || lost != 7 {
		t.Errorf("%d entries, %d lost", len(entries), lost)
	}
	l.add(&history.AuditEntry{UID: 1, Status: http.StatusOK, Times: 1})
	l.putBack(entries[:2])
	if again, _ := l.take(); len(again) != 3 || again[2].UID != 1 {
		t.Errorf("%d entries after two were put back", len(again))
	}
}
