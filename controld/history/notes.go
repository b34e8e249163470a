package history

import (
	"context"
	"database/sql"
)

// Names of the notes in the file.
const (
	noteLast    = "last"    // where [Store.Last] was
	notePruned  = "pruned"  // numbers up to this are pruned
	noteKept    = "kept"    // wall clock, ms: jobs that ended before are pruned
	noteAside   = "aside"   // jobs set aside
	noteChecked = "checked" // wall clock, ms, of the last whole check that found nothing
)

// notes are a store's notes about its file.
type notes struct{ last, pruned, kept, absent, absentUntil, moved int64 }

// readNotes returns the contents of the file at the end of a transaction. It also notes how far the
// file is unbroken, so that the next start need not read it all.
func readNotes(ctx context.Context, tx *sql.Tx) (notes, error) {
	var n notes
	for _, note := range []struct {
		name string
		to   *int64
	}{{noteLast, &n.last}, {notePruned, &n.pruned}, {noteKept, &n.kept}, {noteAside, &n.moved}} {
		if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT value FROM note WHERE name = ?), 0)", note.name).
			Scan(note.to); err != nil {
			return n, err
		}
	}
	const counts = `SELECT (SELECT coalesce(sum(last - first + 1), 0) FROM gap),
		coalesce((SELECT ended FROM job WHERE seq > (SELECT max(last) FROM gap) ORDER BY seq LIMIT 1), 0)`
	if err := tx.QueryRowContext(ctx, counts).Scan(&n.absent, &n.absentUntil); err != nil {
		return n, err
	}
	last, err := unbroken(ctx, tx, max(n.last, n.pruned))
	if err != nil || last == n.last {
		return n, err
	}
	n.last = last
	return n, writeNote(ctx, tx, noteLast, last)
}

// unbroken returns the end of the run of numbers after from that are on disk or in gaps.
func unbroken(ctx context.Context, tx *sql.Tx, from int64) (int64, error) {
	const query = `SELECT max(
		?1,
		CASE WHEN EXISTS (SELECT 1 FROM job WHERE seq = ?1 + 1) THEN
			(SELECT min(seq) FROM job AS a WHERE seq > ?1 AND NOT EXISTS (SELECT 1 FROM job WHERE seq = a.seq + 1))
		ELSE 0 END,
		coalesce((SELECT last FROM gap WHERE first <= ?1 + 1 ORDER BY first DESC LIMIT 1), 0))`
	for {
		var last int64
		if err := tx.QueryRowContext(ctx, query, from).Scan(&last); err != nil || last == from {
			return last, err
		}
		from = last
	}
}

func writeNote(ctx context.Context, tx *sql.Tx, name string, value int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO note VALUES (?,?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		name, value)
	return err
}
