package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/journal"
)

// moment is an instant at which a node's daemon has written a record about an attempt to its
// journal, or at which the controllers have an event of a job in their log.
type moment struct {
	place string // "source" or "target", a node's journal, or "log"
	what  string // the op of the record, or the type of the event
}

func (m moment) String() string { return m.what + " in " + m.place }

// movesBy are the moments of a move, in order.
var movesBy = []moment{
	{"log", string(model.EventStopping)}, {"source", string(journal.Stopped)}, {"source", string(journal.Final)},
	{"log", string(model.EventEnded)}, {"log", string(model.EventAssigned)},
	{"target", string(journal.Intend)}, {"target", string(journal.Started)}, {"log", string(model.EventStarted)},
}

// suspendsBy are the moments of a suspension and of going on, on the source. Meanwhile its daemon
// writes the cores of jobs to its journal, but the jobs of this cluster have no numbered cores.
// Package noded's own tests kill it there.
var suspendsBy = []moment{
	{"log", string(model.EventSuspending)}, {"log", string(model.EventSuspended)},
	{"log", string(model.EventResuming)}, {"log", string(model.EventContinued)},
}

// blow is a daemon that is killed at a moment.
type blow struct {
	victim string // "source", "target" or "leader"
	at     moment
}

// blows combines each moment with one victim after the other; a long test combines it with each.
func blows(moments []moment, victims ...string) []blow {
	var all []blow
	for n, at := range moments {
		for i, v := range victims {
			if long() || n%len(victims) == i {
				all = append(all, blow{v, at})
			}
		}
	}
	return all
}

// TestAMoveSurvivesAKillAtEveryStep moves a training between two nodes again and again. It saves to the
// disk of its node, so that its files move too. Each time one of the daemons that take part is killed
// at one step of the move. The training is never on both nodes, is never forgotten, and loses no step.
func TestAMoveSurvivesAKillAtEveryStep(t *testing.T) {
	w := startWithin(t, 4*time.Minute, lab.Options{Controllers: 3, Nodes: 2, GPUs: 1})
	id := w.submit(onGPUs("moves", 1, "checkpoint {\n node_local = true\n }\n", endless("$ROTA_CHECKPOINT_FILE")))
	dir := folder(w.runsOn(id, 1), id, 1)
	w.lines(filepath.Join(dir, training.File), 2)
	for _, b := range blows(movesBy, "source", "target", "leader") {
		j := w.until(id, "running", func(j api.Job) bool { return j.Code == "R" })
		from, to := w.node("n1"), w.node("n2")
		if j.Nodes[0] == to.Name {
			from, to = to, from
		}
		done := w.strike(t, b, from, to, j)
		w.ok("node", "drain", "--reason", "a job is to leave it", from.Name)
		w.ok("requeue", id)
		done()
		next := w.until(id, "running again", func(next api.Job) bool { return next.Code == "R" && next.Attempt > j.Attempt })
		dir = folder(w.node(next.Nodes[0]), id, next.Attempt)
		w.wait("it takes steps", func() bool { return w.lastLife(dir).Attempt == next.Attempt })
		w.ok("node", "resume", from.Name)
	}
	all, err := training.Lives(filepath.Join(dir, training.File)) // the folder goes with the job
	w.must(err)
	w.ok("cancel", id)
	w.ends(id)
	w.checked(t, id, all)
}

// TestASuspensionSurvivesAKillAtEveryStep has trials suspend trainings. Each time one of the daemons
// that take part is killed at one step. The training goes on in the same attempt, and loses no step.
func TestASuspensionSurvivesAKillAtEveryStep(t *testing.T) {
	w := start(t, lab.Options{Controllers: 3, Nodes: 1, GPUs: 1})
	w.policy("rota")
	for n, b := range blows(suspendsBy, "source", "leader") {
		dir := w.scratch(fmt.Sprintf("suspended%d", n))
		id := w.submit(onGPUs("train", 1, pausing, endless(dir)))
		w.lines(filepath.Join(dir, training.File), 2)
		done := w.strike(t, b, w.Cluster.Nodes[0], nil, w.status(id))
		trial := w.trial(dir, 1)
		w.until(trial, "running", func(j api.Job) bool { return j.Code == "R" })
		w.over(dir)
		w.ends(trial)
		done()
		w.wait("it goes on", func() bool { return len(w.events(string(model.EventContinued), id)) > 0 })
		step := w.lastLife(dir).To
		w.wait("it takes steps", func() bool { return w.lastLife(dir).To > step })
		w.ok("cancel", id)
		if j := w.ends(id); j.Attempt != 1 {
			t.Errorf("it was in attempt %d at its end: %+v", j.Attempt, j.Attempts)
		}
		all, err := training.Lives(filepath.Join(dir, training.File))
		w.must(err)
		w.checked(t, id, all)
	}
}

// endless is a command line of the trainer that saves only when it is asked to stop.
func endless(dir string) string {
	return "exec bin/trainer -steps 1000000 -pause 5ms -every 0 -log 1 -dir " + dir
}

// strike kills a daemon when a moment has come, and starts it again. The function that it returns waits
// for that.
func (w *world) strike(t *testing.T, b blow, from, to *lab.Daemon, j api.Job) (done func()) {
	t.Helper()
	t.Logf("%s is killed at: %s, job %d, attempt %d", b.victim, b.at, j.ID, j.Attempt)
	leader, err := w.Leader(w.ctx)
	w.must(err)
	victim := map[string]*lab.Daemon{"source": from, "target": to, "leader": leader}[b.victim]
	_, answer, err := w.client.Events(w.ctx, 0, 0)
	w.must(err)
	result := make(chan error, 1)
	go func() {
		var err error
		switch b.at.place {
		case "log":
			err = w.awaitEvent(j, b.at.what, answer.Index)
		case "source":
			err = awaitRecord(w.ctx, from, b.at.what, j, j.Attempt)
		case "target":
			err = awaitRecord(w.ctx, to, b.at.what, j, j.Attempt+1)
		}
		if err == nil {
			victim.Kill()
			err = victim.Start()
		}
		result <- err
	}()
	return func() {
		t.Helper()
		if err := <-result; err != nil {
			t.Fatalf("%s was to be killed at %s: %v", b.victim, b.at, err)
		}
	}
}

// awaitEvent waits for an event of a job after an index.
func (w *world) awaitEvent(j api.Job, kind string, after uint64) error {
	for w.ctx.Err() == nil {
		list, _, err := w.client.Events(w.ctx, after, time.Second)
		if err != nil {
			continue // a leader is being elected
		}
		for _, e := range list.Items {
			if e.Index > after && e.Job == j.ID && e.Type == kind {
				return nil
			}
		}
	}
	return w.ctx.Err()
}

// awaitRecord waits for a record about an attempt in a daemon's journal.
func awaitRecord(ctx context.Context, d *lab.Daemon, op string, j api.Job, attempt int) error {
	text := fmt.Appendf(nil, `{"op":%q,"id":"%d.%d.0"`, op, j.ID, attempt)
	for {
		if b, _ := os.ReadFile(filepath.Join(d.Data, "journal")); bytes.Contains(b, text) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// lastLife is what the latest attempt of a training has done.
func (w *world) lastLife(dir string) training.Life {
	w.t.Helper()
	all, err := training.Lives(filepath.Join(dir, training.File))
	w.must(err)
	if len(all) == 0 {
		return training.Life{}
	}
	return all[len(all)-1]
}

// checked compares a training that was stopped with a training that was left alone for as many
// steps. It also asks the cluster whether its state is consistent.
func (w *world) checked(t *testing.T, id string, all []training.Life) {
	t.Helper()
	for i := 1; i < len(all); i++ {
		if all[i].From != all[i-1].To {
			t.Errorf("attempt %d began at step %d, after step %d", all[i].Attempt, all[i].From, all[i-1].To)
		}
		if by := all[i-1].Overlap(&all[i]); by > 0 {
			t.Errorf("attempts %d and %d ran at once, for %v", all[i-1].Attempt, all[i].Attempt, by)
		}
	}
	out := w.ok("logs", id)
	steps := stepLine.FindAllStringSubmatch(out, -1)
	if len(steps) == 0 {
		t.Fatalf("no loss in its output:\n%s", out)
	}
	last := steps[len(steps)-1]
	n, err := strconv.Atoi(last[1])
	w.must(err)
	if want := lastLoss(t, w.alone(n)); !strings.HasSuffix(want, "loss "+last[2]) {
		t.Errorf("the loss is %s, that of a run left alone is %s", last[0], want)
	}
	if out, errs, code := w.rota("check"); code != 0 {
		t.Errorf("check: exit %d\n%s%s", code, out, errs)
	}
}
