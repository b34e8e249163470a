package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/noded/datafile"
)

// generationFile has the generation of the cluster that a node follows.
const generationFile = "generation"

// Lineage is the generation of the cluster that this node follows. It never goes back: controllers of a
// lower generation, or of another one with the same number, are refused. The zero value keeps it in
// memory only.
type Lineage struct {
	path    string // "": nothing is kept
	cluster string
	current atomic.Pointer[generation.Generation]
}

// lineageRecord is the form of the file.
type lineageRecord struct {
	Cluster string `json:"cluster"`
	generation.Generation
}

// OpenLineage reads which generation of a cluster the node with a data directory follows: 0 if it has
// followed another cluster before.
func OpenLineage(dir, cluster string) (*Lineage, error) {
	l := &Lineage{path: filepath.Join(dir, generationFile), cluster: cluster}
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	var r lineageRecord
	if err := json.Unmarshal(text, &r); err != nil || !r.Generation.Valid() {
		return nil, fmt.Errorf("--data-dir %s: %q in the file %s is not a cluster generation: check the disk for errors; "+
			"rota cluster shows the generation of the controllers", dir, bytes.TrimSpace(text), generationFile)
	}
	if r.Cluster == cluster {
		l.current.Store(&r.Generation)
	}
	return l, nil
}

// Current returns the generation that the node follows.
func (l *Lineage) Current() generation.Generation {
	if g := l.current.Load(); g != nil {
		return *g
	}
	return generation.Generation{}
}

// Follow keeps that the node follows a generation from now on. It returns once that is on disk.
func (l *Lineage) Follow(g generation.Generation) error {
	if l.path != "" {
		text, err := json.Marshal(lineageRecord{l.cluster, g})
		if err != nil {
			return err
		}
		if err := datafile.Write(l.path, string(text)+"\n"); err != nil {
			return err
		}
		if err := datafile.SyncDir(filepath.Dir(l.path)); err != nil {
			return err
		}
	}
	l.current.Store(&g)
	return nil
}

// quietFor is for how long a node must hear of no leader before it follows a later generation. A
// leader within reach answers more often: [pollWait] and [pollMargin] together are 25 s. So a
// survivor that was only cut off, and was recovered by mistake, gets no node from the others.
const quietFor = 30 * time.Second

// quiet returns how long a node waits for its leader before it follows a later generation: less, if its
// leases are short.
func (l locked) quiet() time.Duration {
	if term := l.lease.Term; term > 0 {
		return min(quietFor, term/3)
	}
	return quietFor
}

// errLeaderLives says that a node hears its leader, and follows no later generation.
var errLeaderLives = errors.New("a leader of the generation that this node follows answered a moment ago")

// followGeneration meets controllers of another generation of the cluster. It follows a later one, once
// its own leader is silent, and reports what this node knows of attempts.
func (f *Follower) followGeneration(ctx context.Context) error {
	// 1. Ask for their generation, and adopt it if it is later than the own.
	answer, err := f.Control.Generation(ctx, f.Self.Name, f.Self.BootID)
	if err != nil {
		return err
	}
	theirs, err := generation.ParseGeneration(answer.Generation)
	if err != nil {
		return err
	}
	switch own := f.Lineage.Current(); {
	case theirs == own:
	case !theirs.Outranks(own):
		return fmt.Errorf("the controllers belong to generation %s of the cluster, but this node follows generation %s: it "+
			"ignores them", theirs, own)
	default:
		if err := f.adopt(theirs, own); err != nil {
			return err
		}
	}
	// 2. Report the attempts of this node once: the controllers must not give their ids again.
	if answer.Accepted {
		return nil
	}
	known, live := f.Node.Known()
	_, err = f.Control.AcceptGeneration(ctx, f.Self.Name, api.AcceptGeneration{BootID: f.Self.BootID,
		Generation: theirs.String(), Known: known, Live: live})
	if err == nil {
		f.Log.Info("this node reports its attempts only to the controllers of the generation that it follows", "generation",
			theirs.String(), "workers", len(known))
	}
	return err
}

// adopt follows a later generation. The state of its controllers may be older than the orders that
// this node has. Containers that they do not know go on until their leases end.
func (f *Follower) adopt(theirs, own generation.Generation) error {
	l, unlock := f.lock()
	defer unlock()
	if silent := time.Since(l.heard); silent < l.quiet() {
		return fmt.Errorf("not following generation %s of the cluster yet: %v ago %w", theirs,
			silent.Round(time.Second), errLeaderLives)
	}
	if err := l.Lineage.Follow(theirs); err != nil {
		return fmt.Errorf("cannot store generation %s of the cluster: %w", theirs, err)
	}
	l.Log.Warn("this node follows another generation of the cluster from now on", "generation", theirs.String(), "before",
		own.String())
	l.keepAll(fmt.Sprintf("follows generation %s of the cluster: containers that its controllers do not know run here "+
		"until their leases end", theirs), true)
	return nil
}

// otherGeneration reports whether a request was refused because this node has to follow another
// generation, or to report to it.
func otherGeneration(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeGeneration
}

// unsettled reports whether a request was refused because the generation does not hold yet.
func unsettled(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeUnsettled
}
