package logs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
)

// Removals are noted in a file, so that a reader is told. When it has grown, it is renamed and the
// older one goes.
const (
	removalsFile = "removed.jsonl"
	removalsMax  = 4 << 20 // bytes
)

// reason says why a log was removed.
type reason string

const (
	reasonAge reason = "age"
	reasonMax reason = "max-logs"
)

// removal is one line of the file.
type removal struct {
	ID     string `json:"id"`
	At     int64  `json:"at_ms"`
	Reason reason `json:"reason"`
}

// because says in words why logs are removed.
func (s *Store) because(why reason) string {
	if why == reasonAge {
		return fmt.Sprintf("a node keeps the logs of ended jobs for %d days", int(maxAge/(24*time.Hour)))
	}
	return fmt.Sprintf("the logs on this node took more than %v (--max-logs), so the oldest were removed",
		jobspec.Bytes(s.Max))
}

// noteRemovals writes down which logs were removed.
func (s *Store) noteRemovals(now time.Time, removed map[reason][]storedLog) error {
	var lines bytes.Buffer
	for why, list := range removed {
		for _, l := range list {
			b, err := json.Marshal(removal{l.id.String(), now.UnixMilli(), why})
			if err != nil {
				return err
			}
			lines.Write(append(b, '\n'))
		}
	}
	if lines.Len() == 0 {
		return nil
	}
	path := filepath.Join(s.Dir, removalsFile)
	if info, err := os.Lstat(path); err == nil && info.Size() > removalsMax {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(lines.Bytes())
	return errors.Join(err, f.Close())
}

// removalOf returns when and why the log of a container was removed.
func (s *Store) removalOf(id container.ID) (removal, bool) {
	var found removal
	for _, name := range []string{removalsFile + ".1", removalsFile} {
		f, err := os.Open(filepath.Join(s.Dir, name))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var r removal
			if json.Unmarshal(lines.Bytes(), &r) == nil && r.ID == id.String() {
				found = r
			}
		}
		f.Close()
	}
	return found, found.ID != ""
}

// absence says in words why there is no log of a container.
func (s *Store) absence(id container.ID, stream string, err error) string {
	if r, ok := s.removalOf(id); ok && errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("the output of %s was removed at %s: %s", id,
			time.UnixMilli(r.At).UTC().Format(time.RFC3339), s.because(r.Reason))
	}
	return fmt.Sprintf("no %s of %s on this node: %v", stream, id, err)
}
