package noded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// witnessFile has the witnesses that a node asks in an outage of the controllers.
const witnessFile = "witnesses"

// Outage is what a node knows for an outage of the controllers: its witnesses, which are on disk before
// anything is done that an answer says, and what it says as a witness itself. The agent's mutex guards it.
// The zero value keeps it in memory only.
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
	// Kept are containers that controllers of another state have ordered: those of now do not count with
	// them, so that no witness may have them go on.
	Kept []string `json:"kept,omitempty"`
}

// OpenOutage reads which witnesses the node with a data directory has.
func OpenOutage(dir string) (*Outage, error) {
	o := &Outage{path: filepath.Join(dir, witnessFile), runOut: map[container.ID]bool{}}
	text, err := os.ReadFile(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o.record)
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s: file %s: %w: check the disk for errors; without this file jobs end with "+
			"their leases if no controller answers before", dir, witnessFile, err)
	}
	for _, text := range o.record.Kept {
		if id, ok := container.ParseID(text); ok {
			o.runOut[id] = true
		}
	}
	return o, nil
}

// store has a record on disk, if it is another one, before it counts.
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

// addrOf returns where a member of the set answered when this node heard of the set, "" if that is not known.
func (o *Outage) addrOf(member string) string {
	w := o.record.Witnesses
	if w == nil {
		return ""
	}
	if i := slices.Index(w.Members, member); i >= 0 && i < len(w.Addrs) {
		return w.Addrs[i]
	}
	return ""
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

// bootMS returns CLOCK_BOOTTIME in milliseconds.
func bootMS() int64 { return container.BootTime() / int64(time.Millisecond) }

// noteAnswer has the witnesses of a confirmed answer on disk, and notes that a leader was heard. After an
// error the answer must not count. The mutex is held.
func (a *Agent) noteAnswer(n *api.NodeAllocs) error {
	o := a.outage
	r := witnessRecord{Generation: a.Lineage.Current().String(), Kept: a.keptContainers()}
	if r.Generation == o.record.Generation {
		r.Witnesses = o.record.Witnesses
	}
	if n.Witnesses != nil {
		r.Witnesses = n.Witnesses
	}
	if err := o.store(r); err != nil {
		// Without any witnesses nothing is extended, so that the answer may count.
		if lost := o.forget(); lost != nil {
			return fmt.Errorf("the answer of the leader does not count: store the witnesses of outages: %w",
				errors.Join(err, lost))
		}
		a.Log.Error("cannot store the witnesses of outages: until that works jobs end with their leases in an outage",
			"err", err)
	}
	clear(o.runOut)
	o.echo = n.Sent
	o.holder.Hear(a.Boot())
	if o.told {
		o.told = false
		a.Log.Info("a leader answers again; leases count from its answers")
	}
	return nil
}

// keptContainers returns the containers that are kept. The mutex is held.
func (a *Agent) keptContainers() []string {
	var kept []string
	for id, w := range a.workers {
		if w.Kept && w.Exists() {
			kept = append(kept, id.String())
		}
	}
	slices.Sort(kept)
	return kept
}

// keepOnDisk remembers which containers are kept, should this daemon end before the next answer. The mutex is
// held.
func (a *Agent) keepOnDisk() {
	r := a.outage.record
	r.Kept = a.keptContainers()
	if err := a.outage.store(r); err != nil {
		a.Log.Error("cannot note which containers must end with their leases", "err", err)
	}
}

// echo returns what the leader is to hear of the last answer.
func (a *Agent) echo() api.Echo {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.outage
	if o.record.Generation != a.Lineage.Current().String() {
		return api.Echo{Sent: o.echo, Witnesses: (*api.Witnesses)(nil).Key()}
	}
	return api.Echo{Sent: o.echo, Witnesses: o.record.Witnesses.Key()}
}

// witnesses returns the set that this node asks, nil if it has none. The mutex is held.
func (a *Agent) witnesses() *api.Witnesses {
	o := a.outage
	if o.record.Generation != a.Lineage.Current().String() {
		return nil // the sets of another generation are numbered anew
	}
	return o.record.Witnesses
}

// silence returns for how long this node has heard of no leader, as a witness says it.
func (a *Agent) silence() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.outage.holder.Silent(a.Boot())
}

// A witness that does not answer holds up a round of questions for this long at most, or for this part of an
// extension.
const (
	askWitnessMost = 5 * time.Second
	askWitnessPart = 6
)

// watchOutage asks the witnesses while no leader answers, and extends leases if they hear of none either.
func (a *Agent) watchOutage(ctx context.Context) error {
	for {
		a.mu.Lock()
		w := a.witnesses()
		pause := time.Second
		if w != nil {
			pause = min(pause, time.Duration(w.AskEvery())*time.Millisecond/4)
		}
		asks := w != nil && a.outage.holder.Begin(a.Boot(), &w.Set)
		a.mu.Unlock()
		if asks {
			a.askWitnesses(ctx, w)
			a.extendLeases(w)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// askWitnesses asks all members of a set at once, and notes what they say.
func (a *Agent) askWitnesses(ctx context.Context, of *api.Witnesses) {
	ctx, cancel := context.WithTimeout(ctx, min(askWitnessMost,
		time.Duration(of.Hold)*time.Millisecond/askWitnessPart))
	defer cancel()
	var group sync.WaitGroup
	for i, name := range of.Members {
		asked := a.Boot()
		note := func(silent int64) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.outage.holder.Note(name, witness.Answer{Asked: asked, Silent: silent})
		}
		if name == a.Node.Name {
			note(a.silence())
			continue
		}
		if a.AskWitness == nil || i >= len(of.Addrs) || of.Addrs[i] == "" {
			continue
		}
		group.Go(func() {
			silent, err := a.AskWitness(ctx, name, of.Addrs[i])
			if err != nil {
				a.Log.Debug("a witness does not answer", "node", name, "err", err)
				return
			}
			note(silent)
		})
	}
	group.Wait()
}

// extendLeases extends the leases of containers if the witnesses hear of no leader: of those that the last
// confirmed answer had go on, or, if this daemon has restarted since, of all that are here, whose shims
// know their leases.
func (a *Agent) extendLeases(of *api.Witnesses) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of != a.witnesses() {
		return // a leader has just answered
	}
	now, o := a.Boot(), a.outage
	var ends int64
	if end := a.lease.end(); !end.IsZero() {
		ends = now + time.Until(end).Milliseconds()
	}
	until, ok := o.holder.Extend(now, ends, &of.Set)
	if !ok {
		return
	}
	if !o.told {
		o.told = true
		a.Log.Warn("no leader answers, and a majority of the witnesses hears of none either: jobs go on beyond their "+
			"leases", "witnesses", of.Number, "until", time.Duration(until-now)*time.Millisecond)
	}
	a.lease = heldFrom(until-of.Hold, now, time.Duration(of.Hold)*time.Millisecond)
	end := a.lease.end()
	for id, w := range a.workers {
		if w.Kept || o.runOut[id] || !w.Exists() && w.Steps == 0 || w.Desired == nil && a.desiredKnown ||
			w.Desired != nil && w.Desired.NoLease || end.Sub(w.lease) < a.lease.term/renewPart/2 {
			continue
		}
		w.lease = end
		ids := a.run.LiveSteps(id)
		if w.Exists() {
			ids = append(ids, id)
		}
		a.actions.Go(func() { a.passLease(w, ids, end, a.Runtime.Extend) })
	}
}

// heldFrom returns a lease that counts from an instant of CLOCK_BOOTTIME in the past, in milliseconds.
func heldFrom(asked, now int64, term time.Duration) lease {
	past := time.Duration(now-asked) * time.Millisecond
	m := currentMoment()
	return lease{moment{m.awake.Add(-past), m.boot - int64(past)}, term}
}

// serveWitness answers another node that asks whether this one hears of a leader.
func (a *Agent) serveWitness(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || !c.Machine || c.Role != string(pki.Node) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only nodes may ask a witness")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.WitnessAnswer{SilentMS: a.silence()}) // an error: the other node is gone
}

// witnessClient asks other nodes. Connections are kept between questions.
type witnessClient struct {
	credential *pki.Credential

	mu      sync.Mutex
	clients map[string]*http.Client // by node
}

// ask returns for how long a node has heard of no leader, in milliseconds.
func (c *witnessClient) ask(ctx context.Context, node, addr string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+api.WitnessPath, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.of(node).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer api.WitnessAnswer
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer.SilentMS, err
}

func (c *witnessClient) of(node string) *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[node] == nil {
		transport := &http.Transport{DialTLSContext: pki.Dialer(c.credential.ClientOf(pki.Node, node)),
			DisableCompression: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute}
		if c.clients == nil {
			c.clients = map[string]*http.Client{}
		}
		c.clients[node] = &http.Client{Transport: transport}
	}
	return c.clients[node]
}
