package exits

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/server/present"
)

// controllers are the state machine and what its leader answers to nodes, without a log on disk.
type controllers struct {
	mu    sync.Mutex
	m     *fsm.Machine
	index uint64
	since time.Time
	ahead model.Instant // by which the log's clock was moved
	moved chan struct{} // closed at the next change
}

// leaseMS is long: a cell whose lease is to end moves its deadline.
const leaseMS, marginMS = 600_000, 2_000

func newControllers() *controllers {
	config := cluster.DefaultConfig()
	config.LeaseMS, config.MarginMS = leaseMS, marginMS
	return &controllers{m: fsm.New(config), since: time.Now(), moved: make(chan struct{})}
}

func (c *controllers) now() model.Instant {
	return 1000 + c.ahead + model.Instant(time.Since(c.since).Milliseconds())
}

// apply carries out a command, and returns the index of its entry.
func (c *controllers) apply(command fsm.Command) (any, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	at := c.now()
	result, err := c.m.Apply(c.index, fsm.Entry{Command: command,
		Stamp: model.Stamp{At: at, Wall: model.UnixMS(at) + 1_700_000_000_000}})
	c.wake()
	return result, c.index, err
}

// plan carries out one decision of a scheduling cycle.
func (c *controllers) plan(a fsm.Action) (uint64, error) {
	result, index, err := c.apply(fsm.CommitPlan{Actions: []fsm.Action{a}})
	if err == nil {
		err = result.([]error)[0]
	}
	return index, err
}

// control carries out a verb on a job.
func (c *controllers) control(verb model.Verb, id model.JobID, signal string) (uint64, error) {
	result, index, err := c.apply(fsm.ControlJobs{Verb: verb, Targets: []fsm.Target{{ID: id}}, By: owner.UID,
		Signal: signal})
	if err == nil {
		err = result.([]model.ControlResult)[0].Err
	}
	return index, err
}

// skip moves the log's clock.
func (c *controllers) skip(d model.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// wake has those look again that wait for a change. The mutex is held.
func (c *controllers) wake() {
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *controllers) view() *state.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.View()
}

// audit returns the invariants that do not hold. Nodes that still report wait for it: Check reads the
// state of the moment, so a command beside it would change what it compares.
func (c *controllers) audit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.Check()
}

// link is how one node speaks to the controllers.
type link struct {
	*controllers
	asked uint64 // the index up to which the node has carried over what it was told
	cut   bool   // nothing passes
	// keeps ends of workers from the log
	keepsEnds bool
	kept      []int // workers whose ends were kept
}

// set changes what passes.
func (l *link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.wake()
}

// until waits until something is so.
func (l *link) until(ctx context.Context, so func() bool) error {
	for {
		l.mu.Lock()
		done, moved := so(), l.moved
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Register implements noded.Controller.
func (l *link) Register(ctx context.Context, _ string, req api.RegisterRequest) (*api.RegisterResponse, error) {
	if err := l.until(ctx, func() bool { return !l.cut }); err != nil {
		return nil, err
	}
	_, _, err := l.apply(fsm.RegisterNode{Node: req.Node})
	return &api.RegisterResponse{}, err
}

// Allocs implements noded.Controller.
func (l *link) Allocs(
	ctx context.Context, name, _ string, after uint64, wait time.Duration, _ api.Echo,
) (*api.NodeAllocs, error) {
	l.set(func() { l.asked = max(l.asked, after) })
	if n, _ := l.view().Node(name); len(n.GPUs) == 0 {
		wait = time.Millisecond // it registers again, with its GPUs
	}
	late := false
	timer := time.AfterFunc(wait, func() { l.set(func() { late = true }) })
	defer timer.Stop()
	var out *api.NodeAllocs
	err := l.until(ctx, func() bool {
		v := l.m.Present()
		if l.cut || v.NodeModified(name) <= after && !late {
			return false
		}
		v = l.m.View()
		out = &api.NodeAllocs{Index: v.Index(), Now: l.now(), LeaseMS: v.Config().LeaseMS}
		for _, w := range v.Desired(name) {
			out.Allocs = append(out.Allocs, present.Alloc(v, w))
		}
		return true
	})
	return out, err
}

// Report implements noded.Controller.
func (l *link) Report(ctx context.Context, name string, req api.ReportRequest) (*api.ReportResponse, error) {
	err := l.until(ctx, func() bool {
		ends := false
		for i := range req.Workers {
			if r := &req.Workers[i]; r.State == model.WorkerExited && r.Attempt == 1 && l.keepsEnds {
				ends = true
				if !slices.Contains(l.kept, r.Worker) {
					l.kept = append(l.kept, r.Worker)
				}
			}
		}
		return !l.cut && !ends
	})
	if err != nil {
		return nil, err
	}
	_, index, err := l.apply(fsm.NodeReport{Node: name, BootID: req.BootID, Workers: req.Workers, Steps: req.Steps})
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return &api.ReportResponse{Index: index}, nil
}

// DropCheckpoints implements noded.Controller.
func (l *link) DropCheckpoints(context.Context, string, api.KeptCheckpoints) (*api.DroppedCheckpoints, error) {
	return &api.DroppedCheckpoints{}, nil
}

// Generation implements noded.Controller.
func (l *link) Generation(context.Context, string, string) (*api.Generation, error) {
	return &api.Generation{Generation: generation.Generation{}.String(), Accepted: true, Settled: true}, nil
}

// AcceptGeneration implements noded.Controller.
func (l *link) AcceptGeneration(ctx context.Context, node string, _ api.AcceptGeneration) (*api.Generation, error) {
	return l.Generation(ctx, node, "")
}
