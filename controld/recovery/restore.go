package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/backup"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model/generation"
)

// Restoration says how to restore a backup.
type Restoration struct {
	Options
	File string
	// Reading sees the bytes of the file as they are read; nil: it does not matter.
	Reading func(io.Reader) io.Reader
	// Passphrase returns the passphrase of the keys. It is called only if the backup has keys and the
	// data directory has none.
	Passphrase func() (string, error)
}

// stagingDir is the directory, in the data directory, with the parts of a backup that is not yet known to
// be whole.
const stagingDir = "restoring"

// Restore makes a cluster of one controller from a backup. The data directory is empty, or has the
// credential of a controller of the same cluster and nothing else. The parts move to their places after
// the whole backup was read and verified. A restore that was cut off can be repeated.
func Restore(ctx context.Context, o Restoration) (*Result, error) {
	r := &restoring{Restoration: o, staging: filepath.Join(o.DataDir, stagingDir)}
	result, err := r.restore(ctx)
	if err = errors.Join(err, os.RemoveAll(r.staging)); err != nil {
		os.Remove(o.DataDir) // fails unless it is empty
		return nil, err
	}
	return result, audit(ctx, o.Options, result, "restore")
}

// restoring is a restore in progress.
type restoring struct {
	Restoration
	staging string
	own     bool   // the data directory has a credential
	text    string // passphrase
	result  *Result
}

// restore reads the backup once. A second goroutine checks the state and writes the log while this one
// writes the history: these two take most of the time.
func (r *restoring) restore(ctx context.Context) (*Result, error) {
	var (
		manifest backup.Manifest
		log      sync.WaitGroup
		logErr   error
	)
	f, err := os.Open(r.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	from := io.Reader(f)
	if r.Reading != nil {
		from = r.Reading(f)
	}
	_, sealed, err := backup.Read(from, r.File, backup.Uses{
		Manifest: func(m backup.Manifest) error {
			manifest = m
			return r.prepare(m)
		},
		State: func(from io.Reader) error {
			m, err := fsm.ReadSnapshot(from)
			if err != nil {
				return err
			}
			if id := m.Present().Trust().Cluster; id != manifest.Cluster {
				return fmt.Errorf("its state belongs to cluster %s, but the backup says cluster %s", id, manifest.Cluster)
			}
			log.Go(func() { logErr = r.writeLog(m, manifest.Index) })
			return nil
		},
		History: func(from io.Reader) error { return fill(filepath.Join(r.staging, historyFile), from) },
	})
	log.Wait()
	if err := errors.Join(err, logErr); err != nil {
		return nil, err
	}
	if err := history.CutAfter(ctx, filepath.Join(r.staging, historyFile), manifest.LastSeq); err != nil {
		return nil, err
	}
	if !r.own {
		if err := r.installKeys(sealed, manifest.Cluster); err != nil {
			return nil, err
		}
	}
	return r.result, r.finish()
}

// prepare refuses a backup that this program cannot read, and a data directory that is not fit. It asks
// for the passphrase if it will be needed.
func (r *restoring) prepare(m backup.Manifest) (err error) {
	if m.DataFormat != state.DataFormat {
		return fmt.Errorf("%s has data format %s, but this program reads %s: restore it with version %s", r.File,
			m.DataFormat, state.DataFormat, m.Version)
	}
	if r.own, err = r.hasCredential(m); err != nil {
		return err
	}
	switch {
	case r.own:
	case !m.Keys:
		return fmt.Errorf("%s does not contain the keys of the cluster: first copy the directory tls of controller %s into "+
			"%s, from a copy of its data directory, or restore a backup that was made with --with-keys", r.File, r.Name,
			r.DataDir)
	case r.Name != m.Controller:
		return fmt.Errorf("the keys belong to controller %s, which wrote the backup: use --name %s", m.Controller,
			m.Controller)
	default:
		if r.text, err = r.Passphrase(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(r.staging); err != nil {
		return err
	}
	return os.MkdirAll(r.staging, 0o700)
}

// hasCredential reports whether the data directory has the credential of the controller. It refuses a
// directory that has anything else, except for the rest of a restore that was cut off.
func (r *restoring) hasCredential(m backup.Manifest) (own bool, err error) {
	list, err := os.ReadDir(r.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	tls := pki.Dir(r.DataDir)
	for _, e := range list {
		switch e.Name() {
		case stagingDir:
		case filepath.Base(tls):
			own = true
		default:
			return false, fmt.Errorf("%s is not empty, it contains %s: a backup needs an empty directory; move this one away, "+
				"or name another with --data-dir", r.DataDir, e.Name())
		}
	}
	if !own {
		return false, nil
	}
	c, err := pki.Load(tls)
	switch {
	case err != nil:
		return false, err
	case c.Member.Cluster != m.Cluster || c.Member.Role != pki.Controller || c.Member.Name != r.Name:
		return false,
			fmt.Errorf("%s is the credential of %s of cluster %s, but the backup is of cluster %s and for controller %s",
				tls, c.Member, c.Member.Cluster, m.Cluster, r.Name)
	}
	return true, nil
}

// writeLog writes the log of the next generation, with m as its state after the entry index.
func (r *restoring) writeLog(m *fsm.Machine, index uint64) (err error) {
	if r.result, err = raise(r.Options, m, generation.MeansRestore); err != nil {
		return err
	}
	return writeLog(filepath.Join(r.staging, raftDir), r.Name, r.Raft, index, 1, m)
}

func (r *restoring) installKeys(sealed []byte, cluster string) error {
	k, err := backup.Unseal(sealed, cluster, r.text)
	if err != nil {
		return err
	}
	c, err := pki.InstallFiles(pki.Dir(r.staging), k.Files)
	if err != nil {
		return err
	}
	if c.Member.Cluster != cluster {
		return fmt.Errorf("the keys belong to cluster %s", c.Member.Cluster)
	}
	return nil
}

// finish moves the parts to their places. The log comes last: without it the daemon has nothing to start
// from.
func (r *restoring) finish() error {
	err := os.WriteFile(filepath.Join(r.staging, "format"), []byte(state.DataFormat+"\n"), 0o600)
	if err != nil {
		return err
	}
	parts := []string{historyFile, "format"}
	if !r.own {
		parts = append(parts, filepath.Base(pki.Dir(r.DataDir)))
	}
	for _, name := range parts {
		if err := os.Rename(filepath.Join(r.staging, name), filepath.Join(r.DataDir, name)); err != nil {
			return err
		}
	}
	raft := filepath.Join(r.DataDir, raftDir)
	return consensus.SwapDirs(raft, filepath.Join(r.staging, raftDir), raft+".before")
}

func fill(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}
