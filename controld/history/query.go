package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// LimitMax is the most jobs that one call returns: the longest page of the API, and one more that
// shows whether another page follows.
const LimitMax = 10_001

// Filter selects finished jobs. Zero fields select everything.
type Filter struct {
	IDs     ranges.Ranges
	User    string
	Account string
	States  []model.JobState // any of them
	Name    string
	Since   model.UnixMS // ended at or after
	Until   model.UnixMS // ended before
	Before  int64        // Seq below this: the Seq of the last job of the page before; 0: any
	Limit   int          // at most LimitMax, which is also the default
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
func (w *where) within(column string, ranges ranges.Ranges) {
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
	if f.Before != 0 {
		w.add("seq < ?", f.Before)
	}
	return w
}

// limited returns a usable limit.
func limited(limit int) int {
	if limit <= 0 || limit > LimitMax {
		return LimitMax
	}
	return limit
}

// Query returns the jobs that f selects, the last to end first. Jobs that were set aside come last;
// their Seq is below 0.
func (s *Store) Query(ctx context.Context, f Filter) ([]*model.Job, error) {
	var found []*model.Job
	for {
		w := f.condition()
		query := "SELECT seq, body FROM job WHERE " + strings.Join(w.terms, " AND ") + " ORDER BY seq DESC LIMIT ?"
		limit := limited(f.Limit)
		p, err := s.page(ctx, math.MaxInt, query, append(w.args, limit)...)
		found = append(found, p.jobs...)
		if err != nil || p.rows < limit || len(p.jobs) == limit {
			return found, err
		}
		f.Before, f.Limit = p.last, limit-len(p.jobs) // others in place of damaged ones
	}
}

// rangeBytes bounds what Range returns, beyond its first job: another controller reads it into
// memory.
const rangeBytes = 16 << 20

// Range returns the jobs with from <= Seq <= to in order, at most limit of them and about 16 MiB.
// Numbers that are missing here are left out.
func (s *Store) Range(ctx context.Context, from, to int64, limit int) ([]*model.Job, error) {
	p, err := s.page(ctx, rangeBytes, "SELECT seq, body FROM job WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?", from, to,
		limited(limit))
	return p.jobs, err
}

// Get returns the job with this id, or ErrNoJob. If two have the id, it returns the job that was
// not set aside.
func (s *Store) Get(ctx context.Context, id model.JobID) (*model.Job, error) {
	var body []byte
	err := s.db.QueryRowContext(ctx, "SELECT body FROM job WHERE id = ? ORDER BY seq DESC LIMIT 1",
		int64(id)).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("job %d: %w", id, ErrNoJob)
	}
	var j *model.Job
	if err == nil {
		j, err = decodeJob(body)
	}
	if err != nil {
		return nil, fmt.Errorf("read history %s: job %d: %w", s.path, id, explain(err))
	}
	return j, nil
}

// page is the result of a query.
type page struct {
	jobs []*model.Job
	rows int   // damaged ones counted
	last int64 // number of the last row
}

// page runs a query for numbers and bodies, and stops once it has read enough bytes. A body that is
// damaged is left out, counted and said once: the others are answered.
func (s *Store) page(ctx context.Context, bytes int, query string, args ...any) (p page, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return p, fmt.Errorf("read history %s: %w", s.path, explain(err))
	}
	for bytes > 0 && err == nil && rows.Next() {
		var body []byte
		if err = rows.Scan(&p.last, &body); err != nil {
			break
		}
		p.rows++
		bytes -= len(body)
		if j, err := decodeJob(body); err == nil {
			j.Seq = p.last // which is another in a job that was set aside
			p.jobs = append(p.jobs, j)
		} else {
			s.badRow(p.last, err)
		}
	}
	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return page{}, fmt.Errorf("read history %s: %w", s.path, explain(err))
	}
	return p, nil
}

func decodeJob(body []byte) (*model.Job, error) {
	j := new(model.Job)
	if err := json.Unmarshal(body, j); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return j, nil
}

// maxTold is of how many bad rows OnBadRow is told: a file that is full of them fills no log.
const maxTold = 100

// badRow counts a row that an answer leaves out, and tells of it once.
func (s *Store) badRow(row int64, err error) {
	s.bad.Add(1)
	s.toldMu.Lock()
	defer s.toldMu.Unlock()
	if s.OnBadRow == nil || s.told[row] || len(s.told) >= maxTold {
		return
	}
	if s.told == nil {
		s.told = map[int64]bool{}
	}
	s.told[row] = true
	s.OnBadRow(row, err)
}
