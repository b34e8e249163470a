package controld

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// A controller that has just started holds the state of its last snapshot, because what its log says is applied only once a leader
// confirms it. It would deny jobs that were acknowledged long ago. So until it has applied all that was confirmed at one moment after its
// start, reads are the leader's.

// freshen waits until this replica has caught up once since it started.
func (d *daemon) freshen(ctx context.Context) error {
	for !d.leading.Load() {
		if index, err := d.confirmedIndex(ctx); err == nil && d.untilApplied(ctx, index, maxFreshen) == nil {
			break
		}
		if d.pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return nil
		}
	}
	d.fresh.Store(true)
	d.log.Debug("caught up", "index", d.machine.view.Load().Index())
	return nil
}

// confirmedIndex asks the leader for an index that a quorum has confirmed.
func (d *daemon) confirmedIndex(ctx context.Context) (uint64, error) {
	_, leader, ok := d.leaderHTTP()
	if !ok {
		return 0, errors.New("no leader is known")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+leader+"/v1/cluster?consistent=true", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set(headerForwarded, d.cfg.Name)
	resp, err := d.machines.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the leader answers %s", resp.Status)
	}
	return strconv.ParseUint(resp.Header.Get(api.HeaderIndex), 10, 64)
}

// maxFreshen is how long a confirmed index is waited for: the leader may have changed.
const maxFreshen = 10 * time.Second

// untilApplied waits until this replica has applied index, but not for longer than most.
func (d *daemon) untilApplied(ctx context.Context, index uint64, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		changed := d.machine.changed.wait()
		if d.machine.view.Load().Index() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
