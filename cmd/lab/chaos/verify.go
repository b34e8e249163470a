package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Differences that the comparison of the ledger with the heartbeats allows for each attempt. A
// container takes time to start, and the end of a worker takes time to reach the log. While a fault
// is there, and for a while after it, that may take longer.
const (
	attemptSlack  = 1500 * time.Millisecond
	afterFault    = 6 * time.Second
	afterNode     = 14 * time.Second // a lease, its margin, and the way back
	ledgerMost    = 0.01
	endPatience   = 3 * time.Minute // for what runs when the last fault is over
	modelPatience = time.Minute     // for each register
	saveEvery     = 20              // steps between the trainer's checkpoints
)

// report is what a run found.
type report struct {
	violations []string
	notes      []string
}

func (r *report) violation(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// judge compares what clients and jobs saw with the cluster, which is whole again.
type judge struct {
	report
	cluster *lab.Cluster
	client  *api.Client
	clients *clients
	windows []window
	bin     string
	keep    string // where histories of registers go that are wrong; "": nowhere
}

// verify looks at everything. An error means that it could not.
func (v *judge) verify(ctx context.Context) error {
	if err := v.awaitTrainers(ctx); err != nil {
		return err
	}
	for _, check := range []func(context.Context) error{
		v.promises, v.register, v.onlyOnce, v.training, v.outages, v.invariants,
	} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitTrainers waits until every job that was started has ended.
func (v *judge) awaitTrainers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	waits := func(id model.JobID) bool {
		j, _, err := v.client.Job(ctx, id, api.Read{Consistent: true})
		return err != nil || j.Ended == nil
	}
	for _, t := range v.clients.trained {
		for waits(t.id) {
			if !lab.Sleep(ctx, 200*time.Millisecond) {
				v.violation("job %d has not ended %v after the last fault", t.id, endPatience)
				return nil
			}
		}
	}
	for _, p := range v.clients.promises {
		for p.runs && waits(p.id) {
			if !lab.Sleep(ctx, 200*time.Millisecond) {
				v.violation("job %d has not ended %v after the last fault", p.id, endPatience)
				return nil
			}
		}
	}
	return nil
}

// promises checks that each job that was acknowledged exists, with one id of its own, and is
// cancelled if that was acknowledged.
func (v *judge) promises(ctx context.Context) error {
	there, err := v.all(ctx)
	if err != nil {
		return err
	}
	ids, err := v.noted()
	if err != nil {
		return err
	}
	seen, lost := map[model.JobID]bool{}, 0
	for _, id := range ids {
		if seen[id] {
			v.violation("job id %d was given twice", id)
		}
		seen[id] = true
		if _, ok := there[id]; !ok {
			lost++
			v.violation("job %d was acknowledged and is unknown", id)
		}
	}
	for _, p := range v.clients.promises {
		if code := there[p.id]; p.cancelled && code != model.Cancelled && code != "" {
			v.violation("job %d is %s although its cancellation was acknowledged", p.id, code)
		}
	}
	v.note("%d jobs acknowledged, %d lost; %d calls, %d without an answer, %d submissions sent again",
		len(ids), lost, v.clients.calls, v.clients.unknown, v.clients.twice)
	return nil
}

// noted reads the ids that clients synced to their files.
func (v *judge) noted() ([]model.JobID, error) {
	files, err := filepath.Glob(filepath.Join(v.clients.dir, "acknowledged-*"))
	if err != nil {
		return nil, err
	}
	var ids []model.JobID
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, word := range strings.Fields(string(b)) {
			id, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil, err
			}
			ids = append(ids, model.JobID(id))
		}
	}
	return ids, nil
}

// all returns the state of every job that the cluster knows, live or ended.
func (v *judge) all(ctx context.Context) (map[model.JobID]model.JobState, error) {
	there := map[model.JobID]model.JobState{}
	_, err := v.client.EachJob(ctx, api.JobFilter{}, api.Read{Consistent: true}, func(j *api.Job) error {
		there[j.ID] = j.Code
		return nil
	})
	if err != nil {
		return nil, err
	}
	for page := ""; ; {
		list, _, err := v.client.History(ctx, api.HistoryFilter{Limit: 10_000, Page: page}, api.Read{Consistent: true})
		if err != nil {
			return nil, err
		}
		for _, j := range list.Items {
			there[j.ID] = j.Code
		}
		if page = list.Next; page == "" {
			return there, nil
		}
	}
}

// register checks the histories of the registers.
func (v *judge) register(context.Context) error {
	wrong, unknown := checkLinearizable(v.clients.history, modelPatience)
	for _, id := range wrong {
		v.violation("the calls on job %d are not linearizable", id)
		if err := v.keepHistory(id); err != nil {
			return err
		}
	}
	for _, id := range unknown {
		v.note("whether the calls on job %d are linearizable took longer than %v", id, modelPatience)
	}
	v.note("%d calls on registers", len(v.clients.history))
	return nil
}

// keepHistory writes the calls on one register, and the faults of that time, in order.
func (v *judge) keepHistory(id model.JobID) error {
	if v.keep == "" {
		return nil
	}
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for _, op := range v.clients.history {
		if op.register == id {
			lines = append(lines, line{op.call, op.String()})
		}
	}
	first, last := lines[0].at, lines[len(lines)-1].at
	for _, w := range v.windows {
		from, to := w.from.Sub(v.clients.begin), w.to.Sub(v.clients.begin)
		if to > first-registerNext && from < last {
			lines = append(lines, line{from, fmt.Sprintf("FAULT %s from %v to %v", w.kind, from.Round(time.Millisecond),
				to.Round(time.Millisecond))})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return int(a.at - b.at) })
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&text, l.text)
	}
	if err := os.MkdirAll(v.keep, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(v.keep, fmt.Sprintf("register-%d", id)), []byte(text.String()), 0o644)
}

// onlyOnce checks that each short job ran to its end exactly once. A later attempt means that the
// earlier one was lost, and may not have finished.
func (v *judge) onlyOnce(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(v.clients.shared, "once"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ran, n := map[string]int{}, 0
	for line := range strings.Lines(string(b)) {
		ran[strings.TrimSpace(line)]++
	}
	for _, p := range v.clients.promises {
		if !p.runs {
			continue
		}
		n++
		j, _, err := v.client.Job(ctx, p.id, api.Read{Consistent: true})
		if err != nil {
			return err
		}
		last := fmt.Sprintf("%d %d", p.id, j.Attempt)
		if j.Code == model.Completed && ran[last] != 1 {
			v.violation("attempt %d of job %d completed and ran %d times", j.Attempt, p.id, ran[last])
		}
	}
	for line, times := range ran {
		if times > 1 {
			v.violation("attempt %q ran %d times", line, times)
		}
	}
	v.note("%d short jobs", n)
	return nil
}

// training checks each training job: at most one attempt at a time, no lost step, and the ledger.
// Its result must be the result of a job that was left alone.
func (v *judge) training(ctx context.Context) error {
	want, err := v.alone(ctx)
	if err != nil {
		return err
	}
	sum := ledger{}
	attempts, completed := 0, 0
	for _, t := range v.clients.trained {
		j, _, err := v.client.Job(ctx, t.id, api.Read{Consistent: true})
		if err != nil {
			return err
		}
		all, err := training.Lives(filepath.Join(t.dir, "heartbeat"))
		if err != nil {
			return err
		}
		attempts += len(all)
		v.attempts(t, all)
		if j.Code == model.Completed {
			completed++
			got, err := os.ReadFile(filepath.Join(t.dir, "checkpoint"))
			if err != nil || !bytes.Equal(got, want[t.steps]) {
				v.violation("job %d has a different result than an undisturbed job (%v)", t.id, err)
			}
		} else if j.Ended != nil {
			v.violation("job %d ended as %s", t.id, j.Code)
		}
		if j.Ended != nil && j.Attempt == len(all) { // else an attempt ended before its first beat
			v.charge(&sum, j, all)
		}
	}
	v.note("%d training jobs, %d completed, %d attempts", len(v.clients.trained), completed, attempts)
	sum.judge(&v.report)
	return nil
}

// attempts checks that one attempt ended before the next began, and went on where that was.
func (v *judge) attempts(t trained, all []training.Life) {
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		if overlap := before.Overlap(&after); overlap > 0 {
			v.violation("attempts %d and %d of job %d ran at once for %v", before.Attempt, after.Attempt, t.id, overlap)
		}
		if saved := before.To / saveEvery * saveEvery; after.From < min(saved, t.steps)-saveEvery {
			v.violation("attempt %d of job %d begins at step %d, but attempt %d had come to step %d", after.Attempt, t.id,
				after.From, before.Attempt, before.To)
		}
	}
}

// ledger compares GPU time: what jobs were charged, and what their heartbeats show.
type ledger struct {
	jobs     int
	beaten   time.Duration // by heartbeats
	charged  time.Duration
	tooShort time.Duration // below the heartbeats
	tooLong  time.Duration // above them and what is allowed
}

// charge adds one job. GPUs are held until the last worker has ended, and each worker has one.
func (v *judge) charge(sum *ledger, j *api.Job, all []training.Life) {
	var beaten, allowed time.Duration
	for _, l := range all {
		for _, w := range l.Workers {
			beaten += w.Last.Sub(w.First)
			allowed += attemptSlack + v.late(w.First, true) + v.late(w.Last, false)
			allowed += w.First.Sub(l.First) + l.Last.Sub(w.Last) // of a gang, one may wait for another
		}
	}
	charged := time.Duration(j.GPUSeconds)*time.Second + 500*time.Millisecond // it is cut to whole seconds
	sum.jobs++
	sum.beaten += beaten
	sum.charged += charged
	sum.tooShort += max(0, beaten-charged-500*time.Millisecond)
	sum.tooLong += max(0, charged-beaten-allowed-500*time.Millisecond)
}

// late is how much longer the begin or the end of an attempt at this instant may have taken because
// of faults.
func (v *judge) late(at time.Time, begin bool) time.Duration {
	most := time.Duration(0)
	for _, w := range v.windows {
		to := w.to.Add(afterFault)
		if slices.Contains(onNodes, w.kind) {
			to = w.to.Add(afterNode)
		}
		if at.Before(w.from.Add(-attemptSlack)) || at.After(to) {
			continue
		}
		if begin {
			most = max(most, at.Sub(w.from))
		} else {
			most = max(most, to.Sub(at))
		}
	}
	return most
}

func (l *ledger) judge(r *report) {
	if l.beaten == 0 {
		r.note("no training job had all its attempts in its heartbeats")
		return
	}
	per := func(d time.Duration) float64 { return 1000 * d.Seconds() / l.beaten.Seconds() }
	r.note("GPU time of %d jobs: %.0f s by heartbeats, %.0f s charged, of which %.1f per mille are too little and %.1f "+
		"too much", l.jobs,
		l.beaten.Seconds(), l.charged.Seconds(), per(l.tooShort), per(l.tooLong))
	if off := (l.tooShort + l.tooLong).Seconds() / l.beaten.Seconds(); off > ledgerMost {
		r.violation("the ledger is off by %.1f %%", 100*off)
	}
}

// alone trains without a cluster, and returns the checkpoint at the end by the number of steps.
func (v *judge) alone(ctx context.Context) (map[int][]byte, error) {
	results := map[int][]byte{}
	for _, steps := range []int{trainerSteps, gangSteps} {
		dir, err := os.MkdirTemp(v.clients.dir, "alone-")
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, filepath.Join(v.bin, "trainer"), "-steps", strconv.Itoa(steps), "-dir", dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("train alone: %w: %s", err, out)
		}
		if results[steps], err = os.ReadFile(filepath.Join(dir, "checkpoint")); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// invariants checks that every controller holds all invariants, and that all have the same state.
func (v *judge) invariants(ctx context.Context) error {
	state, problems, err := v.cluster.Check(ctx)
	for _, p := range problems {
		v.violation("%s", p)
	}
	if state != "" {
		v.note("all controllers have state %s", state)
	}
	return err
}
