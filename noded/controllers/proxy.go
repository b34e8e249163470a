package controllers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
)

// Caller is the user of a request that is passed on.
type Caller struct {
	User model.Identity
	Job  model.JobID // in which the user's process runs; 0: in none
}

// callerKey is the key of a Caller in the context of a request.
type callerKey struct{}

const proxyBodyMax = 64 << 20 // bytes of a request, as much as controllers accept

// ProxyHandler returns a handler that passes requests of local users on to a controller, and
// vouches for the user's identity.
func (c *Controllers) ProxyHandler() http.Handler {
	return c.Proxy(proxyBodyMax, func(r *http.Request, users *identity.Users) (Caller, error) {
		peer, err := identity.PeerOf(r.Context())
		if err != nil {
			return Caller{}, err
		}
		id, err := users.Of(peer)
		return Caller{User: id}, err
	})
}

// Proxy returns a handler that passes requests with bodies of at most so many bytes on. caller finds
// out whose request it is, or refuses it with an error.
func (c *Controllers) Proxy(most int64, caller func(*http.Request, *identity.Users) (Caller, error)) http.Handler {
	var users identity.Users
	var groups identity.Groups
	transport := &http.Transport{DialTLSContext: pki.Dialer(c.Credential.Client(pki.Controller)), MaxIdleConnsPerHost: 64,
		IdleConnTimeout:    90 * time.Second,
		DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "https", "controller"
			r.Out.Header.Del("X-Forwarded-For")
			// The identity is added here and not earlier. A Connection header of the client may
			// name headers to drop, and a request without these counts as one of the machine
			// itself.
			switch p, ok := r.In.Context().Value(callerKey{}).(Caller); {
			case ok && p.Job != 0:
				identity.VouchInJob(r.Out.Header, p.User, p.Job)
			case ok:
				identity.Vouch(r.Out.Header, p.User)
			}
			if p, ok := r.In.Context().Value(callerKey{}).(Caller); ok && r.In.Method == http.MethodPost {
				identity.VouchGroup(r.Out.Header, groups.Name(p.User.GID)) // a submission is charged to its account
			}
		},
		ModifyResponse: relayStream,
		Transport:      &anyController{of: c, next: c.withGeneration(transport)},
		FlushInterval:  -1, // logs and events are streams
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			api.WriteProblem(w, http.StatusServiceUnavailable, api.CodeNoLeader,
				"this node cannot reach a controller: "+err.Error())
		},
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := caller(r, &users)
		if err != nil {
			api.WriteProblem(w, http.StatusUnauthorized, api.CodeUnauthorised, err.Error())
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		if err != nil {
			w.Header().Set("Connection", "close")
			api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid, "read the request: "+err.Error())
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // from now on it is the client that waits
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, p)))
	})
}

// relayStream has this daemon speak for a process of this machine over a stream that it is answered with: it
// may be stopped.
func relayStream(resp *http.Response) error {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode == http.StatusSwitchingProtocols && ok {
		resp.Body = stream.Relay(resp.Request.Context(), conn)
	}
	return nil
}

// anyController sends a request to the first controller that accepts a connection and the caller.
type anyController struct {
	of   *Controllers
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *anyController) RoundTrip(r *http.Request) (*http.Response, error) {
	_, addrs, err := t.of.current()
	if err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
	}
	for i, addr := range addrs {
		var resp *http.Response
		last := i == len(addrs)-1
		resp, err = t.send(r, addr, body)
		if err == nil && !last && (resp.StatusCode == http.StatusUnauthorized ||
			resp.StatusCode == http.StatusMisdirectedRequest) {
			resp.Body.Close() // it alone may not know this machine, or the cluster has gone on without it
			continue
		}
		if err == nil || !pki.NotSent(err) {
			return resp, err
		}
	}
	return nil, err
}

func (t *anyController) send(r *http.Request, addr string, body []byte) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	if !strings.Contains(addr, "://") {
		addr = "https://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil {
		return nil, err
	}
	out.URL.Scheme, out.URL.Host, out.Host = u.Scheme, u.Host, u.Host
	return t.next.RoundTrip(out)
}
