package shim

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// TestOutputThatIsGone notices a reader that is not told that it cannot go on where it has stopped.
func TestOutputThatIsGone(t *testing.T) {
	o := newIOServer(container.Settings{IO: &container.IO{}})
	o.own.put(stream.Frame{Kind: stream.Stdout, Data: []byte("hello")})
	if err := o.own.acknowledge(o.own.to); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	go o.serve(theirs)
	if err := ours.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c := stream.New(ours)
	defer c.Close()
	r := container.IORequest{Attach: &container.IOAttach{From: 1}}
	if err := c.WriteJSON(stream.Request, stream.AllTasks, r); err != nil {
		t.Fatal(err)
	}
	f, err := c.Read()
	if err != nil || f.Kind != stream.End {
		t.Fatalf("%+v, %v", f, err)
	}
	var end stream.StepEnd
	if err := json.Unmarshal(f.Data, &end); err != nil || !strings.Contains(end.Why, "the output is kept from byte") {
		t.Errorf("%+v, %v", end, err)
	}
	if _, err := c.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("behind that: %v", err)
	}
}

// TestOutputIsForgottenByWholeFrames notices a connection that ends because a reader has acknowledged a part of
// a frame, and one that goes on although it has acknowledged what was never written.
func TestOutputIsForgottenByWholeFrames(t *testing.T) {
	s := newSession(false, nil)
	one := stream.Frame{Kind: stream.Stdout, Data: []byte("hello")}
	for range 3 {
		s.put(one)
	}
	size := one.Counts()
	for _, c := range []struct{ ack, from int64 }{
		{-1, 0}, {size - 1, 0}, {size, size}, {2*size + 1, 2 * size}, {size, 2 * size}, {3*size - 1, 2 * size},
		{3 * size, 3 * size},
	} {
		if err := s.acknowledge(c.ack); err != nil || s.from != c.from {
			t.Errorf("byte %d: it is kept from %d, not %d: %v", c.ack, s.from, c.from, err)
		}
	}
	if err := s.acknowledge(3*size + 1); err == nil {
		t.Error("what was never written is acknowledged")
	}
}
