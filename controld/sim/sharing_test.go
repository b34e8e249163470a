package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// TestSharingKeepsTheInvariants replays workloads of which most jobs can pause, with turns, packing
// and moves, under several policies and with all checks on. A plan that the state refuses fails the
// run: so a pair that was undone is not tried again.
func TestSharingKeepsTheInvariants(t *testing.T) {
	moved := 0 // in all runs: under some policies the jobs here find no node that is better
	for _, policy := range []string{"fifo", "rota", "fairshare", "las", "backfill"} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s seed=%d", policy, seed), func(t *testing.T) {
				s := setup(t, "6x32c/512g/4gpu", policy+":oversubscribe=6,pack=on,migrate=on")
				w := &turns{told: map[model.JobID]model.Instant{}}
				s.decided = w.see
				r := mustRun(t, mixedWithOthers(t, seed), s)
				if all := r.Classes["all"]; all.Count != r.Jobs || r.Unended > 0 || r.Refused > 0 {
					t.Errorf("%d of %d jobs ended, %d did not, %d actions were refused: %v", all.Count, r.Jobs, r.Unended, r.Refused,
						r.Notes)
				}
				if r.Sharing.Suspensions == 0 || w.packed == 0 {
					t.Errorf("%d suspensions, %d packed: nothing was shared", r.Sharing.Suspensions, w.packed)
				}
				moved += w.moved
			})
		}
	}
	if moved == 0 {
		t.Error("no job was moved")
	}
}

// turns watches for how long jobs wait for their turn.
type turns struct {
	told    map[model.JobID]model.Instant // to pause for others to have their turn
	longest model.Instant
	packed  int
	moved   int
}

func (w *turns) see(now model.Instant, p *fsm.CommitPlan) {
	back := func(id model.JobID) {
		if at, ok := w.told[id]; ok {
			w.longest = max(w.longest, now-at)
			delete(w.told, id)
		}
	}
	for _, a := range p.Actions {
		switch a := a.(type) {
		case *fsm.SuspendJob:
			if a.Cause == model.CauseSlice {
				w.told[a.Job] = now
			}
		case *fsm.ResumeJob:
			back(a.Job)
		case *fsm.PackJob:
			w.packed++
			back(a.Job)
		case *fsm.MoveJob:
			w.moved++
		case *fsm.StopJob:
			delete(w.told, a.Job)
		}
	}
}

// TestEveryJobHasItsTurn: all jobs can pause, and none waits for longer than two runs of each other
// job on its node. The others at most catch up its lead of one turn, and then have their own.
func TestEveryJobHasItsTurn(t *testing.T) {
	for seed := range uint64(3) {
		w := &turns{told: map[model.JobID]model.Instant{}}
		s := setup(t, "6x32c/512g/4gpu", "fifo:oversubscribe=6,pack=on")
		s.decided = w.see
		mustRun(t, synth.Gandiva("mix", seed, 150), s)
		if most := model.Instant(2*6*4) * (model.TurnMS + model.PauseWithin); w.longest > most || w.longest == 0 {
			t.Errorf("seed %d: a job waited %d s for its turn, %d s are two rounds", seed, w.longest/1000, most/1000)
		}
	}
}

// mixedWithOthers is Gandiva's mix for a small cluster, with jobs among it that cannot pause, of
// both classes.
func mixedWithOthers(tb testing.TB, seed uint64) *trace.Trace {
	tb.Helper()
	t := synth.Gandiva("mix", seed, 150)
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range t.Jobs {
		j := &t.Jobs[i]
		switch r.IntN(8) {
		case 0:
			j.Pauses = false
		case 1:
			j.Pauses, j.Class, j.Work = false, "te", j.Work/10
		}
	}
	return t
}

// TestSuspensionIsAPreemption: a job that pauses for a trial-and-error job counts as preempted and is
// away until it goes on. All of it is among the decisions, and while it pauses nothing is drawn.
func TestSuspensionIsAPreemption(t *testing.T) {
	a, b := job("a", 0, 60, 1), job("b", 30, 5, 1)
	a.Pauses, a.Saves, b.Class = true, trace.SavesSignal, "te"
	s := setup(t, "1x8c/64g/1gpu", "rota")
	var lines []byte
	s.Decided = func(d Decision) { lines = d.AppendLine(lines) }
	r := mustRun(t, workload(a, b), s)
	if r.Preemptions != 1 || r.PreemptionsMaxJob != 1 || r.PreemptedJobsPct != 50 || r.AbsenceS.Max != 300.75 {
		t.Errorf("%d preemptions, %d of one job, of %g %% of the jobs, absence %+v", r.Preemptions, r.PreemptionsMaxJob,
			r.PreemptedJobsPct, r.AbsenceS)
	}
	const want = `0 S 1 1 0 n1:0
1800000 P 1 1 6 n1:0
1800750 S 2 1 0 n1:0
2100750 E 2 1 1 n1:0
2100750 C 1 1 0 n1:0
3900500 E 1 1 1 n1:0
`
	if got := string(lines); got != want {
		t.Errorf("decisions:\n%s", got)
	}
	if got := spans(r); got != "a 0-30.0125, b 30.0125-35.0125, a 35.0125-65.00833333333334" {
		t.Errorf("attempts %s", got)
	}
	if r.Sharing == nil || r.Sharing.Suspensions != 1 {
		t.Errorf("sharing: %+v", r.Sharing)
	}
	if r = mustRun(t, workload(a), setup(t, "1x8c/64g/1gpu", "rota")); r.Sharing != nil {
		t.Errorf("nothing is shared, and there is %+v", r.Sharing)
	}
}

// TestOthersDoNotPause: a trace may say of any job that it pauses. Trial-and-error jobs and those that
// the policy resizes do not.
func TestOthersDoNotPause(t *testing.T) {
	a, b := job("a", 0, 60, 1), gang("b", 0, 60, 2, 1)
	a.Pauses, b.Pauses, a.Class, b.MinWorkers = true, true, "te", 1
	for _, policy := range []string{"fifo", "elastic", "rota"} {
		if r := mustRun(t, workload(a, b), setup(t, "1x8c/64g/3gpu", policy)); r.Classes["all"].Count != 2 {
			t.Errorf("%s: %d jobs ended", policy, r.Classes["all"].Count)
		}
	}
}

// TestSixJobsOnFourGPUs: Gandiva's figure 7. Turns cost less than two per cent, and all six go on
// alike.
func TestSixJobsOnFourGPUs(t *testing.T) {
	r := mustRun(t, synth.Six("six", 6), setup(t, synth.SixNodes, "fifo:oversubscribe=2"))
	const ideal = 6 * 7200.0 / 4
	if loss := r.MakespanS/ideal - 1; loss <= 0 || loss > 0.02 {
		t.Errorf("the last of six equal jobs ends %.2f %% later than without turns", 100*loss)
	}
	if s := r.Classes["all"].JCTS; s.Max-s.Mean > 120 {
		t.Errorf("the last ends %g s after the mean", s.Max-s.Mean)
	}
}
