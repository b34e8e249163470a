package fsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestLicensesBindStarts: a start that the licences do not allow is refused, whatever a leader
// plans. The licences of an attempt come back at its end. One that holds too many is found.
func TestLicensesBindStarts(t *testing.T) {
	w := newWorld(t)
	w.node("n", 8)
	c := *w.s.View().Config()
	c.Licenses = map[string]int{"matlab": 2}
	_, err := w.apply(SetConfig{Config: c})
	w.ok(err)
	hold := func(n int) func(*jobspec.Job) {
		return func(j *jobspec.Job) { j.Licenses = map[string]int{"matlab": n} }
	}
	first, err := w.submit2(alice, nil, hold(2))
	w.ok(err)
	second, err := w.submit2(alice, nil, hold(1))
	w.ok(err)
	w.ok(w.start(first, "n"))
	var unfit *model.FitError
	if err := w.start(second, "n"); !errors.As(err, &unfit) || unfit.Reason.Code != model.ReasonLicenses {
		t.Fatalf("the second starts: %v", err)
	}
	c.Licenses = map[string]int{"matlab": 1}
	_, err = w.apply(SetConfig{Config: c})
	w.ok(err)
	w.ok(w.s.Check()) // it was assigned before
	w.wait(1)
	w.run(first)
	w.report(first, 0, model.WorkerExited, code(0))
	w.ok(w.start(second, "n"))
	all := w.s.View().Config().Licenses
	all["matlab"] = 0
	if err := w.s.Check(); err == nil || !strings.Contains(err.Error(), "1 of licence matlab") {
		t.Errorf("one of no licence: %v", err)
	}
	all["matlab"] = 1
}

// TestQueuesByAlias: a job that names its queue by an alias is in the queue.
func TestQueuesByAlias(t *testing.T) {
	w := newWorld(t)
	c := *w.s.View().Config()
	c.Queues = map[string]cluster.Queue{"default": c.Queues["default"],
		"long": {Aliases: []string{"gpu"}, DefaultTime: 60}}
	_, err := w.apply(SetConfig{Config: c})
	w.ok(err)
	id, err := w.submit2(alice, nil, func(j *jobspec.Job) { j.Queue = "gpu" })
	w.ok(err)
	if j := w.job(id); j.Queue != "long" {
		t.Errorf("it is in queue %q", j.Queue)
	}
	_, err = w.submit2(alice, nil, func(j *jobspec.Job) { j.Queue = "cpu" })
	w.refused(err, model.ErrNoQueue)
	c.Queues = map[string]cluster.Queue{"default": c.Queues["default"], "long": {Aliases: []string{"default"}}}
	_, err = w.apply(SetConfig{Config: c})
	w.refused(err, model.ErrBadConfig)
}
