package controld

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/rota-hpc/rota/controld/member"
)

// knownPeer is another controller as this one last knew it. It is kept on disk, so that a restarted controller finds the others even
// when nobody that --join names is up.
type knownPeer struct {
	Name   string `json:"name"`
	Gossip string `json:"gossip"`
	HTTP   string `json:"http"`
	Raft   string `json:"raft"`
}

func (d *daemon) peersFile() string { return filepath.Join(d.cfg.DataDir, "peers.json") }

// loadPeers reads what was remembered. A file that cannot be read is not worth refusing to start: --join says the same.
func (d *daemon) loadPeers() []knownPeer {
	b, err := os.ReadFile(d.peersFile())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var peers []knownPeer
	if err == nil {
		err = json.Unmarshal(b, &peers)
	}
	if err != nil {
		d.log.Warn("remembered controllers cannot be read", "file", d.peersFile(), "error", err)
	}
	return peers
}

// seeds is where to look for the cluster.
func (d *daemon) seeds() []string {
	seeds := slices.Clone(d.cfg.Join)
	for _, p := range d.loadPeers() {
		if p.Gossip != "" && !slices.Contains(seeds, p.Gossip) {
			seeds = append(seeds, p.Gossip)
		}
	}
	return seeds
}

// watchPeers tells the rest of the daemon that machines have come, gone or changed, and remembers the controllers.
func (d *daemon) watchPeers(ctx context.Context) error {
	known := d.loadPeers()
	for {
		d.unlinked.Store(withoutLinks(d.controllers()))
		d.peersChanged.wake()
		if next := mergePeers(known, d.controllers()); !slices.Equal(next, known) {
			known = next
			if err := d.savePeers(known); err != nil {
				d.log.Warn("controllers not remembered", "file", d.peersFile(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.gossip.Changed():
		}
	}
}

// withoutLinks returns where controllers run that know no links.
func withoutLinks(peers []member.Peer) *[]netip.Addr {
	var old []netip.Addr
	for _, p := range peers {
		for _, addr := range []string{p.Addr, p.Raft} {
			if at, err := netip.ParseAddrPort(addr); err == nil && !p.Links {
				old = append(old, at.Addr().Unmap())
			}
		}
	}
	return &old
}

// mergePeers replaces what is known of those who are there and keeps the others, since they may only be down.
func mergePeers(known []knownPeer, present []member.Peer) []knownPeer {
	merged := slices.Clone(known)
	for _, p := range present {
		now := knownPeer{Name: p.Name, Gossip: p.Addr, HTTP: p.HTTP, Raft: p.Raft}
		if i := slices.IndexFunc(merged, func(k knownPeer) bool { return k.Name == p.Name }); i >= 0 {
			merged[i] = now
		} else {
			merged = append(merged, now)
		}
	}
	if extra := len(merged) - 4*maxControllers; extra > 0 { // names of long ago
		merged = merged[extra:]
	}
	return merged
}

func (d *daemon) savePeers(peers []knownPeer) error {
	b, err := json.MarshalIndent(peers, "", "  ")
	if err != nil {
		return err
	}
	next := d.peersFile() + ".next"
	if err := os.WriteFile(next, append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, d.peersFile())
}
