package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// openImpatient is open for tests of shims that do not answer.
func (n *node) openImpatient() {
	shims, err := container.NewShims(container.Config{Dir: n.dir, ShimPath: filepath.Join(binaries, "rota-shim"),
		CgroupRoot: cgroupRoot, KillPatience: 50 * time.Millisecond})
	check(n.t, err)
	n.shims = shims
}

// runs reports whether processes of a container run, whatever its daemon and its shim say.
func runs(id container.ID) bool {
	b, _ := os.ReadFile(filepath.Join(countsProcesses(cgroupRoot+"/"+id.String()), "cgroup.procs"))
	return len(b) > 0
}

// stopShim has a shim stand still, as one of a machine that thrashes, until the result is called.
func (n *node) stopShim(t *testing.T, id container.ID) func() {
	t.Helper()
	pid := n.shimPid(t, id)
	check(t, unix.Kill(pid, unix.SIGSTOP))
	eventually(t, "the shim stands still", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(b), ") T ")
	})
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) }) // it may have ended
	return func() { check(t, unix.Kill(pid, unix.SIGCONT)) }
}

const stubborn = "trap '' TERM; echo ready; exec sleep 1000"

// TestASlowShimIsWaitedFor has a shim stand still over orders that time out and over a restart of the
// daemon. It notices a daemon that takes a shim for dead because it is slow, and kills its job.
func TestASlowShimIsWaitedFor(t *testing.T) {
	n := newNode(t, 0)
	n.begin(one, n.bundle(one, stubborn))
	n.ready(t, one)
	pid := n.shimPid(t, one)
	goOn := n.stopShim(t, one)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := n.shims.Renew(ctx, one, time.Now().Add(time.Hour)); err == nil {
		t.Error("a shim that stands still has answered")
	}
	silent := func(want container.State) {
		t.Helper()
		eventually(t, "the daemon says that the shim is silent", func() bool {
			return strings.Contains(n.status(one).Silent, fmt.Sprintf("process %d, has not answered since", pid))
		})
		if s := n.status(one); s.State != want || !runs(one) {
			t.Fatalf("the container is %+v, its processes run: %v", s, runs(one))
		}
		if err := n.shims.Remove(t.Context(), one); err == nil {
			t.Fatal("a container was removed whose shim is only slow")
		}
	}
	silent(container.Running)
	check(t, n.shims.Close())
	n.openImpatient()
	silent(container.Silent)
	if err := n.shims.Signal(t.Context(), one, container.Signal{Number: int(unix.SIGTERM)}); err == nil {
		t.Error("a signal has reached a shim that stands still")
	}
	silent(container.Silent)
	goOn()
	eventually(t, "the shim answers again", func() bool {
		s := n.status(one)
		return s.State == container.Running && s.Silent == "" && s.Pid != 0
	})
	check(t, n.shims.Renew(t.Context(), one, time.Now().Add(time.Hour)))
	check(t, n.shims.Kill(t.Context(), one))
	if e := n.exit(one); e.Signal != 9 {
		t.Errorf("it ended as %+v", e)
	}
}

// TestAKillNeedsNoShim kills containers whose shims stand still. It notices a kill, as of a job that was
// cancelled, that waits for its shim; and one that takes the shim's record of the end from it.
func TestAKillNeedsNoShim(t *testing.T) {
	n := newNode(t, 0)
	two := container.ID{Job: 2, Attempt: 1}
	for _, id := range []container.ID{one, two} {
		n.begin(id, n.bundle(id, stubborn))
		n.ready(t, id)
	}
	check(t, n.shims.Close())
	goOn := n.stopShim(t, one)
	n.stopShim(t, two)
	n.openImpatient()
	for _, id := range []container.ID{one, two} {
		if err := n.shims.Kill(t.Context(), id); err == nil {
			t.Error("a shim that stands still has answered")
		}
		eventually(t, "its processes are gone", func() bool { return !runs(id) })
	}
	goOn()
	if s := n.await(one); s.Exit == nil || s.Exit.Signal != 9 {
		t.Errorf("the shim that woke up: %+v", s)
	}
	eventually(t, "the shim that stays is given up", func() bool {
		_ = n.shims.Kill(t.Context(), two)
		return n.status(two).State == container.Lost
	})
}

// lose moves the directory of a container away, as if its disk was replaced.
func (n *node) lose(t *testing.T, id container.ID) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "lost")
	check(t, os.Rename(n.shims.Path(id), to))
	t.Cleanup(func() { // what its shim has mounted
		mounts, _ := os.ReadFile("/proc/self/mounts")
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, to+"/") {
				_ = unix.Unmount(at, unix.MNT_DETACH) // its shim may have been faster
			}
		}
	})
}

// TestALostDirectoryEndsItsContainer moves the directory of a container away while no daemon runs. It notices a
// daemon that launches something beside what it knows nothing of.
func TestALostDirectoryEndsItsContainer(t *testing.T) {
	n := newNode(t, 0)
	two, three := container.ID{Job: 2, Attempt: 1}, container.ID{Job: 3, Attempt: 1}
	for id, dir := range map[container.ID]string{
		one: n.bundle(one, stubborn), two: n.bundle(two, stubborn),
		three: n.tasks(three, "", mainTask("main", stubborn), mainTask("b", stubborn)),
	} {
		n.begin(id, dir)
		n.ready(t, id)
	}
	check(t, n.shims.Close())
	n.lose(t, one)
	n.lose(t, three)
	n.open(0)
	for _, id := range []container.ID{one, three} {
		if left := cgroupsAt(cgroupRoot + "/" + id.String()); len(left) > 0 {
			t.Errorf("the daemon may launch beside %v", left)
		}
	}
	if s := n.status(two); s.State != container.Running || !runs(two) {
		t.Errorf("a container whose directory is there: %+v", s)
	}
	if exit, _ := n.run(container.ID{Job: 1, Attempt: 2}, "exit 0"); exit.Code != 0 {
		t.Errorf("what is launched then ends as %+v", exit)
	}
}

// history plays random faults on a node and knows what must be true of its containers.
type history struct {
	*node
	t       *testing.T
	random  *rand.Rand
	attempt map[int64]int // the newest of each job
	reason  map[container.ID]string
	stopped map[container.ID]int // shims that stand still
	log     []string
}

func (h *history) note(what string, id container.ID) { h.log = append(h.log, what+" "+id.String()) }

func (h *history) newest(job int64) container.ID {
	return container.ID{Job: job, Attempt: h.attempt[job]}
}

// over reports whether the daemon says that a container has ended: then the next attempt may start.
func (h *history) over(id container.ID) bool {
	s := h.status(id)
	return s.State == "" || s.State == container.Exited || s.State == container.Lost
}

// step does one thing to a job's newest attempt, or to the daemon.
func (h *history) step() {
	id := h.newest(h.random.Int64N(3) + 1)
	pid, stands := h.stopped[id]
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Millisecond)
	defer cancel()
	switch n := h.random.IntN(9); {
	case id.Attempt == 0 || h.over(id):
		id.Attempt++
		h.note("launch", id)
		h.attempt[id.Job] = id.Attempt
		h.begin(id, h.bundle(id, stubborn))
		h.ready(h.t, id)
	case n == 0 && !stands && h.reason[id] == "":
		h.note("stand still", id)
		h.stopped[id] = h.shimPid(h.t, id)
		h.stopShim(h.t, id)
	case n <= 2 && stands:
		h.note("wake", id)
		check(h.t, unix.Kill(pid, unix.SIGCONT))
		delete(h.stopped, id)
	case n == 3 && h.reason[id] == "":
		h.note("kill the shim of", id)
		h.reason[id] = "its shim was killed"
		h.killShim(h.t, id)
		delete(h.stopped, id)
	case n == 4:
		h.note("kill", id)
		h.reason[id] = "it was killed"
		_ = h.shims.Kill(h.t.Context(), id) // a shim that stands still does not answer
	case n == 5:
		h.note("renew", id)
		_ = h.shims.Renew(ctx, id, time.Now().Add(time.Hour)) // the same
	case n == 6:
		h.note("signal", id)
		_ = h.shims.Signal(ctx, id, container.Signal{Number: int(unix.SIGTERM)}) // the same
	case n == 7:
		h.note("restart, without the directory of", id)
		check(h.t, h.shims.Close())
		h.reason[id] = "its directory was lost"
		h.lose(h.t, id)
		delete(h.stopped, id)
		h.openImpatient()
	default:
		h.note("restart", id)
		check(h.t, h.shims.Close())
		h.openImpatient()
	}
}

// check compares what runs with what may run, and with what must.
func (h *history) check() {
	for job, newest := range h.attempt {
		var live []string
		for n := range newest {
			if id := (container.ID{Job: job, Attempt: n + 1}); runs(id) {
				live = append(live, id.String())
			}
		}
		id := h.newest(job)
		switch {
		case len(live) > 1, len(live) == 1 && live[0] != id.String():
			h.t.Fatalf("attempts at once: %v, the newest is %s\n%s", live, id, strings.Join(h.log, "\n"))
		case len(live) == 0 && h.reason[id] == "":
			h.t.Fatalf("%s was ended without a reason: %+v\n%s", id, h.status(id), strings.Join(h.log, "\n"))
		}
	}
}

// TestRandomFaultsOfANode plays random histories of lost directories, slow and dead shims and restarted
// daemons, in which the next attempt of a job begins as soon as the daemon says that the last one has
// ended. It notices two live attempts of a job, and one that is ended without a reason. ROTA_TEST_SEED plays a
// history again.
func TestRandomFaultsOfANode(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ROTA_TEST_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		check(t, err)
		seed = n
	}
	t.Logf("ROTA_TEST_SEED=%d", seed)
	steps := 60
	if os.Getenv("ROTA_TEST_LONG") != "" {
		steps = 1500
	}
	n := newNode(t, 0)
	check(t, n.shims.Close())
	n.openImpatient()
	h := &history{node: n, t: t, random: rand.New(rand.NewPCG(seed, 1)), attempt: map[int64]int{},
		reason: map[container.ID]string{}, stopped: map[container.ID]int{}}
	for range steps {
		h.step()
		h.check()
	}
	for _, id := range slices.Collect(maps.Keys(h.stopped)) {
		_ = unix.Kill(h.stopped[id], unix.SIGCONT) // it may have ended
	}
}
