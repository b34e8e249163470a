package peers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"

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

// Watch remembers the controllers that come, until ctx ends.
func (p *Peers) Watch(ctx context.Context) error {
	known := load(p.file, p.log)
	for {
		select {
		case p.changed <- struct{}{}:
		default:
		}
		if next := merge(known, p.All()); !slices.Equal(next, known) {
			known = next
			if err := save(p.file, known); err != nil {
				p.log.Warn("controllers not remembered", "file", p.file, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.gossip.Changed():
		}
	}
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
		log.Warn("remembered controllers cannot be read", "file", file, "error", err)
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
