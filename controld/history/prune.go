package history

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
)

// pruneBatch is how many jobs one transaction removes: few enough that a job that ends meanwhile is
// stored within some tens of milliseconds.
const pruneBatch = 500

// Prune removes some of the oldest jobs that ended before an instant. It returns how many it
// removed; more may be left. Queries go on meanwhile. Jobs are removed in the order of their
// numbers, so a job behind a kept job is kept too. The file does not shrink; its free space is used
// again.
func (s *Store) Prune(ctx context.Context, before model.UnixMS) (removed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.change(ctx, func(tx *sql.Tx) error {
		upTo, n, err := prunable(ctx, tx, s.pruned.Load(), before)
		if err != nil {
			return err
		}
		if n > 0 {
			if err := pruneUpTo(ctx, tx, upTo); err != nil {
				return err
			}
		}
		aside, err := tx.ExecContext(ctx, "DELETE FROM job WHERE seq IN (SELECT seq FROM job WHERE seq < 0 AND ended < ? "+
			"LIMIT ?)", int64(before), pruneBatch)
		if err != nil {
			return err
		}
		gone, err := aside.RowsAffected()
		if removed = n + int(gone); err != nil || removed == 0 {
			return err
		}
		return writeNote(ctx, tx, noteKept, max(int64(before), s.kept.Load()))
	})
	if err != nil {
		return 0, fmt.Errorf("prune history %s: %w", s.path, explain(err))
	}
	return removed, nil
}

func pruneUpTo(ctx context.Context, tx *sql.Tx, upTo int64) error {
	for _, q := range []string{"DELETE FROM job WHERE seq BETWEEN 1 AND ?", "DELETE FROM gap WHERE last <= ?"} {
		if _, err := tx.ExecContext(ctx, q, upTo); err != nil {
			return err
		}
	}
	return writeNote(ctx, tx, notePruned, upTo)
}

// prunable returns the number up to which jobs ended before an instant, at most a batch of them,
// and how many these are.
func prunable(ctx context.Context, tx *sql.Tx, after int64, before model.UnixMS) (upTo int64, n int, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT seq, ended FROM job WHERE seq > ? ORDER BY seq LIMIT ?", after, pruneBatch)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq, ended int64
		if err := rows.Scan(&seq, &ended); err != nil {
			return 0, 0, err
		}
		if ended >= int64(before) {
			break
		}
		upTo, n = seq, n+1
	}
	return upTo, n, rows.Err()
}
