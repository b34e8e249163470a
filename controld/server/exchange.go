package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// place says which controllers answer a route.
type place int

const (
	here     place = iota // by every controller, from its replica
	onLeader              // by the leader; followers pass requests on
)

// route is one operation of the API: its documentation, and what serves it.
type route struct {
	openapi.Operation
	rule  access.Rule // which callers may use it
	place place
	past  bool // asks the history too
	// token is the scope that an API token needs for it; "": see tokenScope
	token trust.TokenScope
	// inJob is what processes of jobs may use it for; "": see insideJob
	inJob insideJob
	quiet bool // the audit log has its refusals only
	// ready returns the condition on which a long poll is answered; nil: the index is above after.
	// The condition is evaluated at every change of the state, for each long poll there is, so
	// ready does all its work beforehand.
	ready  func(*exchange) func(*state.View) bool
	gather time.Duration // how long a long poll waits for more once there is news
	// handle returns the answer's body. A route that writes it by itself returns nil.
	handle func(*exchange) (any, error)
}

// exchange is one request being answered.
type exchange struct {
	s      *Server
	rt     *route
	w      http.ResponseWriter
	r      *http.Request
	caller *identity.Caller // nil: the route is open to its caller, whichever it is
	roles  access.Role      // of the caller, whatever the request is about
	// whether the caller coordinates an account, of those asked about
	coordinated map[string]bool
	query       url.Values
	after       uint64
	view        *state.View // what the answer is made from
	sent        bool        // the handler has written the answer
	recorded    bool        // in the audit log
	about       subject     // of the request, for the audit log
	meter       meter       // of its processor time
	text        []byte      // its body; nil: not read yet
	bodyBytes   int64       // what its body has taken of the memory for bodies
}

func (x *exchange) ctx() context.Context { return x.r.Context() }

// headerForwarded marks a request that a follower passed on. It is not passed on twice.
const headerForwarded = "Rota-Forwarded"

// Limits of requests.
const (
	maxWait     = 60 * time.Second
	maxList     = 10_000 // items of one page
	defaultList = 1000   // of a page without a limit
	maxEvents   = 1000   // items of one answer
)

func (x *exchange) run() (any, error) {
	rt := x.rt
	if err := x.checkGeneration(); err != nil {
		return nil, err
	}
	if x.r.URL.RawQuery != "" {
		q, err := url.ParseQuery(x.r.URL.RawQuery)
		if err != nil {
			return nil, problem.Invalid("query: %v", err)
		}
		x.query = q
		if err := rt.checkQuery(q); err != nil {
			return nil, err
		}
	}
	if rt.place == onLeader && !x.s.Replica.Leading() {
		return nil, x.forward()
	}
	if rt.Poll {
		if !x.s.Replica.Leading() && (!x.s.fresh.Load() || rt.past && x.s.missesRecords()) {
			return nil, x.forward()
		}
		if rt.past && x.s.Replica.Leading() && x.s.missesRecords() && x.s.Fetching() {
			return nil, problem.NoLeader("the new leader fetches ended jobs from the other controllers")
		}
		if x.flag("consistent") {
			if !x.s.Replica.Leading() {
				return nil, x.forward()
			}
			var err error
			if x.idle(func() { err = x.s.Replica.Verify(x.ctx()) }); err != nil {
				return nil, err
			}
		}
		x.view = x.s.Replica.View()
		if !x.s.Replica.Leading() && x.insideJob() && !x.runsThere() {
			return nil, x.forward() // this replica may be behind the node
		}
		if err := x.authorise(); err != nil {
			return nil, err
		}
		if err := x.await(rt); err != nil {
			return nil, err
		}
	}
	if x.view == nil {
		x.view = x.s.Replica.View()
	}
	if err := x.authorise(); err != nil {
		if !rt.Poll && problem.Of(err).Code == api.CodeNotFound && x.maybeBehind() {
			return nil, x.forward() // a replica that has just started knows no job
		}
		return nil, err
	}
	return rt.handle(x)
}

// await holds a long poll back until there is news, its wait is over, or the daemon stops.
func (x *exchange) await(rt *route) error {
	x.after = uint64(x.number("after", 0))
	wait := x.duration("wait")
	if wait == 0 {
		return nil
	}
	ready := func(v *state.View) bool { return v.Index() > x.after }
	if rt.ready != nil {
		ready = rt.ready(x)
	}
	end, cancel := context.WithTimeout(x.s.alive, min(wait, maxWait))
	defer cancel()
	var come bool
	var err error
	x.idle(func() {
		x.view, come, err = x.s.Replica.Until(x.ctx(), ready, end.Done())
		if come && rt.gather > 0 {
			x.gather(rt.gather, end.Done())
		}
	})
	return err
}

// gather waits for more changes before a list is answered, until end is closed at the latest. One
// change seldom comes alone.
func (x *exchange) gather(most time.Duration, end <-chan struct{}) {
	select {
	case <-time.After(most):
	case <-end:
	case <-x.ctx().Done():
	}
	x.view = x.s.Replica.View()
}

// headers sets which state answered, and how old it may be.
func (x *exchange) headers() {
	v := x.view
	if v == nil {
		v = x.s.Replica.View()
	}
	h := x.w.Header()
	h.Set(api.HeaderIndex, strconv.FormatUint(v.Index(), 10))
	if id := v.Trust().Cluster; id != "" {
		h.Set(api.HeaderCluster, id)
	}
	if stale, ok := x.s.stale(); ok {
		h.Set(api.HeaderStale, strconv.FormatInt(int64(stale/time.Second), 10))
	}
}

func (x *exchange) write(body any) {
	b, err := json.Marshal(body)
	if err != nil {
		problem.Write(x.w, problem.Of(fmt.Errorf("encode the answer: %w", err)))
		return
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	x.idle(func() { x.w.Write(append(b, '\n')) }) // the client may be gone
}

// propose replicates a command, and has the rest of this request read the state with it. Once the
// command is sent it is waited for, even if the client goes away.
func (x *exchange) propose(c fsm.Command) (any, error) {
	if err := x.checkFollowed(c); err != nil {
		return nil, err
	}
	var value any
	var err error
	x.idle(func() { value, err = x.s.Replica.Propose(context.WithoutCancel(x.ctx()), c) })
	x.view = x.s.Replica.View()
	return value, err
}

// proposeFor is propose for a command that the state answers with a T.
func proposeFor[T any](x *exchange, c fsm.Command) (T, error) {
	value, err := x.propose(c)
	answer, ok := value.(T)
	if err == nil && !ok {
		err = fmt.Errorf("%s: the state answered with a %T", c.Kind(), value)
	}
	return answer, err
}
