package jobsteps

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
)

// TestARequestThatIsSentAgain notices a step that is started twice, or not at all, because the
// connection of its request was lost before srun knew that it begins, and output of it that is
// lost.
func TestARequestThatIsSentAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, runsOn, "a", "b")
			req := api.StepRequest{Key: "k", Overlap: true}
			lost, err := l.ask(req)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			lost.conn.Close()
			if restart {
				l.stop()
				l.start()
				l.m.Recover(first)
			}
			synctest.Wait()
			p, err := l.ask(req)
			if err != nil || !p.read(stream.Begun) || p.of.Step != 0 {
				t.Fatalf("restarted %v: %v, %+v", restart, err, p.of)
			}
			for range 4 {
				p.read(stream.Stdout)
			}
			slices.Sort(p.got)
			if want := []string{"task 0\n", "task 1\n", "task 2\n", "task 3\n"}; !reflect.DeepEqual(p.got, want) {
				t.Errorf("restarted %v: output %q", restart, p.got)
			}
			l.endPart(0, 0, container.Exit{})
			l.endPart(1, 0, container.Exit{})
			if !p.read(stream.End) || p.end.Code != 0 || p.end.Why != "" {
				t.Errorf("restarted %v: %+v", restart, p.end)
			}
			synctest.Wait()
			if rows, left := l.ended(), l.left(); len(rows) != 1 || len(left) != 0 {
				t.Errorf("restarted %v: rows %+v, left %v", restart, rows, left)
			}
			if _, err = l.ask(req); err == nil || !strings.Contains(err.Error(),
				"ended while no program was reading its output") {
				t.Errorf("restarted %v: once more: %v", restart, err)
			}
			other, err := l.ask(api.StepRequest{Key: "other"})
			if err != nil || !other.read(stream.Begun) || other.of.Step != 1 {
				t.Errorf("restarted %v: another request: %v, %+v", restart, err, other.of)
			}
		})
	}
}

// TestARequestThatIsSentAgainTooLate notices a step that is started twice because its request is
// sent again after it has ended without a reader, and the node daemon was restarted before or
// behind that.
func TestARequestThatIsSentAgainTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a", "b")
		restart := func() {
			l.stop()
			l.start()
			l.m.Recover(first)
		}
		req := api.StepRequest{Key: "k", Overlap: true}
		lost, err := l.ask(req)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		lost.conn.Close()
		restart()
		time.Sleep(2 * clientPatience)
		synctest.Wait()
		if rows := l.ended(); len(rows) != 1 || rows[0].Why != "srun is gone" {
			t.Fatalf("rows %+v", rows)
		}
		if err := l.keep.Append(journal.Record{Op: journal.StepsKnown, ID: first.String(), Row: 1}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := l.ask(req); err == nil || !strings.Contains(err.Error(),
				"ended while no program was reading its output") {
				t.Errorf("sent again: %v", err)
			}
			restart()
		}
		read, err := l.ask(api.StepRequest{Key: "other"})
		if err != nil || !read.read(stream.Begun) {
			t.Fatal(err)
		}
		go read.read(stream.End)
		synctest.Wait()
		l.endPart(0, 1, container.Exit{})
		l.endPart(1, 1, container.Exit{})
		synctest.Wait()
		if e, _ := l.keep.Entry(first.String()); len(e.Unread) != 1 || e.Unread[0] != (journal.Unread{N: 0, Key: "k"}) {
			t.Errorf("the journal keeps %+v", e.Unread)
		}
	})
}

// TestARequestThatWaitsIsSentAgain notices a step that begins twice, or that loses its place,
// because the connection of its request was lost while it waited.
func TestARequestThatWaitsIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		one, _ := l.ask(api.StepRequest{})
		one.read(stream.Stdout)
		lost, _ := l.ask(api.StepRequest{Key: "k"})
		lost.read(stream.Message)
		behind, _ := l.ask(api.StepRequest{})
		behind.read(stream.Message)
		two, err := l.ask(api.StepRequest{Key: "k"}) // before it is known that the other one is lost
		if err != nil || !two.read(stream.Message) {
			t.Fatal(err)
		}
		if !lost.read(stream.End) {
			t.Error("the connection that is lost is kept")
		}
		synctest.Wait()
		go one.read(stream.End)
		l.endPart(0, 0, container.Exit{})
		if !two.read(stream.Begun) || two.of.Step != 1 {
			t.Errorf("it begins as %+v", two.of)
		}
		go two.read(stream.End)
		synctest.Wait()
		l.endPart(0, 1, container.Exit{})
		if !behind.read(stream.Begun) || behind.of.Step != 2 {
			t.Errorf("the one behind it begins as %+v", behind.of)
		}
	})
}

// TestASlowClient notices output that a node forgets before a client that says what it has has it,
// and output that a node keeps although the client has it.
func TestASlowClient(t *testing.T) {
	for _, acks := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			l := newLab(t, runsOn, "a", "b")
			l.more = 64 // 1 MiB for each task
			p, err := l.ask(api.StepRequest{Acks: acks})
			if err != nil {
				t.Fatal(err)
			}
			read := map[string]int64{}
			for range 4 * 65 {
				f := p.frame(stream.Stdout)
				read[[]string{"a", "b"}[f.Task/2]] += f.Counts()
			}
			synctest.Wait()
			of := func(node int) int64 {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.acked[container.ID{Job: 7, Attempt: 1, Worker: node}.OfStep(0)]
			}
			if got := of(1); (got != 0) == acks || got > read["b"]-ackBehind {
				t.Errorf("acks %v: of %v the node may forget %d", acks, read, got)
			}
			if !acks {
				return
			}
			for node, name := range l.nodes {
				ack := stream.Number(read[name])
				ack.Task = uint32(node)
				if err := p.conn.Write(ack); err != nil {
					t.Fatal(err)
				}
			}
			bad := stream.Number(1 << 40)
			if bad.Task = 2; p.conn.Write(bad) != nil { // there is no such node
				t.Error("the connection has ended")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if of(0) != read["a"] || of(1) != read["b"] {
				t.Errorf("of %v the nodes may forget %d and %d", read, of(0), of(1))
			}
		})
	}
}

// TestOneThatLooksOnLater notices an sattach that shows nothing of what its step wrote before, or
// shows output twice when srun has lost its connection, and a step of which all is kept.
func TestOneThatLooksOnLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		l.more = 40
		p, err := l.ask(api.StepRequest{Tasks: 1})
		if err != nil {
			t.Fatal(err)
		}
		for range 41 {
			p.frame(stream.Stdout)
		}
		p.conn.Close()
		synctest.Wait()
		j, err := l.m.find(first)
		if err != nil {
			t.Fatal(err)
		}
		again := &person{l: l}
		var c *client
		again.conn, c = l.connect(0, false)
		j.step(0).goOnWith(l.ctx, &attach{client: c}) // from the beginning
		for range 41 {
			again.frame(stream.Stdout)
		}
		watcher := &person{l: l}
		watcher.conn, c = l.connect(watcherRoom, false)
		go j.step(0).watch(c)
		watcher.read(stream.Begun)
		go again.read(stream.End)
		synctest.Wait()
		l.endPart(0, 0, container.Exit{})
		if !watcher.read(stream.End) || len(watcher.got) != 4 {
			t.Fatalf("%d pieces are shown", len(watcher.got))
		}
		for i, got := range watcher.got {
			if want := strings.Repeat(string(rune('a'+(36+i)%26)), 16<<10); got != want {
				t.Errorf("piece %d is %d bytes of %.1s, not of %.1s", i, len(got), got, want)
			}
		}
	})
}

// TestARequestWaitsForItsWorker notices a request for a step that is refused because it is faster
// than its worker, or that waits for ever for one that does not come.
func TestARequestWaitsForItsWorker(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, runsOn, "a")
		l.mu.Lock()
		l.refuse = map[string]int{"a": 3}
		l.mu.Unlock()
		begun := time.Now()
		l.m.awaitWorker(t.Context(), first)
		if waited := time.Since(begun); waited != 3*beginPoll {
			t.Errorf("it waited for %v", waited)
		}
		begun = time.Now()
		l.m.awaitWorker(t.Context(), container.ID{Job: 8, Attempt: 1})
		if waited := time.Since(begun); waited != beginPatience {
			t.Errorf("it waited for %v for a worker that is not there", waited)
		}
	})
}
