// Package datadir replays the log in the data directory of a controller that does not run.
package datadir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/replay"
)

// ErrOtherCluster refuses a log that is not of the cluster that was asked for.
var ErrOtherCluster = errors.New("a log of another cluster")

// Options say how to replay.
type Options struct {
	Cluster string // id; "": whichever it is
	Cache   bool   // keep one cycle cache for all plans
	Stopped func() bool
	// Reached is called with every entry of the log before it is replayed, and with the last one. nil: it does
	// not matter.
	Reached func(index, last uint64)
}

// errStopped ends a replay that the user has interrupted.
var errStopped = errors.New("interrupted")

// Replay replays the log in dir, a controller's data directory or the directory raft in one, from
// the earliest state that is there.
func Replay(dir string, o Options) (*replay.Report, error) {
	raft, err := logDir(dir)
	if err != nil {
		return nil, err
	}
	a, err := consensus.OpenArchive(raft)
	if errors.Is(err, consensus.ErrLocked) {
		return nil, fmt.Errorf("%w: stop it first, or copy the directory while it is stopped", err)
	}
	if err != nil {
		return nil, err
	}
	report, err := replayArchive(a, o)
	return report, errors.Join(err, a.Close())
}

// logDir finds the log, and refuses one of another format.
func logDir(dir string) (string, error) {
	raft := filepath.Join(dir, "raft")
	if _, err := os.Stat(raft); errors.Is(err, os.ErrNotExist) {
		raft = dir
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(raft), "format"))
	found := strings.TrimSpace(string(text))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return raft, nil // what was copied may be the log alone
	case err != nil:
		return "", fmt.Errorf("data directory: %w", err)
	case found != state.DataFormat:
		return "", fmt.Errorf("data directory %s has format %s, but this program reads format %s: use the version of the "+
			"controller that wrote it", dir, found, state.DataFormat)
	}
	return raft, nil
}

func replayArchive(a *consensus.Archive, o Options) (*replay.Report, error) {
	start, err := a.Earliest()
	if err != nil {
		return nil, err
	}
	m := fsm.New(cluster.InitialConfig())
	if start.Snapshot() {
		if m, err = readSnapshot(a, start); err != nil {
			return nil, err
		}
	}
	later := a.Later(start)
	if err := checkCluster(a, m, later, o.Cluster); err != nil {
		return nil, err
	}
	r := replay.New(m, o.Cache)
	w := &walk{Replay: r, archive: a, later: later, options: o}
	if err := a.Entries(start, w.entry); err != nil {
		return nil, err
	}
	if err := w.compareUntil(w.reached); err != nil {
		return nil, err
	}
	r.Schema, r.Cluster = replay.Schema, r.Machine().Present().Trust().Cluster
	if r.Cluster == "" {
		return nil, errors.New("the log has no entry with the id of its cluster: the cluster was never started, or this is " +
			"not the log of a controller")
	}
	return &r.Report, nil
}

func readSnapshot(a *consensus.Archive, s consensus.Start) (m *fsm.Machine, err error) {
	err = a.Read(s, func(r io.Reader) error {
		m, err = fsm.ReadSnapshot(r)
		return err
	})
	return m, err
}

// checkCluster compares the ids that snapshots have. That of the log's own first entry is compared
// when it is carried out.
func checkCluster(a *consensus.Archive, m *fsm.Machine, later []consensus.Start, want string) error {
	if id := m.Present().Trust().Cluster; id != "" && want != "" && id != want {
		return otherCluster(id, want)
	}
	if len(later) == 0 {
		return nil
	}
	last, err := readSnapshot(a, later[len(later)-1])
	if err != nil {
		return err
	}
	id, first := last.Present().Trust().Cluster, m.Present().Trust().Cluster
	switch {
	case want != "" && id != want:
		return otherCluster(id, want)
	case first != "" && id != first:
		return fmt.Errorf("%w: its first snapshot is from cluster %s, its last one from cluster %s", ErrOtherCluster, first,
			id)
	}
	return nil
}

func otherCluster(id, want string) error {
	return fmt.Errorf("%w: it belongs to cluster %s, but --cluster asks for %s", ErrOtherCluster, id, want)
}

// walk goes through the entries of an archive.
type walk struct {
	*replay.Replay
	archive *consensus.Archive
	later   []consensus.Start // snapshots that the log has not reached yet
	options Options
	reached uint64
}

// entry carries out the proposals of one entry, after snapshots that were taken before it have been
// compared with the state.
func (w *walk) entry(index uint64, proposals [][]byte) error {
	if w.options.Stopped != nil && w.options.Stopped() {
		return errStopped
	}
	if w.options.Reached != nil {
		_, last := w.archive.Bounds()
		w.options.Reached(index, last)
	}
	if err := w.compareUntil(index - 1); err != nil {
		return err
	}
	for _, p := range proposals {
		if err := w.Apply(index, p); err != nil {
			return err
		}
	}
	w.reached = index
	if id := w.Machine().Present().Trust().Cluster; w.options.Cluster != "" && id != "" && id != w.options.Cluster {
		return otherCluster(id, w.options.Cluster)
	}
	return nil
}

// compareUntil compares each snapshot up to an entry with the state that the log has made.
func (w *walk) compareUntil(entry uint64) error {
	for len(w.later) > 0 && w.later[0].Index <= entry {
		s := w.later[0]
		w.later = w.later[1:]
		stored, made := sha256.New(), sha256.New()
		if err := w.archive.Read(s, func(r io.Reader) error { return copyTo(stored, r) }); err != nil {
			return err
		}
		if err := w.Machine().View().WriteSnapshot(made); err != nil {
			return err
		}
		w.Snapshots++
		if w.State == "" && !bytes.Equal(stored.Sum(nil), made.Sum(nil)) {
			if err := w.sameCluster(s); err != nil {
				return err
			}
			w.State = fmt.Sprintf("the snapshot at entry %d differs from the state that the log yields there, at index %d",
				s.Index,
				w.Machine().Index())
		}
	}
	return nil
}

func copyTo(sum hash.Hash, r io.Reader) error {
	_, err := io.Copy(sum, r)
	return err
}

// sameCluster refuses a snapshot of another cluster than the log.
func (w *walk) sameCluster(s consensus.Start) error {
	m, err := readSnapshot(w.archive, s)
	if err != nil {
		return err
	}
	if of, log := m.Present().Trust().Cluster, w.Machine().Present().Trust().Cluster; of != log {
		return fmt.Errorf("%w: the snapshot at entry %d is from cluster %s, the log from cluster %s", ErrOtherCluster,
			s.Index, of, log)
	}
	return nil
}
