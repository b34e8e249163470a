// Package exchange serves the routes of the API. It has what all requests share: callers and their rights,
// bodies and limits, parameters, long polls, the audit log, and the way to the leader.
//
// A room of the API registers its routes with handlers that get an [Exchange], one request being
// answered. The steps of a request stand in order in exchange.go.
package exchange

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
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// Exchange is one request being answered. Handlers set Sent when they write the answer themselves, and say in
// About what the audit log should name.
type Exchange struct {
	s       *Service
	Route   *Route
	Writer  http.ResponseWriter
	Request *http.Request
	Caller  *identity.Caller // nil: the route is open to its caller, whichever it is
	Roles   access.Role      // of the caller, whatever the request is about
	// whether the caller coordinates an account, of those asked about
	coordinated map[string]bool
	Query       url.Values
	After       uint64      // index of a long poll: news is what came behind it
	View        *state.View // what the answer is made from
	Sent        bool        // the handler has written the answer
	recorded    bool        // in the audit log
	About       Subject     // of the request, for the audit log
	meter       meter       // of its processor time
	text        []byte      // its body; nil: not read yet
	bodyBytes   int64       // what its body has taken of the memory for bodies
}

// New is a request to a route that is to be answered.
func New(s *Service, rt *Route, w http.ResponseWriter, r *http.Request) *Exchange {
	return &Exchange{s: s, Route: rt, Writer: w, Request: r}
}

// Alive ends when the daemon stops.
func (x *Exchange) Alive() context.Context { return x.s.Alive }

// Context ends when the client goes away.
func (x *Exchange) Context() context.Context { return x.Request.Context() }

// HeaderForwarded marks a request that a follower passed on. It is not passed on twice.
const HeaderForwarded = "Rota-Forwarded"

// Limits of requests.
const (
	maxWait     = 60 * time.Second
	MaxList     = 10_000 // items of one page at most
	defaultList = 1000   // of a page without a limit
)

func (x *Exchange) run() (any, error) {
	rt := x.Route
	if err := x.checkGeneration(); err != nil {
		return nil, err
	}
	if x.Request.URL.RawQuery != "" {
		q, err := url.ParseQuery(x.Request.URL.RawQuery)
		if err != nil {
			return nil, problem.Invalid("query: %v", err)
		}
		x.Query = q
		if err := rt.checkQuery(q); err != nil {
			return nil, err
		}
	}
	if rt.Place == OnLeader && !x.s.Replica.Leading() {
		return nil, x.Forward()
	}
	if rt.Poll {
		if !x.s.Replica.Leading() && (!x.s.fresh.Load() || rt.Past && x.s.missesRecords()) {
			return nil, x.Forward()
		}
		if rt.Past && x.s.Replica.Leading() && x.s.missesRecords() && x.s.Fetching() {
			return nil, problem.NoLeader("the new leader is fetching ended jobs from the other controllers")
		}
		if x.Flag("consistent") {
			if !x.s.Replica.Leading() {
				return nil, x.Forward()
			}
			var err error
			if x.Idle(func() { err = x.s.Replica.Verify(x.Context()) }); err != nil {
				return nil, err
			}
		}
		x.View = x.s.Replica.View()
		if !x.s.Replica.Leading() && x.insideJob() && !x.runsThere() {
			return nil, x.Forward() // this replica may be behind the node
		}
		if err := x.authorise(); err != nil {
			return nil, err
		}
		if err := x.await(rt); err != nil {
			return nil, err
		}
	}
	if x.View == nil {
		x.View = x.s.Replica.View()
	}
	if err := x.authorise(); err != nil {
		if !rt.Poll && problem.Of(err).Code == api.CodeNotFound && x.MaybeBehind() {
			return nil, x.Forward() // a replica that has just started knows no job
		}
		return nil, err
	}
	return rt.Handle(x)
}

// await holds a long poll back until there is news, its wait is over, or the daemon stops.
func (x *Exchange) await(rt *Route) error {
	x.After = uint64(x.Number("after", 0))
	wait := x.Duration("wait")
	if wait == 0 {
		return nil
	}
	ready := func(v *state.View) bool { return v.Index() > x.After }
	if rt.Ready != nil {
		ready = rt.Ready(x)
	}
	end, cancel := context.WithTimeout(x.s.Alive, min(wait, maxWait))
	defer cancel()
	var come bool
	var err error
	x.Idle(func() {
		x.View, come, err = x.s.Replica.Until(x.Context(), ready, end.Done())
		if come && rt.Gather > 0 {
			x.gather(rt.Gather, end.Done())
		}
	})
	return err
}

// Gather waits for more changes before a list is answered, until end is closed at the latest. One
// change seldom comes alone.
func (x *Exchange) gather(most time.Duration, end <-chan struct{}) {
	select {
	case <-time.After(most):
	case <-end:
	case <-x.Context().Done():
	}
	x.View = x.s.Replica.View()
}

// Headers sets which state answered, and how old it may be.
func (x *Exchange) Headers() {
	v := x.View
	if v == nil {
		v = x.s.Replica.View()
	}
	h := x.Writer.Header()
	h.Set(api.HeaderIndex, strconv.FormatUint(v.Index(), 10))
	if id := v.Trust().Cluster; id != "" {
		h.Set(api.HeaderCluster, id)
	}
	if stale, ok := x.s.stale(); ok {
		h.Set(api.HeaderStale, strconv.FormatInt(int64(stale/time.Second), 10))
	}
}

func (x *Exchange) write(body any) {
	b, err := json.Marshal(body)
	if err != nil {
		problem.Write(x.Writer, problem.Of(fmt.Errorf("encode the answer: %w", err)))
		return
	}
	h := x.Writer.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	x.Idle(func() { x.Writer.Write(append(b, '\n')) }) // the client may be gone
}

// Propose replicates a command, and has the rest of this request read the state with it. Once the
// command is sent it is waited for, even if the client goes away.
func (x *Exchange) Propose(c fsm.Command) (any, error) {
	if err := x.checkFollowed(c); err != nil {
		return nil, err
	}
	var value any
	var err error
	x.Idle(func() { value, err = x.s.Replica.Propose(context.WithoutCancel(x.Context()), c) })
	x.View = x.s.Replica.View()
	return value, err
}

// ProposeFor is propose for a command that the state answers with a T.
func ProposeFor[T any](x *Exchange, c fsm.Command) (T, error) {
	value, err := x.Propose(c)
	answer, ok := value.(T)
	if err == nil && !ok {
		err = fmt.Errorf("%s: the state answered with a %T", c.Kind(), value)
	}
	return answer, err
}

// NewList is an empty list of a kind, made from a state.
func NewList[T any](kind string, v *state.View) *api.List[T] {
	return &api.List[T]{APIVersion: api.Version, Kind: kind, Index: v.Index(), Items: []T{}}
}

// MaxReason is how many bytes a reason may have: it goes into the log.
const MaxReason = 500

// Flush sends the client what is written so far.
func (x *Exchange) Flush() {
	if err := http.NewResponseController(x.Writer).Flush(); err != nil {
		x.s.Log.Debug("cannot flush a log", "error", err)
	}
}
