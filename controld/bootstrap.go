package controld

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/member"
)

// bootstrap makes this controller part of a cluster. With state it belongs to one already. A new cluster is made by the first, by
// name, of the expected controllers, once it sees them all and none has state; the others hear from it. Everyone else waits until a
// leader adds them.
func (d *daemon) bootstrap(ctx context.Context) error {
	for !d.replica.HasState() && d.cfg.expect() > 0 {
		if members := d.founders(ctx); members != nil {
			if err := d.replica.Bootstrap(members); err != nil {
				return fmt.Errorf("bootstrap: %w", err)
			}
			d.log.Info("new cluster", "controllers", len(members))
			return nil
		}
		if !d.pause(ctx, 100*time.Millisecond) {
			return nil
		}
	}
	return nil
}

// founders returns the voters of a new cluster if it is for this controller to make it, and now.
func (d *daemon) founders(ctx context.Context) []consensus.Member {
	members := []consensus.Member{d.replica.Self()}
	if d.cfg.expect() == 1 {
		return members
	}
	for _, p := range d.controllers() {
		if p.Name < d.cfg.Name {
			return nil // the first by name makes it
		}
		members = append(members, consensus.Member{Name: p.Name, Addr: p.Raft})
	}
	if len(members) != d.cfg.expect() {
		return nil
	}
	for _, p := range d.controllers() {
		if s, err := d.meet(ctx, p); err != nil || s.HasState {
			return nil
		}
	}
	return members
}

// replicaState is what one controller tells another of itself.
type replicaState struct {
	Name     string `json:"name"`
	HasState bool   `json:"has_state"`
	Records  int64  `json:"records"` // history numbers up to this are on its disk
	Knows    int    `json:"knows"`   // the greatest cluster version that it can apply; controllers of the first release do not say
	// Voters are those of the cluster that its log is of, as it knows them; controllers of earlier versions do not say.
	Voters []consensus.Member `json:"voters,omitempty"`
}

func (d *daemon) stateOf(ctx context.Context, p member.Peer) (replicaState, error) {
	var s replicaState
	err := d.fetch(ctx, p, "/v1/internal/state", &s)
	return s, err
}

// fetch asks another controller.
func (d *daemon) fetch(ctx context.Context, p member.Peer, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP+path, nil)
	if err != nil {
		return err
	}
	resp, err := d.machines.Do(req)
	if err != nil {
		return fmt.Errorf("ask controller %s: %w", p.Name, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fmt.Errorf("ask controller %s: %w", p.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask controller %s: %s: %s", p.Name, resp.Status, strings.TrimSpace(string(b[:min(len(b), 300)])))
	}
	return json.Unmarshal(b, out)
}

// controllers returns the other controllers that gossip knows.
func (d *daemon) controllers() []member.Peer {
	var found []member.Peer
	for _, p := range d.gossip.Peers() {
		if p.Role == member.Controld && p.Raft != "" && p.HTTP != "" {
			found = append(found, p)
		}
	}
	return found
}

// controller returns another controller by name.
func (d *daemon) controller(name string) (member.Peer, bool) {
	for _, p := range d.controllers() {
		if p.Name == name {
			return p, true
		}
	}
	return member.Peer{}, false
}

// pause waits for d or until ctx ends, and reports whether ctx is alive.
func (d *daemon) pause(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
