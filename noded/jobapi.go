package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/controllers"
)

// jobBodyMax is how many bytes a request of a job may have. A change of the job itself is small,
// and a request that is being read counts as memory of this daemon.
const jobBodyMax = 64 << 10

// jobAPI has a socket in each container, at which the job's processes ask the controllers. The
// controllers let them change their own job alone (controld/server/insidejob.go).
type jobAPI struct {
	dir     string // of the containers
	of      func(pid int) (container.ID, bool)
	handler http.Handler
	steps   jobSteps
	// answers requests for steps of the jobs whose first workers are here
	ofWorker http.Handler
	log      *slog.Logger

	mu     sync.Mutex
	open   map[container.ID]*http.Server
	closed bool // the daemon stops
}

// jobPeer is the context key of the container that a request's socket is in, and of its user.
type jobPeer struct{}

type socketOf struct {
	id   container.ID
	user uint32
}

func newJobAPI(dir string, of func(int) (container.ID, bool), control *controllers.Controllers) *jobAPI {
	a := &jobAPI{dir: dir, of: of, log: control.Log, open: map[container.ID]*http.Server{}}
	pass := endDeadline(control.Proxy(jobBodyMax, a.caller))
	passSteps := control.Proxy(stepBodyMax, a.caller)
	mux := http.NewServeMux()
	mux.Handle("/", pass)
	for _, pattern := range []string{"/v1/steps", "/v1/steps/"} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.serveSteps(w, r, passSteps) })
	}
	mux.Handle("POST /v1/jobs/{id}/steps", passSteps)
	a.handler = mux
	return a
}

// stepBodyMax is how many bytes a request for a step may have, in which its environment is.
const stepBodyMax = 4 << 20

// serveSteps answers requests for steps of the job itself: here, if its first worker is here, or by way
// of the controllers.
func (a *jobAPI) serveSteps(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	at, _ := r.Context().Value(jobPeer{}).(socketOf)
	if a.steps.Manager != nil {
		worker, err := a.steps.Local.Worker(at.id.OfWorker())
		var unsure *api.Problem // a daemon that has just started does not know yet which worker it is
		if errors.As(err, &unsure) || err == nil && !worker.Alloc.Holds() {
			a.ofWorker.ServeHTTP(w, r)
			return
		}
	}
	r = r.Clone(r.Context())
	r.URL.Path = fmt.Sprintf("/v1/jobs/%d/steps%s", at.id.Job, strings.TrimPrefix(r.URL.Path, "/v1/steps"))
	pass.ServeHTTP(w, r)
}

// runSteps has requests for steps of jobs answered whose first workers are here.
func (a *jobAPI) runSteps(steps jobSteps) {
	a.steps = steps
	var users identity.Users
	a.ofWorker = endDeadline(steps.Handler("/v1/steps", func(r *http.Request) (container.ID, error) {
		if _, err := a.caller(r, &users); err != nil {
			return container.ID{}, &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorised,
				Detail: err.Error()}
		}
		at, _ := r.Context().Value(jobPeer{}).(socketOf)
		return at.id.OfWorker(), nil
	}))
}

// Open implements [workers.Sockets].
func (a *jobAPI) Open(id container.ID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.open[id] != nil {
		return nil
	}
	listeners, user, err := container.ListenAPI(filepath.Join(a.dir, id.String()))
	if err != nil {
		return err
	}
	srv := serve.NewServer(atMost(serve.MaxJobConnections, id.Job, a.handler), a.log)
	srv.ReadTimeout = bodyTimeout
	srv.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.Background(), jobPeer{}, socketOf{id, user.UID})
	}
	a.open[id] = srv
	for _, l := range listeners {
		go func() {
			if err := srv.Serve(serve.Job(l)); !errors.Is(err, http.ErrServerClosed) {
				a.log.Warn("closing the socket of a job for requests", "container", id, "err", err)
			}
		}()
	}
	return nil
}

// atMost answers that a job has too many requests in progress on a node, if there are more than most.
func atMost(most, job int64, next http.Handler) http.Handler {
	var requests atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer requests.Add(-1)
		if requests.Add(1) <= most {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		api.WriteProblem(w, http.StatusTooManyRequests, api.CodeLimit, fmt.Sprintf("job %[2]d already has %[1]d commands "+
			"at work on this node, the maximum for a job. Wait until one ends, or start more tasks with one srun",
			most, job))
	})
}

// Close implements [workers.Sockets].
func (a *jobAPI) Close(id container.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if srv := a.open[id]; srv != nil {
		_ = srv.Close() // its job has ended
		delete(a.open, id)
	}
}

// closeAll closes all sockets for good. Their files stay, so that the next daemon has them open again
// under the same name.
func (a *jobAPI) closeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for id, srv := range a.open {
		_ = srv.Close() // clients ask again
		delete(a.open, id)
	}
}

// caller returns which job makes a request. Its process must be of the job's user, and belong to the
// container that the socket is in: a file descriptor may have gone anywhere.
func (a *jobAPI) caller(r *http.Request, users *identity.Users) (controllers.Caller, error) {
	at, _ := r.Context().Value(jobPeer{}).(socketOf)
	peer, err := identity.PeerOf(r.Context())
	if err != nil {
		return controllers.Caller{}, err
	}
	if of, ok := a.of(peer.PID); peer.UID != at.user || !ok || of.OfWorker() != at.id.OfWorker() {
		return controllers.Caller{}, fmt.Errorf("this socket is only for processes of job %d on this node, and process %d "+
			"of uid %d does not belong to it",
			at.id.Job, peer.PID, peer.UID)
	}
	id, err := users.Of(peer)
	return controllers.Caller{User: id, Job: model.JobID(at.id.Job)}, err
}
