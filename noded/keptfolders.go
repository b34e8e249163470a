package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/noded/container"
)

// keptFor is for how long a folder stays that the controllers do not know: an admin that was away for a
// fortnight still finds it.
const keptFor = 14 * 24 * time.Hour

// keptFolders are checkpoint folders of jobs or attempts that the controllers do not know, because their
// state was restored or is older. They stay until an admin decides or keptFor is over, whatever the
// controllers say of them meanwhile.
type keptFolders struct {
	path string // of the file that remembers them; "": nothing is kept over a restart

	mu    sync.Mutex
	since map[string]time.Time // by job.attempt.worker; nil: not read yet
}

// openKeptFolders reads which folders are kept.
func openKeptFolders(path string) (*keptFolders, error) {
	k := &keptFolders{path: path, since: map[string]time.Time{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &k.since)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: check the disk for errors; without this file the checkpoint folders that the "+
			"controllers do not know are kept for another 14 days", path, err)
	}
	return k, nil
}

// openKept reads which folders are kept, unless none is remembered.
func (a *Agent) openKept() (err error) {
	if a.KeptFile != "" {
		a.kept, err = openKeptFolders(a.KeptFile)
	}
	return err
}

// keep remembers folders, and returns those that were not kept before.
func (k *keptFolders) keep(ids []string, now time.Time) ([]string, error) {
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
func (k *keptFolders) settle(here []container.ID, now time.Time) (over []container.ID, err error) {
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
func (k *keptFolders) release(ids []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		delete(k.since, id)
	}
	return k.save(len(ids) > 0)
}

// save writes the file. The mutex is held.
func (k *keptFolders) save(changed bool) error {
	if !changed || k.path == "" {
		return nil
	}
	text, err := json.Marshal(k.since)
	if err != nil {
		return err
	}
	return writeWhole(k.path, string(text)+"\n")
}

// has reports whether a folder is kept.
func (k *keptFolders) has(id container.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.since[id.String()]
	return ok
}

// list returns the kept folders by name, and since when each is kept.
func (k *keptFolders) list() []api.KeptFolder {
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

// notice is what rota nodes says of kept folders, "" without any.
func (k *keptFolders) notice() string {
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
		"shows them",
		len(list), strings.Join(names, ", "), first.UTC().Format(time.DateOnly))
}

// keepUnknown keeps the folders that the controllers do not know, and removes those whose time is over.
func (a *Agent) keepUnknown(unknown []string, here []container.ID) error {
	now := time.Now()
	fresh, err := a.kept.keep(unknown, now)
	if len(fresh) > 0 {
		a.Log.Warn("the controllers do not know these checkpoint folders: they stay until an admin decides (rota node kept)",
			"folders", fresh, "until", now.Add(keptFor).UTC().Format(time.RFC3339))
	}
	over, gone := a.kept.settle(here, now)
	for _, id := range over {
		a.logOf(id).Warn("the controllers have not known this checkpoint folder for 14 days: it is removed")
		a.Checkpoints.Remove(id)
	}
	return errors.Join(err, gone)
}

// serveKept answers a controller: which folders this node keeps.
func (a *Agent) serveKept(w http.ResponseWriter, r *http.Request) {
	if !fromController(w, r) {
		return
	}
	out := api.KeptFolders{Items: a.kept.list()}
	for i := range out.Items {
		out.Items[i].Path = a.folderPath(out.Items[i].ID)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the controller may be gone
}

// folderPath is where a kept folder is, "" if that is not known.
func (a *Agent) folderPath(name string) string {
	id, ok := container.ParseID(name)
	if at, known := a.Checkpoints.(interface{ Files(container.ID) string }); ok && known {
		return at.Files(id)
	}
	return ""
}

// dropKept removes folders that an admin has no use for.
func (a *Agent) dropKept(w http.ResponseWriter, r *http.Request) {
	if !fromController(w, r) {
		return
	}
	var req api.DropFolders
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req); err != nil {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "read the request: "+err.Error())
		return
	}
	var ids []container.ID
	for _, name := range req.IDs {
		id, ok := container.ParseID(name)
		if !ok || !a.kept.has(id) {
			api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, fmt.Sprintf("this node keeps no unknown checkpoint "+
				"folder %q", name))
			return
		}
		ids = append(ids, id)
	}
	if err := a.kept.release(req.IDs); err != nil {
		api.WriteProblem(w, http.StatusInternalServerError, api.CodeInternal, err.Error())
		return
	}
	for _, id := range ids {
		a.logOf(id).Info("an admin has this checkpoint folder removed")
		a.Checkpoints.Remove(id)
	}
	a.serveKept(w, r)
}

// fromController refuses requests of other machines.
func fromController(w http.ResponseWriter, r *http.Request) bool {
	if c, ok := identity.CallerOf(r.Context()); ok && c.Role == string(pki.Controller) {
		return true
	}
	api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "this is for controllers")
	return false
}
