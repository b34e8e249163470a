package cuda

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// call is the child's function for one process.
type call string

const (
	callState      call = "look at"
	callLock       call = "lock"       // running to locked
	callCheckpoint call = "checkpoint" // locked to checkpointed
	callRestore    call = "restore"    // checkpointed to locked
	callUnlock     call = "unlock"     // locked to running
)

// request is one line to the child.
type request struct {
	Call     call  `json:"call"`
	PID      int   `json:"pid"`
	WithinMS int64 `json:"within_ms,omitempty"` // of callLock
}

// response is the line that answers a request.
type response struct {
	Error string `json:"error,omitempty"`
	State int    `json:"state,omitempty"` // of callState
	None  bool   `json:"none,omitempty"`  // of callState: the process has no CUDA state
}

// child is a running helper process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte   // closed when it has ended
	gone  chan struct{} // closed when it has been reaped
}

// HungError means that the driver did not answer.
type HungError struct {
	Call  string
	After time.Duration
}

// Error implements error.
func (e *HungError) Error() string {
	return fmt.Sprintf("the NVIDIA driver did not %s within %v; see dmesg; the machine may need a reboot", e.Call, e.After)
}

// killPatience is how long a killed child may take to end, before the driver counts as hung.
const killPatience = time.Second

// start starts a child once the last one has ended, so that a driver that hangs for good holds one
// child only.
func (d *Driver) start(ctx context.Context) (*child, error) {
	if d.killed != nil {
		timer := time.NewTimer(killPatience)
		defer timer.Stop()
		select {
		case <-d.killed.gone:
			d.killed = nil
		case <-timer.C:
			return nil, &HungError{Call: "finish an earlier call", After: killPatience}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	cmd := exec.Command(d.Command[0], d.Command[1:]...)
	// the driver hides GPUs that this does not list, and a process on such a GPU cannot be restored
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") })
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a helper for the NVIDIA driver: %w", err)
	}
	c := &child{cmd: cmd, in: in, lines: make(chan []byte, 1), gone: make(chan struct{})}
	go c.read(out)
	return c, nil
}

// read passes lines on until the child ends.
func (c *child) read(out io.Reader) {
	defer close(c.gone)
	s := bufio.NewScanner(out)
	for s.Scan() {
		c.lines <- slices.Clone(s.Bytes())
	}
	close(c.lines)
	_ = c.cmd.Wait() // it was killed, or its end is seen by what it did not answer
}

// call makes one call. After an error the child is of no more use.
func (c *child) call(ctx context.Context, q request, patience time.Duration) (r response, err error) {
	line, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return r, fmt.Errorf("ask the helper for the NVIDIA driver: %w", err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return r, fmt.Errorf("the helper for the NVIDIA driver died while it was to %s process %d", q.Call, q.PID)
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return r, fmt.Errorf("the helper for the NVIDIA driver gave an invalid answer: %w", err)
		}
		return r, nil
	case <-timer.C:
		return r, &HungError{Call: fmt.Sprintf("%s process %d", q.Call, q.PID), After: patience}
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}

// kill ends a child. A child that hangs within the driver does not end before the driver lets it.
func (d *Driver) kill(c *child) {
	d.killed = c
	_ = c.cmd.Process.Kill() // it may have ended
	go func() {
		for range c.lines { // an answer that comes too late
		}
	}()
}
