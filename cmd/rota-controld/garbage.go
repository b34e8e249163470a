package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How far the heap grows before garbage is collected. A small state (20,000 jobs take some 60 MB) may have four times its size in garbage, since
// collecting at every doubling costs a third of the submissions a second. What a large one may have is bounded, down to its own size again:
// collecting costs in proportion to the state then, but comes as seldom.
const (
	garbageMost  = 512 << 20 // bytes
	percentMost  = 400
	percentLeast = 100
	percentStep  = 10 // smaller changes are not worth stopping the world for
)

// gcPercent is GOGC for a heap with so many live bytes.
func gcPercent(live uint64) int {
	return int(min(max(garbageMost*100/max(live, 1), percentLeast), percentMost))
}

// boundGarbage keeps GOGC at what the size of the heap calls for until ctx ends. A GOGC in the environment overrides it.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	current := percentMost
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
