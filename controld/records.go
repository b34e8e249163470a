package controld

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/history"
)

// Pace of the history. Jobs that end together are stored together.
const (
	recordEvery = 100 * time.Millisecond // between writes, each of which costs an fsync
	recordRetry = time.Second            // after a failed one
	trimEvery   = 2 * time.Second        // between looks at whether records can leave the state
	recordBatch = 1000                   // records fetched at a time
)

// record stores finished jobs on this machine as they appear in the state, and fetches from another controller those that had left
// the state before this one saw them.
func (d *daemon) record(ctx context.Context) error {
	for {
		changed := d.machine.changed.wait()
		wait, err := recordEvery, error(nil)
		if v := d.machine.view.Load(); v.LastSeq() > d.records.Last() {
			err = d.recordNew(ctx, v)
		} else {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			continue
		}
		if err != nil && ctx.Err() == nil {
			d.log.Error("finished jobs not stored yet; they stay in the state until they are", "error", err)
			wait = recordRetry
		}
		if !d.pause(ctx, wait) {
			return nil
		}
	}
}

// missesRecords reports whether jobs have left the state that are not in the history of this machine yet: one that is new to the cluster, or was
// away for long, fetches them for a while, and must not say meanwhile that there were none.
func (d *daemon) missesRecords() bool { return d.records.Last() < d.machine.view.Load().Trimmed() }

func (d *daemon) recordNew(ctx context.Context, v *cluster.View) error {
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
	err := fmt.Errorf("records up to %d left the state before they were stored here, and no other controller is known", upTo)
	for _, p := range d.controllers() {
		fetch := func(ctx context.Context, from, to int64) ([]*cluster.Job, error) {
			var jobs []*cluster.Job
			err := d.fetch(ctx, p, fmt.Sprintf("/v1/internal/records?from=%d&to=%d", from, to), &jobs)
			return jobs, err
		}
		if err = history.Fill(ctx, d.records, fetch, upTo); err == nil {
			d.log.Info("history filled", "from", p.Name, "up_to", upTo)
			return nil
		}
	}
	return err
}

// trim proposes, on the leader, to drop finished jobs from the state once a majority has them on disk.
func (d *daemon) trim(ctx context.Context) error {
	for d.pause(ctx, trimEvery) {
		v := d.machine.view.Load()
		upTo := trimmable(v, d.cfg.KeepRecords, d.cfg.KeepFor, wallNow())
		if upTo <= v.Trimmed() {
			continue
		}
		if upTo = min(upTo, d.storedByMajority(ctx)); upTo <= v.Trimmed() {
			continue
		}
		if _, _, err := d.propose(ctx, cluster.TrimHistory{UpTo: upTo}); err != nil {
			if lostLead(err) || ctx.Err() != nil {
				return err
			}
			d.log.Warn("finished jobs not dropped from the state", "up_to", upTo, "error", err)
		}
	}
	return context.Cause(ctx)
}

// trimmable returns the highest number whose job, with all before it, need not stay in the state: it is not among the newest keep, or
// ended more than keepFor ago. The wall clock decides only when to propose; the command names the number.
func trimmable(v *cluster.View, keep int, keepFor time.Duration, now cluster.UnixMS) int64 {
	upTo := v.LastSeq() - int64(keep)
	for _, j := range v.Finished(max(upTo, v.Trimmed())) {
		if now-j.Ended.Wall < cluster.UnixMS(keepFor.Milliseconds()) {
			break
		}
		upTo = j.Seq
	}
	return upTo
}

// storedByMajority returns the number up to which a majority of the controllers has every record on disk.
func (d *daemon) storedByMajority(ctx context.Context) int64 {
	stored := []int64{d.records.Last()}
	members := d.replica.Members()
	for _, m := range members {
		p, ok := d.controller(m.Name)
		if !ok {
			continue // itself, or out of reach
		}
		s, err := d.stateOf(ctx, p)
		if err != nil {
			d.log.Debug("history of a controller not known", "controller", m.Name, "error", err)
			continue
		}
		stored = append(stored, s.Records)
	}
	slices.Sort(stored)
	need := len(members)/2 + 1
	if len(stored) < need {
		return 0
	}
	return stored[len(stored)-need]
}
