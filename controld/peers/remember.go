package peers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-hpc/rota/controld/member"
)

// remembered is another controller as this one last knew it. It is kept on disk, so that a
// restarted controller finds the others even when none that --join names is up.
type remembered struct {
	Name   string `json:"name"`
	Gossip string `json:"gossip"`
	HTTP   string `json:"http"`
	Raft   string `json:"raft"`
}

// Seeds returns the gossip addresses to join: those given, and those that the file remembers.
func Seeds(join []string, file string, log *slog.Logger) []string {
	seeds := slices.Clone(join)
	for _, k := range load(file, log) {
		if k.Gossip != "" && !slices.Contains(seeds, k.Gossip) {
			seeds = append(seeds, k.Gossip)
		}
	}
	return seeds
}

// Watch asks the controllers that gossip or the file names for their State, and remembers those that
// answer, until ctx ends.
func (p *Peers) Watch(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	saved := load(p.file, p.log)
	for {
		if p.askAll(ctx) {
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
		if next := merge(saved, p.All()); !slices.Equal(next, saved) {
			saved = next
			if err := save(p.file, saved); err != nil {
				p.log.Warn("controllers not remembered", "file", p.file, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.gossip.Changed():
		case <-tick.C:
		}
	}
}

// askAll asks each controller, at the address that it gave itself and at the one that gossip has for it. It
// reports whether one has come, gone or moved.
func (p *Peers) askAll(ctx context.Context) bool {
	hints := map[string][]member.Peer{}
	p.mu.Lock()
	for name, c := range p.known {
		hints[name] = append(hints[name], c.Peer)
	}
	p.mu.Unlock()
	for _, m := range p.gossip.Controllers() {
		hints[m.Name] = append(hints[m.Name], m)
	}
	delete(hints, p.name)
	var asking sync.WaitGroup
	var changed atomic.Bool
	for name, at := range hints {
		asking.Go(func() {
			if p.note(name, p.askOne(ctx, name, at)) {
				changed.Store(true)
			}
		})
	}
	asking.Wait()
	return changed.Load()
}

// askOne returns what a controller says of itself at the first address where it answers, nil if it does
// not.
func (p *Peers) askOne(ctx context.Context, name string, at []member.Peer) *member.Peer {
	asked := ""
	for _, m := range at {
		if m.HTTP == "" || m.HTTP == asked {
			continue
		}
		asked = m.HTTP
		one, cancel := context.WithTimeout(ctx, meetTimeout)
		s, err := p.StateOf(one, m)
		cancel()
		if err == nil && s.Name == name && s.HTTP != "" && s.Raft != "" {
			return &member.Peer{Name: name, Addr: s.Gossip,
				Meta: member.Meta{Role: member.Controld, HTTP: s.HTTP, Raft: s.Raft, Version: m.Version, Cluster: m.Cluster}}
		}
	}
	return nil
}

// note keeps what a controller has answered, nil if it has not. It reports whether that changes anything.
func (p *Peers) note(name string, now *member.Peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.known[name]
	if now == nil {
		if c == nil || c.missed >= missedMost {
			return false
		}
		c.missed++
		return c.missed == missedMost
	}
	if c == nil {
		c = &contact{missed: missedMost}
		p.known[name] = c
	}
	changed := c.missed >= missedMost || c.HTTP != now.HTTP || c.Raft != now.Raft || c.Addr != now.Addr
	c.Peer, c.missed = *now, 0
	return changed
}

// load reads the file. One that cannot be read is no reason not to start: --join has the same
// addresses.
func load(file string, log *slog.Logger) []remembered {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var known []remembered
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	if err != nil {
		log.Warn("cannot read the saved addresses of the controllers", "file", file, "error", err)
	}
	return known
}

// merge replaces what is known of the controllers that are alive and keeps the others: they may
// only be down.
func merge(known []remembered, alive []member.Peer) []remembered {
	merged := slices.Clone(known)
	for _, m := range alive {
		now := remembered{Name: m.Name, Gossip: m.Addr, HTTP: m.HTTP, Raft: m.Raft}
		if i := slices.IndexFunc(merged, func(k remembered) bool { return k.Name == m.Name }); i >= 0 {
			merged[i] = now
		} else {
			merged = append(merged, now)
		}
	}
	if extra := len(merged) - 4*MaxControllers; extra > 0 { // names of long ago
		merged = merged[extra:]
	}
	return merged
}

func save(file string, known []remembered) error {
	b, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	next := file + ".next"
	if err := os.WriteFile(next, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}
