package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/sim/trace"
)

func monotonic() func() int64 {
	began := time.Now()
	return func() int64 { return int64(time.Since(began)) }
}

// load reads one of the traces that lie beside the checkout; without them the test is skipped.
func load(tb testing.TB, name string) *trace.Trace {
	tb.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "traces", name))
	if err != nil {
		tb.Skipf("no real trace here: %v", err)
	}
	defer f.Close()
	t, err := trace.Read(f, trace.Options{Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func TestScratch(t *testing.T) {
	tr := load(t, os.Getenv("TRACE"))
	nodes, err := trace.ParseNodes(os.Getenv("NODES"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePolicy(os.Getenv("POLICY"))
	if err != nil {
		t.Fatal(err)
	}
	s := Setup{Nodes: nodes, Policy: p, Clock: monotonic(), Check: os.Getenv("CHECK") != ""}
	if v := os.Getenv("TICK"); v != "" {
		s.Tick = 60000
	}
	r, err := Run(tr, s)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", *r)
	for k, c := range r.Classes {
		fmt.Printf("%s %+v\n", k, *c)
	}
}
