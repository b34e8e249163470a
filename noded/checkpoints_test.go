package noded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/checkpoint"
	"github.com/rota-hpc/rota/noded/checkpoints"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
)

// keeper is a node of a pair between which a job moves: its world, and the folders on its disk.
type keeper struct {
	*world
	name  string
	dir   string
	peer  *keeper
	full  bool // the folder does not fit on its disk
	store *checkpoint.Store
}

// pair returns two nodes whose daemons run.
func pair(t *testing.T, seed uint64) (a, b *keeper) {
	a, b = &keeper{name: "a"}, &keeper{name: "b"}
	a.peer, b.peer = b, a
	for _, k := range []*keeper{a, b} {
		k.world, k.dir = newWorld(t, seed), filepath.Join(t.TempDir(), "checkpoints")
		k.boot()
	}
	return a, b
}

// boot starts the daemon of the node.
func (k *keeper) boot() {
	k.t.Helper()
	store, err := checkpoint.Open(k.dir, k.name, k, slog.New(slog.DiscardHandler))
	if err != nil {
		k.t.Fatal(err)
	}
	k.store = store
	k.checkpoints = &lifeCheckpoints{k, store}
	k.start()
}

// die kills the daemon of the node and starts it again.
func (k *keeper) die() {
	k.kill()
	k.boot()
}

// Open implements [checkpoint.Source]: it asks the daemon of the other node, by its own handler.
func (k *keeper) Open(ctx context.Context, _ *api.CheckpointSource, id container.ID) (*checkpoint.Stream, error) {
	var bytes int64
	none := func() error { return nil }
	if err := errors.Join(k.step(ctx, none), k.peer.step(ctx, none)); err != nil {
		return nil, err
	}
	agent := k.peer.running().agent
	h := &checkpoint.Server{Store: k.peer.store, Runs: agent.workers.MayChangeFolder,
		May: func(context.Context, container.ID, string) (*api.CheckpointCopy, error) {
			return &api.CheckpointCopy{Attempt: 1000, Submitted: 1}, nil
		}}
	r := httptest.NewRequestWithContext(identity.WithCaller(ctx, identity.Caller{Machine: true, Role: "node",
		From: k.name}), http.MethodGet, checkpoint.Path+id.String(), nil)
	r.SetPathValue("id", id.String())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil, fmt.Errorf("%d: %s", w.Code, w.Body)
	}
	if k.full {
		bytes = 1 << 60
	}
	return &checkpoint.Stream{ReadCloser: io.NopCloser(&parts{ctx, k, w.Body}), Bytes: bytes}, nil
}

// step is a call of the daemon that runs, at which it may be killed.
func (k *keeper) step(ctx context.Context, do func() error) error {
	return k.running().call(ctx, do)
}

// running returns the life of the daemon that runs.
func (k *keeper) running() *life {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.life
}

// parts is a stream that comes in parts: at each the daemon of either node may be killed.
type parts struct {
	ctx context.Context
	k   *keeper
	in  io.Reader
}

func (p *parts) Read(b []byte) (int, error) {
	none := func() error { return nil }
	if err := errors.Join(p.k.step(p.ctx, none), p.k.peer.step(p.ctx, none)); err != nil {
		return 0, err
	}
	return p.in.Read(b[:min(len(b), 4096)])
}

// lifeCheckpoints are the folders as the daemon of one life sees them.
type lifeCheckpoints struct {
	k     *keeper
	store *checkpoint.Store
}

func (l *lifeCheckpoints) Prepare(ctx context.Context, w checkpoint.Worker, from *api.CheckpointSource) error {
	life := l.k.running()
	if err := life.call(ctx, func() error { return nil }); err != nil {
		return err // killed before it began
	}
	if err := l.store.Prepare(ctx, w, from); err != nil {
		return err
	}
	return life.call(ctx, func() error { return nil }) // killed behind it
}

func (l *lifeCheckpoints) NewImage(id container.ID) (dir string, err error) {
	err = l.k.running().call(l.k.t.Context(), func() (err error) {
		dir, err = l.store.NewImage(id)
		return err
	})
	return dir, err
}

func (l *lifeCheckpoints) List() []container.ID { return l.store.List() }

func (l *lifeCheckpoints) Remove(id container.ID) { l.store.Remove(id) }

// give has a node run an attempt that goes on from where the job ran last.
func (k *keeper) give(id container.ID, from *api.CheckpointSource) *assigned {
	a := &assigned{state: model.WorkerAssigned, Alloc: api.Alloc{Job: model.JobID(id.Job), Attempt: id.Attempt,
		Worker: id.Worker, Released: true, Request: model.Request{Active: model.Vector{Cores: 1}},
		Owner:     model.Identity{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
		Submitted: 1, Checkpoint: from,
		Spec: &jobspec.Job{Checkpoint: &jobspec.Checkpoint{NodeLocal: true, Criu: k.criu.Path != ""}}}}
	k.change(func() { k.allocs[id] = a })
	return a
}

// work adds a step to the files of an attempt that runs.
func (k *keeper) work(id container.ID) {
	k.t.Helper()
	f, err := os.OpenFile(filepath.Join(k.store.Files(id), "steps"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "attempt %d on %s\n%s", id.Attempt, k.name, strings.Repeat("x", 10_000))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keeper) steps(id container.ID) string {
	b, _ := os.ReadFile(filepath.Join(k.store.Files(id), "steps")) // "": there are none
	return string(b)
}

// exits ends an attempt that runs, as a job that has saved.
func (k *keeper) exits(id container.ID) {
	k.leave(id, container.Exit{Code: 85})
	settle(time.Second)
}

func attempt(n int) container.ID { return container.ID{Job: 1, Attempt: n} }

// TestAMoveCarriesTheFiles notices a job that begins anew although its last node has its files, and
// folders that are not needed and stay.
func TestAMoveCarriesTheFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, 1)
		defer a.kill()
		defer b.kill()
		on, other, from := a, b, (*api.CheckpointSource)(nil)
		want := ""
		for n := 1; n <= 4; n++ {
			on.give(attempt(n), from)
			settle(time.Second)
			if got := on.state(attempt(n)); got != model.WorkerRunning {
				t.Fatalf("attempt %d is %s: %+v", n, got, on.result(on.allocs[attempt(n)]))
			}
			if got := on.steps(attempt(n)); got != want {
				t.Fatalf("attempt %d began with %d bytes, not %d", n, len(got), len(want))
			}
			on.work(attempt(n))
			want = on.steps(attempt(n))
			on.exits(attempt(n))
			from = &api.CheckpointSource{Attempt: n, Node: on.name}
			on, other = other, on
		}
		for _, k := range []*keeper{a, b} {
			k.change(func() { k.unneeded = func(id string) bool { return id != "1.4.0" } })
		}
		settle(2 * checkpoints.Every)
		if len(a.store.List()) != 0 || len(b.store.List()) != 1 {
			t.Errorf("left: %v and %v", a.store.List(), b.store.List())
		}
		b.change(func() { b.down, b.unneeded = true, func(string) bool { return true } })
		settle(2 * checkpoints.Every)
		if len(b.store.List()) != 1 {
			t.Error("without an answer a folder was removed")
		}
	})
}

// saves has the daemons of a node save processes.
func (k *keeper) saves() {
	k.criu = container.Criu{Path: "/usr/sbin/criu"}
	k.die()
}

// TestProcessesAreSavedForAMove notices a job that gets its signal although its processes can be
// saved, and one that gets neither. It also notices a job that resumes from an older image.
func TestProcessesAreSavedForAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, 1)
		defer func() { a.kill(); b.kill() }()
		a.saves()
		b.saves()
		x := a.give(attempt(1), nil)
		settle(time.Second)
		a.stop(attempt(1), model.CauseMigrate, time.Minute)
		settle(time.Second)
		if r := a.result(x); r == nil || r.ExitCode != 85 || r.Signal != 0 || len(a.container(attempt(1)).signals) != 0 {
			t.Fatalf("got %+v", r)
		}
		y := b.give(attempt(2), &api.CheckpointSource{Attempt: 1, Node: "a"})
		settle(time.Second)
		if b.store.Image(attempt(2)) == "" || b.state(attempt(2)) != model.WorkerRunning {
			t.Fatalf("attempt 2 is %s, without the image", b.state(attempt(2)))
		}
		b.change(func() { b.containers[attempt(2)].unsaved = "it has a connection" })
		b.stop(attempt(2), model.CauseTE, time.Minute)
		settle(time.Second)
		if r := b.result(y); r == nil || r.Signal != int(unix.SIGTERM) {
			t.Fatalf("got %+v", r)
		}
		b.give(attempt(3), &api.CheckpointSource{Attempt: 2, Node: "b"})
		settle(time.Second)
		if left, _ := filepath.Glob(filepath.Join(b.dir, "1.3.0", "image", "*")); len(left) != 0 {
			t.Errorf("attempt 3 has images of attempts before the last one: %v", left)
		}
		b.stop(attempt(3), model.CauseCancelled, time.Minute)
		settle(time.Second)
		if got := b.container(attempt(3)); len(got.signals) != 1 || got.save.Dir != "" {
			t.Errorf("a job that does not go on is saved: %+v", got)
		}
	})
}

// TestASlowImageIsGivenUp notices a job that is killed at the end of its grace without its signal.
func TestASlowImageIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, 1)
		defer func() { a.kill(); b.kill() }()
		a.saves()
		a.give(attempt(1), nil)
		settle(time.Second)
		a.change(func() { a.containers[attempt(1)].slow = true })
		a.stop(attempt(1), model.CauseMigrate, time.Minute)
		settle(30 * time.Second)
		if got := a.container(attempt(1)); len(got.signals) != 0 || got.save.Dir == "" {
			t.Fatalf("it is not being saved: %+v", got)
		}
		a.die()
		settle(10 * time.Second)
		a.change(func() {
			a.containers[attempt(1)].save.Problem = "it took too long"
			a.life.emit(attempt(1))
		})
		settle(time.Second)
		if got := a.container(attempt(1)); len(got.signals) != 1 {
			t.Errorf("it was not asked to leave: %+v", got)
		}
	})
}

// TestAFullTargetLeavesTheSource notices a copy without room that does not fail the launch, or that
// costs the files.
func TestAFullTargetLeavesTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, 1)
		defer a.kill()
		defer b.kill()
		a.give(attempt(1), nil)
		settle(time.Second)
		a.work(attempt(1))
		want := a.steps(attempt(1))
		a.exits(attempt(1))
		b.full = true
		from := &api.CheckpointSource{Attempt: 1, Node: "a"}
		x := b.give(attempt(2), from)
		settle(time.Minute)
		r := b.result(x)
		if r == nil || r.State != model.WorkerFailed || r.Began ||
			!strings.Contains(r.Message, "the disk of node b is full") ||
			b.container(attempt(2)).creates != 0 {
			t.Fatalf("got %+v, %d containers", r, b.container(attempt(2)).creates)
		}
		a.give(attempt(3), from)
		settle(time.Second)
		if got := a.steps(attempt(3)); got != want || a.state(attempt(3)) != model.WorkerRunning {
			t.Errorf("%s, with %d bytes of %d", a.state(attempt(3)), len(got), len(want))
		}
	})
}

// TestAStopEndsACopy notices a stop that waits for a source that does not answer, and a copy that goes
// on for an allocation that is gone.
func TestAStopEndsACopy(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t, 1)
			a.kill() // it does not answer
			defer b.kill()
			x := b.give(attempt(2), &api.CheckpointSource{Attempt: 1, Node: "a"})
			settle(10 * time.Second)
			if gone {
				b.change(func() { x.gone = true })
			} else {
				b.stop(attempt(2), model.CauseCancelled, time.Minute)
			}
			settle(100 * time.Millisecond)
			if r := b.result(x); !gone && (r == nil || r.State != model.WorkerExited || !r.Unbegun) || gone && r != nil {
				t.Errorf("gone %v: %+v", gone, r)
			}
			if b.life.agent.workers.MayChangeFolder(attempt(2)) {
				t.Errorf("gone %v: it still copies", gone)
			}
		})
	}
}

// TestASilentSourceFailsTheLaunch notices a launch that waits for ever.
func TestASilentSourceFailsTheLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, 1)
		a.kill()
		defer b.kill()
		x := b.give(attempt(2), &api.CheckpointSource{Attempt: 1, Node: "a"})
		settle(3 * time.Minute)
		if r := b.result(x); r == nil || r.State != model.WorkerFailed || r.Began ||
			!strings.Contains(r.Message, "from node a: given up after 2m0s") {
			t.Errorf("got %+v", r)
		}
	})
}

// TestAMoveSurvivesTheDaemons kills the daemon of the old or new node at every call of a move,
// until the move ends before the call. The calls are those of the journal, the runtime and the
// copy. A launch that fails for that is tried again, as the controllers do. The job runs once, and
// with the files of its last run.
func TestAMoveSurvivesTheDaemons(t *testing.T) {
	for _, when := range []struct {
		name     string
		victim   func(a, b *keeper) *keeper
		starting bool // when the new attempt is given to its node, not when the old one is stopped
		least    int  // calls that there are
	}{
		{"the old node while it stops the job", func(a, _ *keeper) *keeper { return a }, false, 6},
		{"the old node while it sends", func(a, _ *keeper) *keeper { return a }, true, 4},
		{"the new node", func(_, b *keeper) *keeper { return b }, true, 15},
	} {
		calls := 1
		for early := true; early; calls++ {
			early = false
			for seed := range uint64(2) {
				synctest.Test(t, func(t *testing.T) {
					a, b := pair(t, seed)
					defer func() { a.kill(); b.kill() }()
					m := &killedMove{t: t, a: a, b: b, victim: when.victim(a, b), calls: calls, starting: when.starting,
						saves: seed%2 == 1,
						what:  fmt.Sprintf("%s, call %d, seed %d", when.name, calls, seed)}
					m.run()
					early = early || m.early
				})
			}
			if calls > 200 {
				t.Fatalf("%s: a move has more than 200 calls", when.name)
			}
		}
		if t.Logf("%s: killed at %d calls", when.name, calls-2); calls-2 < when.least {
			t.Errorf("%s: only %d calls", when.name, calls-2)
		}
	}
}

// killedMove is a move during which the daemon of a node is killed.
type killedMove struct {
	t        *testing.T
	a, b     *keeper
	victim   *keeper
	calls    int
	starting bool
	saves    bool // its processes are saved in place of a signal
	early    bool // it was killed before the step was over
	what     string
}

func (m *killedMove) run() {
	t, a, b := m.t, m.a, m.b
	if m.saves {
		a.saves()
		b.saves()
	}
	a.give(attempt(1), nil)
	settle(5 * time.Second)
	a.work(attempt(1))
	want := a.steps(attempt(1))
	m.during(!m.starting, func() { a.stop(attempt(1), model.CauseMigrate, time.Minute) })
	if r := a.result(a.allocs[attempt(1)]); r == nil {
		t.Fatalf("%s: attempt 1 has no result", m.what)
	}
	for n := 2; n <= 4; n++ {
		var x *assigned
		m.during(m.starting && n == 2, func() { x = b.give(attempt(n), &api.CheckpointSource{Attempt: 1, Node: "a"}) })
		if a.container(attempt(1)).state == container.Running {
			t.Fatalf("%s: it runs twice", m.what)
		}
		if r := b.result(x); r != nil && r.State == model.WorkerFailed && !r.Began {
			continue
		}
		if b.state(attempt(n)) != model.WorkerRunning || b.container(attempt(n)).starts != 1 {
			t.Fatalf("%s: attempt %d is %s, started %d times: %+v", m.what, n, b.state(attempt(n)),
				b.container(attempt(n)).starts, b.result(x))
		}
		if saved := a.container(attempt(1)).exit.Saved; saved != m.saves || saved && b.store.Image(attempt(n)) == "" {
			t.Fatalf("%s: saved: %t, attempt %d goes on from %q", m.what, saved, n, b.store.Image(attempt(n)))
		}
		if got := b.steps(attempt(n)); got != want {
			t.Fatalf("%s: attempt %d has %d bytes of %d", m.what, n, len(got), len(want))
		}
		return
	}
	t.Fatalf("%s: it could not be launched", m.what)
}

// during does something while the daemon may be killed, and starts it again.
func (m *killedMove) during(kills bool, do func()) {
	if kills {
		m.victim.mu.Lock()
		m.victim.crashIn = m.calls
		m.victim.mu.Unlock()
	}
	do()
	settle(time.Second)
	if kills {
		select {
		case <-m.victim.crashed:
			m.early = true
			m.victim.die()
		default:
		}
		m.victim.mu.Lock()
		m.victim.crashIn = 0
		m.victim.mu.Unlock()
	}
	settle(5 * time.Minute)
}

// TestACopyComesFromWhereItsSourceIsNow notices a copy that asks where the daemon of the source was before
// it was started again.
func TestACopyComesFromWhereItsSourceIsNow(t *testing.T) {
	cluster := pkitest.New(t)
	now := serving(t, cluster.Member(pki.Node, "a"), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Rota-Checkpoint-Bytes", "5")
		_, _ = io.WriteString(w, "bytes") // an error shows in the test
	})
	agent := NewAgent(Parts{Journal: newJournal(t), Log: slog.New(slog.DiscardHandler)})
	before := &api.CheckpointSource{Attempt: 1, Node: "a", Addr: "127.0.0.1:1"}
	from := func(c *api.CheckpointSource) {
		agent.workers.Apply(&api.NodeAllocs{Allocs: []api.Alloc{{Job: 1, Attempt: 2, Checkpoint: c}}}, time.Now(),
			follow.Lease{})
	}
	from(before)
	client := &checkpoint.Client{Credential: cluster.Member(pki.Node, "b"), Addr: agent.workers.AddrOf}
	if _, err := client.Open(t.Context(), before, attempt(1)); err == nil {
		t.Fatal("something answers there")
	}
	from(&api.CheckpointSource{Attempt: 1, Node: "a", Addr: now})
	s, err := client.Open(t.Context(), before, attempt(1))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, err := io.ReadAll(s); string(b) != "bytes" || s.Bytes != 5 || err != nil {
		t.Errorf("it sent %q of %d bytes, %v", b, s.Bytes, err)
	}
}
