package history

import (
	"context"
	"fmt"
	"time"
)

// CheckState is the result of the last check of the whole file.
type CheckState int32

// States of a check.
const (
	Unchecked CheckState = iota // not since this program started
	Sound
	Damaged
)

// CheckState returns the result of the last check of this store.
func (s *Store) CheckState() CheckState { return CheckState(s.check.Load()) }

// Check reads the whole file and returns an error that wraps ErrCorrupt if it is damaged. That takes
// minutes if the file is large, so it is not part of Open. A file that was found sound within recent
// is not read again. Jobs can be stored and queried meanwhile.
func (s *Store) Check(ctx context.Context, recent time.Duration) error {
	var checked int64
	err := s.db.QueryRowContext(ctx, "SELECT coalesce((SELECT value FROM note WHERE name = ?), 0)", noteChecked).
		Scan(&checked)
	if since := time.Since(time.UnixMilli(checked)); err == nil && since >= 0 && since < recent {
		s.check.Store(int32(Sound))
		return nil
	}
	var verdict string
	if err == nil {
		err = s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict)
	}
	if err == nil && verdict != "ok" {
		err = fmt.Errorf("%w: %s (%s)", ErrCorrupt, verdict, advice)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.check.Store(int32(Damaged))
		}
		return fmt.Errorf("check history %s: %w", s.path, explain(err))
	}
	s.check.Store(int32(Sound))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.db.ExecContext(ctx, "INSERT INTO note VALUES (?,?) ON CONFLICT (name) DO UPDATE SET value = "+
		"excluded.value", noteChecked, time.Now().UnixMilli()); err != nil {
		return fmt.Errorf("record the check of history %s: %w", s.path, explain(err))
	}
	return nil
}
