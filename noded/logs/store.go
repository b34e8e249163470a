// Package logs keeps the output of containers and serves it: it moves the files of an ended
// container away ([Store.Keep]), removes the oldest ([Store.RunRetention]), and sends them to
// controllers over HTTP ([Server]). The shim writes the files (noded/shim).
package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// Store is where the output of containers lies on this machine.
type Store struct {
	Containers string // has a directory for each container
	Dir        string // has the logs of ended containers
}

// settingsFile lies beside the log of an ended container. It says which user's paths the output was
// sent to.
const settingsFile = "where.json"

// Keep moves the log of an ended container to where it is kept. It may be called again.
func (s *Store) Keep(id container.ID) error {
	dir, kept := filepath.Join(s.Containers, id.String()), filepath.Join(s.Dir, id.String())
	if set, err := container.ReadSettings(dir); err == nil && (hasUserPath(set) || set.Several()) {
		if err := keepSettings(kept, set); err != nil {
			return fmt.Errorf("save where the log of %s is: %w", id, err)
		}
	}
	if err := moveLogs(container.LogDir(dir), kept); err != nil {
		return fmt.Errorf("keep log of %s: %w", id, err)
	}
	return nil
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

// Limits of the logs of ended containers.
const (
	maxAge        = 7 * 24 * time.Hour
	maxBytes      = 10 << 30
	sweepInterval = 10 * time.Minute
)

// RunRetention removes logs that are too old, or too many, until ctx ends.
func (s *Store) RunRetention(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		if err := removeOldLogs(s.Dir, time.Now(), maxAge, maxBytes); err != nil {
			log.Error("cannot remove old logs", "err", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// removeOldLogs removes directories below dir that are older than age, and then the oldest ones
// until the rest takes at most limit bytes.
func removeOldLogs(dir string, now time.Time, age time.Duration, limit int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type log struct {
		path  string
		last  time.Time
		bytes int64
	}
	var logs []log
	var total int64
	for _, e := range entries {
		l := log{path: filepath.Join(dir, e.Name())}
		_ = filepath.WalkDir(l.path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // it is being removed or written: what is readable counts
			}
			if info, err := e.Info(); err == nil {
				l.bytes += info.Size()
				if info.ModTime().After(l.last) {
					l.last = info.ModTime()
				}
			}
			return nil
		})
		total += l.bytes
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b log) int { return a.last.Compare(b.last) })
	for _, l := range logs {
		if now.Sub(l.last) > age || total > limit {
			total -= l.bytes
			err = errors.Join(err, os.RemoveAll(l.path))
		}
	}
	return err
}
