package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// A controller that has just started has the state of its last snapshot: entries of its log are
// applied only once a leader confirms them. It would deny jobs that were acknowledged long ago. So
// until it has applied all that was confirmed at one moment after its start, reads are passed on to
// the leader.

// CatchUp waits until this replica has caught up once since it started. Until then reads are passed
// on to the leader.
func (s *Service) CatchUp(ctx context.Context) error {
	for !s.Replica.Leading() {
		if index, err := s.confirmedIndex(ctx); err == nil && s.Replica.UntilApplied(ctx, index, maxCatchUp) == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.fresh.Store(true)
	close(s.caught)
	s.Log.Debug("caught up", "index", s.Replica.View().Index())
	return nil
}

// CaughtUp is closed once this replica has caught up.
func (s *Service) CaughtUp() <-chan struct{} { return s.caught }

// Fresh reports whether this replica has caught up once since it started.
func (x *Exchange) Fresh() bool { return x.s.fresh.Load() }

// confirmedIndex returns an index that a quorum has confirmed, from the leader.
func (s *Service) confirmedIndex(ctx context.Context) (uint64, error) {
	_, leader, ok := s.leaderHTTP()
	if !ok {
		return 0, errors.New("no leader is known")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+leader+"/v1/cluster?consistent=true", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set(HeaderForwarded, s.Name)
	resp, err := s.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the leader answered %s", resp.Status)
	}
	return strconv.ParseUint(resp.Header.Get(api.HeaderIndex), 10, 64)
}

// maxCatchUp is how long a confirmed index is waited for: the leader may have changed.
const maxCatchUp = 10 * time.Second
