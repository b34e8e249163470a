package server

import (
	"net/http"
	"testing"

	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
)

// TestAFloodOfRefusalsIsOneEntry: a caller that is refused again and again does not push the rest
// out of the audit log. What is done, and refusals of others, have entries of their own.
func TestAFloodOfRefusalsIsOneEntry(t *testing.T) {
	var l auditLog
	for i := range 1000 {
		l.add(&history.AuditEntry{UID: -1, Origin: "10.0.0.1", Status: http.StatusUnauthorized, Times: 1})
		l.add(&history.AuditEntry{UID: 7, Origin: "10.0.0.1", Status: http.StatusForbidden, Times: 1,
			Jobs: model.Span(2*i, 2*i)})
	}
	l.add(&history.AuditEntry{UID: 7, Status: http.StatusOK, Times: 1})
	l.add(&history.AuditEntry{UID: 7, Status: http.StatusOK, Times: 1})
	entries, lost := l.take()
	if len(entries) != 4 || lost != 0 || entries[0].Times != 1000 || entries[1].Times != 1000 ||
		len(entries[1].Jobs) != history.MaxAuditRanges {
		t.Errorf("%d entries, %d lost: %+v", len(entries), lost, entries)
	}
	if entries, _ := l.take(); len(entries) != 0 {
		t.Errorf("taken twice: %+v", entries)
	}
}

// TestAFullAuditLogCountsWhatItLoses: while the disk takes nothing, memory is bounded.
func TestAFullAuditLogCountsWhatItLoses(t *testing.T) {
	var l auditLog
	for range maxPending + 7 {
		l.add(&history.AuditEntry{Status: http.StatusOK, Times: 1})
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
