package checkpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/datafile"
)

// keptFor is for how long a folder stays that the controllers do not know: an admin that was away for a
// fortnight still finds it.
const keptFor = 14 * 24 * time.Hour

// Kept are checkpoint folders of jobs or attempts that the controllers do not know, because their
// state was restored or is older. They stay until an admin decides or keptFor is over, whatever the
// controllers say of them meanwhile.
type Kept struct {
	path string // of the file that remembers them; "": nothing is kept over a restart

	mu    sync.Mutex
	since map[string]time.Time // by job.attempt.worker; nil: not read yet
}

// NewKept returns a memory of no folders.
func NewKept() *Kept { return &Kept{since: map[string]time.Time{}} }

// Open reads which folders the file at path has, and remembers them there from now on. With no path
// memory alone does.
func (k *Kept) Open(path string) error {
	if path == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.path = path
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &k.since)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: check the disk for errors; without this file the checkpoint folders that the "+
			"controllers do not know are kept for another 14 days", path, err)
	}
	return nil
}

// keep remembers folders, and returns those that were not kept before.
func (k *Kept) keep(ids []string, now time.Time) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var fresh []string
	for _, id := range ids {
		if _, ok := k.since[id]; !ok {
			k.since[id] = now
			fresh = append(fresh, id)
		}
	}
	return fresh, k.save(len(fresh) > 0)
}

// settle forgets folders that are not among those here, and returns those whose time is over.
func (k *Kept) settle(here []container.ID, now time.Time) (over []container.ID, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	present := map[string]container.ID{}
	for _, id := range here {
		present[id.String()] = id
	}
	before := len(k.since)
	for id, since := range k.since {
		at, ok := present[id]
		if ok && now.Sub(since) < keptFor {
			continue
		}
		delete(k.since, id)
		if ok {
			over = append(over, at)
		}
	}
	return over, k.save(len(k.since) != before)
}

// release forgets folders, so that they can be removed.
func (k *Kept) release(ids []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.since, id)
	}
	return k.save(len(ids) > 0)
}

// save writes the file. The mutex is held.
func (k *Kept) save(changed bool) error {
	if !changed || k.path == "" {
		return nil
	}
	text, err := json.Marshal(k.since)
	if err != nil {
		return err
	}
	return datafile.Write(k.path, string(text)+"\n")
}

// has reports whether a folder is kept.
func (k *Kept) has(id container.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.since[id.String()]
	return ok
}

// list returns the kept folders by name, and since when each is kept.
func (k *Kept) list() []api.KeptFolder {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := []api.KeptFolder{}
	for _, id := range slices.Sorted(maps.Keys(k.since)) {
		out = append(out, api.KeptFolder{ID: id, Since: k.since[id], Until: k.since[id].Add(keptFor)})
	}
	return out
}

// shownKept is how many kept folders the notice of a node names.
const shownKept = 5

// Notice is what rota nodes says of kept folders, "" without any.
func (k *Kept) Notice() string {
	list := k.list()
	if len(list) == 0 {
		return ""
	}
	var names []string
	first := list[0].Until
	for i, f := range list {
		if i < shownKept {
			names = append(names, f.ID)
		}
		if f.Until.Before(first) {
			first = f.Until
		}
	}
	if len(list) > shownKept {
		names = append(names, "…")
	}
	return fmt.Sprintf("keeps %d checkpoint folders that the controllers do not know (%s) until %s: rota node kept "+
		"lists them",
		len(list), strings.Join(names, ", "), first.UTC().Format(time.DateOnly))
}
