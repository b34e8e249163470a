package history

import (
	"context"
	"fmt"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Gap is a range of numbers, both ends included, whose records are missing.
type Gap struct{ From, To int64 }

// fillBatch is how many records Fill asks for at once: a few megabytes at most.
const fillBatch = 1000

// Missing returns the gaps among the numbers 1 to upTo, in order.
func (s *Store) Missing(ctx context.Context, upTo int64) ([]Gap, error) {
	const query = `SELECT prev + 1, seq - 1 FROM (
			SELECT seq, lag(seq, 1, ?) OVER (ORDER BY seq) AS prev FROM
			(SELECT seq FROM job WHERE seq > ? AND seq <= ? UNION ALL SELECT ?)
		) WHERE seq > prev + 1 ORDER BY seq`
	last := s.Last()
	if last >= upTo {
		return nil, nil
	}
	rows, err := s.db.QueryContext(ctx, query, last, last, upTo, upTo+1)
	if err != nil {
		return nil, fmt.Errorf("find gaps in history %s: %w", s.path, explain(err))
	}
	defer rows.Close()
	var gaps []Gap
	for rows.Next() {
		var g Gap
		if err := rows.Scan(&g.From, &g.To); err != nil {
			return nil, err
		}
		gaps = append(gaps, g)
	}
	return gaps, rows.Err()
}

// Fetch returns a peer's records with from <= Seq <= to in order; it may return only the first of
// them.
type Fetch func(ctx context.Context, from, to int64) ([]*cluster.Job, error)

// Fill fetches what s misses up to upTo, and makes it durable as it goes. It is an error when the
// peer does not have all of it; what it had is kept.
func Fill(ctx context.Context, s *Store, fetch Fetch, upTo int64) error {
	gaps, err := s.Missing(ctx, upTo)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		if err := fillGap(ctx, s, fetch, g); err != nil {
			return fmt.Errorf("fill history %d to %d: %w", g.From, g.To, err)
		}
	}
	return nil
}

// fillGap fetches one gap in batches.
func fillGap(ctx context.Context, s *Store, fetch Fetch, g Gap) error {
	for g.From <= g.To {
		to := min(g.To, g.From+fillBatch-1)
		jobs, err := fetch(ctx, g.From, to)
		if err != nil {
			return err
		}
		next, err := checkRun(jobs, g.From, to)
		if err != nil {
			return err
		}
		if err := s.Append(ctx, jobs); err != nil {
			return err
		}
		g.From = next
	}
	return nil
}

// checkRun verifies that jobs are numbered from, from+1 and so on, to at most to, and returns the
// number after the last.
func checkRun(jobs []*cluster.Job, from, to int64) (int64, error) {
	next := from
	for _, j := range jobs {
		if j == nil || j.Seq != next || j.Seq > to {
			return 0, fmt.Errorf("the other controller does not have record %d", next)
		}
		next++
	}
	if next == from {
		return 0, fmt.Errorf("the other controller does not have record %d", from)
	}
	return next, nil
}
