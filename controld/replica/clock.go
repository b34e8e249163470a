package replica

import (
	"sync/atomic"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// logClock has the log's time. On a leader it is the last instant in the log when the controller
// became the leader, plus what has passed on the monotonic clock since. On a follower it stands
// still at the last instant of the log. Apply never lets it go back.
type logClock struct{ started atomic.Pointer[clockStart] }

type clockStart struct {
	base  model.Instant
	since time.Time // with its monotonic reading
}

// start starts the clock at base.
func (c *logClock) start(base model.Instant) { c.started.Store(&clockStart{base, time.Now()}) }

// stop makes it stand still again.
func (c *logClock) stop() { c.started.Store(nil) }

// now is the present instant, at least that of v.
func (c *logClock) now(v *state.View) model.Instant {
	s := c.started.Load()
	if s == nil {
		return v.At()
	}
	return max(v.At(), s.base+model.Instant(time.Since(s.since).Milliseconds()))
}
