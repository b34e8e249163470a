package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

const (
	maxAge        = 7 * 24 * time.Hour // of the log of an ended container
	sweepInterval = 10 * time.Minute
	checkInterval = 10 * time.Second // between two looks at how much the logs take
	namedMax      = 20               // containers that one message names
)

// RunRetention removes logs that are too old, or too many, until ctx ends.
func (s *Store) RunRetention(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	var swept time.Time
	crowded := false // it was said that running containers take more than the bound
	for {
		if now := time.Now(); now.Sub(swept) >= sweepInterval || s.tooMuch() {
			swept = now
			left, err := s.sweep(now, log)
			if err != nil {
				log.Error("cannot remove old logs", "err", err)
			}
			over := s.Max > 0 && left > s.Max
			if over && !crowded {
				log.Warn("the logs of running containers take more than --max-logs, and there are no older logs to remove",
					"bytes", left, "max", s.Max)
			}
			crowded = over
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// tooMuch reports whether the logs exceed their bound, without measuring those of ended containers
// again.
func (s *Store) tooMuch() bool {
	if s.Max <= 0 {
		return false
	}
	total := s.kept.Load()
	for _, l := range logsOf(s.Containers, container.LogDir) {
		total += l.bytes
	}
	return total > s.Max
}

// storedLog is the files of one container's log.
type storedLog struct {
	id   container.ID
	path string
	size
}

// size is the disk use of a directory.
type size struct {
	bytes int64
	last  time.Time // of the last change
}

// measure returns the disk use of a directory. A file that is being written or removed counts as it
// is found.
func measure(dir string) size {
	var out size
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil {
			out.bytes += info.Size()
			if info.ModTime().After(out.last) {
				out.last = info.ModTime()
			}
		}
		return nil
	})
	return out
}

// logsOf lists the logs of the containers in dir, oldest first; at says where a container's
// directory has its log. Other names are no containers, and are left alone.
func logsOf(dir string, at func(string) string) []storedLog {
	entries, _ := os.ReadDir(dir) // the readable part counts
	var list []storedLog
	for _, e := range entries {
		if id, ok := container.ParseID(e.Name()); ok && e.IsDir() {
			path := at(filepath.Join(dir, e.Name()))
			list = append(list, storedLog{id, path, measure(path)})
		}
	}
	slices.SortFunc(list, func(a, b storedLog) int { return a.last.Compare(b.last) })
	return list
}

// sweep removes the logs of ended containers that are older than maxAge. While all logs together
// take more than they may, it removes the oldest of ended containers, and then rotated files of
// running ones. It returns how many bytes are left.
func (s *Store) sweep(now time.Time, log *slog.Logger) (int64, error) {
	if _, err := os.ReadDir(s.Dir); err != nil {
		return 0, err
	}
	before := s.kept.Load()
	ended := logsOf(s.Dir, func(dir string) string { return dir })
	running := logsOf(s.Containers, container.LogDir)
	var kept, total int64
	for _, l := range ended {
		kept += l.bytes
	}
	total = kept
	for _, l := range running {
		total += l.bytes
	}
	goal := total // to which the oldest logs are removed
	if s.Max > 0 && total > s.Max {
		goal = s.Max - s.Max/10 // so that the next log is no reason to count all of them again
	}
	removed := map[reason][]storedLog{}
	var errs []error
	for _, l := range ended {
		why := reasonMax
		switch {
		case now.Sub(l.last) > maxAge:
			why = reasonAge
		case total <= goal:
			continue
		}
		if err := os.RemoveAll(l.path); err != nil {
			errs = append(errs, err)
			continue
		}
		total, kept = total-l.bytes, kept-l.bytes
		removed[why] = append(removed[why], l)
	}
	s.kept.Add(kept - before) // bytes written meanwhile stay counted, or count twice until the next time
	errs = append(errs, s.noteRemovals(now, removed))
	for _, why := range []reason{reasonAge, reasonMax} {
		logRemoval(log, "removed the oldest logs of ended containers", s.because(why), removed[why])
	}
	if s.Max > 0 && total > s.Max {
		var cut []storedLog
		cut, total = removeRotated(running, total, s.Max)
		logRemoval(log, "removed older output of running containers", s.because(reasonMax), cut)
	}
	return total, errors.Join(errs...)
}

// removeRotated removes the rotated files of running containers, oldest first, until all logs take
// at most limit bytes. It returns the removed logs, and the disk use of all remaining ones.
func removeRotated(running []storedLog, total, limit int64) ([]storedLog, int64) {
	var files []storedLog
	for _, l := range running {
		_ = filepath.WalkDir(l.path, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) == "" { // only rotated files have a number
				return nil
			}
			if info, err := e.Info(); err == nil {
				files = append(files, storedLog{l.id, path, size{info.Size(), info.ModTime()}})
			}
			return nil
		})
	}
	slices.SortFunc(files, func(a, b storedLog) int { return a.last.Compare(b.last) })
	var cut []storedLog
	for _, f := range files {
		if total <= limit {
			break
		}
		if os.Remove(f.path) == nil { // it may just have been renamed: the next time finds it
			total -= f.bytes
			cut = append(cut, f)
		}
	}
	return cut, total
}

// logRemoval says which logs were removed.
func logRemoval(log *slog.Logger, what, why string, list []storedLog) {
	if len(list) == 0 {
		return
	}
	var bytes int64
	var names []string
	for _, l := range list {
		bytes += l.bytes
		if name := l.id.String(); !slices.Contains(names, name) && len(names) < namedMax {
			names = append(names, name)
		}
	}
	if more := len(list) - len(names); more > 0 && len(names) == namedMax {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	log.Info(what, "why", why, "number", len(list), "bytes", bytes, "allocs", strings.Join(names, " "))
}
