// Package retry waits between two tries of what failed, longer each time.
package retry

import (
	"context"
	"time"
)

// The first delay between two tries, and the longest.
const (
	Min = 100 * time.Millisecond
	Max = 10 * time.Second
)

// Backoff is a delay that doubles each time, from Min to half of Max. The zero value begins anew.
type Backoff struct{ delay time.Duration }

// Sleep waits until the delay is over or ctx ends, and returns the delay.
func (b *Backoff) Sleep(ctx context.Context) time.Duration {
	b.delay = min(max(2*b.delay, Min), Max/2)
	t := time.NewTimer(b.delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return b.delay
}
