// Package logs keeps the output of containers and serves it. [Store.Keep] moves the files of an
// ended container away, [Store.RunRetention] removes the oldest, and a [Server] sends them to
// controllers over HTTP. The shim writes the files (noded/shim).
package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/rota-hpc/rota/noded/container"
)

// Store is where the output of containers lies on this machine.
type Store struct {
	Containers string // has a directory for each container
	Dir        string // has the logs of ended containers
	Max        int64  // bytes of all of them together; 0: no bound

	kept atomic.Int64 // bytes in Dir, since they were last counted
}

// settingsFile lies beside the log of an ended container. It says which user's paths the output was
// sent to.
const settingsFile = "where.json"

// Keep moves the log of an ended container to where it is kept. It may be called again.
func (s *Store) Keep(id container.ID) error {
	dir, kept := filepath.Join(s.Containers, id.String()), filepath.Join(s.Dir, id.String())
	if set, err := container.ReadSettings(dir); err == nil && (hasUserPath(set) || set.Several()) {
		if err := keepSettings(kept, set); err != nil {
			return fmt.Errorf("record the location of the log of %s: %w", id, err)
		}
	}
	bytes := measure(container.LogDir(dir)).bytes
	if err := moveLogs(container.LogDir(dir), kept); err != nil {
		return fmt.Errorf("keep log of %s: %w", id, err)
	}
	s.kept.Add(bytes)
	return nil
}

// List returns the workers whose logs are kept.
func (s *Store) List() []container.ID {
	entries, _ := os.ReadDir(s.Dir) // the readable part counts
	var ids []container.ID
	for _, e := range entries {
		if id, ok := container.ParseID(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// hasUserPath reports whether some output goes to a path of the user's.
func hasUserPath(s container.Settings) bool {
	return slices.ContainsFunc(s.Tasks, func(t container.Task) bool { return t.Log.Stdout != "" || t.Log.Stderr != "" })
}

func keepSettings(dir string, s container.Settings) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, settingsFile), b, 0o600)
}

// moveLogs renames the directory, or its files one by one if the other directory exists already.
func moveLogs(from, to string) error {
	err := os.Rename(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
	return errors.Join(err, os.Remove(from))
}
