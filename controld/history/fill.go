package history

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// Gap is a range of numbers, both ends included, whose records are missing.
type Gap struct{ From, To int64 }

// absentFrom finds the numbers from ?1 to ?2 that no job has.
const absentFrom = `SELECT prev + 1, seq - 1 FROM (
		SELECT seq, lag(seq, 1, ?1 - 1) OVER (ORDER BY seq) AS prev FROM
		(SELECT seq FROM job WHERE seq BETWEEN ?1 AND ?2 UNION ALL SELECT ?2 + 1)
	) WHERE seq > prev + 1 ORDER BY seq`

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func gaps(ctx context.Context, q querier, query string, args ...any) ([]Gap, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Gap
	for rows.Next() {
		var g Gap
		if err := rows.Scan(&g.From, &g.To); err != nil {
			return nil, err
		}
		found = append(found, g)
	}
	return found, rows.Err()
}

// Missing returns the gaps among the numbers 1 to upTo, in order. Pruned numbers are no gaps.
func (s *Store) Missing(ctx context.Context, upTo int64) ([]Gap, error) {
	missing, err := gaps(ctx, s.db, "SELECT max(first, ?2 + 1), min(last, ?1) FROM gap WHERE first <= ?1 AND last > ?2 "+
		"ORDER BY first", upTo, s.pruned.Load())
	if err == nil && s.Last() < upTo {
		var more []Gap
		more, err = gaps(ctx, s.db, absentFrom, s.Last()+1, upTo)
		missing = append(missing, more...)
	}
	if err != nil {
		return nil, fmt.Errorf("find gaps in history %s: %w", s.path, explain(err))
	}
	return missing, nil
}

// NoteGaps makes gaps of the missing numbers up to upTo, so that later jobs can be stored. The
// missing jobs have left the state; [Fill] fetches them from another controller, if one has them.
func (s *Store) NoteGaps(ctx context.Context, upTo int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.Last()
	if last >= upTo {
		return nil
	}
	err := s.change(ctx, func(tx *sql.Tx) error {
		missing, err := gaps(ctx, tx, absentFrom, last+1, upTo)
		if err != nil {
			return err
		}
		for _, g := range missing {
			if _, err := tx.ExecContext(ctx, "DELETE FROM gap WHERE first >= ? AND last <= ?", g.From, g.To); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO gap VALUES (?,?)", g.From, g.To); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record gaps in history %s: %w", s.path, explain(err))
	}
	return nil
}

// closeGaps takes the numbers from lowest to highest that jobs have now out of the gaps.
func closeGaps(ctx context.Context, tx *sql.Tx, lowest, highest int64) error {
	noted, err := gaps(ctx, tx, "SELECT first, last FROM gap WHERE first <= ? AND last >= ?", highest, lowest)
	if err != nil {
		return err
	}
	for _, g := range noted {
		rest, err := gaps(ctx, tx, absentFrom, g.From, g.To)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM gap WHERE first = ?", g.From); err != nil {
			return err
		}
		for _, r := range rest {
			if _, err := tx.ExecContext(ctx, "INSERT INTO gap VALUES (?,?)", r.From, r.To); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fetch returns a peer's records with from <= Seq <= to in order; it may return only the first of
// them.
type Fetch func(ctx context.Context, from, to int64) ([]*model.Job, error)

// Fill fetches the records that s misses up to upTo, and makes them durable as it goes. It is an
// error if the peer does not have them all; the fetched records are kept.
func Fill(ctx context.Context, s *Store, fetch Fetch, upTo int64) error {
	missing, err := s.Missing(ctx, upTo)
	if err != nil {
		return err
	}
	lacks := int64(0)
	for _, g := range missing {
		first, err := fillGap(ctx, s, fetch, g)
		if err != nil {
			return fmt.Errorf("fill history %d to %d: %w", g.From, g.To, err)
		}
		if lacks == 0 {
			lacks = first
		}
	}
	if lacks > 0 {
		return fmt.Errorf("the other controller does not have record %d of the history", lacks)
	}
	return nil
}

// fillGap fetches one gap in batches, and returns the first number of it that the peer does not
// have, 0 if it has all.
func fillGap(ctx context.Context, s *Store, fetch Fetch, g Gap) (lacks int64, err error) {
	for next := g.From; next <= g.To; {
		answer, err := fetch(ctx, next, g.To)
		if err != nil {
			return lacks, err
		}
		jobs, hole := usable(answer, next, g.To)
		if lacks == 0 {
			lacks = hole
		}
		if len(jobs) == 0 {
			return lacks, nil
		}
		if err := s.Append(ctx, jobs); err != nil {
			return lacks, err
		}
		next = jobs[len(jobs)-1].Seq + 1
	}
	return lacks, nil
}

// usable returns those jobs of an answer that were asked for, in order. It also returns the first
// missing number before or between them, 0 if none is missing. A bad record is left out, and the
// others are used.
func usable(answer []*model.Job, from, to int64) (jobs []*model.Job, hole int64) {
	next := from
	for _, j := range answer {
		if j == nil || j.Seq < next || j.Seq > to || !j.State.Final() {
			continue
		}
		if j.Seq > next && hole == 0 {
			hole = next
		}
		jobs, next = append(jobs, j), j.Seq+1
	}
	if len(jobs) == 0 {
		hole = from
	}
	return jobs, hole
}
