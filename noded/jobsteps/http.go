package jobsteps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
)

// bodyMax is how many bytes a request for a step may have: an environment is at most as large as
// the kernel takes it.
const bodyMax = 4 << 20

// Handler answers requests for steps of the job whose first worker the requests are for, below a
// prefix.
func (m *Manager) Handler(prefix string, of func(*http.Request) (container.ID, error)) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request, *job) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			m.runs.Add(1) // from before the answer on
			defer m.runs.Done()
			id, err := of(r)
			var j *job
			if err == nil && r.Method == http.MethodPost {
				m.awaitWorker(r.Context(), id)
			}
			if err == nil {
				j, err = m.find(id)
			}
			if err == nil {
				err = do(w, r, j)
			}
			if err != nil {
				refuse(w, err)
			}
		})
	}
	handle("POST "+prefix, m.post)
	handle("GET "+prefix, m.list)
	handle("POST "+prefix+"/{n}/attach", m.attach)
	handle("POST "+prefix+"/{n}/signal", m.signal)
	return mux
}

const (
	// for which a request waits for a worker that begins, before it is refused
	beginPatience = 2 * time.Second
	beginPoll     = 5 * time.Millisecond
)

// awaitWorker waits until a worker runs. A request may arrive before this node knows of its job. It
// comes from controllers, or from a program that is faster than this daemon.
func (m *Manager) awaitWorker(ctx context.Context, id container.ID) {
	for until := time.Now().Add(beginPatience); time.Now().Before(until); {
		w, err := m.Local.Worker(id)
		if err == nil {
			err = w.Refuse
		}
		if !begins(err) && !errors.Is(err, container.ErrUnknown) {
			return
		}
		select {
		case <-time.After(beginPoll):
		case <-ctx.Done():
			return
		}
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	var p *api.Problem
	var why choose.Refusal
	switch {
	case errors.As(err, &p):
		api.WriteProblem(w, p.Status, p.Code, p.Detail)
	case errors.As(err, &why), errors.Is(err, errEnds):
		api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, err.Error())
	case errors.Is(err, container.ErrUnknown):
		api.WriteProblem(w, http.StatusNotFound, api.CodeNotFound, err.Error())
	default:
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, err.Error())
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax)) // all of it: a stream may follow
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	return nil
}

// post starts a step, and stays with it until it has ended.
func (m *Manager) post(w http.ResponseWriter, r *http.Request, j *job) error {
	req := &api.StepRequest{}
	if err := decode(w, r, req); err != nil {
		return err
	}
	if err := check(req); err != nil {
		return err
	}
	if !api.AsksForStream(r) {
		return errors.New("the answer is a stream: ask for it by the header Upgrade: " + stream.Protocol)
	}
	return j.serve(req, func() *client {
		conn, err := api.AcceptStream(m.ctx, w, r)
		if err != nil {
			return nil // the answer has begun
		}
		return newClient(m.ctx, conn, 0, req.Losses)
	})
}

// serve starts the step of a request, or goes on with it if the request was sent before. accept
// returns the client, nil if it is gone.
func (j *job) serve(req *api.StepRequest, accept func() *client) error {
	s, err := j.asked(req.Key)
	if err != nil {
		return err
	}
	if s != nil {
		if c := accept(); c != nil {
			s.goOnWith(j.m.ctx, &attach{client: c, acks: req.Acks})
		}
		return nil
	}
	g, waits, err := j.enter(req)
	if err != nil {
		return err
	}
	c := accept()
	if c == nil {
		j.giveUp(g, waits)
		return nil
	}
	j.m.runs.Go(func() {
		if waits != nil && !j.await(&g, waits, c) {
			return
		}
		j.create(req, g, c)
	})
	return nil
}

// giveUp gives back what a request has got whose client is gone.
func (j *job) giveUp(g grant, waits *waiter) {
	if waits != nil {
		j.leave(waits)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.giveBack(g.n)
}

// await waits until there is room for a step. It reports whether there is.
func (j *job) await(g *grant, w *waiter, c *client) bool {
	text := "step creation temporarily disabled, retrying (" + string(choose.Busy) + ")"
	said := stream.Frame{Kind: stream.Message, Task: stream.AllTasks,
		Data: fmt.Appendf(nil, "Job %d %s", j.id.Job, text)}
	out := c.out
	for {
		select {
		case out <- said:
			out = nil
		case got, ok := <-w.granted:
			if !ok {
				c.refuse(errEnds)
				return false
			}
			*g = got
			return true
		case f := <-c.in:
			if f.Kind == stream.Signal && ends(string(f.Data)) {
				c.close()
			}
		case <-c.gone:
			j.leave(w)
			return false
		}
	}
}

// ends reports whether a signal ends a step that waits.
func ends(signal string) bool {
	return slices.Contains([]unix.Signal{unix.SIGKILL, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT},
		unix.SignalNum(signal))
}

// list answers which steps wait or run.
func (m *Manager) list(w http.ResponseWriter, _ *http.Request, j *job) error {
	out := api.StepList{Items: []api.StepStatus{}}
	j.mu.Lock()
	for _, s := range j.steps() {
		one := api.StepStatus{StepBegun: s.begun(), Name: s.Name, Started: s.began(), TimeLimit: s.TimeLimit}
		one.Cores, one.GPUs = s.holds()
		out.Items = append(out.Items, one)
	}
	slices.SortFunc(out.Items, func(a, b api.StepStatus) int { return a.Step - b.Step })
	for i, one := range j.waiting {
		out.Items = append(out.Items, api.StepStatus{Name: one.name, Waits: string(choose.Busy),
			StepBegun: api.StepBegun{Job: j.jobID(), Attempt: j.id.Attempt, Step: j.next + i}})
	}
	j.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // an error: the client is gone
	return nil
}

// running returns a step by the number in a request.
func (j *job) running(r *http.Request) (*step, error) {
	n, err := strconv.Atoi(r.PathValue("n"))
	j.mu.Lock()
	defer j.mu.Unlock()
	if s := j.step(n); err == nil && s != nil {
		return s, nil
	}
	return nil, &api.Problem{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Detail: fmt.Sprintf("job %d has no running step %s", j.id.Job, r.PathValue("n"))}
}

// attach goes on to read the output of a step, or looks on.
func (m *Manager) attach(w http.ResponseWriter, r *http.Request, j *job) error {
	req := &api.StepAttach{}
	if err := decode(w, r, req); err != nil {
		return err
	}
	for _, n := range req.From {
		if n < 0 {
			return fmt.Errorf("from: %d is not a number of bytes", n)
		}
	}
	s, err := j.running(r)
	if err != nil {
		return err
	}
	conn, err := api.AcceptStream(m.ctx, w, r)
	if err != nil {
		return nil // the answer has begun
	}
	if req.Watch {
		s.watch(newClient(m.ctx, conn, watcherRoom, false))
		return nil
	}
	s.goOnWith(m.ctx, &attach{client: newClient(m.ctx, conn, 0, req.Losses), from: req.From, acks: req.Acks})
	return nil
}

// goOnWith has a step go on with another client.
func (s *step) goOnWith(ctx context.Context, a *attach) {
	select {
	case s.attaching <- a:
	case <-s.over:
		a.client.close()
	case <-ctx.Done():
	}
}

// asked returns the step of a request that was sent before, nil if it has none yet.
func (j *job) asked(key string) (*step, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, known := j.keys[key]
	switch {
	case key == "" || !known:
		return nil, nil
	case j.step(n) != nil:
		return j.step(n), nil
	case j.numbers[n] != nil: // it is granted
		return nil, &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
			Detail: fmt.Sprintf("step %d.%d begins", j.id.Job, n)}
	}
	return nil, &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
		Detail: fmt.Sprintf("step %d.%d ended while no program was reading its output", j.id.Job, n)}
}

// watcherRoom is how many frames a client that looks on may be behind.
const watcherRoom = 256

func (s *step) watch(c *client) {
	if f, err := stream.JSON(stream.Begun, stream.AllTasks, s.begun()); err == nil {
		c.out <- f
	}
	go func() { // it has nothing to say
		for {
			select {
			case <-c.in:
			case <-c.gone:
				return
			}
		}
	}()
	select {
	case s.watching <- c:
	case <-s.over:
		c.tellEnd(s.how)
	}
}

// signal sends a signal to all tasks of a step.
func (m *Manager) signal(w http.ResponseWriter, r *http.Request, j *job) error {
	req := &api.StepSignal{}
	if err := decode(w, r, req); err != nil {
		return err
	}
	if unix.SignalNum(req.Signal) == 0 {
		return fmt.Errorf("unknown signal %q: write a name such as SIGTERM", req.Signal)
	}
	s, err := j.running(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	s.ask(ctx, order{signals: []string{req.Signal}})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}\n")) // an error: the client is gone
	return nil
}

// JobPath is the route at which controllers ask a node's daemon for steps of jobs whose first
// workers are there. The worker follows in the path, and then the API's path behind steps.
const JobPath = "/v1/job-steps/"

// ForControllers answers the requests that controllers pass on, which know what a caller may do.
func (m *Manager) ForControllers() http.Handler {
	return m.Handler(JobPath+"{worker}", func(r *http.Request) (container.ID, error) {
		if c, ok := identity.CallerOf(r.Context()); !ok || c.Role != string(pki.Controller) {
			return container.ID{}, &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied,
				Detail: "only controllers may request steps here: use srun"}
		}
		id, ok := container.ParseID(r.PathValue("worker"))
		if !ok || id.Step != 0 {
			return id, errors.New("write " + JobPath + "JOB.ATTEMPT.WORKER")
		}
		return id, nil
	})
}
