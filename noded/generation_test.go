package noded

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// TestALaterGenerationIsFollowedOnceTheLeaderIsSilent: controllers that were recovered get this node
// only when its leader has been silent, and the jobs go on under them. Their leases are renewed.
func TestALaterGenerationIsFollowedOnceTheLeaderIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.index = 100
		w.start()
		defer w.kill()
		for n := range int64(3) {
			a := w.assign(wid(n+1), true)
			w.change(func() { a.Start = model.UnixMS(1000 * (n + 1)) })
		}
		settle(time.Second)
		w.change(func() { w.generation, w.index = "1-00000000000000aa", 40; delete(w.allocs, wid(3)) })
		settle(15 * time.Second)
		if w.life.agent.follow.Lineage.Current().Number != 0 {
			t.Fatal("a generation is followed while the leader of the one before has just answered")
		}
		settle(25 * time.Second)
		if g := w.life.agent.follow.Lineage.Current(); g.String() != "1-00000000000000aa" {
			t.Fatalf("it follows %s", g)
		}
		req := w.accepted
		if req == nil || !slices.Contains(req.Known, "3.1.0") || !slices.Contains(req.Live, "1.1.0") {
			t.Fatalf("it reports %+v", req)
		}
		lease := map[int64]time.Time{}
		for n := range int64(3) {
			lease[n+1] = w.container(wid(n + 1)).lease
		}
		settle(5 * time.Minute)
		for n, renewed := range map[int64]bool{1: true, 2: true, 3: false} {
			c := w.container(wid(n))
			if c.state != container.Running || c.starts != 1 || c.lease.After(lease[n]) != renewed {
				t.Errorf("container %d: %+v; its lease was renewed: %t", n, c, c.lease.After(lease[n]))
			}
		}
		for _, other := range []string{"1-00000000000000bb", "0", "1-00000000000000aa"} {
			w.change(func() { w.generation, w.accepted = other, nil })
			settle(2 * time.Minute)
			if g := w.life.agent.follow.Lineage.Current(); g.String() != "1-00000000000000aa" {
				t.Errorf("it follows %s, after %s", g, other)
			}
			if accepts := w.accepted != nil; accepts != (other == "1-00000000000000aa") {
				t.Errorf("it has accepted %s: %t", other, accepts)
			}
		}
	})
}

// TestFoldersThatTheControllersDoNotKnowStay for 14 days, over restarts, whatever is said of them
// later; after that they go.
func TestFoldersThatTheControllersDoNotKnowStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		folders := &keptCheckpoints{ids: []container.ID{wid(5), wid(6)}}
		w.checkpoints = folders
		w.unknown = func(id string) bool { return id == wid(5).String() }
		w.unneeded = func(string) bool { return true }
		w.start()
		settle(2 * time.Minute)
		if got := folders.removed(); len(got) != 1 || got[0] != wid(6) {
			t.Fatalf("removed: %v", got)
		}
		if got := w.lastNode().Notice; !strings.Contains(got, "5.1.0") {
			t.Errorf("rota nodes says %q", got)
		}
		w.change(func() { w.unknown = nil }) // the controllers have given its id again, or take it for ended
		w.kill()
		w.start()
		defer w.kill()
		settle(13 * 24 * time.Hour)
		if got := folders.removed(); len(got) != 1 {
			t.Fatalf("removed before its time: %v", got)
		}
		settle(2 * 24 * time.Hour)
		if got := folders.removed(); len(got) != 2 || w.lastNode().Notice != "" {
			t.Errorf("after 14 days: %v, and rota nodes says %q", got, w.lastNode().Notice)
		}
	})
}

// keptCheckpoints are folders without files.
type keptCheckpoints struct {
	Checkpoints
	mu   sync.Mutex
	ids  []container.ID
	gone []container.ID
}

func (k *keptCheckpoints) List() []container.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ids)
}

func (k *keptCheckpoints) Remove(id container.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone = append(k.gone, id)
	k.ids = slices.DeleteFunc(k.ids, func(one container.ID) bool { return one == id })
}

func (k *keptCheckpoints) removed() []container.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.gone)
}
