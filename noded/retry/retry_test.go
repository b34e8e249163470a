package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheNextTryIsLater notices controllers that are asked in a tight loop, or hardly ever.
func TestTheNextTryIsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait Backoff
		begin := time.Now()
		var slept time.Duration
		for _, want := range []int{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			got := wait.Sleep(t.Context())
			if slept += got; got.Milliseconds() != int64(want) || time.Since(begin) != slept {
				t.Errorf("it waits %v, not %d ms", got, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if wait.Sleep(ctx); time.Since(begin) != slept {
			t.Error("it waits although it is to end")
		}
	})
}
