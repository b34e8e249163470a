package jobsteps

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/container/containertest"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

func succeeds(container.ID) containertest.Program {
	return containertest.Program{Exit: &container.Exit{UserMS: 30, PeakMem: 100}}
}

func runsOn(container.ID) containertest.Program { return containertest.Program{} }

// TestAStepOnTwoNodes notices a step of which a part does not run, whose output or end is lost or
// is not acknowledged, that has no row, or of which something is left.
func TestAStepOnTwoNodes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, succeeds, "a", "b")
		p, err := l.ask(api.StepRequest{Name: "hello"})
		if err != nil || !p.read(stream.End) {
			t.Fatal(err)
		}
		slices.Sort(p.got)
		if want := []string{"task 0\n", "task 1\n", "task 2\n", "task 3\n"}; !reflect.DeepEqual(p.got, want) {
			t.Errorf("output %q", p.got)
		}
		if !reflect.DeepEqual(p.of.Nodes, l.nodes) || !reflect.DeepEqual(p.of.Tasks, []int{2, 2}) || p.end.Code != 0 {
			t.Errorf("%+v, %+v", p.of, p.end)
		}
		synctest.Wait()
		if len(l.ended()) != 1 || len(l.left()) != 0 {
			t.Fatalf("rows %+v, left %v", l.ended(), l.left())
		}
		r := l.ended()[0]
		if !r.Possible() || r.Row != 1 || r.ID != 0 || r.Name != "hello" || r.Tasks != 4 || r.Cores != 8 || r.GPUs != 4 ||
			r.Usage == nil || r.Usage.CPUMS != 60 || r.Usage.PeakMemory != 100 {
			t.Errorf("row %+v", r)
		}
		s := l.parts[container.ID{Job: 7, Attempt: 1, Worker: 1}.OfStep(0)]
		if !reflect.DeepEqual(s.Tasks, []int{2, 3}) || s.Node != 1 || !reflect.DeepEqual(s.GPUs, []int{4, 5}) {
			t.Errorf("the second part is %+v", s)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.written) != 2 || !maps.Equal(l.acked, l.written) {
			t.Errorf("parts have written %v bytes, and %v were acknowledged", l.written, l.acked)
		}
	})
}

// TestAStepInGroups notices a step in groups that start together whose nodes get another part of
// the request, whose tasks have other numbers, or whose output is read twice where two workers are
// on a node.
func TestAStepInGroups(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, succeeds, "a", "b")
		l.inGroups()
		one := []api.StepProgram{{Argv: []string{"one"}}}
		p, err := l.ask(api.StepRequest{Tasks: 1, Programs: one, Env: []string{"X=1"}, More: []api.StepRequest{{Group: 1,
			Exact: true, Programs: []api.StepProgram{{Tasks: []int{1}, Argv: []string{"three"}}, {Argv: []string{"two"}}}}}})
		if err != nil || !p.read(stream.End) {
			t.Fatal(err)
		}
		if fmt.Sprint(p.of.Nodes, p.of.Tasks, p.of.Parts, p.of.TaskNodes()) != "[a b] [1 2] [1 1] [0 1 1]" {
			t.Errorf("it has begun as %+v", p.of)
		}
		synctest.Wait()
		if r := l.ended(); len(r) != 1 || r[0].Tasks != 3 || r[0].Cores != 6 || r[0].GPUs != 3 || len(l.left()) != 0 {
			t.Fatalf("rows %+v, left %v", r, l.left())
		}
		a := l.parts[first.OfStep(0)]
		b := l.parts[container.ID{Job: 7, Attempt: 1, Worker: 1}.OfStep(0)]
		if fmt.Sprint(a.Tasks, a.Groups, a.Exact, a.Programs, a.Env) != "[0] [0 1] false [{[] [one]}] [X=1]" {
			t.Errorf("the first part is %+v", a)
		}
		if fmt.Sprint(b.Tasks, b.Groups, b.Exact, b.Programs, b.Env) !=
			"[1 2] [0 1] true [{[2] [three]} {[] [two]}] [X=1]" {
			t.Errorf("the second part is %+v", b)
		}
	})
}

// TestAStepInGroupsGoesOn notices a step whose tasks have other numbers once the daemon was
// restarted, or whose cores in another group are given to others then.
func TestAStepInGroupsGoesOn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a", "b")
		l.inGroups()
		req := api.StepRequest{Tasks: 1, More: []api.StepRequest{{Group: 1, Programs: []api.StepProgram{{
			Argv: []string{"x"}}}}}}
		p, err := l.ask(req)
		if err != nil || !p.read(stream.Begun) {
			t.Fatal(err)
		}
		l.stop()
		l.start()
		l.m.Recover(first)
		synctest.Wait()
		j, err := l.m.find(first)
		if err != nil {
			t.Fatal(err)
		}
		if got := j.step(0).begun(); !reflect.DeepEqual(got, p.of) || len(got.Parts) != 2 {
			t.Errorf("it goes on as %+v, not as %+v", got, p.of)
		}
		if _, err := l.ask(api.StepRequest{Group: 1, NoWait: true}); !errors.Is(err, choose.Busy) {
			t.Errorf("another step: %v", err)
		}
		go l.m.Finish(l.ctx, first)
		synctest.Wait()
	})
}

// TestRequestsForGroups notices a request whose parts in groups contradict each other.
func TestRequestsForGroups(t *testing.T) {
	one := []api.StepProgram{{Argv: []string{"x"}}}
	for want, more := range map[string]api.StepRequest{
		"a step can have only one part in each group, but has two in group 0":      {Programs: one},
		"the part of a step in group 1 has settings that belong to the whole step": {Group: 1, Programs: one, Overlap: true},
		"in group 1: a step needs a program":                                       {Group: 1},
		"in group 1: the numbers of a step must not be negative":                   {Group: 1, Programs: one, Nodes: -1},
	} {
		err := check(&api.StepRequest{Programs: one, More: []api.StepRequest{more}})
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestStepsWait notices a step that does not wait for room, that is not told that it waits, or that
// does not begin when there is room.
func TestStepsWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		one, _ := l.ask(api.StepRequest{})
		one.read(stream.Stdout)
		if _, err := l.ask(api.StepRequest{NoWait: true}); !errors.Is(err, choose.Busy) {
			t.Errorf("without patience: %v", err)
		}
		if _, err := l.ask(api.StepRequest{Tasks: 5}); !errors.Is(err, choose.TooManyTasks) {
			t.Errorf("a step that is too large: %v", err)
		}
		over, err := l.ask(api.StepRequest{Overlap: true})
		if err != nil || !over.read(stream.Begun) {
			t.Errorf("a step that shares: %v", err)
		}
		two, _ := l.ask(api.StepRequest{})
		if !two.read(stream.Message) || !strings.Contains(two.got[0], "retrying (Requested nodes are busy)") {
			t.Errorf("it is told %q", two.got)
		}
		gone, _ := l.ask(api.StepRequest{})
		gone.read(stream.Message)
		gone.conn.Close()
		three, _ := l.ask(api.StepRequest{})
		three.read(stream.Message)
		synctest.Wait()
		l.endPart(0, 0, container.Exit{Code: 3})
		if !one.read(stream.End) || one.end.Code != 3 {
			t.Errorf("the first has ended with %+v", one.end)
		}
		if !two.read(stream.Begun) || two.of.Step != 2 {
			t.Errorf("the second is %+v", two.of)
		}
		go two.read(stream.End)
		synctest.Wait()
		l.endPart(0, 2, container.Exit{})
		if !three.read(stream.Begun) || three.of.Step != 3 {
			t.Errorf("the third is %+v", three.of)
		}
	})
}

// TestWhatEndsAStep notices a step that is not ended by its limits or by its job, or not as it
// should be.
func TestWhatEndsAStep(t *testing.T) {
	for name, c := range map[string]struct {
		req  api.StepRequest
		do   func(*lab, *person)
		want stream.StepEnd
		late time.Duration
	}{
		"its time limit": {req: api.StepRequest{TimeLimit: 60}, late: time.Minute,
			want: stream.StepEnd{StepTaskExit: stream.StepTaskExit{Signal: 9}, Why: "its time limit was reached"}},
		"a task that fails": {req: api.StepRequest{KillOnBad: true},
			do:   func(l *lab, _ *person) { l.endPart(0, 0, container.Exit{Code: 4}) },
			want: stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 4}}},
		"its first task": {req: api.StepRequest{Wait: 30}, late: 30 * time.Second,
			do: func(l *lab, _ *person) { l.endPart(0, 0, container.Exit{}) },
			want: stream.StepEnd{StepTaskExit: stream.StepTaskExit{Signal: 9},
				Why: "its other tasks did not end in time after the first task"}},
		"a signal": {do: func(_ *lab, p *person) {
			_ = p.conn.Write(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte("SIGINT")})
		}, want: stream.StepEnd{StepTaskExit: stream.StepTaskExit{Signal: 2}}},
		"scancel": {do: func(l *lab, _ *person) { l.step(0).ask(l.ctx, order{signals: []string{"SIGKILL"}}) },
			want: stream.StepEnd{StepTaskExit: stream.StepTaskExit{Signal: 9}, Why: "it was cancelled"}},
		"its job": {do: func(l *lab, _ *person) { go l.m.Finish(l.ctx, first) },
			want: stream.StepEnd{StepTaskExit: stream.StepTaskExit{Signal: 9}, Why: "its job has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, runsOn, "a", "b")
				p, err := l.ask(c.req)
				if err != nil {
					t.Fatal(err)
				}
				for range 4 {
					p.read(stream.Stdout)
				}
				synctest.Wait()
				begun := time.Now()
				if c.do != nil {
					c.do(l, p)
				}
				if !p.read(stream.End) || *p.end != c.want || time.Since(begun) != c.late {
					t.Errorf("after %v: %+v", time.Since(begun), p.end)
				}
				synctest.Wait()
				if len(l.ended()) != 1 || l.ended()[0].Why != c.want.Why || len(l.left()) != 0 {
					t.Errorf("rows %+v, left %v", l.ended(), l.left())
				}
			})
		})
	}
}

// TestAStepThatOutlivesItsScript notices a step that gets no signal at the end of its script, whose
// person is not told, that is ended because its command was in the script, or whose end nothing
// waits for; and a step that begins when the script has ended.
func TestAStepThatOutlivesItsScript(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, func(container.ID) containertest.Program {
			return containertest.Program{Signals: map[int]*container.Exit{int(unix.SIGCONT): nil, int(unix.SIGUSR1): nil}}
		}, "a", "b")
		inside, _ := l.ask(api.StepRequest{Overlap: true})
		outside, _ := l.ask(api.StepRequest{Overlap: true})
		for range 4 {
			inside.read(stream.Stdout)
			outside.read(stream.Stdout)
		}
		inside.conn.Close()
		l.m.End(l.ctx, first, "SIGUSR1", 30*time.Second)
		if !outside.read(stream.Message) || outside.got[len(outside.got)-1] !=
			"Job step aborted: Waiting up to 30 seconds for job step to finish." {
			t.Errorf("it is told %q", outside.got)
		}
		if _, err := l.ask(api.StepRequest{}); !errors.Is(err, errEnds) {
			t.Errorf("a step that comes late: %v", err)
		}
		time.Sleep(2 * clientPatience)
		synctest.Wait()
		if left := l.left(); len(left) != 4 || len(l.ended()) != 0 || len(l.idle) != 0 {
			t.Fatalf("left %v, rows %+v", left, l.ended())
		}
		for node := range l.nodes {
			for step := range 2 {
				id := container.ID{Job: 7, Attempt: 1, Worker: node}.OfStep(step)
				got := slices.Sorted(slices.Values(l.signals[id]))
				if want := []int{int(unix.SIGUSR1), int(unix.SIGCONT)}; !slices.Equal(got, want) {
					t.Errorf("%s got %v, not %v", id, got, want)
				}
				l.endPart(node, step, container.Exit{Code: 2 + step})
			}
		}
		if !outside.read(stream.End) || outside.end.Code != 3 || outside.end.Why != "" {
			t.Errorf("the second has ended with %+v", outside.end)
		}
		synctest.Wait()
		if rows := l.ended(); len(rows) != 2 || len(l.left()) != 0 || !slices.Equal(l.idle, []container.ID{first}) {
			t.Errorf("rows %+v, left %v, told %v", rows, l.left(), l.idle)
		}
	})
}

// TestInput notices input that a task gets twice or not at all, or that goes to tasks for which it
// is not.
func TestInput(t *testing.T) {
	for stdin, want := range map[string][2]string{"": {"hello$", "hello$"}, "3": {"$$", "$hello$"}, "none": {"$$", "$$"}} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, runsOn, "a", "b")
			p, err := l.ask(api.StepRequest{Stdin: stdin})
			if err != nil || !p.read(stream.Begun) {
				t.Fatal(err)
			}
			in := stream.NewInput(stream.AllTasks)
			if stdin != "none" {
				p.read(stream.Ack)
				if err := in.Resume(p.conn, 0); err != nil {
					t.Fatal(err)
				}
				go func() { // what comes meanwhile
					for p.read(stream.Ack) {
					}
				}()
				_, _ = in.Write([]byte("hello"))
				in.End()
			} else {
				go p.read(stream.End)
			}
			synctest.Wait()
			l.mu.Lock()
			for i, text := range want {
				if got := l.input[container.ID{Job: 7, Attempt: 1, Worker: i}.OfStep(0)]; got != text {
					t.Errorf("stdin %q: node %d has read %q, not %q", stdin, i, got, text)
				}
			}
			l.mu.Unlock()
		})
	}
}

// TestAClientComesBack notices output that is lost or repeated when a connection or the daemon was
// lost, and a step that goes on without its command.
func TestAClientComesBack(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, runsOn, "a", "b")
			p, _ := l.ask(api.StepRequest{})
			p.read(stream.Stdout)
			received := make([]int64, 2)
			received[map[bool]int{true: 0, false: 1}[p.got[0] < "task 2"]] = 9 + int64(len(p.got[0]))
			if restart {
				l.stop()
				l.start()
				l.m.Recover(first)
			} else {
				p.conn.Close()
			}
			synctest.Wait()
			j, err := l.m.find(first)
			if err != nil {
				t.Fatal(err)
			}
			s := j.step(0)
			if s == nil {
				t.Fatal("the step is gone")
			}
			again := &person{l: l, got: p.got}
			var c *client
			again.conn, c = l.connect(0, false)
			s.attaching <- &attach{client: c, from: received}
			for range 3 {
				again.read(stream.Stdout)
			}
			synctest.Wait()
			l.endPart(0, 0, container.Exit{})
			l.endPart(1, 0, container.Exit{Code: 2})
			if !again.read(stream.End) || again.end.Code != 2 {
				t.Errorf("restarted %v: %+v", restart, again.end)
			}
			slices.Sort(again.got)
			if want := []string{"task 0\n", "task 1\n", "task 2\n", "task 3\n"}; !reflect.DeepEqual(again.got, want) {
				t.Errorf("restarted %v: output %q", restart, again.got)
			}
			synctest.Wait()
			if len(l.ended()) != 1 || l.ended()[0].ExitCode != 2 || len(l.left()) != 0 {
				t.Errorf("restarted %v: rows %+v, left %v", restart, l.ended(), l.left())
			}
			next, _ := l.ask(api.StepRequest{})
			if !next.read(stream.Begun) || next.of.Step != 1 {
				t.Errorf("the next step is %+v", next.of)
			}
		})
	}
}

// TestAStepWithoutItsCommandEnds notices a step that goes on for ever when srun was killed, and
// a job that does although it was there for that step alone.
func TestAStepWithoutItsCommandEnds(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, runsOn, "a", "b")
			p, _ := l.ask(api.StepRequest{EndsJob: restart})
			p.read(stream.Stdout)
			if restart {
				l.stop()
				l.start()
				l.m.Recover(first)
			} else {
				p.conn.Close()
			}
			time.Sleep(clientPatience - time.Second)
			synctest.Wait()
			if len(l.left()) != 2 || len(l.ended()) != 0 {
				t.Errorf("restarted %v: it has ended too early: %+v", restart, l.ended())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if len(l.left()) != 0 || len(l.ended()) != 1 || l.ended()[0].Why != "srun is gone" {
				t.Errorf("restarted %v: left %v, rows %+v", restart, l.left(), l.ended())
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if want := map[bool][]container.ID{true: {first}}[restart]; !slices.Equal(l.over, want) {
				t.Errorf("restarted %v: %v have ended with it, want %v", restart, l.over, want)
			}
		})
	}
}

// TestAJobThatItsCommandLeaves notices a job that goes on for ever when srun was killed behind the
// end of its step, and one that ends before srun can have it end.
func TestAJobThatItsCommandLeaves(t *testing.T) {
	for _, own := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, succeeds, "a", "b")
			p, _ := l.ask(api.StepRequest{EndsJob: own})
			p.read(stream.End)
			synctest.Wait() // it is known that it has read that
			p.conn.Close()
			time.Sleep(jobPatience - time.Second)
			synctest.Wait()
			over := func() []container.ID {
				l.mu.Lock()
				defer l.mu.Unlock()
				return slices.Clone(l.over)
			}
			if len(l.ended()) != 1 || len(over()) != 0 {
				t.Errorf("its own %v: rows %+v, %v have ended too early", own, l.ended(), over())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if want := map[bool][]container.ID{true: {first}}[own]; !slices.Equal(over(), want) {
				t.Errorf("its own %v: %v have ended, want %v", own, over(), want)
			}
		})
	}
}

// TestAClientThatLeavesAtTheEnd notices a client that has gone because it knows all, and is missed.
func TestAClientThatLeavesAtTheEnd(t *testing.T) {
	both := make(chan struct{})
	close(both)
	for range 64 { // which of the two is seen is chance
		s := &step{client: &client{gone: both, told: both, written: both}}
		if s.turn(t.Context()); !s.told || s.client != nil || s.gone != nil {
			t.Fatalf("it was told: %v, and is missed: %v", s.told, s.gone != nil)
		}
	}
}

// TestADaemonThatIsKilledAnywhere notices a step that is lost, has two rows, leaves something, or
// holds its share for ever, wherever the daemon of its job is killed, and a job that it was to end.
func TestADaemonThatIsKilledAnywhere(t *testing.T) {
	for n := 1; n < 40; n++ {
		killed := true
		inBubble(t, func(t *testing.T) {
			l := newLab(t, succeeds, "a", "b")
			l.mu.Lock()
			l.calls = n
			l.mu.Unlock()
			p, err := l.ask(api.StepRequest{EndsJob: true})
			if err == nil {
				p.read(stream.End)
			}
			synctest.Wait()
			e, _ := l.keep.Entry(first.String())
			ends := len(e.Steps) == 1 && e.Steps[0].Report == nil
			l.mu.Lock()
			killed, l.calls = l.ctx.Err() != nil, 0
			l.mu.Unlock()
			if killed {
				l.stop()
				l.start()
				l.m.Recover(first)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			what := fmt.Sprintf("killed at call %d", n)
			rows := map[int]bool{}
			for _, r := range l.ended() {
				rows[r.Row] = true
			}
			e, _ = l.keep.Entry(first.String())
			l.mu.Lock()
			if killed && ends && !slices.Contains(l.over, first) {
				t.Errorf("%s: its job goes on", what)
			}
			l.mu.Unlock()
			if len(rows) > 1 || len(e.Steps) > 1 || len(e.Steps) == 1 && e.Steps[0].Report == nil {
				t.Errorf("%s: rows %+v, journal %+v", what, l.ended(), e.Steps)
			}
			if p.of.Nodes != nil && len(e.Steps) != 1 {
				t.Errorf("%s: a step that had begun has no row: %+v", what, e)
			}
			if left := l.left(); len(left) != 0 {
				t.Errorf("%s: left %v", what, left)
			}
			next, err := l.ask(api.StepRequest{NoWait: true})
			if err != nil || !next.read(stream.End) || next.end.Code != 0 {
				t.Errorf("%s: the next step: %v %+v", what, err, next)
			}
		})
		if !killed {
			if n < 8 {
				t.Errorf("only %d calls were tried", n)
			}
			return
		}
	}
	t.Error("there are more calls")
}

// TestRequestsThatMakeNoSense notices what would be ignored, or would stop the daemon.
func TestRequestsThatMakeNoSense(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, succeeds, "a")
		program := []api.StepProgram{{Argv: []string{"x"}}}
		for name, req := range map[string]api.StepRequest{
			"negative": {Programs: program, Tasks: -1}, "no GPUs less": {Programs: program, GPUs: -2},
			"no name": {Programs: []api.StepProgram{{Argv: []string{""}}}}, "huge": {Programs: program, Tasks: 1 << 30},
			"no memory has it": {Programs: program, MemoryPerCore: 1 << 62, CoresPerTask: 4},
			"for ever":         {Programs: program, TimeLimit: 1 << 62},
			"so many cores":    {Programs: program, CoresPerTask: 1 << 62},
			"so long":          {Programs: program, Wait: 1 << 40},
			"no variable":      {Programs: program, Env: []string{"x"}},
			"a task without": {Tasks: 3,
				Programs: []api.StepProgram{{Tasks: []int{0}, Argv: []string{"x"}}, {Tasks: []int{2}, Argv: []string{"x"}}}},
		} {
			if _, err := l.ask(req); err == nil {
				t.Errorf("%s is accepted", name)
			}
		}
	})
}

// TestAListThatIsLate notices a part that is taken for lost because it was started while containers
// were listed, and one that seems to be there again after it was removed.
func TestAListThatIsLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		local := l.locals["a"]
		before := local.Mark()
		p, err := l.ask(api.StepRequest{Tasks: 1})
		if err != nil || !p.read(stream.Stdout) {
			t.Fatal(err)
		}
		id := first.OfStep(0)
		local.Note(before, nil)
		if live := local.Live(first); !slices.Equal(live, []container.ID{id}) {
			t.Errorf("it has started and is lost: %v", live)
		}
		running := local.Mark()
		l.endPart(0, 0, container.Exit{})
		p.read(stream.End)
		synctest.Wait()
		local.Note(running, []container.Status{{ID: id, State: container.Running}})
		if all := local.All(first); len(all) != 0 {
			t.Errorf("it was removed and is there: %v", all)
		}
		local.Note(local.Mark(), []container.Status{{ID: id, State: container.Exited}})
		if all := local.All(first); len(all) != 1 {
			t.Errorf("it is there: %v", all)
		}
	})
}

// TestLostOutputIsInTheRow notices a row of a step without the output that its client could not
// write. The client says the last of it after it has read the end.
func TestLostOutputIsInTheRow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, succeeds, "a")
		p, err := l.ask(api.StepRequest{Losses: true})
		if err != nil {
			t.Fatal(err)
		}
		say := func(n int64) {
			if err := p.conn.WriteJSON(stream.Lost, stream.AllTasks, lossy.Loss{Bytes: n, Errno: 28}); err != nil {
				t.Fatal(err)
			}
		}
		say(4096)
		p.read(stream.End)
		synctest.Wait()
		if len(l.ended()) != 0 {
			t.Fatalf("the row is there before the client has said its last words: %+v", l.ended())
		}
		say(4099)
		say(3) // a part of what is known
		_ = p.conn.Close()
		synctest.Wait()
		rows := l.ended()
		if len(rows) != 1 || rows[0].OutputLost == nil || *rows[0].OutputLost != (lossy.Loss{Bytes: 4099, Errno: 28}) {
			t.Errorf("%+v", rows)
		}
	})
}
