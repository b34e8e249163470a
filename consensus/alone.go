package consensus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/durable"
)

// NewAlone makes dir, which must be missing or empty, the directory of a one-member cluster. Its
// log starts with a snapshot that the function write writes, after the entry at index after of
// term. New entries get higher numbers than any entry of the old cluster that the member has.
func NewAlone(dir string, self Member, after, term uint64, write func(io.Writer) error) (err error) {
	if list, err := os.ReadDir(dir); err == nil && len(list) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	d, err := openDirectory(dir, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	store, err := openSnapshots(dir, d.promises, hclog.NewNullLogger())
	if err != nil {
		return err
	}
	self.Log = d.promises.log
	_, peers := raft.NewInmemTransport(raft.ServerAddress(self.Addr)) // writes addresses in the form of old versions
	alone := raft.Configuration{Servers: []raft.Server{{ID: self.serverID(),
		Address: raft.ServerAddress(self.Addr)}}}
	sink, err := store.Create(raft.SnapshotVersionMax, after+1, term+1, alone, after+1, peers)
	if err != nil {
		return fmt.Errorf("make the snapshot: %w", err)
	}
	s := &snapshot{write: write, recordSize: func(int64) {}, applied: after + 1}
	if err := s.Persist(sink); err != nil {
		return err
	}
	// the term of the log: the library compares it with the snapshot's term
	return d.log.SetUint64(termKey, term+1)
}

// LastTerm returns the highest term known to the archive: of its last entry, its newest snapshot,
// or its last vote.
func (a *Archive) LastTerm() (uint64, error) {
	var term uint64
	if a.last > 0 {
		l, err := a.entry(a.last)
		if err != nil {
			return 0, err
		}
		term = l.Term
	}
	if n := len(a.snapshots); n > 0 {
		term = max(term, a.snapshots[n-1].Term)
	}
	var voted uint64
	err := a.sound("its term", func() (err error) {
		voted, err = a.log.GetUint64(termKey)
		return err
	})
	if err != nil && a.last > 0 {
		return 0, err
	}
	return max(term, voted), nil
}

// Latest returns the newest state after which no entry is missing.
func (a *Archive) Latest() (Start, error) {
	n := len(a.snapshots)
	if n == 0 || a.first > 0 && a.snapshots[n-1].Index+1 < a.first {
		return a.Earliest()
	}
	m := a.snapshots[n-1]
	return Start{Index: m.Index, id: m.ID}, nil
}

// LastIndex returns the index of the last entry known to the archive.
func (a *Archive) LastIndex() uint64 {
	last := a.last
	if n := len(a.snapshots); n > 0 {
		last = max(last, a.snapshots[n-1].Index)
	}
	return last
}

// AddrOf returns the address of a member in the newest snapshot's member list, or "".
func (a *Archive) AddrOf(name string) string {
	for i := len(a.snapshots) - 1; i >= 0; i-- {
		for _, s := range a.snapshots[i].Configuration.Servers {
			if m := memberOf(s.ID, s.Address); m.Name == name {
				return m.Addr
			}
		}
	}
	return ""
}

// SwapDirs durably moves dir to aside, and fresh to dir. If a crash between the two steps leaves
// dir missing, another call with the same names completes the swap.
func SwapDirs(dir, fresh, aside string) error {
	if _, err := os.Stat(dir); err == nil {
		if err := os.Rename(dir, aside); err != nil {
			return err
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}
