package controld

import (
	"sync/atomic"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
)

// logClock tells the log's time on a leader: the last instant in the log when it took over, plus what has passed on the monotonic
// clock since. Apply never lets it go back. On a follower it stands still at the last instant of the log.
type logClock struct{ taken atomic.Pointer[takeover] }

type takeover struct {
	base  cluster.Instant
	since time.Time // with its monotonic reading
}

// take starts the clock at base, when this controller becomes leader.
func (c *logClock) take(base cluster.Instant) { c.taken.Store(&takeover{base, time.Now()}) }

// stop makes it stand still again.
func (c *logClock) stop() { c.taken.Store(nil) }

// now is the present instant, at least that of v.
func (c *logClock) now(v *cluster.View) cluster.Instant {
	t := c.taken.Load()
	if t == nil {
		return v.At()
	}
	return max(v.At(), t.base+cluster.Instant(time.Since(t.since).Milliseconds()))
}

func wallNow() cluster.UnixMS { return cluster.UnixMS(time.Now().UnixMilli()) }
