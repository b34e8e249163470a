package consensus

import (
	"context"
	"sync"
	"time"
)

// confirmations records, for each other member, when this member sent the newest request that the
// other has answered as a follower.
//
// The library's verification also counts answers to requests that were sent before the verification
// started. A leader that was suspended, or that gets answers late, would count answers from before
// the election of another leader. It would then show an outdated state.
type confirmations struct {
	mu    sync.Mutex
	begun map[string]time.Time
	news  chan struct{} // closed and replaced by each note
}

func newConfirmations() *confirmations {
	return &confirmations{begun: map[string]time.Time{}, news: make(chan struct{})}
}

// note records that the member with this server ID follows: it has answered a request sent at the
// given time.
func (c *confirmations) note(id string, begun time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if begun.After(c.begun[id]) {
		c.begun[id] = begun
	}
	close(c.news)
	c.news = make(chan struct{})
}

// Bounds of untilAnswered.
const (
	quietFor    = time.Second      // a leader without answers for this time has stepped down
	unreachable = 10 * time.Minute // a member that is away for this time may have been removed
)

// untilAnswered waits until a member has answered a request that was sent after since. It gives up
// if no member answers, or when stopped is closed.
//
// After each failed request to a follower, the library doubles its pause before the next one, up to
// ten seconds. A controller that was down for some seconds would therefore get no entries for as
// long again. If another controller failed in that time, nothing could be written although a
// majority runs. Heartbeats continue during the pause. So a failed request with entries is reported
// only when a heartbeat gets through: an outage of any length then counts as one failure.
func (c *confirmations) untilAnswered(id string, since time.Time, stopped <-chan struct{}) {
	end := time.After(unreachable)
	for {
		c.mu.Lock()
		answered, news := c.begun[id].After(since), c.news
		c.mu.Unlock()
		if answered {
			return
		}
		quiet := time.NewTimer(quietFor)
		select {
		case <-news:
			quiet.Stop()
		case <-quiet.C:
			return
		case <-end:
			return
		case <-stopped:
			return
		}
	}
}

// since returns the number of members that have answered a request sent at asked or later. The
// returned channel closes when the number may have changed.
func (c *confirmations) since(asked time.Time, members []Member) (int, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, m := range members {
		if begun, ok := c.begun[string(m.serverID())]; ok && !begun.Before(asked) {
			count++
		}
	}
	return count, c.news
}

// untilConfirmed waits until a quorum, including this member, has confirmed its leadership by
// answers to requests sent at asked or later. Step 3 in section 6.4 of Raft's dissertation requires
// that.
func (n *Node) untilConfirmed(ctx context.Context, asked time.Time) error {
	for {
		members := n.Members()
		others, news := n.trans.followers.since(asked, members)
		if isMajority(1+others, len(members)) {
			return nil
		}
		if _, err := receive(ctx, n, news); err != nil {
			return err
		}
	}
}

// isMajority reports whether count members are a majority of all members.
func isMajority(count, of int) bool { return count > of/2 }
