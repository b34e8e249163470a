package exits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/container/containertest"
	"github.com/rota-hpc/rota/noded/progress"
)

// TestEveryStopAtEveryMoment plays each cell with the state machine, the node daemon and its journal. The
// containers are in memory, those that package containertest holds against real ones. Time is that of a
// bubble.
func TestEveryStopAtEveryMoment(t *testing.T) {
	n, impossible, failures := 0, 0, 0
	for _, c := range cells() {
		act := c.play
		if n++; c.impossible() != "" {
			act = c.refute
			impossible++
		}
		dir, err := os.MkdirTemp(quickDisk(t), "exits")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			synctest.Test(t, func(*testing.T) { err = act(&memory{cell: c}, dir) })
			if err == nil || !strings.Contains(err.Error(), "is in use on this node") {
				break // else a program of this machine had the port for a moment
			}
			if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			failures++
			t.Errorf("%v: %v", c, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("cells %d, failures %d (%d of them are impossible, each for a reason)", n, failures, impossible)
}

// quickDisk returns a directory in memory, if the machine has one: journals are synced.
func quickDisk(t *testing.T) string {
	const memory = "/dev/shm"
	if unix.Access(memory, unix.W_OK) == nil {
		return memory
	}
	return t.TempDir()
}

// memory is a stage whose containers are in memory.
type memory struct {
	cell
	mu     sync.Mutex
	phase  moment
	worlds map[string]*containertest.World
	nodes  map[string]*node
	left   bool
}

func (m *memory) script() string { return "true" }

// open implements stage.
func (m *memory) open(n *node, dir string) (container.Runtime, noded.Bundles, error) {
	if m.worlds == nil {
		m.worlds, m.nodes = map[string]*containertest.World{}, map[string]*node{}
	}
	w := &containertest.World{Program: m.program}
	m.worlds[n.name], m.nodes[n.name] = w, n
	return w.Open(), bundles{dir}, nil
}

// program is what a container does when it is signalled.
func (m *memory) program(id container.ID) containertest.Program {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := containertest.Program{Signals: map[int]*container.Exit{}}
	set := func(e *container.Exit) { p.Signals[int(unix.SIGTERM)], p.Signals[int(unix.SIGUSR1)] = e, e }
	leaves := m.cell.program.leaves
	switch {
	case m.holds(id):
		set(&container.Exit{})
	case id.Attempt > 1, m.phase == "":
	case m.phase == inGrace && !m.left, leaves == ignores:
		set(nil)
	case leaves >= 0:
		set(&container.Exit{Code: leaves, Finished: m.cell.program.finished})
	}
	return p
}

// holds reports whether a worker runs no program.
func (m *memory) holds(id container.ID) bool {
	return id.Worker > 0 && m.launch.kind == jobspec.LaunchSteps
}

func (m *memory) set(p moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = p
}

func (m *memory) id(worker int) container.ID { return container.ID{Job: 1, Attempt: 1, Worker: worker} }

// of returns the node of a worker and its machine.
func (m *memory) of(worker int) (*node, *containertest.World) {
	name := fmt.Sprintf("n%d", worker+1)
	return m.nodes[name], m.worlds[name]
}

func (m *memory) executing(worker int) bool {
	_, w := m.of(worker)
	return w.Starts(m.id(worker)) > 0
}

func (m *memory) begin()             { m.set(output) }
func (m *memory) begun(int) bool     { return true }
func (m *memory) linger()            { m.set(inGrace) }
func (m *memory) leaving(w int) bool { n, _ := m.of(w); return n.asksSoFar() > 0 }

// leave implements stage.
func (m *memory) leave() {
	m.mu.Lock()
	again := m.left
	m.left = true
	m.mu.Unlock()
	if again {
		return // the end of its lease asks it again
	}
	e := container.Exit{Code: m.cell.program.leaves, Finished: m.cell.program.finished}
	switch m.cell.program.leaves {
	case ignores:
		return
	case dies:
		e = container.Exit{Signal: m.signal(m.deciding())}
	}
	for worker := range m.workers() {
		if _, w := m.of(worker); !m.holds(m.id(worker)) {
			w.End(m.id(worker), e)
		}
	}
}

// end implements stage.
func (m *memory) end(nodes []*node, hidden bool) error {
	for worker, n := range nodes {
		if hidden {
			if err := n.blindfold(true); err != nil {
				return err
			}
		}
		if _, w := m.of(worker); !m.holds(m.id(worker)) {
			w.End(m.id(worker), container.Exit{Code: m.cell.program.ends})
		}
	}
	return nil
}

// notice implements stage.
func (m *memory) notice(nodes []*node) error {
	for _, n := range nodes {
		if err := n.blindfold(false); err != nil {
			return err
		}
	}
	return nil
}

// lapse implements stage.
func (m *memory) lapse(n *node) error {
	m.mu.Lock()
	m.left = true // it is asked again
	m.mu.Unlock()
	list, err := n.bare.List(context.Background())
	for _, s := range list {
		if err == nil {
			err = n.bare.Renew(context.Background(), s.ID, time.Now())
		}
	}
	return err
}

func (m *memory) says() ([]string, bool) { return nil, false }
func (m *memory) close() error           { return nil }

// bundles are those of containers in memory.
type bundles struct{ dir string }

func (b bundles) Build(context.Context, container.ID, *api.Alloc, []int, []model.GPU) (string, error) {
	return b.dir, os.MkdirAll(b.dir, 0o700)
}
func (bundles) Owner(a *api.Alloc) (model.Identity, error)         { return a.Owner, nil }
func (bundles) Notice(container.ID, container.Notice) error        { return nil }
func (bundles) Withdraw(container.ID, string) error                { return nil }
func (bundles) Retire(container.ID) error                          { return nil }
func (bundles) Progress(container.ID) *progress.Source             { return nil }
func (bundles) Findings(container.ID) ([]container.Finding, error) { return nil, nil }
