package output

import (
	"sync"
	"time"
)

// burst is how much output a worker may have at once after it was silent, as time at its rate.
const burst = time.Second

// Throttle bounds how much output the shim takes from a worker, all streams of all tasks together.
// The rest stays in the pipes. When they are full, the job's writes wait. A nil throttle has no
// bound.
type Throttle struct {
	rate int64 // bytes per second

	mu   sync.Mutex
	paid time.Time // when all that was taken will be within the rate
}

// NewThrottle returns a throttle of so many bytes per second; 0 is no bound.
func NewThrottle(rate int64) *Throttle {
	if rate <= 0 {
		return nil
	}
	return &Throttle{rate: rate}
}

// pace is called with the number of bytes that were just taken. It returns when the next may be
// taken, or when lifted is closed.
func (t *Throttle) pace(n int, lifted <-chan struct{}) {
	if t == nil {
		return
	}
	wait := t.charge(n)
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-lifted:
	}
}

// charge counts n bytes and returns how long to wait for the next.
func (t *Throttle) charge(n int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if earliest := now.Add(-burst); t.paid.Before(earliest) {
		t.paid = earliest
	}
	t.paid = t.paid.Add(time.Duration(float64(n) / float64(t.rate) * float64(time.Second)))
	return t.paid.Sub(now)
}
