package consensus

import (
	"context"
	"sync"
	"time"
)

// confirmations are when this member began the newest request that each other member has answered
// as its follower.
//
// The library counts an answer for a verification although the request was begun before it. A
// leader that was stopped, or whose answers come late, would count answers from before another
// leader was elected. It would then show a state that is not current.
type confirmations struct {
	mu    sync.Mutex
	begun map[string]time.Time
	news  chan struct{} // closed and replaced by each note
}

func newConfirmations() *confirmations {
	return &confirmations{begun: map[string]time.Time{}, news: make(chan struct{})}
}

// note takes down that the member with this server ID follows, by its answer to a request begun then.
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
	quietFor    = time.Second      // a leader without an answer for so long has stepped down
	unreachable = 10 * time.Minute // a member that is away for so long may be removed by now
)

// untilAnswered waits until a member has answered a request begun after since. It gives up when no
// member answers, or when stopped is closed.
//
// After each failed request, the library waits twice as long before the next one to the same
// follower, up to ten seconds. A controller that was down for some seconds would get no entries for as
// long again. If another controller went down in that time, nothing could be written, although most of
// the controllers run. Heartbeats go on meanwhile. So the failure of a request with entries is reported
// when a heartbeat has arrived: an outage is then one failure, however long it was.
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

// since counts those of members that have answered a request begun at asked or later. The channel
// is closed when the number may have changed.
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

// untilConfirmed waits until a quorum, this member included, has answered as its followers to
// requests begun at asked or later. Raft's dissertation asks for that in section 6.4, step 3.
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

// isMajority reports whether so many of all members are most of them.
func isMajority(count, of int) bool { return count > of/2 }
