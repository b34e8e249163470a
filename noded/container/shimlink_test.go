package container

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"
)

// talk returns the daemon's side of a container whose shim is played by the test.
func talk(t *testing.T) (*shimLink, net.Conn, *bufio.Reader) {
	t.Helper()
	ours, theirs := net.Pipe()
	l := newShimLink(ID{Job: 1, Attempt: 1}, t.TempDir(), Process{}, func(ID) {})
	l.updateStatus(Answer{State: Running, Pid: 1})
	l.attach(ours)
	t.Cleanup(func() { theirs.Close() })
	return l, theirs, bufio.NewReader(theirs)
}

func TestACallerThatGoesAwayEndsNothing(t *testing.T) {
	l, shim, orders := talk(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.send(ctx, Order{Op: OpRenew, Lease: 1}) }()
	if _, err := orders.ReadBytes('\n'); err != nil {
		t.Fatal(err)
	}
	cancel() // the daemon stops before the shim has answered
	line, err := json.Marshal(Answer{State: Running, Pid: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shim.Write(append(line, '\n')); err != nil {
		t.Fatalf("the daemon has closed the connection: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
	if s := l.status(); s.State != Running {
		t.Errorf("the container is %s: %s", s.State, s.Why)
	}
}

func TestAShimThatDoesNotAnswerIsGivenUp(t *testing.T) {
	l, _, orders := talk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	go func() { _, _ = orders.ReadBytes('\n') }()
	if err := l.send(ctx, Order{Op: OpStatus}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-l.done
	if s := l.status(); s.State != Lost {
		t.Errorf("the container is %s", s.State)
	}
}
