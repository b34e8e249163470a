package fsm

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestCheckFindsDamage damages a sound state in one way at a time: Check must say so.
func TestCheckFindsDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(w *world, run, pending *model.Job)
		want   string
	}{
		{"a job charged too much", func(w *world, run, _ *model.Job) { run.Ledger.GPUMS++ }, "charged"},
		{"a state without its attempt", func(w *world, run, _ *model.Job) { run.State = model.Configuring }, "do not agree"},
		{"a pending job with an end", func(w *world, _, pending *model.Job) { pending.Seq = 9 }, "history"},
		{"a step that is not allowed", func(w *world, run, _ *model.Job) {
			next := *run
			next.State = model.Pending
			w.s.checkStep(&next, &model.Job{ID: run.ID, State: model.Completed})
		}, "went from"},
		{"a worker with another's GPU", func(w *world, run, _ *model.Job) { run.Live().Workers[1].Place = run.Live().Workers[0].Place }, "said to hold"},
		{"part of a gang", func(w *world, run, _ *model.Job) { run.Live().Workers = run.Live().Workers[:1] }, "not whole"},
		{"capacity taken by no job", func(w *world, run, _ *model.Job) { w.s.v.grid.Allocate(2, run.Request, []int{0, 1}) }, "made anew"},
		{"a claim of nobody", func(w *world, run, _ *model.Job) { w.s.v.grid.Claim(2, model.Vector{GPUs: 1000}) }, "claims on node"},
		{"a job in no group", func(w *world, _, pending *model.Job) { w.s.unqueue(pending) }, "not in its group"},
		{"a group with the front of another", func(w *world, _, pending *model.Job) { w.s.groups.Find(groups.KeyOf(pending)).Head.Plain = false }, "front of group"},
		{"a job that is not listed as live", func(w *world, run, _ *model.Job) { w.s.v.live.Drop(int64(run.ID)) }, "index of live"},
		{"a port with no owner", func(w *world, _, _ *model.Job) { w.s.ownHolding(2).ports = []int{20000} }, "said to hold"},
		{"a reservation for a running job", func(w *world, run, _ *model.Job) {
			w.s.v.reservations = append(w.s.v.reservations, &model.Reservation{Job: run.ID})
		}, "does not wait"},
		{"a forgotten key", func(w *world, _, _ *model.Job) { clear(w.s.keyAt) }, "keys"},
		{"a job counted twice", func(w *world, _, _ *model.Job) { w.s.v.njobs++ }, "index of jobs"},
	} {
		w := newWorld(t)
		for _, n := range []string{"n1", "n2", "n3"} {
			w.node(n, 8)
		}
		run := w.job(w.running(2, []string{"n1", "n2"}))
		w.must(SubmitJobs{Owner: alice, Key: "k", Jobs: []*jobspec.Job{run.Spec}})
		pending := w.job(w.s.v.LastJob())
		w.ok(w.s.Check())
		c.damage(w, run, pending)
		if err := w.s.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want something about %q", c.name, err, c.want)
		}
	}
}

// unqueue takes a pending job out of its group and leaves the rest of the state as it is.
func (s *State) unqueue(pending *model.Job) {
	ended := *pending
	ended.State = model.Cancelled
	s.groups.Update(pending, &ended)
	s.groups.Settle()
}
