package sched_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected less often, which took a third of the time of random histories: their states are
// small. Benchmarks run as the daemon does.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
