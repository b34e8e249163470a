package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rota-hpc/rota/controld/model"
)

// RefusedError says why one job cannot be stored. The other jobs of the call are stored.
type RefusedError struct {
	ID  model.JobID
	Seq int64
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("cannot store job %d (number %d in the history), it is left out: %v", e.ID, e.Seq, e.Err)
}

// Unwrap implements errors.
func (e *RefusedError) Unwrap() error { return e.Err }

// RefusedJobs returns the jobs that Append left out. It returns false if err has another reason;
// then Append stored no job.
func RefusedJobs(err error) (refused []*RefusedError, ok bool) {
	many, ok := errors.AsType[refusals](err)
	return many, ok
}

type refusals []*RefusedError

// Error implements error.
func (r refusals) Error() string {
	text := r[0].Error()
	if len(r) > 1 {
		text += fmt.Sprintf(" (and %d more)", len(r)-1)
	}
	return text
}

// Unwrap implements errors.
func (r refusals) Unwrap() []error {
	all := make([]error, len(r))
	for i, e := range r {
		all[i] = e
	}
	return all
}

// Append makes finished jobs durable, all at once. A job that is stored already stays unchanged. If
// another job has its number, the log went back to before that other job ended, which is then set
// aside, see [Store.RollBack]. A job that cannot be stored is left out and becomes a gap, see
// [RefusedJobs].
func (s *Store) Append(ctx context.Context, jobs []*model.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var bad refusals
	err := s.change(ctx, func(tx *sql.Tx) (err error) {
		bad, err = insert(ctx, tx, jobs)
		return err
	})
	if err == nil && len(bad) > 0 {
		err = bad
	}
	if err != nil {
		return fmt.Errorf("append to history %s: %w", s.path, explain(err))
	}
	return nil
}

func insert(ctx context.Context, tx *sql.Tx, jobs []*model.Job) (bad refusals, err error) {
	insert, err := tx.PrepareContext(ctx, "INSERT INTO job VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING")
	if err != nil {
		return nil, err
	}
	defer insert.Close()
	lowest, highest := int64(0), int64(0)
	for _, j := range jobs {
		stored, err := insertJob(ctx, insert, j)
		if err == nil && !stored {
			if stored, err = giveWay(ctx, tx, j); err == nil && !stored {
				_, err = insertJob(ctx, insert, j)
			}
		}
		switch {
		case err == nil:
			if lowest == 0 || j.Seq < lowest {
				lowest = j.Seq
			}
			highest = max(highest, j.Seq)
		case !ofRow(err):
			return nil, fmt.Errorf("job %d: %w", j.ID, err)
		default:
			bad = append(bad, &RefusedError{j.ID, j.Seq, err})
			if err := leaveOut(ctx, tx, j.Seq); err != nil {
				return nil, err
			}
		}
	}
	return bad, closeGaps(ctx, tx, lowest, highest)
}

// errRow is a fault of the job itself, whatever the state of the file.
var errRow = errors.New("it cannot be encoded for the history")

// ofRow reports whether an error would come again with the same job in any file.
func ofRow(err error) bool {
	var e *sqlite.Error
	if errors.As(err, &e) {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
			return true
		}
	}
	return errors.Is(err, ErrNotFinal) || errors.Is(err, errRow)
}

// insertJob adds one job, and returns false if a job with its number is there.
func insertJob(ctx context.Context, insert *sql.Stmt, j *model.Job) (stored bool, err error) {
	if j.Seq < 1 || !j.State.Final() {
		return false, ErrNotFinal
	}
	body, err := json.Marshal(j.Standalone())
	if err != nil {
		return false, fmt.Errorf("%w: %w", errRow, err)
	}
	name := ""
	if j.Spec != nil {
		name = j.Spec.Name
	}
	done, err := insert.ExecContext(ctx, j.Seq, int64(j.ID), j.Owner.User, j.Account, name, string(j.State),
		int64(j.Submitted.Wall), int64(j.Ended.Wall), string(body))
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

// giveWay sets aside the job that has j's number. It returns true if that is j itself.
func giveWay(ctx context.Context, tx *sql.Tx, j *model.Job) (there bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM job WHERE seq = ? AND id = ? AND ended = ?)", j.Seq,
		int64(j.ID), int64(j.Ended.Wall)).Scan(&there)
	if err != nil || there {
		return there, err
	}
	return false, setAside(ctx, tx, []int64{j.Seq})
}

// setAside gives jobs numbers below 0 and below those of all others. The first gets the greatest.
func setAside(ctx context.Context, tx *sql.Tx, seqs []int64) error {
	var lowest int64
	if err := tx.QueryRowContext(ctx, "SELECT min(0, coalesce(min(seq), 0)) FROM job").Scan(&lowest); err != nil {
		return err
	}
	move, err := tx.PrepareContext(ctx, "UPDATE job SET seq = ? WHERE seq = ?")
	if err != nil {
		return err
	}
	defer move.Close()
	for i, seq := range seqs {
		if _, err := move.ExecContext(ctx, lowest-1-int64(i), seq); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO note VALUES (?,?) ON CONFLICT (name) DO UPDATE SET value = value + "+
		"excluded.value", noteAside, len(seqs))
	return err
}

// leaveOut makes a gap of one number, unless its job is there.
func leaveOut(ctx context.Context, tx *sql.Tx, seq int64) error {
	if seq < 1 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO gap SELECT ?1, ?1 WHERE NOT EXISTS (SELECT 1 FROM job WHERE seq = ?1) AND "+
		"NOT EXISTS (SELECT 1 FROM gap WHERE ?1 BETWEEN first AND last)", seq)
	return err
}

// rollBatch is how many jobs one transaction sets aside.
const rollBatch = 500

// RollBack sets aside the jobs with numbers above lastSeq, the last number that the log has given.
// They come from a log that was lost or replaced by an older one. They stay in the file and in
// answers, behind all others, and their numbers can be given again. A controller calls it after it
// has applied the whole log. It returns the number of jobs set aside.
func (s *Store) RollBack(ctx context.Context, lastSeq int64) (moved int64, err error) {
	for more := true; more && err == nil; {
		s.mu.Lock()
		err = s.change(ctx, func(tx *sql.Tx) error {
			seqs, err := numbers(ctx, tx, "SELECT seq FROM job WHERE seq > ? ORDER BY seq DESC LIMIT ?", lastSeq, rollBatch)
			if err == nil && len(seqs) > 0 {
				err = setAside(ctx, tx, seqs)
			}
			moved += int64(len(seqs))
			if more = len(seqs) == rollBatch; err != nil || more {
				return err
			}
			return forgetAfter(ctx, tx, lastSeq)
		})
		s.mu.Unlock()
	}
	if err != nil {
		return 0, fmt.Errorf("move jobs of history %s aside: %w", s.path, explain(err))
	}
	return moved, nil
}

// forgetAfter forgets notes about numbers that the log has not given.
func forgetAfter(ctx context.Context, tx *sql.Tx, lastSeq int64) error {
	for _, q := range []string{
		"DELETE FROM gap WHERE first > ?1",
		"UPDATE gap SET last = min(last, ?1) WHERE last > ?1",
		"UPDATE note SET value = min(value, ?1) WHERE name IN ('" + noteLast + "', '" + notePruned + "')",
	} {
		if _, err := tx.ExecContext(ctx, q, lastSeq); err != nil {
			return err
		}
	}
	return nil
}

func numbers(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}
