package main

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/rota-hpc/rota/jobspec"
)

func TestDecideStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := newLarge(ctx, "rota", 10, 100)
	if err != nil {
		t.Fatal(err)
	}
	if ds, _, _, err := l.arrivals(ctx, jobspec.TE, 3); err != nil || len(ds) != 3 {
		t.Fatalf("%d arrivals: %v", len(ds), err)
	}
	cancel()
	if _, _, _, err := l.arrivals(ctx, jobspec.TE, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("arrivals: %v", err)
	}
	if err := measureDecide(ctx, &bench{out: io.Discard, quick: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("the whole measurement: %v", err)
	}
}
