// Package history keeps finished jobs on this machine: append-only, numbered by the state machine,
// in one SQLite file. It is the only importer of the embedded database. A controller fetches what
// it missed from a peer with [Fill]. The same file has the audit log: which requests this
// controller decided on.
package history

import (
	"context"
	"database/sql"
	"encoding/json"
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

// What can be wrong with a file or a record. Errors wrap these; compare with errors.Is.
var (
	ErrNotWritable = errors.New("history cannot be written")
	ErrNewer       = errors.New("history was written by a newer version of rota")
	ErrCorrupt     = errors.New("history is corrupt")
	ErrNoJob       = errors.New("no such job in the history")
	ErrNotFinal    = errors.New("job has not ended or has no number in the history")
)

// schemaVersion is the layout that this version writes and reads.
const schemaVersion = 2

// schema makes a new file. The columns beside body are what Query filters by; body is the whole job
// as JSON.
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
CREATE UNIQUE INDEX IF NOT EXISTS job_id ON job (id);
CREATE INDEX IF NOT EXISTS job_user ON job (user, seq);
CREATE INDEX IF NOT EXISTS job_account ON job (account, seq);
CREATE INDEX IF NOT EXISTS job_ended ON job (ended);
` + auditSchema

// Store is one file. Its methods may be called from any goroutine.
type Store struct {
	path string
	db   *sql.DB

	mu   sync.Mutex   // one writer at a time
	last atomic.Int64 // every record with 1 <= Seq <= last is on disk

	added map[string]int64 // entries of the audit log since its quotas were enforced, by quota
}

// Open opens or makes the file at path. Errors wrap ErrNotWritable, ErrNewer or ErrCorrupt where
// one of them is the reason.
func Open(path string) (*Store, error) {
	// SQLite makes a file with the mode of the umask, and those beside it with the mode of that file.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err == nil { // SQLite says better what is wrong
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

// prepare checks the file, makes its tables where it is new, and finds the last number.
func (s *Store) prepare() error {
	var version int
	if err := s.db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("%w: it has schema %d and this daemon knows up to %d", ErrNewer, version, schemaVersion)
	}
	var verdict string
	if err := s.db.QueryRow("PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", ErrCorrupt, verdict)
	}
	if _, err := s.db.Exec(schema + fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	return s.findLast()
}

// findLast sets last to the end of the unbroken run from 1.
func (s *Store) findLast() error {
	const query = `SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM job WHERE seq = 1) THEN 0
		ELSE (SELECT min(seq) FROM job AS a WHERE seq >= ? AND NOT EXISTS (SELECT 1 FROM job WHERE seq = a.seq + 1)) END`
	var last int64
	if err := s.db.QueryRow(query, max(s.last.Load(), 1)).Scan(&last); err != nil {
		return err
	}
	s.last.Store(last)
	return nil
}

// explain adds the sentinel that fits an error of the database.
func explain(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w (move the file away: the controller fetches what its peers have)", ErrCorrupt, err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	return err
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Append makes finished jobs durable, all or none. A job whose Seq is there already is left as it
// is.
func (s *Store) Append(ctx context.Context, jobs []*model.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.insert(ctx, jobs); err != nil {
		return fmt.Errorf("append to history %s: %w", s.path, explain(err))
	}
	if err := s.findLast(); err != nil {
		return fmt.Errorf("append to history %s: %w", s.path, explain(err))
	}
	return nil
}

// insert is one transaction.
func (s *Store) insert(ctx context.Context, jobs []*model.Job) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	insert, err := tx.PrepareContext(ctx, "INSERT INTO job VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (seq) DO NOTHING")
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, j := range jobs {
		if err := insertJob(ctx, insert, j); err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
	}
	return tx.Commit()
}

// insertJob adds one job.
func insertJob(ctx context.Context, insert *sql.Stmt, j *model.Job) error {
	if j.Seq < 1 || !j.State.Final() {
		return ErrNotFinal
	}
	body, err := json.Marshal(j.Standalone())
	if err != nil {
		return err
	}
	name := ""
	if j.Spec != nil {
		name = j.Spec.Name
	}
	_, err = insert.ExecContext(ctx, j.Seq, int64(j.ID), j.Owner.User, j.Account, name, string(j.State),
		int64(j.Submitted.Wall), int64(j.Ended.Wall), string(body))
	return err
}

// Last returns the highest number up to which every record is on disk, 0 if there is none.
func (s *Store) Last() int64 { return s.last.Load() }
