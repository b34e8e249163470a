package noded

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
	"sort"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// disk makes bundles and keeps logs below the data directory. It is the real Bundles.
type disk struct {
	containers string // a directory for each container
	logs       string // what is kept of ended ones
	cgroupRoot string
	node       oci.Node // what is the same for every container
	shared     []string
	dev        string // where device nodes are
	gpus       func() []cluster.GPU
	log        *slog.Logger
}

var _ Bundles = (*disk)(nil)

// Notice implements Bundles.
func (d *disk) Notice(id container.ID, n container.Notice) error {
	return container.WriteNotice(filepath.Join(d.containers, id.String()), n)
}

// whereFile says, beside the log of an ended container, where the user had output sent and as whom it is read.
const whereFile = "where.json"

// Retire implements Bundles: the log moves to where it is kept.
func (d *disk) Retire(id container.ID) error {
	dir := filepath.Join(d.containers, id.String())
	kept := filepath.Join(d.logs, id.String())
	if s, err := container.ReadSettings(dir); err == nil && (sentElsewhere(s) || len(s.Tasks) > 0) {
		if err := keepWhere(kept, s); err != nil {
			return fmt.Errorf("keep where the log of %s is: %w", id, err)
		}
	}
	if err := moveLogs(container.LogDir(dir), kept); err != nil {
		return fmt.Errorf("keep log of %s: %w", id, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, rootsDir)); err != nil {
		return fmt.Errorf("remove root of %s: %w", id, err)
	}
	return nil
}

// sweep drops what lies below the directory for containers and belongs to none: what a daemon that was killed while it removed one, or while it
// made one that failed, had no time for. What the journal has not done with is the agent's business.
func (d *disk) sweep(ctx context.Context, rt container.Runtime, j Journal) error {
	list, err := rt.List(ctx)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(d.containers)
	for _, e := range entries {
		id, ok := container.ParseID(e.Name())
		there := slices.ContainsFunc(list, func(s container.Status) bool { return s.ID == id })
		if written, known := j.Entry(id.String()); !ok || there || known && written.Final == nil {
			continue
		}
		err = errors.Join(err, d.Retire(id), rt.Remove(ctx, id))
	}
	return err
}

// sentElsewhere reports whether some output goes to a path of the user's.
func sentElsewhere(s container.Settings) bool {
	return slices.ContainsFunc(append([]container.Task{{Log: s.Log}}, s.Tasks...), func(t container.Task) bool { return t.Log.Stdout != "" || t.Log.Stderr != "" })
}

func keepWhere(dir string, s container.Settings) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, whereFile), b, 0o600)
}

// moveLogs renames the directory, or its files one by one when the other directory is there already.
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
	logsMaxAge   = 7 * 24 * time.Hour
	logsMaxBytes = 10 << 30
	logsEvery    = 10 * time.Minute
)

// keepLogs removes logs that are too old or too many, until ctx ends.
func (d *disk) keepLogs(ctx context.Context) error {
	tick := time.NewTicker(logsEvery)
	defer tick.Stop()
	for {
		if err := sweepLogs(d.logs, time.Now(), logsMaxAge, logsMaxBytes); err != nil {
			d.log.Error("cannot remove old logs", "err", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// sweepLogs removes directories below dir that are older than age, and then the oldest until the rest takes at most limit bytes.
func sweepLogs(dir string, now time.Time, age time.Duration, limit int64) error {
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
				return nil // it is being removed or written: what can be seen counts
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
	sort.Slice(logs, func(a, b int) bool { return logs[a].last.Before(logs[b].last) })
	for _, l := range logs {
		if now.Sub(l.last) > age || total > limit {
			total -= l.bytes
			err = errors.Join(err, os.RemoveAll(l.path))
		}
	}
	return err
}
