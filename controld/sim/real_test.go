package sim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
)

// realTrace reads a public trace from the folder that ROTA_TRACES names; without it the test is
// skipped.
func realTrace(tb testing.TB, name string) *trace.Trace {
	tb.Helper()
	dir := os.Getenv("ROTA_TRACES")
	if dir == "" {
		tb.Skip("ROTA_TRACES does not name a folder of traces")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	t, err := trace.Read(f, trace.Options{Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}
