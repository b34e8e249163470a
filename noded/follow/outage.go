package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model/witness"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/datafile"
)

// WitnessFile is the file of a data directory with the witnesses that a node asks in an outage of the
// controllers.
const WitnessFile = "witnesses"

// Outage is a node's knowledge for an outage of the controllers: its witnesses, and its own answer
// as a witness. The witnesses are on disk before anything is done that an answer says. The lock of
// the Follower guards it. The zero value keeps it in memory only.
type Outage struct {
	path   string // "": nothing is kept
	record witnessRecord
	holder witness.Holder
	echo   string // names the last answer that counted
	told   bool   // the log has that leases are extended
	// earlier daemons have left containers whose leases must run out
	runOut map[container.ID]bool
}

// witnessRecord is the form of the file.
type witnessRecord struct {
	Generation string         `json:"generation"` // of the cluster, in which the set is numbered
	Witnesses  *api.Witnesses `json:"witnesses,omitempty"`
	// Kept are containers that controllers of another state have ordered. The present controllers do
	// not count with them, so no witness may have them go on.
	Kept []string `json:"kept,omitempty"`
}

// OpenOutage reads which witnesses the node with a data directory has.
func OpenOutage(dir string) (*Outage, error) {
	o := &Outage{path: filepath.Join(dir, WitnessFile), runOut: map[container.ID]bool{}}
	text, err := os.ReadFile(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o.record)
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s: file %s: %w: check the disk for errors; without this file jobs end with "+
			"their leases if no controller answers before", dir, WitnessFile, err)
	}
	for _, text := range o.record.Kept {
		if id, ok := container.ParseID(text); ok {
			o.runOut[id] = true
		}
	}
	return o, nil
}

// Witnesses returns the set on disk, nil if there is none.
func (o *Outage) Witnesses() *api.Witnesses { return o.record.Witnesses }

// AddrOf returns where a member of the set answered when this node heard of the set, "" if that is
// not known.
func (o *Outage) AddrOf(member string) string {
	w := o.record.Witnesses
	if w == nil {
		return ""
	}
	if i := slices.Index(w.Members, member); i >= 0 && i < len(w.Addrs) {
		return w.Addrs[i]
	}
	return ""
}

// store has a record on disk before it counts. The same record is not written again.
func (o *Outage) store(r witnessRecord) error {
	if r.Generation == o.record.Generation && r.Witnesses.Key() == o.record.Witnesses.Key() &&
		slices.Equal(r.Kept, o.record.Kept) {
		return nil
	}
	if o.path != "" {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if err := datafile.Write(o.path, string(text)+"\n"); err != nil {
			return err
		}
		if err := datafile.SyncDir(filepath.Dir(o.path)); err != nil {
			return err
		}
	}
	o.record = r
	return nil
}

// forget leaves the node without witnesses. That needs no room on the disk.
func (o *Outage) forget() error {
	o.record = witnessRecord{}
	if o.path == "" {
		return nil
	}
	if err := os.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return datafile.SyncDir(filepath.Dir(o.path))
}

// noteAnswer has the witnesses of a confirmed answer on disk, and notes that a leader was heard. After
// an error the answer must not count.
func (l locked) noteAnswer(n *api.NodeAllocs) error {
	// 1. Store the set of the answer, or keep the one of this generation.
	o := l.Outage
	r := witnessRecord{Generation: l.Lineage.Current().String(), Witnesses: l.witnesses(), Kept: l.Node.Kept()}
	if n.Witnesses != nil {
		r.Witnesses = n.Witnesses
	}
	if err := o.store(r); err != nil {
		// Without any witnesses nothing is extended, so that the answer may count.
		if lost := o.forget(); lost != nil {
			return fmt.Errorf("ignoring the answer of the leader, because its witnesses for outages cannot be stored: %w",
				errors.Join(err, lost))
		}
		l.Log.Error("cannot store the witnesses for outages of the controllers: until this works, an outage ends the jobs "+
			"here with their leases",
			"err", err)
	}
	// 2. The answer lists all containers that go on, and ends an outage.
	clear(o.runOut)
	o.echo = n.Sent
	o.holder.Hear(l.Boot())
	if o.told {
		o.told = false
		l.Log.Info("a leader answers again; leases are renewed by its answers")
	}
	return nil
}

// keepOnDisk remembers which containers are kept, should this daemon end before the next answer.
func (l locked) keepOnDisk() {
	r := l.Outage.record
	r.Kept = l.Node.Kept()
	if err := l.Outage.store(r); err != nil {
		l.Log.Error("cannot record which containers must end with their leases", "err", err)
	}
}

// witnesses returns the set that this node asks, nil if it has none. The sets of another generation
// are numbered anew, so they do not count.
func (l locked) witnesses() *api.Witnesses {
	if l.Outage.record.Generation != l.Lineage.Current().String() {
		return nil
	}
	return l.Outage.record.Witnesses
}

// Silence returns for how long this node has heard of no leader, as a witness says it, in
// milliseconds.
func (f *Follower) Silence() int64 {
	l, unlock := f.lock()
	defer unlock()
	return l.Outage.holder.Silent(l.Boot())
}

// A witness that does not answer holds up a round of questions for askWitnessMost at most, or for this
// part of an extension.
const (
	askWitnessMost = 5 * time.Second
	askWitnessPart = 6
)

// watchOutage asks the witnesses while no leader answers, and extends leases if they hear of none
// either.
func (f *Follower) watchOutage(ctx context.Context) error {
	for {
		asked, pause := f.dueWitnesses()
		if asked != nil {
			f.askWitnesses(ctx, asked)
			f.extendLeases(asked)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// dueWitnesses returns the set to ask now, nil if none is due, and when to look again.
func (f *Follower) dueWitnesses() (due *api.Witnesses, pause time.Duration) {
	l, unlock := f.lock()
	defer unlock()
	pause = time.Second
	w := l.witnesses()
	if w == nil {
		return nil, pause
	}
	if l.Outage.holder.Begin(l.Boot(), &w.Set) {
		due = w
	}
	return due, min(pause, time.Duration(w.AskEvery())*time.Millisecond/4)
}

// askWitnesses asks all members of a set at once, and notes their answers.
func (f *Follower) askWitnesses(ctx context.Context, of *api.Witnesses) {
	ctx, cancel := context.WithTimeout(ctx, min(askWitnessMost,
		time.Duration(of.Hold)*time.Millisecond/askWitnessPart))
	defer cancel()
	var group sync.WaitGroup
	for i, name := range of.Members {
		asked := f.Boot() // an answer counts from the question
		note := func(silent int64) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.Outage.holder.Note(name, witness.Answer{Asked: asked, Silent: silent})
		}
		if name == f.Self.Name {
			note(f.Silence())
			continue
		}
		if f.AskWitness == nil || i >= len(of.Addrs) || of.Addrs[i] == "" {
			continue
		}
		group.Go(func() {
			silent, err := f.AskWitness(ctx, name, of.Addrs[i])
			if err != nil {
				f.Log.Debug("a witness does not answer", "node", name, "err", err)
				return
			}
			note(silent)
		})
	}
	group.Wait()
}

// extendLeases extends the leases of containers if the witnesses of a set hear of no leader. That is
// for the containers that the last confirmed answer had go on. If this daemon has restarted since, it
// is for all that are here: their shims know their leases.
func (f *Follower) extendLeases(of *api.Witnesses) {
	l, unlock := f.lock()
	defer unlock()
	if of != l.witnesses() {
		return // a leader has just answered
	}
	// 1. Ask the rule of witnesses until when leases may last.
	now, o := l.Boot(), l.Outage
	var ends int64
	if end := l.lease.End(); !end.IsZero() {
		ends = now + time.Until(end).Milliseconds()
	}
	until, ok := o.holder.Extend(now, ends, &of.Set)
	if !ok {
		return
	}
	if !o.told {
		o.told = true
		l.Log.Warn("no leader answers, and a majority of the witnesses has no leader either: jobs run beyond their leases",
			"witnesses", of.Number, "until", time.Duration(until-now)*time.Millisecond)
	}
	// 2. It is a lease like the lease of an answer, and the shims get it.
	l.lease = heldFrom(until-of.Hold, now, time.Duration(of.Hold)*time.Millisecond)
	l.Node.Extend(l.lease, o.runOut)
}

// ServeWitness answers another node that asks whether this one hears of a leader.
func (f *Follower) ServeWitness(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || !c.Machine || c.Role != string(pki.Node) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only nodes may ask a witness")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.WitnessAnswer{SilentMS: f.Silence()}) // an error: the other node is gone
}
