// Package recovery makes a cluster of one controller: of a survivor, after a majority of the
// controllers was lost for good, or of a backup. Both begin another generation of the cluster, see
// [generation.Generation], so that the controllers of the one before can lead no node any more.
package recovery

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
)

// SeenFile is the file of a data directory with the highest generation that nodes have accepted from
// other controllers. The next recovery goes beyond it.
const SeenFile = "generation-seen"

// Names in a data directory.
const (
	raftDir     = "raft"
	historyFile = "history.db"
)

// auditKept is how many entries of the audit log stay when one is added here.
const auditKept = 1_000_000

// Options say what to recover.
type Options struct {
	DataDir string
	Name    string // of the controller
	Raft    string // address of its log; "" keeps the one that the log has
	Above   int64  // the new generation's number is higher than this
	UID     int    // that runs the command, for the audit log
	User    string
}

// Result is what a recovery has made.
type Result struct {
	Cluster    string
	Generation generation.Generation
	Nodes      int // that are registered
	Live       int // jobs with an attempt in progress
	Waiting    int // jobs that wait
	LastJob    model.JobID
	Aside      string // where the log before is now; "": there was none
	Saved      time.Time
}

// Recover makes the controller of a data directory, which must not run, a cluster of one. The log before
// is kept beside the new one.
func Recover(ctx context.Context, o Options) (*Result, error) {
	c, err := pki.Load(pki.Dir(o.DataDir))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.DataDir, err)
	}
	if c.Member.Role != pki.Controller || c.Member.Name != o.Name {
		return nil, fmt.Errorf("%s is the data directory of %s, but --name is %s", o.DataDir, c.Member, o.Name)
	}
	if err := checkFormat(o.DataDir); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.DataDir, raftDir)
	fresh := dir + ".recovered"
	if err := os.RemoveAll(fresh); err != nil {
		return nil, err
	}
	old, err := openLog(dir)
	if err != nil {
		return nil, err
	}
	m, err := old.replay()
	if err != nil {
		return nil, errors.Join(err, old.Close())
	}
	r, err := old.recover(o, c.Member.Cluster, m, fresh)
	if err == nil {
		r.Aside = dir + ".before-" + r.Generation.String()
		err = consensus.SwapDirs(dir, fresh, r.Aside)
	}
	if err = errors.Join(err, old.Close()); err != nil {
		return nil, err
	}
	return r, audit(ctx, o, r, "recover")
}

// log is the log of a controller that does not run.
type log struct {
	*consensus.Archive
	dir string
}

func openLog(dir string) (*log, error) {
	a, err := consensus.OpenArchive(dir)
	switch {
	case errors.Is(err, consensus.ErrLocked):
		return nil, fmt.Errorf("%w: stop it first (systemctl stop rota-controld)", err)
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%s has no log of a cluster: choose the data directory of a controller that survived, or "+
			"restore a backup with rota-controld restore: %w", dir, err)
	case err != nil:
		return nil, err
	}
	return &log{a, dir}, nil
}

// replay returns the state after the last entry. The last ones may not have been committed: they are
// kept, since they may have been.
func (l *log) replay() (*fsm.Machine, error) {
	start, err := l.Latest()
	if err != nil {
		return nil, err
	}
	m := fsm.New(cluster.InitialConfig())
	if start.Snapshot() {
		err = l.Read(start, func(r io.Reader) (err error) {
			m, err = fsm.ReadSnapshot(r)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return m, l.Entries(start, func(_ uint64, proposals [][]byte) error {
		for _, p := range proposals {
			e, err := fsm.Decode(p)
			if err != nil {
				return fmt.Errorf("it cannot be read: %w", err)
			}
			var unknown *fsm.UnknownKindError
			if _, err := m.Apply(m.Index()+1, e); errors.As(err, &unknown) {
				return err
			}
		}
		return nil
	})
}

// recover writes the log of the next generation to the directory fresh.
func (l *log) recover(o Options, cluster string, m *fsm.Machine, fresh string) (*Result, error) {
	switch id := m.Present().Trust().Cluster; {
	case id == "":
		return nil, fmt.Errorf("%s: the log does not have the id of its cluster yet: there is nothing to recover", l.dir)
	case id != cluster:
		return nil, fmt.Errorf("%s: the log belongs to cluster %s, but the certificate to cluster %s", l.dir, id, cluster)
	}
	term, err := l.LastTerm()
	if err != nil {
		return nil, err
	}
	addr := o.Raft
	if addr == "" {
		addr = l.AddrOf(o.Name)
	}
	r, err := raise(o, m, generation.MeansRecover)
	if err != nil {
		return nil, err
	}
	if err := writeLog(fresh, o.Name, addr, l.LastIndex(), term, m); err != nil {
		return nil, err
	}
	note, err := os.ReadFile(filepath.Join(l.dir, "clock")) // the log's time goes on
	if err == nil {
		err = os.WriteFile(filepath.Join(fresh, "clock"), note, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

func writeLog(dir, name, addr string, index, term uint64, m *fsm.Machine) error {
	if addr == "" {
		addr = "127.0.0.1:7071" // the daemon enters its own when it leads
	}
	if err := m.Check(); err != nil {
		return fmt.Errorf("the state violates its invariants: %w", err)
	}
	return consensus.NewAlone(dir, consensus.Member{Name: name, Addr: addr}, index, term, m.View().WriteSnapshot)
}

// raise begins the next generation in a state, beyond those that nodes are known to have accepted.
func raise(o Options, m *fsm.Machine, means string) (*Result, error) {
	v := m.View()
	number := max(v.Recovery().Generation.Number, seen(o.DataDir), o.Above) + 1
	id := make([]byte, 8)
	rand.Read(id) // never fails
	g := generation.Generation{Number: number, ID: hex.EncodeToString(id)}
	wall := clock.Wall()
	e := fsm.Entry{Stamp: model.Stamp{At: v.At(), Wall: model.UnixMS(wall.UnixMilli())},
		Command: fsm.RaiseGeneration{Generation: g, Means: means, Controller: o.Name}}
	saved := time.UnixMilli(int64(v.Wall()))
	if _, err := m.Apply(m.Index()+1, e); err != nil {
		return nil, err
	}
	v = m.View()
	r := &Result{Cluster: v.Trust().Cluster, Generation: g, Nodes: len(v.Nodes()), Live: v.CountLive(),
		LastJob: v.Recovery().Before, Saved: saved}
	for j := range v.Unassigned() {
		if j.StillToStart() {
			r.Waiting++
		}
	}
	return r, nil
}

// seen is the number of the highest generation that nodes have refused this controller for.
func seen(dataDir string) int64 {
	text, err := os.ReadFile(filepath.Join(dataDir, SeenFile))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // else nothing is known
	return n
}

// NoteSeen keeps that nodes have accepted a generation with this number.
func NoteSeen(dataDir string, number int64) error {
	if number <= seen(dataDir) {
		return nil
	}
	path := filepath.Join(dataDir, SeenFile)
	if err := os.WriteFile(path+".next", []byte(strconv.FormatInt(number, 10)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}

func checkFormat(dataDir string) error {
	text, err := os.ReadFile(filepath.Join(dataDir, "format"))
	if err != nil {
		return fmt.Errorf("%s is not the data directory of a controller that has run: %w", dataDir, err)
	}
	if found := strings.TrimSpace(string(text)); found != state.DataFormat {
		return fmt.Errorf("data directory %s has format %s, but this program reads format %s: use the version that wrote "+
			"it", dataDir, found, state.DataFormat)
	}
	return nil
}

// audit enters into the controller's audit log what was done.
func audit(ctx context.Context, o Options, r *Result, what string) error {
	h, err := history.Open(filepath.Join(o.DataDir, historyFile))
	if err != nil {
		return fmt.Errorf("generation %s was made, but could not be recorded in the audit log: %w", r.Generation, err)
	}
	entry := history.AuditEntry{At: model.UnixMS(clock.Wall().UnixMilli()), UID: int64(o.UID), User: o.User,
		Origin: "local", Method: "RUN", Route: "rota-controld " + what,
		Object: "generation/" + r.Generation.String(), Status: 200, Times: 1}
	return errors.Join(h.AppendAudit(ctx, []history.AuditEntry{entry}, 0, auditKept), h.Close())
}
