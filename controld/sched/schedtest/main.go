package schedtest

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// Main runs the tests of a package with less frequent garbage collection, which took a third of the
// time of random histories. Their states are small. Benchmarks keep Go's setting, to stay
// comparable.
func Main(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
