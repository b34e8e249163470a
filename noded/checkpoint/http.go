package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/noded/container"
)

// headerBytes says how many bytes a folder takes.
const headerBytes = "Rota-Checkpoint-Bytes"

const (
	// for which a receiver may take nothing: it writes each file to its disk before it goes on
	sendTimeout = 5 * time.Minute
	// for the first word of a source, which asks the controllers and looks at every file first
	answerTime = 5 * time.Minute
)

// Path is the route of a node's daemon that sends folders.
const Path = "/v1/checkpoints/"

// Server answers GET /v1/checkpoints/{job}.{attempt}.{worker} for the node that the worker runs on
// next.
type Server struct {
	Store *Store
	// May asks the controllers whether a node may have a folder.
	May func(ctx context.Context, id container.ID, node string) (*api.CheckpointCopy, error)
	// Runs reports whether an attempt of a worker of that number is still here.
	Runs func(id container.ID) bool
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := identity.CallerOf(r.Context())
	if !ok || !c.Machine || c.Role != string(pki.Node) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only nodes may copy checkpoints")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	if !ok {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "write "+Path+"JOB.ATTEMPT.WORKER")
		return
	}
	may, err := s.May(r.Context(), id, c.From)
	var p *api.Problem
	switch {
	case errors.As(err, &p) && p.Code == api.CodeDenied:
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, p.Detail)
		return
	case err != nil:
		api.WriteProblem(w, http.StatusServiceUnavailable, api.CodeNoLeader,
			"cannot ask the controllers whether node "+c.From+" may have it: "+err.Error())
		return
	case s.Runs(id):
		api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, fmt.Sprintf("job %d still runs here", id.Job))
		return
	}
	s.Store.serve(w, r, id, may)
}

// serve sends the folder of the last attempt of a worker that ran here.
func (s *Store) serve(w http.ResponseWriter, r *http.Request, id container.ID, may *api.CheckpointCopy) {
	of := container.ID{Job: id.Job, Attempt: may.Attempt, Worker: id.Worker}
	s.mu.Lock()
	have, ok := s.latest(of, id.Attempt, may.Submitted, anyUser)
	s.mu.Unlock()
	if !ok {
		api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, fmt.Sprintf("no checkpoint %s on node %s", id, s.node))
		return
	}
	root, err := os.OpenRoot(s.path(have))
	var bytes int64
	if err == nil {
		defer func() { _ = root.Close() }() // it was only read
		bytes, err = measure(r.Context(), root)
	}
	if err != nil {
		api.WriteProblem(w, http.StatusUnprocessableEntity, api.CodeInvalid, "it cannot be copied: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set(headerBytes, strconv.FormatInt(bytes, 10))
	out := &patient{w, http.NewResponseController(w)}
	if err := send(r.Context(), root, out, func() error { return s.unchanged(have, root) }); err != nil {
		s.log.Warn("cannot send a checkpoint", "alloc", have.String(), "err", err)
		panic(http.ErrAbortHandler) // all that is left is to cut the answer off
	}
}

// unchanged makes sure that a folder that was sent was not given to another attempt meanwhile, which
// writes to it.
func (s *Store) unchanged(id container.ID, root *os.Root) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	named, err := os.Lstat(s.path(id))
	if err != nil || !os.SameFile(opened, named) {
		return errors.Join(err, errors.New("it belongs to another attempt now"))
	}
	return nil
}

// patient writes an answer to a client that may take sendTimeout for each part.
type patient struct {
	io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(sendTimeout)) // an error: the connection is gone, as Write will say
	return p.Writer.Write(b)
}

// Client fetches folders from the daemons of other nodes.
type Client struct {
	Credential *pki.Credential // of this node
	// Addr returns the present address of a node's daemon, as the controllers said last; "":
	// unknown. A restarted daemon may have another address than before.
	Addr func(node string) string
}

// Open implements [Source].
func (c *Client) Open(ctx context.Context, from *api.CheckpointSource, id container.ID) (*Stream, error) {
	transport := &http.Transport{DialTLSContext: pki.Dialer(c.Credential.ClientOf(pki.Node, from.Node)),
		DisableCompression: true, DisableKeepAlives: true, ResponseHeaderTimeout: answerTime}
	addr := cmp.Or(c.Addr(from.Node), from.Addr)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+Path+id.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	bytes, err := strconv.ParseInt(resp.Header.Get(headerBytes), 10, 64)
	if err != nil || bytes < 0 {
		resp.Body.Close()
		return nil, fmt.Errorf("%w: its answer does not have the size", ErrRefused)
	}
	return &Stream{resp.Body, bytes}, nil
}

// refusal returns the error of an answer without a folder.
func refusal(resp *http.Response) error {
	var p api.Problem
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil || json.Unmarshal(text, &p) != nil || p.Detail == "" {
		return fmt.Errorf("its daemon answered %s", resp.Status)
	}
	switch p.Code {
	case api.CodeNotFound:
		return fmt.Errorf("%w: %s", ErrGone, p.Detail)
	case api.CodeDenied, api.CodeInvalid:
		return fmt.Errorf("%w: %s", ErrRefused, p.Detail)
	}
	return errors.New(p.Detail)
}
