package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// CopyTo writes the history up to a number, with the audit log, to a new file, while others read and
// write here.
func (s *Store) CopyTo(ctx context.Context, path string, upTo int64) error {
	if _, err := s.db.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return fmt.Errorf("copy history %s: %w", s.path, explain(err))
	}
	return errors.Join(CutAfter(ctx, path, upTo), os.Chmod(path, 0o600))
}

// CutAfter drops the records behind a number from a file that no store has open. Their jobs had not
// ended in the state that is restored with the file.
func CutAfter(ctx context.Context, path string, upTo int64) error {
	db, err := sql.Open("sqlite", "file:"+escapePath(path)+"?_pragma=journal_mode(DELETE)&_pragma=synchronous(FULL)")
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	_, err = db.ExecContext(ctx, "DELETE FROM job WHERE seq > ?", upTo)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, explain(err))
	}
	return nil
}
