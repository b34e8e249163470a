package follow

import (
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// Moment is a point in time on two clocks. The monotonic one stands still while the machine is
// suspended.
type Moment struct {
	awake time.Time // monotonic clock
	boot  int64     // CLOCK_BOOTTIME in nanoseconds
}

// Now returns the present moment.
func Now() Moment { return Moment{time.Now(), container.BootTime()} }

// slept returns how long the machine was suspended since m.
func (m Moment) slept() time.Duration {
	return max(0, time.Duration(container.BootTime()-m.boot)-time.Since(m.awake))
}

// Lease is how long containers may run without another answer of a leader. Its term counts from the
// moment of the request, even while the machine is suspended, because the controllers count the same
// way. The zero value is no lease.
type Lease struct {
	AskedAt Moment
	Term    time.Duration
}

// End returns when the lease ends, on the monotonic clock; the zero time if there is no lease.
func (l Lease) End() time.Time {
	if l.Term == 0 {
		return time.Time{}
	}
	return l.AskedAt.awake.Add(l.Term - l.AskedAt.slept())
}

// heldFrom returns a lease that counts from a past instant of CLOCK_BOOTTIME, in milliseconds.
func heldFrom(asked, now int64, term time.Duration) Lease {
	past := time.Duration(now-asked) * time.Millisecond
	m := Now()
	return Lease{Moment{m.awake.Add(-past), m.boot - int64(past)}, term}
}

// bootMS returns CLOCK_BOOTTIME in milliseconds.
func bootMS() int64 { return container.BootTime() / int64(time.Millisecond) }
