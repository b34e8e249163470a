package jobsteps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

// TestAnotherNodeBegins notices a step that fails because the worker of another node has not
// started yet.
func TestAnotherNodeBegins(t *testing.T) {
	cluster := pkitest.New(t)
	l := newLab(t, runsOn, "a", "b")
	l.refuse = map[string]int{"b": 4}
	addr := l.daemonOf("b", cluster.Member(pki.Node, "b"))
	own := cluster.Member(pki.Node, "a")
	l.m.Remote = func(name string) Node {
		return &Remote{Name: name, Addr: func(string) string { return addr }, Credential: own}
	}
	p, err := l.ask(api.StepRequest{})
	if err != nil || !p.read(stream.Begun) || !p.read(stream.Stdout) {
		t.Fatalf("%v, it has ended with %+v", err, p.end)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse["b"] != 0 {
		t.Errorf("the node was not asked again: %v", l.refuse)
	}
}

// TestANodeThatRefusesItsPart notices a client that waits for the end of a part which was never
// started, and something that is left of it.
func TestANodeThatRefusesItsPart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a", "b")
		l.m.Remote = func(name string) Node { return refusing{l.locals[name]} }
		begun := time.Now()
		p, err := l.ask(api.StepRequest{})
		if err != nil || !p.read(stream.End) || p.end.Code != 1 || !strings.Contains(p.end.Why, "not this one") {
			t.Fatalf("%v %+v", err, p.end)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it is told after %v", took)
		}
		synctest.Wait()
		if len(l.left()) != 0 || len(l.ended()) != 1 {
			t.Errorf("left %v, rows %+v", l.left(), l.ended())
		}
		if !slices.Contains(l.dropped, first.OfStep(0)) {
			t.Errorf("dropped %v", l.dropped)
		}
	})
}

// refusing is a node that starts nothing, and does not know a part otherwise than by its refusal.
type refusing struct{ *Local }

func (r refusing) Start(context.Context, container.ID, *Part) error {
	return errors.New("not this one")
}

func (r refusing) Open(_, _ context.Context, _ container.ID, _ int64) (*stream.Conn, error) {
	return nil, errors.New("not this one")
}

// TestAPausedJobHasNoSrun notices a step that is ended because its job, and srun in it, is paused.
func TestAPausedJobHasNoSrun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		p, err := l.ask(api.StepRequest{})
		if err != nil || !p.read(stream.Stdout) {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.paused = true
		l.mu.Unlock()
		p.conn.Close()
		time.Sleep(time.Hour)
		l.mu.Lock()
		l.paused = false
		l.mu.Unlock()
		time.Sleep(clientPatience - time.Second)
		synctest.Wait()
		if len(l.left()) != 1 || len(l.ended()) != 0 {
			t.Errorf("left %v, rows %+v", l.left(), l.ended())
		}
		time.Sleep(2 * clientPatience)
		synctest.Wait()
		if len(l.left()) != 0 || len(l.ended()) != 1 || l.ended()[0].Why != "srun is gone" {
			t.Errorf("it goes on without srun: left %v, rows %+v", l.left(), l.ended())
		}
	})
}

// TestTheFirstRequestAfterARestart notices a new step that gets the cores of one which runs, and a
// client that does not find its step.
func TestTheFirstRequestAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		p, err := l.ask(api.StepRequest{})
		if err != nil || !p.read(stream.Stdout) {
			t.Fatal(err)
		}
		l.stop()
		l.start()
		if _, err := l.ask(api.StepRequest{NoWait: true}); !errors.Is(err, choose.Busy) {
			t.Errorf("a new step: %v", err)
		}
		if j, err := l.m.find(first); err != nil || !l.m.Running(first) || j.step(0) == nil {
			t.Errorf("the step that runs is not known: %v", err)
		}
	})
}

// TestOutputThatIsGone notices a client that cannot go on where it has stopped and is not told why,
// or whose step then goes on without a reader.
func TestOutputThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		p, err := l.ask(api.StepRequest{})
		if err != nil || !p.read(stream.Stdout) {
			t.Fatal(err)
		}
		p.conn.Close()
		j, err := l.m.find(first)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		again := &person{l: l}
		var c *client
		again.conn, c = l.connect(0, false)
		j.step(0).attaching <- &attach{client: c, from: []int64{keptNot}}
		if !again.read(stream.End) || again.end.Code != 125 || !strings.Contains(again.end.Why, "kept from byte 9") {
			t.Errorf("it is told %+v", again.end)
		}
		synctest.Wait()
		if took := time.Since(begun); took > time.Second || len(l.left()) != 0 || len(l.ended()) != 1 {
			t.Errorf("after %v: left %v, rows %+v", took, l.left(), l.ended())
		}
	})
}

// TestTooManySteps notices a job that may have the daemon keep any number of steps.
func TestTooManySteps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		p, err := l.ask(api.StepRequest{})
		if err != nil || !p.read(stream.Stdout) {
			t.Fatal(err)
		}
		j, err := l.m.find(first)
		if err != nil {
			t.Fatal(err)
		}
		req := &api.StepRequest{Programs: []api.StepProgram{{Argv: []string{"x"}}}}
		for n := 1; n < stepsMost; n++ {
			if _, w, err := j.enter(req); err != nil || w == nil {
				t.Fatalf("step %d: %v", n, err)
			}
		}
		var problem *api.Problem
		if _, _, err := j.enter(req); !errors.As(err, &problem) || problem.Code != api.CodeLimit {
			t.Errorf("one more: %v", err)
		}
	})
}

// TestAStepThatIsLate notices a step that begins when its job has ended.
func TestAStepThatIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		j, err := l.m.find(first)
		if err != nil {
			t.Fatal(err)
		}
		req := &api.StepRequest{Programs: []api.StepProgram{{Argv: []string{"x"}}}}
		g, _, err := j.enter(req)
		if err != nil {
			t.Fatal(err)
		}
		l.m.Finish(t.Context(), first)
		p := &person{l: l}
		var c *client
		p.conn, c = l.connect(0, false)
		l.m.runs.Go(func() { j.create(req, g, c) })
		if !p.read(stream.End) || p.end.Why != errEnds.Error() {
			t.Errorf("it is told %+v", p.end)
		}
		synctest.Wait()
		if e, _ := l.keep.Entry(first.String()); len(e.Steps) != 0 || len(l.left()) != 0 {
			t.Errorf("journal %+v, left %v", e.Steps, l.left())
		}
	})
}
