package controld

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
)

// Pace of the history. Jobs that end together are stored together.
const (
	recordEvery = 100 * time.Millisecond // between writes, each of which costs an fsync
	recordRetry = time.Second            // after a failed one
	recordBatch = 1000                   // jobs stored at a time

	fillRetry     = 2 * time.Second  // between the first questions to others for what is missing here
	fillRetryMost = 10 * time.Minute // and between later ones, which may have no answer

	pruneEvery = time.Minute           // between looks for jobs that need not be kept any more
	prunePause = 20 * time.Millisecond // between two batches, in which jobs that end are stored

	checkAgain = 7 * 24 * time.Hour // how long a file that was found sound is not read again as a whole
	checkLook  = time.Hour          // between looks whether that time is over
)

// storeRecords stores finished jobs on this machine as they appear in the state. It starts once
// this controller has applied everything acknowledged. Only then does a history that is ahead of
// the state prove a log that was rolled back.
func (d *daemon) storeRecords(ctx context.Context, caughtUp <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-caughtUp:
	}
	reconciled := false
	for {
		changed := d.replica.Changed()
		v := d.replica.View()
		if reconciled && v.LastSeq() <= d.records.Last() {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
			continue
		}
		wait := recordEvery
		err := error(nil)
		if !reconciled {
			err = d.reconcileRecords(ctx, v)
			reconciled = err == nil
		}
		if err == nil {
			err = d.recordNew(ctx, v)
		}
		if err != nil || d.records.Absent() == 0 {
			d.fetching.Store(false)
		}
		if err != nil && ctx.Err() == nil {
			d.log.Error("cannot store finished jobs in the history yet; until then they stay in the state", "error", err)
			wait = recordRetry
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// reconcileRecords compares the history with the state, which may be of a backup or of another
// disk. Jobs unknown to the log are set aside, including jobs whose number the state uses for
// another job.
func (d *daemon) reconcileRecords(ctx context.Context, v *state.View) error {
	moved, err := d.records.RollBack(ctx, v.LastSeq())
	if err != nil {
		return err
	}
	before := d.records.SetAside()
	if err := d.appendRecords(ctx, v.Finished(0)); err != nil {
		return err
	}
	if moved += d.records.SetAside() - before; moved > 0 {
		d.log.Warn("the history has ended jobs that the log lacks: the log is older than the history, because it was "+
			"restored or rolled back. These jobs stay in rota hist, after all others; new jobs may get the same ids",
			"jobs", moved, "last_number_of_log", v.LastSeq())
	}
	return nil
}

// recordNew stores the finished jobs of a view that are not stored yet. Jobs that have already left
// the state become a gap, which fillRecords fills.
func (d *daemon) recordNew(ctx context.Context, v *state.View) error {
	if last := d.records.Last(); v.Trimmed() > last {
		d.fetching.Store(true)
		if err := d.records.NoteGaps(ctx, v.Trimmed()); err != nil {
			return err
		}
		d.log.Info("finished jobs left the state before they were stored here; fetching them from other controllers",
			"after_number", last, "up_to", v.Trimmed(), "missing", d.records.Absent())
		select {
		case d.recordGaps <- struct{}{}:
		default:
		}
	}
	return d.appendRecords(ctx, v.Finished(d.records.Last()))
}

// appendRecords stores jobs. It reports a job that cannot be stored once, and skips it.
func (d *daemon) appendRecords(ctx context.Context, jobs []*model.Job) error {
	for chunk := range slices.Chunk(jobs, recordBatch) {
		err := d.records.Append(ctx, chunk)
		if refused, ok := history.RefusedJobs(err); ok {
			for _, r := range refused {
				d.log.Error("a finished job is not in the history", "job", r.ID, "number", r.Seq, "error", r.Err)
			}
			err = nil
		}
		if err != nil {
			return fmt.Errorf("store jobs %d to %d: %w", chunk[0].ID, chunk[len(chunk)-1].ID, err)
		}
	}
	return nil
}

// fillRecords fetches jobs that are missing in this controller's history from other controllers.
// Jobs are stored meanwhile. If no other controller has a job, it stays missing, which is logged
// once.
func (d *daemon) fillRecords(ctx context.Context) error {
	wait, said := fillRetry, ""
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-d.recordGaps:
			wait = fillRetry
		case <-timer.C:
		}
		timer.Stop()
		if d.records.Absent() == 0 {
			said, wait = "", fillRetryMost
			continue
		}
		asked := d.fillFromPeers(ctx)
		d.fetching.Store(false)
		wait = min(2*wait, fillRetryMost)
		if left := d.records.Absent(); left > 0 && ctx.Err() == nil {
			if now := fmt.Sprint(left, asked); now != said {
				said = now
				d.log.Warn("ended jobs are missing from the history of this controller, because its file was moved away or is "+
					"older than the log. rota hist on this controller does not show them. Jobs that end from now on are stored as "+
					"usual",
					"missing", left, "other_controllers", strings.Join(asked, "; "))
			}
		}
	}
}

// fetchesRecords reports whether another controller may have missing jobs and has not been asked
// for them yet.
func (d *daemon) fetchesRecords() bool { return d.fetching.Load() && len(d.replica.Members()) > 1 }

// fillFromPeers asks every other controller for missing jobs, and returns the result.
func (d *daemon) fillFromPeers(ctx context.Context) (asked []string) {
	for _, p := range d.peers.All() {
		before := d.records.Absent()
		if before == 0 {
			break
		}
		fetch := func(ctx context.Context, from, to int64) ([]*model.Job, error) {
			return d.peers.Records(ctx, p, from, to)
		}
		err := history.Fill(ctx, d.records, fetch, d.records.Last())
		if got := before - d.records.Absent(); got > 0 {
			d.log.Info("history filled", "from", p.Name, "jobs", got, "missing", d.records.Absent())
		}
		if err != nil {
			asked = append(asked, p.Name+": "+err.Error())
		}
	}
	if asked == nil {
		asked = []string{"none is known"}
	}
	return asked
}

// pruneRecords removes jobs from the history after the configured time.
func (d *daemon) pruneRecords(ctx context.Context) error {
	for pause(ctx, pruneEvery) {
		keep := time.Duration(d.replica.View().Config().HistoryKeep) * time.Second
		d.pruneOlder(ctx, keep, replica.WallNow())
	}
	return nil
}

func (d *daemon) pruneOlder(ctx context.Context, keep time.Duration, now model.UnixMS) {
	if keep <= 0 {
		return
	}
	before := now - model.UnixMS(keep.Milliseconds())
	removed, err := d.pruneBefore(ctx, before)
	if err != nil && ctx.Err() == nil {
		d.log.Error("cannot prune the history; trying again", "error", err)
	}
	if removed > 0 {
		d.log.Info("history pruned", "jobs", removed, "ended_before", time.UnixMilli(int64(before)).UTC())
	}
}

// pruneBefore removes the jobs that ended before an instant, in batches with pauses between them.
func (d *daemon) pruneBefore(ctx context.Context, before model.UnixMS) (removed int, err error) {
	for {
		n, err := d.records.Prune(ctx, before)
		if removed += n; err != nil || n == 0 || !pause(ctx, prunePause) {
			return removed, err
		}
	}
}

// checkRecords reads the whole history, which takes minutes if it is large, and reports damage. The
// controller serves meanwhile.
func (d *daemon) checkRecords(ctx context.Context) error {
	for {
		begin := time.Now()
		err := d.records.Check(ctx, checkAgain)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			d.log.Error("the history is damaged; this controller keeps running, but its answers may lack some ended jobs",
				"error", err)
		default:
			d.log.Debug("history checked", "seconds", time.Since(begin).Seconds())
		}
		if !pause(ctx, checkLook) {
			return nil
		}
	}
}
