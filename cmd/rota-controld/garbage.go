package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How far the heap grows before garbage is collected. A small state (20,000 jobs take about 60 MB)
// may have four times its size in garbage. Collecting at every doubling would cost a third of the
// submissions per second. The garbage of a large state is bounded, down to the state's own size: a
// collection takes longer there, but is as rare.
const (
	garbageMax  = 512 << 20 // bytes
	percentMax  = 400
	percentMin  = 100
	percentStep = 10 // smaller changes are not worth stopping the world for
)

// gcPercent returns GOGC, in percent, for a heap with the given number of live bytes.
func gcPercent(live uint64) int {
	return int(min(max(garbageMax*100/max(live, 1), percentMin), percentMax))
}

// boundGarbage keeps GOGC at what [gcPercent] says for the size of the heap until ctx ends. GOGC in
// the environment overrides it.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	current := percentMax
	debug.SetGCPercent(current)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(live)
		percent := gcPercent(live[0].Value.Uint64())
		if percent-current >= percentStep || current-percent >= percentStep {
			current = percent
			debug.SetGCPercent(current)
		}
	}
}
