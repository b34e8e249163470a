// Package history keeps finished jobs on this machine: append-only, numbered by the state machine,
// in one SQLite file. It is the only importer of the embedded database. A controller fetches what
// it missed from a peer with [Fill]. The same file has the audit log: which requests this
// controller decided on.
package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rota-hpc/rota/controld/model"
)

// Faults of a file or a record. Errors wrap them; compare with errors.Is.
var (
	ErrNotWritable = errors.New("history cannot be written")
	ErrNewer       = errors.New("history was written by a newer version of rota")
	ErrCorrupt     = errors.New("history is corrupt")
	ErrNoJob       = errors.New("no such job in the history")
	ErrNotFinal    = errors.New("job has not ended or has no number in the history")
)

// schemaVersion is the layout that this version writes and reads.
const schemaVersion = 3

// schema makes a new file. The columns beside body are what Query filters by; body is the whole job
// as JSON. A job with a number below 0 was set aside, see [Store.RollBack]; its id may have been given
// again.
const schema = `
CREATE TABLE IF NOT EXISTS job (
	seq     INTEGER PRIMARY KEY,
	id      INTEGER NOT NULL,
	user    TEXT NOT NULL,
	account TEXT NOT NULL,
	name    TEXT NOT NULL,
	state   TEXT NOT NULL,
	submitted INTEGER NOT NULL, -- wall clock, ms
	ended     INTEGER NOT NULL, -- wall clock, ms
	body    TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS job_id ON job (id);
CREATE INDEX IF NOT EXISTS job_user ON job (user, seq);
CREATE INDEX IF NOT EXISTS job_account ON job (account, seq);
CREATE INDEX IF NOT EXISTS job_ended ON job (ended);
CREATE TABLE IF NOT EXISTS gap ( -- numbers whose jobs this controller never had
	first INTEGER PRIMARY KEY,
	last  INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS note (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) STRICT;
` + auditSchema

// Store is one file. Its methods may be called from any goroutine.
type Store struct {
	path string
	db   *sql.DB

	mu     sync.Mutex   // one writer at a time
	last   atomic.Int64 // every number from 1 to this is on disk, in a gap, or pruned
	pruned atomic.Int64 // every number up to this is pruned
	kept   atomic.Int64 // wall clock, ms: jobs that ended before are pruned; 0: all are kept
	absent atomic.Int64 // numbers in gaps
	// wall clock, ms, of the end of the first job after the gaps; 0: none
	absentUntil atomic.Int64
	moved       atomic.Int64 // jobs set aside since the file was made
	bad         atomic.Int64 // answers that left a damaged row out
	check       atomic.Int32 // a CheckState

	// OnBadRow gets each unreadable row once, at most a hundred. It may be nil. Set
	// it before the first query. A row below 0 is an entry of the audit log.
	OnBadRow func(row int64, err error)
	toldMu   sync.Mutex
	told     map[int64]bool // rows that OnBadRow was told of

	added map[string]int64 // entries of the audit log since its quotas were enforced, by quota
}

// Open opens or makes the file at path. Errors wrap ErrNotWritable, ErrNewer or ErrCorrupt where
// one of them is the reason.
func Open(path string) (*Store, error) {
	// SQLite makes a file with the mode of the umask, and those beside it with the mode of that file.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err == nil { // SQLite explains the fault better
		f.Close()
	}
	// Every connection of the pool needs its pragmas, so they go into the name.
	name := "file:" + escapePath(path) + "?_txlock=immediate&_pragma=busy_timeout(10000)" +
		"&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open history %s: %w", path, err)
	}
	db.SetMaxOpenConns(4) // one writer and a few readers: more only wait for each other on small machines
	s := &Store{path: path, db: db}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open history %s: %w", path, explain(err)), db.Close())
	}
	return s, nil
}

// escapePath makes path fit for a file: URI.
func escapePath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// prepare checks the version of the file, makes its tables where it is new, and reads its notes. It
// reads no more than a few pages, however large the file is: see [Store.Check].
func (s *Store) prepare() error {
	var version int
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("%w: it has schema %d, but this daemon reads schemas up to %d", ErrNewer, version, schemaVersion)
	}
	if _, err := s.db.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	return s.change(context.Background(), func(*sql.Tx) error { return nil })
}

// change runs f in one transaction, and updates the store's notes about its file.
func (s *Store) change(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := f(tx); err != nil {
		return err
	}
	known, err := readNotes(ctx, tx)
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.absent.Store(known.absent) // before last: a reader of both must not take a gap for jobs that are here
	s.last.Store(known.last)
	s.pruned.Store(known.pruned)
	s.kept.Store(known.kept)
	s.absentUntil.Store(known.absentUntil)
	s.moved.Store(known.moved)
	return nil
}

// advice is the way out for a damaged file.
const advice = "stop the controller and move the file away, together with the files that end in -wal and -shm. The " +
	"controller then starts with an empty history, and fetches ended jobs from other controllers"

// explain adds the sentinel that fits an error of the database.
func explain(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w (%s)", ErrCorrupt, err, advice)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	return err
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Last returns the highest number up to which every job is on disk, pruned or in a gap. It is 0 if
// there is no such job.
func (s *Store) Last() int64 { return s.last.Load() }

// Absent counts the numbers in gaps: jobs that left the state before this controller stored them.
// It has not yet fetched them from another controller.
func (s *Store) Absent() int64 { return s.absent.Load() }

// AbsentUntil returns the wall clock at which the first job after the gaps ended. Some jobs that
// ended before it are missing here. It is 0 if there is no such job.
func (s *Store) AbsentUntil() model.UnixMS { return model.UnixMS(s.absentUntil.Load()) }

// SetAside counts the jobs that have lost their number because the log went back to before they ended.
func (s *Store) SetAside() int64 { return s.moved.Load() }

// BadRows counts the times that an answer had to leave out a row that could not be read.
func (s *Store) BadRows() int64 { return s.bad.Load() }

// KeptSince returns the wall clock before which jobs that ended are not kept any more, 0 if all are.
func (s *Store) KeptSince() model.UnixMS { return model.UnixMS(s.kept.Load()) }
