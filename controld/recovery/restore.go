package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/backup"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
)

// Restoration says how to restore a backup.
type Restoration struct {
	Options
	File string
	// Passphrase returns that of the keys. It is asked only if the backup has keys and the data
	// directory has none.
	Passphrase func() (string, error)
}

// Restore makes a cluster of one of a backup, in a data directory that is empty or has the credential of
// a controller of the same cluster and nothing else. The backup is read as a whole before anything is
// written.
func Restore(ctx context.Context, o Restoration) (*Result, error) {
	var m *fsm.Machine
	manifest, sealed, err := backup.Read(o.File, func(r io.Reader) (err error) {
		m, err = fsm.ReadSnapshot(r)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	if manifest.DataFormat != state.DataFormat {
		return nil, fmt.Errorf("%s has data format %s, and this program reads %s: restore it with version %s", o.File,
			manifest.DataFormat, state.DataFormat, manifest.Version)
	}
	if id := m.Present().Trust().Cluster; id != manifest.Cluster {
		return nil, fmt.Errorf("%s: %w: its state is of cluster %s, and it says %s", o.File, backup.ErrNotABackup, id,
			manifest.Cluster)
	}
	keys, err := o.keys(manifest, sealed)
	if err != nil {
		return nil, err
	}
	r, err := raise(o.Options, m, model.MeansRestore)
	if err != nil {
		return nil, err
	}
	if err := o.write(ctx, manifest, m, keys); err != nil {
		return nil, err
	}
	return r, audit(ctx, o.Options, r, "restore")
}

// keys returns the credential to be written, nil if the data directory has one. It refuses a
// directory that has anything else.
func (o *Restoration) keys(m backup.Manifest, sealed []byte) (map[string][]byte, error) {
	list, err := os.ReadDir(o.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	own := false
	for _, e := range list {
		if e.Name() != filepath.Base(pki.Dir(o.DataDir)) {
			return nil, fmt.Errorf("%s is not empty, it has %s: a backup is restored into an empty directory; move it away, or "+
				"name another with --data-dir", o.DataDir, e.Name())
		}
		own = true
	}
	if own {
		c, err := pki.Load(pki.Dir(o.DataDir))
		switch {
		case err != nil:
			return nil, err
		case c.Member.Cluster != m.Cluster || c.Member.Role != pki.Controller || c.Member.Name != o.Name:
			return nil, fmt.Errorf("%s is the credential of %s of cluster %s, and the backup is of cluster %s for controller %s",
				pki.Dir(o.DataDir), c.Member, c.Member.Cluster, m.Cluster, o.Name)
		}
		return nil, nil
	}
	if sealed == nil {
		return nil, fmt.Errorf("%s has no keys of the cluster: put the directory tls of controller %s into %s first, from a "+
			"copy of its data directory, or restore a backup that was made with --with-keys", o.File, o.Name, o.DataDir)
	}
	if o.Name != m.Controller {
		return nil, fmt.Errorf("the keys are those of controller %s, which wrote the backup: use --name %s", m.Controller,
			m.Controller)
	}
	text, err := o.Passphrase()
	if err != nil {
		return nil, err
	}
	k, err := backup.Unseal(sealed, m.Cluster, text)
	return k.Files, err
}

// write writes the data directory. The log comes last: without it the daemon has nothing to start from.
func (o *Restoration) write(ctx context.Context, m backup.Manifest, machine *fsm.Machine,
	keys map[string][]byte,
) error {
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return err
	}
	records := filepath.Join(o.DataDir, "history.db")
	if _, _, err := backup.Read(o.File, nil, func(r io.Reader) error { return fill(records, r) }); err != nil {
		return errors.Join(err, os.Remove(records))
	}
	if err := history.CutAfter(ctx, records, m.LastSeq); err != nil {
		return err
	}
	if keys != nil {
		c, err := pki.InstallFiles(pki.Dir(o.DataDir), keys)
		if err != nil {
			return err
		}
		if c.Member.Cluster != m.Cluster {
			return fmt.Errorf("the keys are of cluster %s", c.Member.Cluster)
		}
	}
	if err := os.WriteFile(filepath.Join(o.DataDir, "format"), []byte(state.DataFormat+"\n"), 0o600); err != nil {
		return err
	}
	return writeLog(filepath.Join(o.DataDir, "raft"), o.Name, o.Raft, m.Index, 1, machine)
}

func fill(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}
