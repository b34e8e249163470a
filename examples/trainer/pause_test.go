package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// node stands in for the node at a job socket.
type node struct {
	t     *testing.T
	path  string
	l     net.Listener
	conns []net.Conn
	lines []*bufio.Scanner
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, path: filepath.Join(t.TempDir(), "s")}
	var err error
	if n.l, err = net.Listen("unix", n.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.l.Close()
		for _, c := range n.conns {
			c.Close()
		}
	})
	return n
}

// accept waits for so many processes that come by pause points.
func (n *node) accept(processes int) {
	n.t.Helper()
	for range processes {
		c, err := n.l.Accept()
		if err != nil {
			n.t.Fatal(err)
		}
		n.conns, n.lines = append(n.conns, c), append(n.lines, bufio.NewScanner(c))
	}
	for i := range n.conns {
		n.hears(i, `{"say":"ready","number":0}`)
	}
}

func (n *node) hears(i int, want string) {
	n.t.Helper()
	if err := n.conns[i].SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	if !n.lines[i].Scan() || n.lines[i].Text() != want {
		n.t.Fatalf("process %d says %q (%v), want %q", i, n.lines[i].Text(), n.lines[i].Err(), want)
	}
}

func (n *node) orders(i int, do string, number int) {
	n.t.Helper()
	if _, err := fmt.Fprintf(n.conns[i], "{\"do\":%q,\"number\":%d}\n", do, number); err != nil {
		n.t.Fatal(err)
	}
}

// TestAGangPausesAfterOneStep: workers that are told at different steps, one of them only after the
// others have paused, pause together, go on, and lose nothing.
func TestAGangPausesAfterOneStep(t *testing.T) {
	want := losses(t, runGang(t.Context(), t, 1, 1, "-steps=60", "-log=1")[0])
	n := newNode(t)
	ended := make(chan []outcome)
	go func() {
		ended <- runWith(t.Context(), t, map[string]string{"ROTA_SOCKET": n.path}, 3, 1, "-steps=60", "-log=1", "-pause=2ms")
	}()
	n.accept(3)
	for number := 1; number <= 5; number += 2 {
		n.orders(0, "pause", number)
		for i := range n.conns {
			n.hears(i, fmt.Sprintf(`{"say":"paused","number":%d}`, number))
		}
		n.orders(1, "pause", number)
		for i := range n.conns {
			n.orders(i, "resume", number+1)
			n.hears(i, fmt.Sprintf(`{"say":"resumed","number":%d}`, number+1))
		}
	}
	n.orders(2, "pause", 7) // taken back before anything was done
	n.orders(2, "resume", 8)
	got := losses(t, (<-ended)[0])
	for step, loss := range want {
		if got[step] != loss {
			t.Errorf("step %s: loss %s, undisturbed %s", step, got[step], loss)
		}
	}
}

// TestAPausedGangStops: it saves the step after which it has paused.
func TestAPausedGangStops(t *testing.T) {
	n, dir := newNode(t), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan []outcome)
	go func() {
		ended <- runWith(ctx, t, map[string]string{"ROTA_SOCKET": n.path}, 2, 1, "-steps=100000", "-pause=1ms", "-every=0",
			"-dir="+dir)
	}()
	n.accept(2)
	n.orders(1, "pause", 1)
	for i := range n.conns {
		n.hears(i, `{"say":"paused","number":1}`)
	}
	stop()
	for rank, o := range <-ended {
		if o.code != exitCheckpointed || o.err != nil {
			t.Errorf("worker %d: exit code %d, %v", rank, o.code, o.err)
		}
	}
	next := runGang(t.Context(), t, 1, 2, "-steps=0", "-dir="+dir)[0]
	if !strings.Contains(next.out, "resumed at step") {
		t.Errorf("nothing was saved: %q", next.out)
	}
}

// TestWithoutANode: a socket that does not answer keeps no program from training.
func TestWithoutANode(t *testing.T) {
	o := runWith(t.Context(), t, map[string]string{"ROTA_SOCKET": "/nowhere/s"}, 1, 1, "-steps=3", "-log=1")[0]
	if o.code != 0 || !strings.Contains(o.out, "job socket") || !strings.Contains(o.out, "step 3") {
		t.Errorf("exit code %d: %s", o.code, o.out)
	}
}
