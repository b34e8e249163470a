package consensus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/rota-hpc/rota/consensus/durable"
	"github.com/rota-hpc/rota/consensus/mark"
)

// promises are facts that this member must not forget, because other members rely on them. A copy
// is kept in a file outside of the member's directory. Restoring a backup of the directory does not
// restore this file, so the difference becomes visible.
type promises struct {
	log string // id of the log
	// recorded says that the copy belongs to this log, and that the log includes all of it: nothing
	// was forgotten. It is set at the start.
	recorded bool

	mu        sync.Mutex
	made      mark.Mark
	committed uint64   // a committed entry; later entries may be committed too
	record    *os.File // nil: no copy is kept
}

// The library's and our keys in the log file.
var (
	termKey = []byte("CurrentTerm")
	voteKey = []byte("LastVoteTerm")
	// cutKey stores the end of the log before the newest leader replaced its last entries. Those
	// entries were uncommitted, so a member that dropped them has forgotten nothing.
	cutKey = []byte("RotaCut")
)

// readPromises collects the promises that the log and the snapshots in dir prove.
func readPromises(dir string, log *raftboltdb.BoltStore) (*promises, error) {
	p := &promises{}
	var err error
	read := func(key []byte) uint64 {
		v, e := log.GetUint64(key)
		if !errors.Is(e, raftboltdb.ErrKeyNotFound) {
			err = errors.Join(err, e)
		}
		return v
	}
	p.made.Term, p.made.Vote = read(termKey), read(voteKey)
	cut, e := log.Get(cutKey)
	if e == nil && len(cut) == 16 {
		p.entry(binary.BigEndian.Uint64(cut), binary.BigEndian.Uint64(cut[8:]))
	} else if !errors.Is(e, raftboltdb.ErrKeyNotFound) {
		err = errors.Join(err, e)
	}
	last, e := log.LastIndex()
	if err = errors.Join(err, e); last > 0 && err == nil {
		var l raft.Log
		err = log.GetLog(last, &l)
		p.entry(l.Term, l.Index)
	}
	if metas, e := readMetas(filepath.Join(dir, snapshotsDir)); e == nil { // the library checks damaged snapshots
		for _, m := range metas {
			p.entry(m.Term, m.Index)
			p.committed = max(p.committed, m.Index)
		}
	}
	return p, err
}

// now returns how far this member has come.
func (p *promises) now() mark.Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// entry records that the log has stored this entry.
func (p *promises) entry(term, index uint64) { p.raise(mark.Mark{LastTerm: term, Last: index}) }

// raise records what is on disk now. It returns before any answer that relies on it is sent.
func (p *promises) raise(m mark.Mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made := p.made.Raised(m); made != p.made {
		p.made = made
		p.save()
	}
}

// commit records that an entry is known to be committed. The file is written with the next promise.
func (p *promises) commit(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = max(p.committed, index)
}

// lastCommit returns the last entry known to be committed.
func (p *promises) lastCommit() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.committed
}

// cutValue returns the value of cutKey to store before entries are replaced.
func (p *promises) cutValue() []byte {
	m := p.now()
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, m.LastTerm), m.Last)
}

// openRecord opens the copy of the promises and compares it with the log. It returns what the log
// has forgotten, or nil.
func (p *promises) openRecord(path string) (forgotten *mark.Mark, err error) {
	p.record, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record of what this member has acknowledged: %w", err)
	}
	kept, committed, ok := p.load()
	if ok && !p.made.Covers(kept) {
		return &kept, nil
	}
	p.recorded = ok
	p.mu.Lock()
	defer p.mu.Unlock()
	if ok {
		p.committed = max(p.committed, committed)
	}
	p.save()
	return nil, nil
}

// load reads the record if it belongs to this log.
func (p *promises) load() (m mark.Mark, committed uint64, ok bool) {
	b := make([]byte, mark.RecordSize)
	if _, err := p.record.ReadAt(b, 0); err != nil {
		return mark.Mark{}, 0, false
	}
	return mark.Read(b, p.log)
}

// save writes the record, and removes the file if it cannot write, because an outdated record is no
// proof. The caller holds mu.
func (p *promises) save() {
	if p.record == nil {
		return
	}
	if _, err := p.record.WriteAt(p.made.Record(p.log, p.committed), 0); err != nil {
		os.Remove(p.record.Name())
		p.record.Close()
		p.record = nil
	}
}

// close saves the promises and closes the record.
func (p *promises) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.save()
	if p.record == nil {
		return nil
	}
	return p.record.Close()
}

// This file marks a directory whose log must not be used any more, and says why.
const refusedFile = "refused"

// refusal is the content of that file.
type refusal struct {
	Kind string `json:"kind"` // "rolled-back" or "diverged"
	Text string `json:"text"`
}

// refusalKinds maps the kinds to their errors.
var refusalKinds = map[string]error{"rolled-back": ErrRolledBack, "diverged": ErrDiverged}

// checkRefused returns the error for which the log in dir was given up, or nil.
func checkRefused(dir string) error {
	path := filepath.Join(dir, refusedFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var r refusal
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if kind := refusalKinds[r.Kind]; err == nil && kind != nil {
		return &LogError{Dir: dir, Kind: kind, Text: r.Text}
	}
	return corrupt(path, fmt.Errorf("it has no reason for refusing the log: %q %w", b, err))
}

// markRefused makes later starts of the member fail with e too.
func markRefused(e *LogError) error {
	for kind, err := range refusalKinds {
		if errors.Is(e.Kind, err) {
			text, err := json.Marshal(refusal{Kind: kind, Text: e.Text})
			if err != nil {
				return err
			}
			return durable.Write(filepath.Join(e.Dir, refusedFile), append(text, '\n'))
		}
	}
	return fmt.Errorf("unknown kind of refusal: %w", e.Kind)
}
