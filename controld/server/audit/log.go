// Package audit has the audit log of one controller, until its entries are stored in the history.
//
// The controller that decides on a request enters it into its own log. Changes are decided by the
// leader, refusals by any controller. Entries are stored once a second, so that no request waits for
// another fsync.
package audit

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
)

// every is how often entries are stored. A controller that crashes loses those since.
const every = time.Second

// maxPending is how many entries wait at most while the disk does not take them.
const maxPending = 100_000

// maxApart is how many entries of its own a caller gets in a second. Further requests share an entry
// for each kind, so that one caller cannot push the entries of others out.
const maxApart = 100

// Log has the entries that are not stored yet.
type Log struct {
	History *history.Store // takes the entries
	For     time.Duration  // entries are kept for so long
	Most    int64          // so many entries are kept at most
	Logger  *slog.Logger

	mu      sync.Mutex
	pending []history.AuditEntry
	shared  map[requestKind]int // where the entry that requests of a kind share is in pending
	apart   map[int64]int       // entries by UID
	lost    int                 // entries that found no room
}

// requestKind is what requests that share an entry have in common.
type requestKind struct {
	uid           int64
	method, route string
	status        int
	code          string
}

// Add adds an entry. Of one second, refusals of one kind share an entry, and so do the requests of a
// caller beyond maxApart. Callers choose jobs, objects and where they come from, so these keep no
// requests apart.
func (l *Log) Add(e *history.AuditEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := requestKind{e.UID, e.Method, e.Route, e.Status, e.Code}
	shares := e.Status >= http.StatusBadRequest || l.apart[e.UID] >= maxApart
	if at, again := l.shared[kind]; shares && again {
		l.pending[at].Merge(e)
		return
	}
	if len(l.pending) >= maxPending {
		l.lost++
		return
	}
	if l.shared == nil {
		l.shared, l.apart = map[requestKind]int{}, map[int64]int{}
	}
	if shares {
		l.shared[kind] = len(l.pending)
	}
	l.apart[e.UID]++
	l.pending = append(l.pending, *e)
}

// Take returns the entries that are not stored yet, and how many found no room.
func (l *Log) Take() (entries []history.AuditEntry, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, lost = l.pending, l.lost
	l.pending, l.shared, l.apart, l.lost = nil, nil, nil, 0
	return entries, lost
}

// putBack puts entries that could not be stored before those that have come since.
func (l *Log) putBack(entries []history.AuditEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.shared = append(entries, l.pending...), nil
}

// Run stores the entries once a second until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.Store(ctx); err != nil && ctx.Err() == nil {
			l.Logger.Error("cannot store entries of the audit log yet", "error", err)
		}
	}
}

// Store stores the entries that are not stored yet.
func (l *Log) Store(ctx context.Context) error {
	entries, lost := l.Take()
	if lost > 0 {
		l.Logger.Error("requests are missing from the audit log: the disk was too slow", "requests", lost)
	}
	if len(entries) == 0 {
		return nil
	}
	before := replica.WallNow() - model.UnixMS(l.For.Milliseconds())
	err := l.History.AppendAudit(ctx, entries, before, l.Most)
	if err != nil {
		l.putBack(entries)
	}
	return err
}
