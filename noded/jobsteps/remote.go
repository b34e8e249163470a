package jobsteps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// Path is the route of a node's daemon for parts of steps, which the nodes of first workers ask
// for.
const Path = "/v1/step-parts/"

// Server answers requests for parts of steps on this node. Each is for a worker that is here, and
// comes from the node on which the first worker of its group runs in the same attempt, as the
// controllers have told this node.
type Server struct {
	Local *Local
	// Ctx ends the streams.
	Ctx context.Context
}

// Handler returns what answers below [Path].
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request, container.ID) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			id, err := s.admit(r)
			if err == nil {
				err = do(w, r, id)
			}
			if err != nil {
				refuse(w, err)
			}
		})
	}
	handle("POST "+Path+"{id}", func(w http.ResponseWriter, r *http.Request, id container.ID) error {
		p := &Part{}
		if err := decode(w, r, p); err != nil {
			return err
		}
		if len(p.Counts) != len(p.Nodes) || p.Node < 0 || p.Node >= len(p.Nodes) || len(p.Share.Tasks) == 0 {
			return errors.New("a part of a step needs tasks, and its index among the nodes of the step")
		}
		return answer(w, struct{}{}, s.Local.Start(r.Context(), id, p))
	})
	handle("GET "+Path+"{id}", func(w http.ResponseWriter, r *http.Request, id container.ID) error {
		begun, err := s.Local.Begun(r.Context(), id)
		return answer(w, partState{Begun: begun}, err)
	})
	handle("DELETE "+Path+"{id}", func(w http.ResponseWriter, r *http.Request, id container.ID) error {
		end, err := s.Local.Remove(r.Context(), id)
		return answer(w, partState{Ended: end}, err)
	})
	handle("POST "+Path+"{id}/signal", func(w http.ResponseWriter, r *http.Request, id container.ID) error {
		o := &api.StepSignal{}
		if err := decode(w, r, o); err != nil {
			return err
		}
		if unix.SignalNum(o.Signal) == 0 {
			return fmt.Errorf("unknown signal %q", o.Signal)
		}
		return answer(w, struct{}{}, s.Local.Signal(r.Context(), id, o.Signal))
	})
	handle("POST "+Path+"{id}/stream", s.stream)
	return mux
}

// partState is what is known of a part.
type partState struct {
	Begun bool `json:"begun,omitempty"`
	Ended
}

func answer(w http.ResponseWriter, value any, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // an error: the other node is gone
	return nil
}

// admit returns the part that a request is for, and refuses other callers than the node of the
// first worker.
func (s *Server) admit(r *http.Request) (container.ID, error) {
	denied := func(format string, args ...any) error {
		return &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied, Detail: fmt.Sprintf(format, args...)}
	}
	c, ok := identity.CallerOf(r.Context())
	if !ok || !c.Machine || c.Role != string(pki.Node) {
		return container.ID{}, denied("only nodes may request parts of steps")
	}
	id, ok := container.ParseID(r.PathValue("id"))
	if !ok || id.Step == 0 {
		return id, fmt.Errorf("write %sJOB.ATTEMPT.WORKER-sSTEP", Path)
	}
	w, err := s.Local.Worker(id.OfWorker())
	switch {
	case errors.Is(err, container.ErrUnknown):
		return id, denied("worker %s, of a job with steps, is not on this node",
			id.OfWorker()) // what is here is told to none
	case err != nil:
		return id, err
	case !w.Alloc.RunsSteps() || w.Alloc.First() == "" || w.Alloc.First() != c.From:
		return id, denied("the first worker of job %d does not run on node %s", id.Job, c.From)
	}
	return id, nil
}

// stream joins the other node with the input and output of a part.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, id container.ID) error {
	at := &openAt{}
	if err := decode(w, r, at); err != nil {
		return err
	}
	part, err := s.Local.Open(r.Context(), s.Ctx, id, at.From)
	if err != nil {
		return err
	}
	defer func() { _ = part.Close() }() // it is read no more
	front, err := api.AcceptStream(s.Ctx, w, r)
	if err != nil {
		return nil // the answer has begun
	}
	stream.Join(front, part)
	return nil
}

// Remote is another node. It implements [Node].
type Remote struct {
	Name       string
	Addr       func(node string) string // where its daemon answers now, "" if that is not known
	Credential *pki.Credential          // of this node
}

var _ Node = (*Remote)(nil)

// do sends a request, with a body unless that is nil. The answer's body is the caller's.
func (n *Remote) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	addr := n.Addr(n.Name)
	if addr == "" {
		return nil, fmt.Errorf("gossip does not know the address of node %s", n.Name)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+addr+Path+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialTLSContext: pki.Dialer(n.Credential.ClientOf(pki.Node, n.Name)),
		DisableCompression: true, DisableKeepAlives: true}
	if _, ok := body.(openAt); ok {
		transport.DisableKeepAlives = false // it would have the header Connection say something else
		api.RequestStream(req)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		transport.CloseIdleConnections()
		if !pki.NotSent(err) {
			err = fmt.Errorf("%w: %w", errUncertain, err)
		}
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer transport.CloseIdleConnections()
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

// errUncertain is why it is not known whether a node has done what it was asked.
var errUncertain = errors.New("the connection broke before its daemon answered")

// openAt asks for the stream of a part.
type openAt struct {
	From int64 `json:"from"`
}

// problemOf returns the error of an answer.
func problemOf(resp *http.Response) error {
	var p api.Problem
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil || json.Unmarshal(text, &p) != nil || p.Detail == "" {
		return fmt.Errorf("its daemon answered %s", resp.Status)
	}
	if p.Code == api.CodeNotFound {
		return fmt.Errorf("%w: %s", container.ErrUnknown, p.Detail)
	}
	return &p
}

// ask sends a request and reads the answer.
func (n *Remote) ask(ctx context.Context, method, path string, body any) (partState, error) {
	var out partState
	resp, err := n.do(ctx, method, path, body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("%w: %w", errUncertain, err)
	}
	return out, nil
}

// Start implements [Node].
func (n *Remote) Start(ctx context.Context, id container.ID, p *Part) error {
	_, err := n.ask(ctx, http.MethodPost, id.String(), p)
	return err
}

// Begun implements [Node].
func (n *Remote) Begun(ctx context.Context, id container.ID) (bool, error) {
	s, err := n.ask(ctx, http.MethodGet, id.String(), nil)
	return s.Begun, err
}

// Signal implements [Node].
func (n *Remote) Signal(ctx context.Context, id container.ID, signal string) error {
	_, err := n.ask(ctx, http.MethodPost, id.String()+"/signal", api.StepSignal{Signal: signal})
	return err
}

// Remove implements [Node].
func (n *Remote) Remove(ctx context.Context, id container.ID) (Ended, error) {
	s, err := n.ask(ctx, http.MethodDelete, id.String(), nil)
	return s.Ended, err
}

// Open implements [Node].
func (n *Remote) Open(ctx, life context.Context, id container.ID, from int64) (*stream.Conn, error) {
	asking, end := context.WithCancel(life)
	stop := context.AfterFunc(ctx, end)
	resp, err := n.do(asking, http.MethodPost, id.String()+"/stream", openAt{from})
	if !stop() && err == nil {
		resp.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		resp.Body.Close()
		end()
		return nil, fmt.Errorf("its daemon answered %s without a stream", resp.Status)
	}
	s := stream.New(conn)
	s.KeepAlive(life)
	context.AfterFunc(life, end)
	return s, nil
}
