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

// witness remembers what this member knows about the others: how far each has come in its own
// words, and which log answers under each name.
type witness struct {
	mu      sync.Mutex
	seen    map[raft.ServerID]mark.Mark
	met     map[raft.ServerID]bool   // members met since this member's start
	other   map[string]raft.ServerID // by name: the log that answers instead of the expected log
	changed bool                     // seen has changed since it was saved
	news    chan struct{}            // gets an element when met has grown
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

// note records that a member's disk has come this far, as a message of the member shows.
func (w *witness) note(id raft.ServerID, m mark.Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.seen[id].Raised(m); now != w.seen[id] {
		w.seen[id], w.changed = now, true
	}
}

// noteAppend records what a successful append request shows: the logs agree up to the last entry of
// the request.
func (w *witness) noteAppend(id raft.ServerID, a *raft.AppendEntriesRequest) {
	m := mark.Mark{Term: a.Term, LastTerm: a.PrevLogTerm, Last: a.PrevLogEntry}
	if n := len(a.Entries); n > 0 {
		m.LastTerm, m.Last = a.Entries[n-1].Term, a.Entries[n-1].Index
	}
	w.note(id, m)
}

// answered records which log has answered a call for id.
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

// otherLog returns the log that answers under m's name in place of m's log.
func (w *witness) otherLog(m Member) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	by, ok := w.other[m.Name]
	return memberOf(by, "").Log, ok && by != m.serverID()
}

// meet records that a member and this one have told each other how far they have come.
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

// hasMet reports whether meet was called for a member.
func (w *witness) hasMet(id raft.ServerID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.met[id]
}

// witnessFile stores what a member knows about the others across its restarts. It is not synced: a
// power cut may lose the last seconds, which other members know too.
const witnessFile = "seen"

// witnessEvery is the pause between two saves.
const witnessEvery = time.Second

// load reads the saved file in dir. An unreadable file counts as empty.
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

// save writes the file if it has changed. Errors are ignored, because a full disk stops the log
// itself.
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

// saveSeen saves regularly until the node stops.
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
