package gpu

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"
)

// callTimeout is how long one call may take. A healthy driver answers in milliseconds, but the
// first call after boot loads it.
const callTimeout = 10 * time.Second

// request is one line to the child.
type request struct {
	Call  string   `json:"call"` // inventory, processes or usage
	UUID  string   `json:"uuid,omitempty"`
	UUIDs []string `json:"uuids,omitempty"`
}

// response is the line that answers a request.
type response struct {
	Error     string     `json:"error,omitempty"`
	Inventory *Inventory `json:"inventory,omitempty"`
	Processes []int      `json:"processes,omitempty"`
	Usage     []Use      `json:"usage,omitempty"`
}

// HelperConfig says how the child is run.
type HelperConfig struct {
	Command []string      // a program that calls nvml.Serve with its standard streams
	Timeout time.Duration // of one call; 0: 10 s
	Log     *slog.Logger
}

// Helper is a source that asks a child process, one call at a time. A child that does not answer in
// time is killed, and the next call starts another. So a driver that hangs or crashes harms nothing
// else. While a killed child does not end, no other is started: a driver that hangs for good holds
// one child only.
type Helper struct {
	cfg     HelperConfig
	calling chan struct{} // held during a call

	child  *child
	killed *child // may still hang within the driver
}

var _ Source = (*Helper)(nil)

// child is a running helper process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte   // closed when it has ended
	gone  chan struct{} // closed when it has been reaped
}

// NewHelper returns a source that starts its child at the first call.
func NewHelper(cfg HelperConfig) *Helper {
	cfg.Timeout = cmp.Or(cfg.Timeout, callTimeout)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Helper{cfg: cfg, calling: make(chan struct{}, 1)}
}

// HungError means that the driver did not answer.
type HungError struct {
	Call  string
	After time.Duration
}

// Error implements error.
func (e *HungError) Error() string {
	return fmt.Sprintf("the NVIDIA driver did not answer %q within %v; see dmesg; the machine may need a reboot",
		e.Call, e.After)
}

// Inventory implements [Source].
func (h *Helper) Inventory(ctx context.Context) (Inventory, error) {
	r, err := h.call(ctx, request{Call: "inventory"})
	if err != nil || r.Inventory == nil {
		return Inventory{}, err
	}
	return *r.Inventory, nil
}

// Processes implements [Source].
func (h *Helper) Processes(ctx context.Context, uuid string) ([]int, error) {
	r, err := h.call(ctx, request{Call: "processes", UUID: uuid})
	return r.Processes, err
}

// Usage implements [Source].
func (h *Helper) Usage(ctx context.Context, uuids ...string) ([]Use, error) {
	r, err := h.call(ctx, request{Call: "usage", UUIDs: uuids})
	if err == nil && len(r.Usage) != len(uuids) {
		err = fmt.Errorf("the NVML helper reported the usage of %d GPUs instead of %d", len(r.Usage), len(uuids))
	}
	if err != nil {
		return nil, err
	}
	return r.Usage, nil
}

// Close ends the child.
func (h *Helper) Close() error {
	h.calling <- struct{}{}
	defer func() { <-h.calling }()
	h.killChild()
	return nil
}

// call sends one request and waits for its answer.
func (h *Helper) call(ctx context.Context, q request) (response, error) {
	select {
	case h.calling <- struct{}{}:
	case <-ctx.Done():
		return response{}, context.Cause(ctx)
	}
	defer func() { <-h.calling }()
	if h.child == nil {
		if err := h.restart(ctx, q); err != nil {
			return response{}, err
		}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return response{}, err
	}
	if _, err := h.child.in.Write(append(line, '\n')); err != nil {
		h.killChild()
		return response{}, fmt.Errorf("ask NVML helper for %s: %w", q.Call, err)
	}
	return h.await(ctx, q)
}

func (h *Helper) await(ctx context.Context, q request) (response, error) {
	timeout := time.NewTimer(h.cfg.Timeout)
	defer timeout.Stop()
	select {
	case line, ok := <-h.child.lines:
		if !ok {
			h.killChild()
			return response{}, fmt.Errorf("NVML helper died during %s", q.Call)
		}
		var r response
		if err := json.Unmarshal(line, &r); err != nil {
			h.killChild()
			return response{}, fmt.Errorf("NVML helper gave an invalid answer to %s: %w", q.Call, err)
		}
		if r.Error != "" {
			return response{}, errors.New(r.Error)
		}
		return r, nil
	case <-timeout.C:
		h.killChild()
		return response{}, &HungError{Call: q.Call, After: h.cfg.Timeout}
	case <-ctx.Done():
		h.killChild() // its answer would be mistaken for the answer to the next call
		return response{}, context.Cause(ctx)
	}
}

// killPatience is how long a killed child may take to end, before the driver counts as hung.
const killPatience = time.Second

// restart starts a child once the last one has ended.
func (h *Helper) restart(ctx context.Context, q request) error {
	if h.killed != nil {
		timer := time.NewTimer(killPatience)
		defer timer.Stop()
		select {
		case <-h.killed.gone:
			h.killed = nil
		case <-timer.C:
			return &HungError{Call: q.Call, After: h.cfg.Timeout}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return h.start()
}

func (h *Helper) start() error {
	cmd := exec.Command(h.cfg.Command[0], h.cfg.Command[1:]...)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	err := errors.Join(inErr, outErr)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start NVML helper: %w", err)
	}
	h.child = &child{cmd: cmd, in: in, lines: make(chan []byte, 1), gone: make(chan struct{})}
	go h.child.read(out)
	return nil
}

// read passes lines on until the child ends.
func (c *child) read(out io.Reader) {
	defer close(c.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		c.lines <- append([]byte(nil), s.Bytes()...)
	}
}

// killChild kills the child. It is reaped in the background, because a process that hangs within
// the driver may not end before the driver lets it.
func (h *Helper) killChild() {
	c := h.child
	if c == nil {
		return
	}
	h.child, h.killed = nil, c
	_ = c.cmd.Process.Kill() // it may have ended
	go func() {
		defer close(c.gone)
		for range c.lines {
		}
		if err := c.cmd.Wait(); err != nil {
			h.cfg.Log.Debug("NVML helper ended", "err", err)
		}
	}()
}

// Serve answers requests of a [Helper] from in until in ends, with what s reports.
func Serve(s Source, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		line, err := json.Marshal(answer(s, q))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

func answer(s Source, q request) (r response) {
	var err error
	switch q.Call {
	case "inventory":
		var i Inventory
		i, err = s.Inventory(context.Background())
		r.Inventory = &i
	case "processes":
		r.Processes, err = s.Processes(context.Background(), q.UUID)
	case "usage":
		r.Usage, err = s.Usage(context.Background(), q.UUIDs...)
	default:
		err = fmt.Errorf("unknown call %q", q.Call)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}
