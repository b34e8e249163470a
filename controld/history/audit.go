package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// auditSchema makes the audit log. A request that names jobs has rows of audit_job too, one for each
// range of their ids.
const auditSchema = `
CREATE TABLE IF NOT EXISTS audit (
	seq     INTEGER PRIMARY KEY AUTOINCREMENT,
	at      INTEGER NOT NULL, -- wall clock, ms
	uid     INTEGER NOT NULL, -- -1: not known
	user    TEXT NOT NULL,
	token   TEXT NOT NULL, -- id of the API token
	origin  TEXT NOT NULL, -- where the request came from
	method  TEXT NOT NULL,
	route   TEXT NOT NULL,
	jobs    TEXT NOT NULL, -- as ranges
	account TEXT NOT NULL,
	object  TEXT NOT NULL, -- node, controller or token
	status  INTEGER NOT NULL,
	code    TEXT NOT NULL,
	times   INTEGER NOT NULL -- how many requests alike this row stands for
) STRICT;
CREATE INDEX IF NOT EXISTS audit_at ON audit (at);
CREATE INDEX IF NOT EXISTS audit_uid ON audit (uid, at);
CREATE TABLE IF NOT EXISTS audit_job (
	seq   INTEGER NOT NULL,
	first INTEGER NOT NULL,
	last  INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS audit_job_seq ON audit_job (seq);
CREATE INDEX IF NOT EXISTS audit_job_first ON audit_job (first, last);
`

// AuditEntry is one request that this controller decided on, or several alike that it refused.
type AuditEntry struct {
	Seq     int64        `json:"seq"` // in this controller's log
	At      model.UnixMS `json:"at"`
	UID     int64        `json:"uid"` // -1: the caller was not known
	User    string       `json:"user,omitempty"`
	Token   string       `json:"token,omitempty"`   // id of the API token that named the user
	Origin  string       `json:"origin,omitempty"`  // address, machine or socket that the request came from
	Method  string       `json:"method"`            // of HTTP
	Route   string       `json:"route"`             // such as /v1/jobs/{id}/cancel
	Jobs    model.Ranges `json:"jobs,omitempty"`    // that it was for
	Account string       `json:"account,omitempty"` // that submitted jobs are charged to
	Object  string       `json:"object,omitempty"`  // node, controller or token that it was for
	Status  int          `json:"status"`            // of HTTP
	Code    string       `json:"code,omitempty"`    // of the refusal
	Times   int          `json:"times"`             // how many requests alike this entry stands for
}

// MaxAuditRanges is how many ranges of job ids one entry keeps. Further ones widen the last.
const MaxAuditRanges = 100

// AppendAudit adds entries to the audit log and makes them durable, all or none. It then drops
// those from before an instant, and all but the last most.
func (s *Store) AppendAudit(ctx context.Context, entries []AuditEntry, before model.UnixMS, most int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.appendAudit(ctx, entries, before, most); err != nil {
		return fmt.Errorf("append to the audit log in %s: %w", s.path, explain(err))
	}
	return nil
}

func (s *Store) appendAudit(ctx context.Context, entries []AuditEntry, before model.UnixMS, most int64) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := insertAudit(ctx, tx, entries); err != nil {
		return err
	}
	for _, q := range []struct {
		text string
		args []any
	}{
		{"DELETE FROM audit WHERE at < ?", []any{int64(before)}},
		{"DELETE FROM audit WHERE seq <= (SELECT max(seq) FROM audit) - ?", []any{most}},
		{"DELETE FROM audit_job WHERE seq < (SELECT coalesce(min(seq), 9e18) FROM audit)", nil},
	} {
		if _, err := tx.ExecContext(ctx, q.text, q.args...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func insertAudit(ctx context.Context, tx *sql.Tx, entries []AuditEntry) error {
	entry, err := tx.PrepareContext(ctx, "INSERT INTO audit VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?)")
	if err != nil {
		return err
	}
	defer entry.Close()
	span, err := tx.PrepareContext(ctx, "INSERT INTO audit_job VALUES (?,?,?)")
	if err != nil {
		return err
	}
	defer span.Close()
	for i := range entries {
		e := &entries[i]
		jobs := e.Jobs
		if len(jobs) > MaxAuditRanges {
			last := model.Range{First: jobs[MaxAuditRanges-1].First, Last: jobs[len(jobs)-1].Last}
			jobs = append(append(model.Ranges{}, jobs[:MaxAuditRanges-1]...), last)
		}
		done, err := entry.ExecContext(ctx, int64(e.At), e.UID, e.User, e.Token, e.Origin, e.Method, e.Route, jobs.String(),
			e.Account, e.Object, e.Status, e.Code, e.Times)
		if err != nil {
			return err
		}
		seq, err := done.LastInsertId()
		if err != nil {
			return err
		}
		for _, r := range jobs {
			if _, err := span.ExecContext(ctx, seq, r.First, r.Last); err != nil {
				return err
			}
		}
	}
	return nil
}

// AuditFilter selects entries of the audit log. Zero fields select everything.
type AuditFilter struct {
	UID    *uint32
	User   string
	Job    model.JobID
	Denied bool         // refusals only
	Since  model.UnixMS // at or after
	Until  model.UnixMS // before
	Limit  int          // at most LimitMax, which is also the default
}

// Audit returns the entries that f selects, the last first.
func (s *Store) Audit(ctx context.Context, f AuditFilter) ([]AuditEntry, error) {
	w := where{terms: []string{"TRUE"}}
	if f.UID != nil {
		w.add("uid = ?", int64(*f.UID))
	}
	if f.User != "" {
		w.add("user = ?", f.User)
	}
	if f.Job != 0 {
		w.add("seq IN (SELECT seq FROM audit_job WHERE first <= ? AND last >= ?)", int64(f.Job), int64(f.Job))
	}
	if f.Denied {
		w.add("status >= 400")
	}
	if f.Since != 0 {
		w.add("at >= ?", int64(f.Since))
	}
	if f.Until != 0 {
		w.add("at < ?", int64(f.Until))
	}
	rows, err := s.db.QueryContext(ctx, "SELECT seq, at, uid, user, token, origin, method, route, jobs, account, object, "+
		"status, code, times FROM audit WHERE "+strings.Join(w.terms, " AND ")+" ORDER BY at DESC, seq DESC LIMIT ?",
		append(w.args, limited(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("read the audit log in %s: %w", s.path, explain(err))
	}
	entries, err := decodeAudit(rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return nil, fmt.Errorf("read the audit log in %s: %w", s.path, explain(err))
	}
	return entries, nil
}

func decodeAudit(rows *sql.Rows) ([]AuditEntry, error) {
	var entries []AuditEntry
	for rows.Next() {
		var e AuditEntry
		var jobs string
		if err := rows.Scan(&e.Seq, &e.At, &e.UID, &e.User, &e.Token, &e.Origin, &e.Method, &e.Route, &jobs, &e.Account,
			&e.Object, &e.Status, &e.Code, &e.Times); err != nil {
			return nil, err
		}
		if jobs != "" {
			if err := e.Jobs.UnmarshalText([]byte(jobs)); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
