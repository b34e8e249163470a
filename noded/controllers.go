package noded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/checkpoints"
)

// controllers is the control plane as this node knows it: the addresses from its settings and those
// found by gossip. It implements [Controller].
type controllers struct {
	credential *pki.Credential
	static     []string
	log        *slog.Logger
	lineage    *Lineage // nil, on a login node: requests carry no generation

	mu     sync.Mutex
	addrs  []string
	client *api.Client // nil while no controller is known
}

var _ Controller = (*controllers)(nil)

var errNoController = errors.New("no controller is known yet")

// watchGossip follows the controllers that gossip finds until ctx ends. Their addresses are signed.
func (c *controllers) watchGossip(ctx context.Context, list *member.List) error {
	for {
		if err := c.setPeers(list.Controllers()); err != nil {
			c.log.Error("cannot use the controllers that gossip found", "err", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-list.Changed():
		}
	}
}

// setPeers makes a client for all known controllers. If gossip knows no controller any more, the
// last addresses are kept: they may be reachable although their gossip is not.
func (c *controllers) setPeers(peers []member.Peer) error {
	addrs := slices.Clone(c.static)
	for _, p := range peers {
		if p.Role == member.Controld && p.HTTP != "" && !slices.Contains(addrs, p.HTTP) {
			addrs = append(addrs, p.HTTP)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(addrs) == 0 || len(addrs) == len(c.static) && c.client != nil || slices.Equal(addrs, c.addrs) {
		return nil
	}
	client, err := api.DialWith(strings.Join(addrs, ","),
		api.Options{TLS: c.credential.Client(pki.Controller), Any4xx: true, Wrap: c.withGeneration})
	if err != nil {
		return err
	}
	c.log.Info("controllers", "addresses", addrs)
	c.addrs, c.client = addrs, client
	return nil
}

// renewCertificate has a controller sign a request for another certificate of this member.
func (c *controllers) renewCertificate(ctx context.Context, request []byte) ([]byte, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.RenewCertificate(ctx, request)
}

// followAuthority has this member follow replacements of the authority that issues certificates.
func (c *controllers) followAuthority(ctx context.Context, fast bool) error {
	every := api.AuthorityEvery
	if fast {
		every = api.AuthorityEveryFast
	}
	return api.FollowAuthority(ctx, c.credential, func() []string {
		_, addrs, _ := c.current() // none is known yet
		return addrs
	}, every, api.Options{Wrap: c.withGeneration}, c.log)
}

func (c *controllers) current() (*api.Client, []string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil, nil, errNoController
	}
	return c.client, c.addrs, nil
}

// Register implements [Controller].
func (c *controllers) Register(
	ctx context.Context, node string, req api.RegisterRequest,
) (*api.RegisterResponse, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Register(ctx, node, req)
}

// Allocs implements [Controller].
func (c *controllers) Allocs(
	ctx context.Context, node, boot string, after uint64, wait time.Duration, echo api.Echo,
) (*api.NodeAllocs, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Allocs(ctx, node, boot, after, wait, echo)
}

// Report implements [Controller].
func (c *controllers) Report(ctx context.Context, node string, req api.ReportRequest) (*api.ReportResponse, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Report(ctx, node, req)
}

// DropCheckpoints implements [Controller].
func (c *controllers) DropCheckpoints(
	ctx context.Context, node string, req api.KeptCheckpoints,
) (*api.DroppedCheckpoints, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.DropCheckpoints(ctx, node, req)
}

// Generation implements [Controller].
func (c *controllers) Generation(ctx context.Context, node, boot string) (*api.Generation, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Generation(ctx, node, boot)
}

// AcceptGeneration implements [Controller].
func (c *controllers) AcceptGeneration(
	ctx context.Context, node string, req api.AcceptGeneration,
) (*api.Generation, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.AcceptGeneration(ctx, node, req)
}

// withGeneration has requests carry the generation of the cluster that this node follows, so that a
// controller that was left behind by it answers none of them.
func (c *controllers) withGeneration(next http.RoundTripper) http.RoundTripper {
	return &generationCarrier{c.lineage, c.credential, next}
}

type generationCarrier struct {
	lineage    *Lineage
	credential *pki.Credential
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *generationCarrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.lineage != nil {
		r = r.Clone(r.Context())
		r.Header.Set(api.HeaderGeneration, g.lineage.Current().String())
	}
	resp, err := g.next.RoundTrip(r)
	if err == nil && resp.TLS != nil { // the authority may have been replaced since the connection was made
		if _, err := g.credential.Verify(resp.TLS); errors.Is(err, pki.ErrRevoked) {
			resp.Body.Close()
			if t, ok := g.next.(interface{ CloseIdleConnections() }); ok {
				t.CloseIdleConnections()
			}
			return nil, fmt.Errorf("the answer of a controller is not believed: %w", err)
		}
	}
	return resp, err
}

// mayCopy asks whether another node may have a folder of this node.
func (c *controllers) mayCopy(ctx context.Context, node, boot, id, to string) (*api.CheckpointCopy, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkpoints.AskTimeout)
	defer cancel()
	return client.MayCopyCheckpoint(ctx, node, boot, id, to)
}

// proxied is the user of a request that is passed on, and the key of it in the request's context.
type proxied struct {
	user model.Identity
	job  model.JobID // in which the user's process runs; 0: in none
}

type proxiedKey struct{}

const proxyBodyMax = 64 << 20 // bytes of a request, as much as controllers accept

// proxyHandler returns a handler that passes requests of local users on to a controller, and
// vouches for the user's identity.
func (c *controllers) proxyHandler() http.Handler {
	return c.proxy(proxyBodyMax, func(r *http.Request, users *identity.Users) (proxied, error) {
		peer, err := identity.PeerOf(r.Context())
		if err != nil {
			return proxied{}, err
		}
		id, err := users.Of(peer)
		return proxied{user: id}, err
	})
}

// proxy returns a handler that passes requests with bodies of at most so many bytes on, for the
// callers that a function finds.
func (c *controllers) proxy(most int64, caller func(*http.Request, *identity.Users) (proxied, error)) http.Handler {
	var users identity.Users
	transport := &http.Transport{DialTLSContext: pki.Dialer(c.credential.Client(pki.Controller)), MaxIdleConnsPerHost: 64,
		IdleConnTimeout:    90 * time.Second,
		DisableCompression: true}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "https", "controller"
			r.Out.Header.Del("X-Forwarded-For")
			// The identity is added here and not earlier. A Connection header of the client may
			// name headers to drop, and a request without these counts as one of the machine
			// itself.
			switch p, ok := r.In.Context().Value(proxiedKey{}).(proxied); {
			case ok && p.job != 0:
				identity.VouchInJob(r.Out.Header, p.user, p.job)
			case ok:
				identity.Vouch(r.Out.Header, p.user)
			}
		},
		ModifyResponse: relayStream,
		Transport:      &anyController{of: c, next: c.withGeneration(transport)},
		FlushInterval:  -1, // logs and events are streams
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			api.WriteProblem(w, http.StatusServiceUnavailable, api.CodeNoLeader,
				"this node cannot reach a controller: "+err.Error())
		},
		ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug),
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
		forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), proxiedKey{}, p)))
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
	of   *controllers
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
