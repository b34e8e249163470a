package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// errDeposed is why a request to a former leader is not waited for any more.
var errDeposed = errors.New("another controller is the leader now")

// Forward passes a request on to the leader and its answer back, vouching for the caller. A leader
// that hangs, or whose machine has lost its power, answers nothing and refuses nothing: once
// another leads, it is waited for no longer.
func (x *Exchange) Forward() (err error) {
	x.Idle(func() { err = x.passOn() })
	return err
}

// passOn is forward.
func (x *Exchange) passOn() error {
	leader, at, ok := x.s.leaderHTTP()
	if !ok {
		return problem.NoLeader("there is no leader now")
	}
	if from := x.Request.Header.Get(HeaderForwarded); from != "" {
		return problem.NoLeader(fmt.Sprintf("controller %s wrongly took this controller for the leader", from))
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(x.Context())
	defer cancel(nil)
	go func() {
		if x.s.Replica.UntilOther(ctx, leader) == nil {
			cancel(errDeposed)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, x.Request.Method, "https://"+at+x.Request.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	x.copyHeaders(req.Header)
	if api.AsksForStream(x.Request) {
		api.RequestStream(req)
	}
	resp, err := x.s.Client.Do(req)
	if err != nil {
		return forwardError(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.About.relayed = true
		return x.PassStream(resp)
	}
	return x.relay(ctx, resp)
}

func (x *Exchange) copyHeaders(h http.Header) {
	for _, name := range []string{"Content-Type", "Accept", api.HeaderIdempotencyKey, api.HeaderGeneration} {
		if v := x.Request.Header.Values(name); len(v) > 0 {
			h[http.CanonicalHeaderKey(name)] = v
		}
	}
	h.Set(HeaderForwarded, x.s.Name)
	switch {
	case x.Caller == nil:
	case x.Caller.Token != "":
		h["Authorization"] = x.Request.Header.Values("Authorization") // its scope counts there too
	default:
		by := *x.Caller
		if by.Group.Name == "" && !by.Machine {
			by.Group.Name = x.s.Groups.Name(by.User.GID)
		}
		identity.PassOn(h, by)
	}
	identity.NameOrigin(h, x.origin())
}

// forwardError says whether the leader can have seen the request.
func forwardError(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errDeposed) {
		err = errDeposed
	}
	if pki.NotSent(err) {
		return problem.NoLeader(fmt.Sprintf("the leader cannot be reached: %v", err))
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeUncertain,
		Detail: fmt.Sprintf("the leader did not answer: %v: the request may or may not have taken effect", err),
		Hint:   "repeat it with the same Idempotency-Key, or check before you repeat it"}
}

// maxReadBack is how long the answer to a forwarded write waits for this replica, so that its
// client can read here what it wrote here.
const maxReadBack = time.Second

func (x *Exchange) relay(ctx context.Context, resp *http.Response) error {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return forwardError(ctx, err)
	}
	if index, err := strconv.ParseUint(resp.Header.Get(api.HeaderIndex), 10, 64); err == nil &&
		x.Request.Method != http.MethodGet {
		_ = x.s.Replica.UntilApplied(x.Context(), index, maxReadBack) // the client then reads an older state
	}
	x.Sent, x.About.relayed = true, true
	h := x.Writer.Header()
	for _, name := range []string{"Content-Type", "Retry-After", api.HeaderIndex, api.HeaderStale, api.HeaderCluster} {
		if v := resp.Header.Get(name); v != "" {
			h.Set(name, v)
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	x.Writer.WriteHeader(resp.StatusCode)
	x.Writer.Write(b) // the client may be gone
	return nil
}

// MaybeBehind reports whether this replica may miss what the leader knows, which can be asked.
func (x *Exchange) MaybeBehind() bool {
	return !x.s.Replica.Leading() && x.Request.Header.Get(HeaderForwarded) == ""
}

// PassStream passes the stream of another daemon on to the client. It ends with the stream, with
// this daemon, or when the caller's credential lapses.
func (x *Exchange) PassStream(resp *http.Response) error {
	x.Headers()
	x.Sent = true
	ctx, cancel := x.WhileCredentialHolds(x.s.Alive)
	defer cancel()
	return api.PassStream(ctx, x.Writer, resp)
}
