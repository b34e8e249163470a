package noded

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// TestAStateThatWentBack: the controllers' state is restored from a backup. The node says so and
// registers again. A container that the restored state knows continues. An unknown container is
// neither killed nor given another lease. Nothing new starts beside it, also not under its id.
func TestAStateThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.index = 100
		w.start()
		defer w.kill()
		for n := range int64(4) {
			a := w.assign(wid(n+1), true)
			w.change(func() { a.Start = model.UnixMS(1000 * (n + 1)) })
		}
		settle(time.Second)
		w.leave(wid(4), container.Exit{}) // its result is on the way, or confirmed
		settle(time.Second)
		w.change(func() {
			w.index = 5 // bump makes it 6
			delete(w.allocs, wid(2))
			delete(w.allocs, wid(4))
			other := *w.allocs[wid(3)]
			other.Start = 9_000_000
			w.allocs[wid(3)], w.reused = &other, map[container.ID]bool{wid(3): true}
		})
		fresh := w.assign(wid(7), true)
		settle(30 * time.Second)
		if got := w.lastNode().Notice; !strings.Contains(got, "went back") {
			t.Errorf("rota nodes says %q", got)
		}
		for n, alive := range map[int64]bool{1: true, 2: true, 3: true} {
			if c := w.container(wid(n)); (c.state == container.Running) != alive {
				t.Errorf("container %d: %+v", n, c)
			}
		}
		if c := w.container(wid(7)); c.creates > 0 {
			t.Errorf("a new job has started beside kept ones: %+v", c)
		}
		if w.sockets.of(wid(2)) || w.sockets.of(wid(3)) || w.sockets.of(wid(7)) || !w.sockets.of(wid(1)) {
			t.Errorf("containers with a socket for another job of their id: %v", w.sockets.open)
		}
		leases := map[int64]time.Time{}
		for n := range int64(3) {
			leases[n+1] = w.container(wid(n + 1)).lease
		}
		settle(5 * time.Minute)
		for n, renewed := range map[int64]bool{1: true, 2: false, 3: false} {
			if got := w.container(wid(n)).lease.After(leases[n]); got != renewed {
				t.Errorf("lease of container %d was renewed: %t", n, got)
			}
		}
		starts := w.container(wid(3)).starts
		w.leave(wid(2), container.Exit{Signal: 9, Lease: true})
		w.leave(wid(3), container.Exit{Signal: 9, Lease: true})
		settle(time.Minute)
		if r := w.result(w.allocs[wid(3)]); r != nil {
			t.Errorf("the end of another job is reported for job 3: %+v", r)
		}
		if c := w.container(wid(3)); c.state != container.Running || c.starts != starts+1 {
			t.Errorf("job 3 of the restored state: %+v", c)
		}
		if w.sockets.of(wid(2)) || !w.sockets.of(wid(3)) || !w.sockets.of(wid(7)) {
			t.Errorf("containers with a socket: %v", w.sockets.open)
		}
		if w.state(wid(7)) != model.WorkerRunning || w.result(fresh) != nil {
			t.Errorf("job 7 is %q", w.state(wid(7)))
		}
		settle(15 * time.Minute)
		if got := w.lastNode().Notice; got != "" {
			t.Errorf("long after, rota nodes says %q", got)
		}
	})
}

func TestADataDirectoryOfAnotherCluster(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		cluster    string
		containers bool
		foreign    string
	}{
		{"a", true, ""}, // a directory from before
		{"a", true, ""},
		{"b", true, "a"},
		{"b", true, "a"}, // restarted meanwhile
		{"b", false, ""},
		{"b", true, ""},
	} {
		got, err := noteCluster(dir, c.cluster, c.containers)
		if err != nil || got != c.foreign {
			t.Errorf("cluster %s, containers %t: %q, %v", c.cluster, c.containers, got, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, clusterFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, clusterFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := noteCluster(dir, "a", false); err == nil {
		t.Error("a file that cannot be read is passed over")
	}
}

// openSockets notes which containers have a socket.
type openSockets struct {
	mu   sync.Mutex
	open map[container.ID]bool
}

func (s *openSockets) Open(id container.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[container.ID]bool{}
	}
	s.open[id] = true
	return nil
}

func (s *openSockets) Close(id container.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
}

func (s *openSockets) of(id container.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id]
}
