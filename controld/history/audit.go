package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
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
	Seq     int64         `json:"seq"` // in this controller's log
	At      model.UnixMS  `json:"at"`
	UID     int64         `json:"uid"` // or UIDStranger, UIDMachine
	User    string        `json:"user,omitempty"`
	Token   string        `json:"token,omitempty"`   // id of the API token that named the user
	Origin  string        `json:"origin,omitempty"`  // address, machine or socket that the request came from
	Method  string        `json:"method"`            // of HTTP
	Route   string        `json:"route"`             // such as /v1/jobs/{id}/cancel
	Jobs    ranges.Ranges `json:"jobs,omitempty"`    // that it was for
	Account string        `json:"account,omitempty"` // that submitted jobs are charged to
	Object  string        `json:"object,omitempty"`  // node, controller or token that it was for
	Status  int           `json:"status"`            // of HTTP
	Code    string        `json:"code,omitempty"`    // of the refusal
	Times   int           `json:"times"`             // how many requests alike this entry stands for
}

// UIDs of entries about callers that are no users.
const (
	UIDStranger = -1 // the caller was not known
	UIDMachine  = -2 // a member of the cluster for itself
)

// Merge adds a request of the same kind to an entry: its jobs, its object and its origin, as far as
// there is room.
func (e *AuditEntry) Merge(more *AuditEntry) {
	e.Times += more.Times
	if len(e.Jobs) < MaxAuditRanges {
		e.Jobs = e.Jobs.With(more.Jobs)
	}
	for _, f := range []struct{ all, one *string }{{&e.Token, &more.Token}, {&e.Origin, &more.Origin},
		{&e.Account, &more.Account}, {&e.Object, &more.Object}} {
		*f.all = withName(*f.all, *f.one)
	}
}

// maxNames bounds a list of names in an entry, in bytes.
const maxNames = 200

// withName adds a name to a list. A list that is full ends with three dots.
func withName(list, name string) string {
	const full = ", ..."
	switch {
	case name == "" || list == name || strings.HasSuffix(list, full) || slices.Contains(strings.Split(list, ", "), name):
		return list
	case list == "":
		return name
	case len(list)+len(name) > maxNames:
		return list + full
	}
	return list + ", " + name
}

// MaxAuditRanges is how many ranges of job ids one entry keeps. Further ones widen the last.
const MaxAuditRanges = 100

// AppendAudit adds entries to the audit log and makes them durable, all or none. It then drops
// those from before an instant, and all but the last most. One caller, all strangers together, and
// all machines together may each use a tenth of that. Refusals may use a hundredth. So none of them
// pushes out the entries of others.
func (s *Store) AppendAudit(ctx context.Context, entries []AuditEntry, before model.UnixMS, most int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.appendAudit(ctx, entries, before, most); err != nil {
		return fmt.Errorf("append to the audit log in %s: %w", s.path, explain(err))
	}
	return nil
}

// auditQuota bounds the rows of the audit log that meet a condition.
type auditQuota struct {
	rows string // the condition
	args []any  // of the condition
	most int64
	by   string // the column by which the last rows are found
}

// key names the rows that a quota counts.
func (q *auditQuota) key() string { return fmt.Sprint(q.rows, q.args) }

// enforce drops the oldest rows beyond the quota.
func (q *auditQuota) enforce(ctx context.Context, tx *sql.Tx) error {
	condition := fmt.Sprintf("%s AND %s < (SELECT %s FROM audit WHERE %s ORDER BY %s DESC LIMIT 1 OFFSET ?)", q.rows,
		q.by, q.by, q.rows, q.by)
	return dropAudit(ctx, tx, condition, append(slices.Concat(q.args, q.args), q.most-1)...)
}

// auditQuotas returns the quotas that an entry counts for.
func auditQuotas(e *AuditEntry, most int64) []auditQuota {
	ofCaller := []any{e.UID}
	quotas := []auditQuota{{"TRUE", nil, most, "seq"}, {"uid = ?", ofCaller, max(most/10, 1), "at"}}
	if e.Status >= 400 || e.UID == UIDStranger {
		quotas = append(quotas, auditQuota{"uid = ? AND status >= 400", ofCaller, max(most/100, 1), "at"})
	}
	return quotas
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
	if err := dropAudit(ctx, tx, "at < ?", int64(before)); err != nil {
		return err
	}
	added, due := s.countAudit(entries, most)
	for i := range due {
		if err := due[i].enforce(ctx, tx); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.added = added
	return nil
}

// countAudit returns how many entries each quota has got since it was enforced, and the quotas that
// are to be enforced now. Enforcing a quota reads as many rows of an index as the quota allows. So
// it runs at first, and again each time a twentieth of the quota was added.
func (s *Store) countAudit(entries []AuditEntry, most int64) (added map[string]int64, due []auditQuota) {
	added = maps.Clone(s.added)
	if added == nil {
		added = map[string]int64{}
	}
	for i := range entries {
		for _, q := range auditQuotas(&entries[i], most) {
			n, known := added[q.key()]
			if known && n < q.most/20 {
				added[q.key()] = n + 1
				continue
			}
			added[q.key()] = 0
			if !slices.ContainsFunc(due, func(d auditQuota) bool { return d.key() == q.key() }) {
				due = append(due, q)
			}
		}
	}
	return added, due
}

// dropAudit drops the entries that meet a condition.
func dropAudit(ctx context.Context, tx *sql.Tx, condition string, args ...any) error {
	for _, table := range []string{"audit_job", "audit"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE seq IN (SELECT seq FROM audit WHERE "+condition+")",
			args...); err != nil {
			return err
		}
	}
	return nil
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
			last := ranges.Range{First: jobs[MaxAuditRanges-1].First, Last: jobs[len(jobs)-1].Last}
			jobs = append(append(ranges.Ranges{}, jobs[:MaxAuditRanges-1]...), last)
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
	entries, err := s.decodeAudit(rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return nil, fmt.Errorf("read the audit log in %s: %w", s.path, explain(err))
	}
	return entries, nil
}

func (s *Store) decodeAudit(rows *sql.Rows) ([]AuditEntry, error) {
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
				s.badRow(-e.Seq, fmt.Errorf("%w: job ids %q of entry %d of the audit log: %w", ErrCorrupt, jobs, e.Seq, err))
			}
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
