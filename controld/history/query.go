package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/controld/cluster"
)

// LimitMax is the most jobs that one call returns: the longest page of the API, and one that says
// that there are more.
const LimitMax = 10_001

// Filter selects finished jobs. Zero fields select everything.
type Filter struct {
	IDs     cluster.Ranges
	User    string
	Account string
	States  []cluster.JobState // any of them
	Name    string
	Since   cluster.UnixMS // ended at or after
	Until   cluster.UnixMS // ended before
	Before  int64          // Seq below this: the Seq of the last job of the page before
	Limit   int            // at most LimitMax, which is also the default
}

// where is a growing condition.
type where struct {
	terms []string
	args  []any
}

// add adds a term.
func (w *where) add(term string, args ...any) {
	w.terms = append(w.terms, term)
	w.args = append(w.args, args...)
}

// anyOf adds a term that compares column with a list.
func anyOf[T any](w *where, column string, values []T) {
	if len(values) == 0 {
		return
	}
	list, err := json.Marshal(values) // one argument, however many values
	if err != nil {
		panic(fmt.Sprintf("history: list of %T: %v", values, err))
	}
	w.add(column+" IN (SELECT value FROM json_each(?))", string(list))
}

// within adds a term that compares column with ranges.
func (w *where) within(column string, ranges cluster.Ranges) {
	if len(ranges) == 0 {
		return
	}
	ends := make([][2]int, len(ranges))
	for i, r := range ranges {
		ends[i] = [2]int{r.First, r.Last}
	}
	list, err := json.Marshal(ends)
	if err != nil {
		panic(fmt.Sprintf("history: ranges: %v", err))
	}
	w.add(fmt.Sprintf("%[1]s IN (SELECT named.%[1]s FROM json_each(?) AS span CROSS JOIN job AS named"+
		" WHERE named.%[1]s BETWEEN span.value ->> 0 AND span.value ->> 1)", column), string(list))
}

// condition translates f.
func (f Filter) condition() where {
	w := where{terms: []string{"TRUE"}}
	w.within("id", f.IDs)
	anyOf(&w, "state", f.States)
	equal := func(column, value string) {
		if value != "" {
			w.add(column+" = ?", value)
		}
	}
	equal("user", f.User)
	equal("account", f.Account)
	equal("name", f.Name)
	compare := func(term string, value int64) {
		if value > 0 {
			w.add(term, value)
		}
	}
	compare("ended >= ?", int64(f.Since))
	compare("ended < ?", int64(f.Until))
	compare("seq < ?", f.Before)
	return w
}

// limited returns a usable limit.
func limited(limit int) int {
	if limit <= 0 || limit > LimitMax {
		return LimitMax
	}
	return limit
}

// Query returns the jobs that f selects, the last to end first.
func (s *Store) Query(ctx context.Context, f Filter) ([]*cluster.Job, error) {
	w := f.condition()
	query := "SELECT body FROM job WHERE " + strings.Join(w.terms, " AND ") + " ORDER BY seq DESC LIMIT ?"
	return s.jobs(ctx, query, append(w.args, limited(f.Limit))...)
}

// Range returns the jobs with from <= Seq <= to in order, at most limit of them. Numbers that are
// missing here are left out.
func (s *Store) Range(ctx context.Context, from, to int64, limit int) ([]*cluster.Job, error) {
	return s.jobs(ctx, "SELECT body FROM job WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?", from, to, limited(limit))
}

// Get returns the job with this id, or ErrNoJob.
func (s *Store) Get(ctx context.Context, id cluster.JobID) (*cluster.Job, error) {
	jobs, err := s.jobs(ctx, "SELECT body FROM job WHERE id = ?", int64(id))
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	return jobs[0], nil
}

// jobs runs a query for bodies.
func (s *Store) jobs(ctx context.Context, query string, args ...any) ([]*cluster.Job, error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", s.path, explain(err))
	}
	jobs, err := decodeRows(rows)
	if err = errors.Join(err, rows.Close()); err != nil {
		return nil, fmt.Errorf("read history %s: %w", s.path, explain(err))
	}
	return jobs, nil
}

// decodeRows reads the bodies.
func decodeRows(rows *sql.Rows) ([]*cluster.Job, error) {
	var jobs []*cluster.Job
	for rows.Next() {
		var body []byte
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		j := new(cluster.Job)
		if err := json.Unmarshal(body, j); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		jobs = append(jobs, j)
	}
	return jobs, rows.Err()
}
