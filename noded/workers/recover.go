package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/retry"
)

// Recover makes the workers that the journal has. FirstInspection comes next.
func (t *Table) Recover() error {
	h, unlock := t.lock()
	defer unlock()
	for _, e := range h.Journal.Entries() {
		// 1. Report ended steps again: the controllers may not know them.
		for _, s := range e.Steps {
			if s.Report != nil {
				h.Outbox.PutStep(*s.Report)
			}
		}
		// 2. A result alone needs no worker: held.of reads it from the journal if a controller still
		// lists the container.
		if e.Final != nil && !h.Foreign {
			continue
		}
		id, ok := container.ParseID(e.ID)
		if !ok {
			return fmt.Errorf("journal: %q is not a container id (job.attempt.worker)", e.ID)
		}
		// 3. Go on with the worker: its measures are reported again, and its cores stay taken.
		h.of(id).recovered = e.Started
		if e.Final == nil {
			h.Meter.Report(id, e.Measures)
		}
		if h.Cores != nil {
			h.Cores.MarkUsed(e.Cores)
		}
	}
	return nil
}

// FirstInspection learns from the runtime which containers the last daemon left. Nothing may be
// created or stopped before that is known, so it tries until it succeeds or ctx ends. failed is called
// for each failure, with the time until the next try.
func (t *Table) FirstInspection(ctx context.Context, failed func(err error, again time.Duration)) error {
	var wait retry.Backoff
	for {
		err := t.inspectAll(ctx)
		if err == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed(err, wait.Sleep(ctx))
	}
}
