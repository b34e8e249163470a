package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/rota-hpc/rota/controld/api/stream"
)

// ioFile is the socket in a container's directory at which the daemon reads and writes what its
// processes write and read: frames of package stream. The first frame says what is asked for.
const ioFile = "io.sock"

// IO has a worker's ranks read and write what comes and goes at the shim's IO socket, in place of
// log files. A rank's number in the plan is the task of its frames. Output that is not acknowledged
// is kept, up to a bound; then the ranks that write wait.
type IO struct {
	// Drop: while no reader is connected, what is too much is dropped, the oldest first, and no rank waits.
	Drop bool `json:"drop,omitempty"`
	// HangUpMS is how long no reader may be connected. Then terminals are hung up, the ranks get
	// SIGHUP, and a worker that goes on is killed after its kill timeout. 0: any time.
	HangUpMS int64 `json:"hang_up_ms,omitempty"`
}

// IORequest is the first frame at the IO socket, of kind [stream.Request]: one of its fields.
type IORequest struct {
	Attach *IOAttach `json:"attach,omitempty"`
	Exec   *Exec     `json:"exec,omitempty"`
}

// IOAttach goes on with what a worker's ranks read and write, whose settings have [IO]. An earlier
// reader is disconnected. The first frame that comes back is of kind [stream.Begun], with [IOBegun]. The
// first of kind [stream.Ack] says how much the ranks have taken of their input. The last one is of kind
// [stream.End], when the worker has ended; it is to be acknowledged like the others.
type IOAttach struct {
	// From is where in the output the reader goes on, see [stream.Frame.Counts]; -1: with what comes now.
	From int64 `json:"from"`
}

// IOBegun says where in the output the first frame that follows begins. That is later than what was
// asked for if the output before was dropped, see [IO.Drop].
type IOBegun struct {
	From int64 `json:"from"`
}

// Exec starts a process in a running container, in its cgroup and with its devices, as the job's user.
// The frames are those of one task, 0. The connection is the process's: when it is lost, the process is
// hung up.
type Exec struct {
	Task     string    `json:"task,omitempty"` // of several tasks; "": the leader
	Args     []string  `json:"args,omitempty"` // none: a shell
	Env      []string  `json:"env,omitempty"`  // beside the variables of the job
	Dir      string    `json:"dir,omitempty"`  // "": that of the job
	Terminal *Terminal `json:"terminal,omitempty"`
}

// Terminal is the size of a terminal, in characters.
type Terminal struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// ErrNoIO is returned for a container whose shim has no IO socket.
var ErrNoIO = errors.New("its shim accepts no connections: it has ended, or its version is older")

// DialIO connects to the IO socket of the container in dir, and sends what is asked for.
func DialIO(ctx context.Context, dir string, r IORequest) (*stream.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socketAddress(d, ioFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoIO, err)
	}
	c := stream.New(conn)
	if err := c.WriteJSON(stream.Request, stream.AllTasks, r); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// ListenIO opens the IO socket in dir, for root alone.
func ListenIO(dir string) (net.Listener, error) {
	l, err := listenIn(dir, ioFile, nil)
	if err != nil {
		return nil, fmt.Errorf("listen for input and output: %w", err)
	}
	return l, nil
}

// RemoveIO deletes the IO socket in dir.
func RemoveIO(dir string) error { return removeFile(filepath.Join(dir, ioFile)) }

// ReadIORequest reads the first frame of a connection to the IO socket.
func ReadIORequest(c *stream.Conn) (IORequest, error) {
	var r IORequest
	f, err := c.Read()
	if err != nil {
		return r, err
	}
	if f.Kind != stream.Request {
		return r, fmt.Errorf("the first frame is %q, which is not a request", f.Kind)
	}
	if err := json.Unmarshal(f.Data, &r); err != nil {
		return r, fmt.Errorf("cannot read the request: %w", err)
	}
	if (r.Attach == nil) == (r.Exec == nil) {
		return r, errors.New("the request must name either the worker's own input and output or another process")
	}
	return r, nil
}

// OpenIO connects to the input and output of a container.
func (s *Shims) OpenIO(ctx context.Context, id ID, r IORequest) (*stream.Conn, error) {
	if _, err := s.find(id); err != nil {
		return nil, err
	}
	c, err := DialIO(ctx, s.Path(id), r)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", id, err)
	}
	return c, nil
}
