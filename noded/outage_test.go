package noded

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/witness"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
)

// outage is what the node of a world has on its disk.
func (w *world) outage() *follow.Outage {
	o, err := follow.OpenOutage(filepath.Dir(w.path))
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) askWitness(_ context.Context, node, addr string) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if addr != node+":1" {
		w.t.Errorf("%s is asked at %s", node, addr)
	}
	if silent, ok := w.silent[node]; ok {
		return silent, nil
	}
	return 0, errUnreachable
}

// setOfThree is what the controllers of a world choose: the node itself and two others.
func setOfThree(number uint64) *api.Witnesses {
	return &api.Witnesses{Set: witness.Set{Number: number, Members: []string{"n1", "n2", "n3"}, Silence: 30_000,
		Hold: 600_000, Margin: 30_000}, Addrs: []string{"n1:1", "n2:1", "n3:1"}}
}

// witnessed plays a story of a node that has witnesses and a job, and hears of no controller any more.
func witnessed(t *testing.T, story func(t *testing.T, w *world)) {
	scene(t, func(t *testing.T, w *world) {
		w.change(func() { w.witnesses, w.silent = setOfThree(1), map[string]int64{} })
		w.assign(wid(1), true)
		settle(time.Minute)
		w.change(func() { w.down = true })
		story(t, w)
	})
}

func (w *world) left(id container.ID) time.Duration { return time.Until(w.container(id).lease) }

// TestWitnessesKeepAJob: as long as a majority of them hears of no leader, for a hundred leases, and while the
// daemon restarts. Then one of them hears of a leader, and the lease ends.
func TestWitnessesKeepAJob(t *testing.T) {
	witnessed(t, func(t *testing.T, w *world) {
		w.change(func() { w.silent["n2"] = 1 << 40 })
		for lease := range 100 {
			settle(10 * time.Minute)
			if left := w.left(wid(1)); left < 5*time.Minute || left > 10*time.Minute {
				t.Fatalf("after %d leases without controllers %v are left", lease, left)
			}
			if lease%10 == 0 {
				w.kill()
				w.start()
			}
		}
		w.change(func() { w.silent["n2"] = 29_999 })
		settle(11 * time.Minute)
		if left := w.left(wid(1)); left > 0 {
			t.Errorf("a witness hears of a leader, and %v are left", left)
		}
	})
}

// TestNoMajorityKeepsNoJob: neither silence nor a witness that has just started counts. An expired
// lease stays expired, for containers that are made later too.
func TestNoMajorityKeepsNoJob(t *testing.T) {
	witnessed(t, func(t *testing.T, w *world) {
		w.change(func() { w.silent["n2"] = 20_000 })
		settle(11 * time.Minute)
		ended := w.container(wid(1)).lease
		if left := time.Until(ended); left > 0 {
			t.Fatalf("without a majority %v are left", left)
		}
		w.change(func() { w.silent["n2"], w.silent["n3"] = 1<<40, 1<<40 })
		settle(11 * time.Minute)
		if lease := w.container(wid(1)).lease; !lease.Equal(ended) {
			t.Errorf("a lease that was over was extended by %v", lease.Sub(ended))
		}
		end := w.life.agent.workers.LeaseEnd(&api.Alloc{})
		if time.Until(end) > 0 {
			t.Errorf("a container that is made now gets a lease of %v", time.Until(end))
		}
	})
}

// TestARestartedWitnessKnowsNothing: what it says counts from its start.
func TestARestartedWitnessKnowsNothing(t *testing.T) {
	witnessed(t, func(t *testing.T, w *world) {
		settle(time.Minute)
		if ms := w.life.agent.follow.Silence(); ms < 50_000 || ms > 75_000 {
			t.Errorf("a minute after the last answer it is silent for %d ms", ms)
		}
		w.kill()
		w.start()
		settle(time.Second)
		if ms := w.life.agent.follow.Silence(); ms > 1500 {
			t.Errorf("a second after its start it is silent for %d ms", ms)
		}
	})
}

// TestAJobThatWaitsGetsNoLease: nor does one that the last answer did not list, or that other controllers have
// ordered.
func TestAJobThatWaitsGetsNoLease(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.change(func() { w.witnesses, w.silent = setOfThree(1), map[string]int64{"n2": 1 << 40} })
		waits := w.assign(wid(1), true)
		w.change(func() { waits.NoLease = true })
		w.assign(wid(2), true)
		settle(time.Minute)
		w.change(func() { w.index = 100 })
		settle(time.Minute)
		w.change(func() { w.index = 40; delete(w.allocs, wid(2)) }) // a state from before
		settle(time.Minute)
		kept := w.container(wid(2)).lease
		w.change(func() { w.down = true })
		w.kill()
		w.start()
		settle(9 * time.Minute)
		if lease := w.container(wid(2)).lease; lease.After(kept) {
			t.Errorf("the lease of a job that these controllers do not know was extended by %v", lease.Sub(kept))
		}
		if lease := w.container(wid(1)).lease; !lease.IsZero() {
			t.Errorf("a job that waits for its node has a lease until %v", lease)
		}
	})
}

// TestTheSetIsOnDiskBeforeAnAnswerCounts: the node tells the leader which it has, and one that cannot be stored
// leaves it without any.
func TestTheSetIsOnDiskBeforeAnAnswerCounts(t *testing.T) {
	scene(t, func(t *testing.T, w *world) {
		w.change(func() { w.witnesses = setOfThree(1) })
		settle(time.Minute)
		last := func() api.Echo { return w.echoes[len(w.echoes)-1] }
		if got := last(); got.Witnesses != setOfThree(1).Key() || got.Sent == "" {
			t.Errorf("the node says %+v", got)
		}
		file := filepath.Join(filepath.Dir(w.path), follow.WitnessFile)
		if got := w.outage().Witnesses(); got.Key() != setOfThree(1).Key() {
			t.Errorf("on disk: %+v", got)
		}
		if err := os.Mkdir(file+".tmp", 0o700); err != nil { // nothing can be written any more
			t.Fatal(err)
		}
		w.change(func() { w.witnesses = setOfThree(2) })
		settle(time.Minute)
		if got := last(); got.Witnesses != "0" || w.outage().Witnesses() != nil {
			t.Errorf("the node says %+v, and has %+v on disk", got, w.outage().Witnesses())
		}
		if err := os.Remove(file + ".tmp"); err != nil {
			t.Fatal(err)
		}
		settle(time.Minute)
		if got := last(); got.Witnesses != setOfThree(2).Key() {
			t.Errorf("the node says %+v", got)
		}
	})
}

// TestAnotherGenerationHasOtherWitnesses: those of before count for no extension, and the leader hears of none.
func TestAnotherGenerationHasOtherWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.index = 100
		w.start()
		defer w.kill()
		w.change(func() { w.witnesses, w.silent = setOfThree(7), map[string]int64{"n2": 1 << 40, "n3": 1 << 40} })
		w.assign(wid(1), true)
		settle(time.Minute)
		if err := w.life.agent.follow.Lineage.Follow(generation.Generation{Number: 1, ID: "00000000000000aa"}); err != nil {
			t.Fatal(err)
		}
		w.change(func() { w.down = true })
		settle(11 * time.Minute)
		if left := w.left(wid(1)); left > 0 {
			t.Errorf("by witnesses of another generation %v are left", left)
		}
		w.change(func() { w.down, w.generation = false, "1-00000000000000aa" })
		settle(time.Minute)
		if i := slices.IndexFunc(w.echoes, func(e api.Echo) bool { return e.Witnesses == "0" }); i < 0 {
			t.Error("the node tells the new leader of witnesses that it has numbered otherwise")
		}
	})
}
