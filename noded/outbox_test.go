package noded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// TestWhatTheOutboxKeeps notices reports that are lost, sent twice, or sent in the wrong order.
func TestWhatTheOutboxKeeps(t *testing.T) {
	o := newOutbox()
	woken := func() bool {
		select {
		case <-o.ready:
			return true
		default:
			return false
		}
	}
	created, running := reportOf(wid(1), model.WorkerCreated), reportOf(wid(1), model.WorkerRunning)
	finding := running
	finding.Policy = "p"
	o.putReport(created)
	o.putFinding(finding)
	if !woken() || woken() {
		t.Error("it is not woken once")
	}
	sent := o.nextBatch().workers
	if len(sent) != 2 || sent[0] != finding || sent[1] != created { // a finding comes before the end that it explains
		t.Errorf("sent %+v", sent)
	}
	o.putReport(running) // meanwhile
	_ = woken()
	o.dropConfirmed(batch{workers: sent})
	if !woken() {
		t.Error("the newer state is forgotten")
	}
	if sent = o.nextBatch().workers; len(sent) != 1 || sent[0] != running {
		t.Errorf("then %+v", sent)
	}
	o.dropConfirmed(batch{workers: sent})
	if sent = o.nextBatch().workers; len(sent) != 0 || woken() {
		t.Errorf("in the end %+v", sent)
	}
	rate := running
	rate.Rate = 15
	o.putFinding(rate)
	if sent = o.nextBatch().workers; len(sent) != 1 {
		t.Errorf("a rate: %+v", sent)
	}
	o.dropConfirmed(batch{workers: sent})
	if sent = o.nextBatch().workers; len(sent) != 0 {
		t.Errorf("a rate that was confirmed: %+v", sent)
	}
	for job := range int64(reportMax + 10) {
		o.putReport(reportOf(wid(job+1), model.WorkerRunning))
	}
	if sent = o.nextBatch().workers; len(sent) != reportMax {
		t.Errorf("%d reports at once", len(sent))
	}
}

// TestSamplesThatAreSentAgain notices an older sample that replaces a newer one, and a newer one that
// is dropped.
func TestSamplesThatAreSentAgain(t *testing.T) {
	o := newOutbox()
	step := func(n int64) []api.Sample { return []api.Sample{{Job: 1, Attempt: 1, Step: n}} }
	for _, c := range []struct {
		put   []api.Sample
		again bool
		want  int64
	}{{step(1), false, 1}, {step(2), false, 2}, {step(1), true, 2}} {
		o.putSamples(c.put, c.again)
		if got := o.samples[wid(1)].Step; got != c.want {
			t.Errorf("%+v: step %d", c, got)
		}
	}
	if samples := o.nextBatch().samples; len(samples) != 1 {
		t.Errorf("sent %+v", samples)
	}
	o.putSamples(step(1), true)
	if samples := o.nextBatch().samples; len(samples) != 1 || samples[0].Step != 1 {
		t.Errorf("sent again %+v", samples)
	}
	if samples := o.nextBatch().samples; len(samples) != 0 {
		t.Errorf("sent twice: %+v", samples)
	}
}

// TestAMarkThatCannotBeWritten notices a daemon that goes on without its mark.
func TestAMarkThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for what, err := range map[string]error{"format": writeFormat(filepath.Join(dir, "version")),
		"check": checkFormat(dir), "whole": writeWhole(filepath.Join(dir, "x"), "y")} {
		if err == nil || !strings.Contains(err.Error(), "mark the data directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	writeFile(t, path+".tmp", "what a daemon that was killed left, and longer")
	if err := writeWhole(path, "y"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	b, _ := os.ReadFile(path)
	if err != nil || string(b) != "y" || info.Mode() != 0o600 {
		t.Errorf("it holds %q, %v, mode %v", b, err, info.Mode())
	}
}

// TestDelaysOfRepeatedSteps notices a daemon that asks controllers in a tight loop, or hardly ever.
func TestDelaysOfRepeatedSteps(t *testing.T) {
	w := &worker{}
	for _, want := range []int{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
		w.delayRepeat(reconcile.Create, errFault)
		if w.delay.Milliseconds() != int64(want) {
			t.Errorf("%d tries: %v", w.Tries, w.delay)
		}
	}
	if w.Tries != 9 {
		t.Errorf("%d tries", w.Tries)
	}
	w.delayRepeat(reconcile.Create, nil)
	if w.Tries != 0 || w.delay != 0 || w.lastKind != reconcile.Create || !w.notBefore.IsZero() {
		t.Errorf("after a success: %+v", w)
	}
	w.delayRepeat(reconcile.Kill, nil) // it has no effect yet
	if w.Tries != 1 || w.notBefore.IsZero() {
		t.Errorf("after a kill: %+v", w)
	}
}
