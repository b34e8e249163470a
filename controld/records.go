package controld

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
)

// Pace of the history. Jobs that end together are stored together.
const (
	recordEvery = 100 * time.Millisecond // between writes, each of which costs an fsync
	recordRetry = time.Second            // after a failed one
	recordBatch = 1000                   // jobs stored at a time
)

// storeRecords stores finished jobs on this machine as they appear in the state, and fetches from
// another controller those that had left the state before this one saw them.
func (d *daemon) storeRecords(ctx context.Context) error {
	for {
		changed := d.replica.Changed()
		v := d.replica.View()
		if v.LastSeq() <= d.records.Last() {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			continue
		}
		wait := recordEvery
		if err := d.recordNew(ctx, v); err != nil && ctx.Err() == nil {
			d.log.Error("finished jobs not stored yet; they stay in the state until they are", "error", err)
			wait = recordRetry
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

func (d *daemon) recordNew(ctx context.Context, v *state.View) error {
	last := d.records.Last()
	if v.Trimmed() > last {
		if err := d.fillFromPeers(ctx, v.Trimmed()); err != nil {
			return err
		}
		last = d.records.Last()
	}
	for chunk := range slices.Chunk(v.Finished(last), recordBatch) {
		if err := d.records.Append(ctx, chunk); err != nil {
			return fmt.Errorf("store jobs %d to %d: %w", chunk[0].ID, chunk[len(chunk)-1].ID, err)
		}
	}
	return nil
}

// fillFromPeers fetches every record up to upTo that is missing here.
func (d *daemon) fillFromPeers(ctx context.Context, upTo int64) error {
	err := fmt.Errorf("records up to %d left the state before they were stored here, and no other controller is "+
		"known", upTo)
	for _, p := range d.peers.All() {
		fetch := func(ctx context.Context, from, to int64) ([]*model.Job, error) {
			return d.peers.Records(ctx, p, from, to)
		}
		if err = history.Fill(ctx, d.records, fetch, upTo); err == nil {
			d.log.Info("history filled", "from", p.Name, "up_to", upTo)
			return nil
		}
	}
	return err
}
