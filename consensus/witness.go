package consensus

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/mark"
)

// witness remembers what this member knows of the others: how far each has come by its own words,
// and which log answers under each name.
type witness struct {
	mu      sync.Mutex
	seen    map[raft.ServerID]mark.Mark
	met     map[raft.ServerID]bool   // since this member's start
	other   map[string]raft.ServerID // by name: what answers instead of the log that the cluster knows
	changed bool                     // seen, since it was saved
	news    chan struct{}            // has one element after met has grown
}

func newWitness() *witness {
	return &witness{seen: map[raft.ServerID]mark.Mark{}, met: map[raft.ServerID]bool{}, other: map[string]raft.ServerID{},
		news: make(chan struct{}, 1)}
}

// of returns how far a member is known to have come.
func (w *witness) of(id raft.ServerID) mark.Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[id]
}

// note notes that a member has shown by a message that it has come this far, on its disk.
func (w *witness) note(id raft.ServerID, m mark.Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.seen[id].Raised(m); now != w.seen[id] {
		w.seen[id], w.changed = now, true
	}
}

// noteAppend notes what the success of a request to append entries shows: the log agrees up to its
// last entry.
func (w *witness) noteAppend(id raft.ServerID, a *raft.AppendEntriesRequest) {
	m := mark.Mark{Term: a.Term, LastTerm: a.PrevLogTerm, Last: a.PrevLogEntry}
	if n := len(a.Entries); n > 0 {
		m.LastTerm, m.Last = a.Entries[n-1].Term, a.Entries[n-1].Index
	}
	w.note(id, m)
}

// answered notes which log has answered to a call for id.
func (w *witness) answered(id, by raft.ServerID) {
	want, got := memberOf(id, ""), memberOf(by, "")
	w.mu.Lock()
	defer w.mu.Unlock()
	if want.Name != got.Name || id == by {
		delete(w.other, want.Name)
		return
	}
	w.other[want.Name] = by
}

// otherLog returns the log that answers under the name of m in place of m's.
func (w *witness) otherLog(m Member) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	by, ok := w.other[m.Name]
	return memberOf(by, "").Log, ok && by != m.serverID()
}

// meet notes that a member and this one have told each other how far they have come.
func (w *witness) meet(id raft.ServerID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.met[id] {
		return
	}
	w.met[id] = true
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// hasMet reports whether it has.
func (w *witness) hasMet(id raft.ServerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.met[id]
}

// witnessFile keeps what a member knows of the others over its restarts. It is not synced: a power
// cut may cost the last seconds, and this member is one of several.
const witnessFile = "seen"

// witnessEvery is how often it is saved if it has changed.
const witnessEvery = time.Second

// load reads what was saved in dir. An unreadable file counts as empty.
func (w *witness) load(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, witnessFile))
	if err != nil {
		return
	}
	kept := map[raft.ServerID]mark.Mark{}
	if json.Unmarshal(b, &kept) == nil {
		maps.Copy(w.seen, kept)
	}
}

// save writes what has changed. A disk that is full stops the log itself.
func (w *witness) save(dir string) {
	w.mu.Lock()
	seen, changed := maps.Clone(w.seen), w.changed
	w.changed = false
	w.mu.Unlock()
	if !changed {
		return
	}
	b, err := json.Marshal(seen)
	if err != nil {
		return
	}
	path := filepath.Join(dir, witnessFile)
	if os.WriteFile(path+".new", b, 0o600) == nil {
		_ = os.Rename(path+".new", path) // the next change tries again
	}
}

// saveSeen saves until the node stops.
func (n *Node) saveSeen() {
	tick := time.NewTicker(witnessEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.stopped:
			if n.fatalError() == nil {
				n.known.save(n.cfg.Dir)
			}
			return
		case <-tick.C:
			n.known.save(n.cfg.Dir)
		}
	}
}
