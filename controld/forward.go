package controld

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
)

// forward passes a request on to the leader and its answer back, vouching for the caller.
func (x *exchange) forward() error {
	leader, ok := x.d.leaderHTTP()
	if !ok {
		return noLeader("there is no leader now")
	}
	if from := x.r.Header.Get(headerForwarded); from != "" {
		return noLeader(fmt.Sprintf("controller %s took this one for the leader", from))
	}
	body, err := x.body(nil)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(x.ctx(), x.r.Method, "http://"+leader+x.r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	x.copyHeaders(req.Header)
	resp, err := x.d.machines.Do(req)
	if err != nil {
		return forwardError(err)
	}
	defer resp.Body.Close()
	return x.relay(resp)
}

// leaderHTTP returns where the leader serves the API, if it is another controller.
func (d *daemon) leaderHTTP() (string, bool) {
	m, ok := d.replica.Leader()
	if !ok || m.Name == d.cfg.Name {
		return "", false
	}
	p, ok := d.controller(m.Name)
	return p.HTTP, ok
}

func (x *exchange) copyHeaders(h http.Header) {
	for _, name := range []string{"Content-Type", "Accept", api.HeaderIdempotencyKey} {
		if v := x.r.Header.Values(name); len(v) > 0 {
			h[http.CanonicalHeaderKey(name)] = v
		}
	}
	h.Set(headerForwarded, x.d.cfg.Name)
	if !x.caller.Machine {
		identity.Vouch(h, x.caller.User)
	}
}

// forwardError tells apart whether the leader can have seen the request.
func forwardError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return noLeader(fmt.Sprintf("the leader cannot be reached: %v", err))
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeUncertain,
		Detail: fmt.Sprintf("the leader did not answer: %v: the request may take effect or not", err),
		Hint:   "repeat it with the same Idempotency-Key, or look before you repeat it"}
}

// maxCatchUp is how long the answer to a forwarded write waits for this replica, so that who wrote here reads it here.
const maxCatchUp = time.Second

func (x *exchange) relay(resp *http.Response) error {
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return forwardError(err)
	}
	if index, err := strconv.ParseUint(resp.Header.Get(api.HeaderIndex), 10, 64); err == nil && x.r.Method != http.MethodGet {
		x.catchUp(index)
	}
	x.sent = true
	h := x.w.Header()
	for _, name := range []string{"Content-Type", "Retry-After", api.HeaderIndex, api.HeaderStale} {
		if v := resp.Header.Get(name); v != "" {
			h.Set(name, v)
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	x.w.WriteHeader(resp.StatusCode)
	x.w.Write(b) // the client may be gone
	return nil
}

// catchUp waits until this replica has applied index.
func (x *exchange) catchUp(index uint64) {
	ctx, cancel := context.WithTimeout(x.ctx(), maxCatchUp)
	defer cancel()
	for {
		changed := x.d.machine.changed.wait()
		if x.d.machine.view.Load().Index() >= index {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
