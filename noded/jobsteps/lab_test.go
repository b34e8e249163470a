package jobsteps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/container/containertest"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/oci"
)

// lab is a job with a worker on each of some nodes, in memory. Its nodes outlive the manager.
type lab struct {
	t     *testing.T
	dir   string
	nodes []string
	alloc api.Alloc

	mu      sync.Mutex
	worlds  map[string]*containertest.World
	parts   map[container.ID]oci.Step // as built
	input   map[container.ID]string   // that parts have read
	acked   map[container.ID]int64    // bytes of output that were acknowledged to parts
	written map[container.ID]int64    // all bytes of output of parts that have ended
	rows    []model.StepReport
	calls   int            // until the daemon is killed; 0: it is not
	refuse  map[string]int // by node: how many more starts it refuses, since its worker only begins
	paused  bool
	more    int // frames of 16 KiB that a task writes behind its number
	dropped []container.ID
	idle    []container.ID // of which the last step has ended
	over    []container.ID // that ended with a step whose client was gone
	signals map[container.ID][]int

	ctx    context.Context
	kill   context.CancelFunc
	keep   *journal.Journal
	m      *Manager
	locals map[string]*Local
	ends   sync.WaitGroup
}

var first = container.ID{Job: 7, Attempt: 1}

func newLab(t *testing.T, program func(container.ID) containertest.Program, nodes ...string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), nodes: nodes, worlds: map[string]*containertest.World{},
		parts: map[container.ID]oci.Step{}, input: map[container.ID]string{},
		signals: map[container.ID][]int{}, acked: map[container.ID]int64{}, written: map[container.ID]int64{},
		alloc: api.Alloc{Job: 7, Attempt: 1, Nodes: nodes, GPUs: []int{4, 5},
			Request: model.Request{Active: model.VectorOf(4, int64(8*jobspec.GiB), 2000)},
			Spec: &jobspec.Job{Groups: []jobspec.Group{{Tasks: []jobspec.Task{{
				Launch: &jobspec.Launch{Type: jobspec.LaunchSteps, Nproc: 2}}}}}}}}
	for _, n := range nodes {
		l.worlds[n] = &containertest.World{Program: program}
	}
	l.start()
	t.Cleanup(l.stop)
	return l
}

// inGroups has the job have a group on each of two nodes.
func (l *lab) inGroups() {
	steps := l.alloc.Spec.Groups[0]
	l.alloc.Spec.Groups, l.alloc.Nodes = []jobspec.Group{steps, steps}, l.nodes[:1]
	l.alloc.Hosts = []api.GroupHosts{{Nodes: l.nodes[:1], Has: []model.Vector{model.VectorOf(4, 1, 2000)}},
		{Nodes: l.nodes[1:], Has: []model.Vector{model.VectorOf(2, 1, 1000)}}}
}

// start starts the daemons.
func (l *lab) start() {
	l.t.Helper()
	var err error
	if l.keep, err = journal.Open(filepath.Join(l.dir, "journal")); err != nil {
		l.t.Fatal(err)
	}
	if err := l.keep.Append(journal.Record{Op: journal.Intend, ID: first.String()}); err != nil {
		l.t.Fatal(err)
	}
	l.ctx, l.kill = context.WithCancel(context.Background())
	l.locals = map[string]*Local{}
	for i, name := range l.nodes {
		rt := l.worlds[name].Open()
		local := &Local{Runtime: crashing{rt, l}, Lease: func(*api.Alloc) time.Time { return time.Time{} }}
		local.Worker = func(id container.ID) (Worker, error) {
			if want := (container.ID{Job: 7, Attempt: 1, Worker: i}); id != want {
				return Worker{}, fmt.Errorf("worker %s: %w", id, container.ErrUnknown)
			}
			a := l.alloc
			a.Worker = i
			w := Worker{ID: id, Alloc: &a, Cores: []int{10, 11, 12, 13}, Pid: 1}
			l.mu.Lock()
			defer l.mu.Unlock()
			if w.Paused = l.paused; l.refuse[name] > 0 {
				l.refuse[name]--
				w.Refuse = &api.Problem{Status: 503, Code: api.CodeNoLeader, Detail: "it begins"}
			}
			return w, nil
		}
		local.Build = func(_ context.Context, _ Worker, id container.ID, _ []int, s oci.Step, _ *Part) (string, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.parts[id] = s
			dir := filepath.Join(l.dir, id.String())
			return dir, os.MkdirAll(dir, 0o755)
		}
		local.OpenIO = func(_ context.Context, id container.ID, from int64) (*stream.Conn, error) {
			return l.open(name, id, from), nil
		}
		local.Clear = func(ctx context.Context, id container.ID) error {
			err := crashing{rt, l}.Remove(ctx, id)
			if err == nil {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.dropped = append(l.dropped, id)
			}
			return err
		}
		local.Init()
		note := func() {
			mark := local.Mark()
			if list, err := rt.List(context.Background()); err == nil {
				local.Note(mark, list)
			}
		}
		note()
		ctx := l.ctx
		l.ends.Go(func() {
			for {
				select {
				case <-rt.Changes():
					note()
				case <-ctx.Done():
					return
				}
			}
		})
		l.locals[name] = local
	}
	l.m = NewManager(l.ctx, Config{Name: l.nodes[0], Local: l.locals[l.nodes[0]], Log: slog.New(slog.DiscardHandler),
		Remote:  func(name string) Node { return l.locals[name] },
		Journal: crashingJournal{l.keep, l},
		Report: func(r model.StepReport) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.rows = append(l.rows, r)
		},
		EndJob: func(_ context.Context, id container.ID) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.over = append(l.over, id)
		},
		Idle: func(id container.ID) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.idle = append(l.idle, id)
		}})
}

// stop stops the daemons, or notes that they were killed.
func (l *lab) stop() {
	l.kill()
	l.m.Wait()
	l.ends.Wait()
	_ = l.keep.Close()
}

// crashing is a runtime whose daemon is killed before or behind a call.
type crashing struct {
	container.Runtime
	l *lab
}

var errKilled = errors.New("the daemon was killed")

// call reports whether the daemon still lives.
func (l *lab) call() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return errKilled
	}
	if l.calls--; l.calls == 0 {
		l.kill()
		return errKilled
	}
	return nil
}

func (c crashing) do(call func() error) error {
	if err := c.l.call(); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return c.l.call()
}

// Create implements container.Runtime.
func (c crashing) Create(ctx context.Context, id container.ID, dir string, lease time.Time) error {
	return c.do(func() error { return c.Runtime.Create(ctx, id, dir, lease) })
}

// Start implements container.Runtime.
func (c crashing) Start(ctx context.Context, id container.ID) error {
	return c.do(func() error { return c.Runtime.Start(ctx, id) })
}

// Remove implements container.Runtime.
func (c crashing) Remove(ctx context.Context, id container.ID) error {
	return c.do(func() error { return c.Runtime.Remove(ctx, id) })
}

// Kill implements container.Runtime.
func (c crashing) Kill(ctx context.Context, id container.ID) error {
	return c.do(func() error { return c.Runtime.Kill(ctx, id) })
}

// Signal implements container.Runtime.
func (c crashing) Signal(ctx context.Context, id container.ID, s container.Signal) error {
	c.l.mu.Lock()
	c.l.signals[id] = append(c.l.signals[id], s.Number)
	c.l.mu.Unlock()
	return c.Runtime.Signal(ctx, id, s)
}

type crashingJournal struct {
	*journal.Journal
	l *lab
}

// Append implements what a Manager needs.
func (c crashingJournal) Append(records ...journal.Record) error {
	if err := c.l.call(); err != nil {
		return err
	}
	if err := c.Journal.Append(records...); err != nil {
		return err
	}
	return c.l.call()
}

// keptNot is an offset from which no output is kept.
const keptNot = 1

// open is the IO socket of a part: each of its tasks writes its number, and how it ends follows the
// container.
func (l *lab) open(node string, id container.ID, from int64) *stream.Conn {
	ours, theirs := net.Pipe()
	c := stream.New(ours)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			f, err := c.Read()
			if err != nil {
				return
			}
			l.mu.Lock()
			switch f.Kind {
			case stream.Stdin:
				l.input[id] += string(f.Data)
				n := int64(len(l.input[id]))
				l.mu.Unlock()
				go func() { _ = c.Write(stream.Number(n)) }()
				continue
			case stream.StdinEnd:
				l.input[id] += "$"
			case stream.Ack:
				l.acked[id], _ = f.Offset()
			}
			l.mu.Unlock()
		}
	}()
	go func() {
		defer c.Close()
		l.mu.Lock()
		if from == keptNot {
			l.mu.Unlock()
			_ = c.WriteJSON(stream.End, stream.AllTasks, stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 125},
				Why: "the output is kept from byte 9 to 18"})
			return
		}
		tasks, taken := l.parts[id].Tasks, int64(len(l.input[id]))
		l.mu.Unlock()
		if c.Write(stream.Number(taken)) != nil {
			return
		}
		at := int64(0)
		send := func(f stream.Frame) bool {
			if at += f.Counts(); at <= from {
				return true
			}
			return c.Write(f) == nil
		}
		for i := range tasks {
			if !send(stream.Frame{Kind: stream.Stdout, Task: uint32(i), Data: fmt.Appendf(nil, "task %d\n", tasks[i])}) {
				return
			}
		}
		for i := range l.more {
			for local := range tasks {
				data := bytes.Repeat([]byte{'a' + byte(i%26)}, 16<<10)
				if !send(stream.Frame{Kind: stream.Stdout, Task: uint32(local), Data: data}) {
					return
				}
			}
		}
		exit := l.await(node, id, gone)
		if exit == nil {
			return
		}
		end := stream.StepTaskExit{Code: exit.Code, Signal: exit.Signal}
		for i := range tasks {
			f, _ := stream.JSON(stream.Exit, uint32(i), end)
			if !send(f) {
				return
			}
		}
		f, _ := stream.JSON(stream.End, stream.AllTasks, stream.StepEnd{StepTaskExit: end})
		send(f)
		l.mu.Lock()
		l.written[id] = at
		l.mu.Unlock()
		<-gone
	}()
	return stream.New(theirs)
}

// await waits for the end of a container, or until the reader is gone.
func (l *lab) await(node string, id container.ID, gone <-chan struct{}) *container.Exit {
	rt := l.worlds[node].Open()
	for {
		list, err := rt.List(context.Background())
		if err != nil {
			return nil
		}
		for _, s := range list {
			if s.ID == id && s.Exit != nil {
				return s.Exit
			}
		}
		select {
		case <-rt.Changes():
		case <-gone:
			return nil
		}
	}
}

// person is the command that has asked for a step.
type person struct {
	l    *lab
	conn *stream.Conn
	end  *stream.StepEnd
	got  []string
	of   api.StepBegun
}

// ask asks for a step, over a pipe.
func (l *lab) ask(req api.StepRequest) (*person, error) {
	l.t.Helper()
	if req.Programs == nil {
		req.Programs = []api.StepProgram{{Argv: []string{"program"}}}
	}
	j, err := l.m.find(first)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := check(&req); err != nil {
		return nil, err
	}
	p := &person{l: l}
	err = j.serve(&req, func() (c *client) {
		p.conn, c = l.connect(0, req.Losses)
		return c
	})
	return p, err
}

func (l *lab) connect(room int, awaited bool) (*stream.Conn, *client) {
	ours, theirs := net.Pipe()
	return stream.New(ours), newClient(l.ctx, stream.New(theirs), room, awaited)
}

// read reads until a frame of a kind comes, and reports whether it has come.
func (p *person) read(kind stream.Kind) bool {
	for {
		f, err := p.conn.Read()
		if err != nil {
			return false
		}
		switch f.Kind {
		case stream.Stdout, stream.Message:
			p.got = append(p.got, string(f.Data))
		case stream.Begun:
			if err := json.Unmarshal(f.Data, &p.of); err != nil {
				p.l.t.Error(err)
			}
		case stream.End:
			p.end = &stream.StepEnd{}
			if err := json.Unmarshal(f.Data, p.end); err != nil {
				p.l.t.Error(err)
			}
		}
		if f.Kind == kind {
			return true
		}
	}
}

// frame reads the next frame of a kind.
func (p *person) frame(kind stream.Kind) stream.Frame {
	p.l.t.Helper()
	for {
		f, err := p.conn.Read()
		if err != nil {
			p.l.t.Fatal(err)
		}
		if f.Kind == kind {
			return f
		}
	}
}

// endPart ends the part of a step on a node.
func (l *lab) endPart(node, step int, e container.Exit) {
	id := container.ID{Job: 7, Attempt: 1, Worker: node}.OfStep(step)
	l.worlds[l.nodes[node]].End(id, e)
}

// ended returns the rows that were reported.
func (l *lab) ended() []model.StepReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rows)
}

// step returns a step that runs.
func (l *lab) step(n int) *step {
	l.t.Helper()
	j, err := l.m.find(first)
	if err != nil {
		l.t.Fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.step(n) == nil {
		l.t.Fatalf("step %d does not run", n)
	}
	return j.step(n)
}

// left lists the containers of all nodes.
func (l *lab) left() []string {
	var list []string
	for name, w := range l.worlds {
		all, _ := w.Open().List(context.Background())
		for _, s := range all {
			list = append(list, name+" "+s.ID.String())
		}
	}
	return list
}

func inBubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }
