// Package controllers reaches the control plane from a node: at the addresses of its settings, and at
// those that gossip finds. client.go has the requests of the node itself. proxy.go passes requests of
// local users and of jobs on, and vouches for the callers.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/noded/checkpoints"
)

// Controllers is the control plane as this node knows it: the addresses from its settings and those
// found by gossip.
type Controllers struct {
	Credential *pki.Credential
	Static     []string // addresses from the settings
	Log        *slog.Logger
	// Follows returns the generation of the cluster that this node follows; nil, on a login node:
	// requests carry none.
	Follows func() generation.Generation

	mu     sync.Mutex
	addrs  []string
	client *api.Client // nil while no controller is known
}

// ErrNone says that neither the settings nor gossip have named a controller yet.
var ErrNone = errors.New("no controller is known yet")

// WatchGossip follows the controllers that gossip finds until ctx ends. Their addresses are signed.
func (c *Controllers) WatchGossip(ctx context.Context, list *member.List) error {
	for {
		if err := c.SetPeers(list.Controllers()); err != nil {
			c.Log.Error("cannot use the controllers that gossip found", "err", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-list.Changed():
		}
	}
}

// SetPeers makes a client for all known controllers. If gossip knows no controller any more, the
// last addresses are kept: they may be reachable although their gossip is not.
func (c *Controllers) SetPeers(peers []member.Peer) error {
	addrs := slices.Clone(c.Static)
	for _, p := range peers {
		if p.Role == member.Controld && p.HTTP != "" && !slices.Contains(addrs, p.HTTP) {
			addrs = append(addrs, p.HTTP)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(addrs) == 0 || len(addrs) == len(c.Static) && c.client != nil || slices.Equal(addrs, c.addrs) {
		return nil
	}
	client, err := api.DialWith(strings.Join(addrs, ","),
		api.Options{TLS: c.Credential.Client(pki.Controller), Any4xx: true, Wrap: c.withGeneration})
	if err != nil {
		return err
	}
	c.Log.Info("controllers", "addresses", addrs)
	c.addrs, c.client = addrs, client
	return nil
}

// RenewCertificate has a controller sign a request for another certificate of this member.
func (c *Controllers) RenewCertificate(ctx context.Context, request []byte) ([]byte, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.RenewCertificate(ctx, request)
}

// FollowAuthority has this member follow replacements of the authority that issues certificates.
func (c *Controllers) FollowAuthority(ctx context.Context, fast bool) error {
	every := api.AuthorityEvery
	if fast {
		every = api.AuthorityEveryFast
	}
	return api.FollowAuthority(ctx, c.Credential, func() []string {
		_, addrs, _ := c.current() // none is known yet
		return addrs
	}, every, api.Options{Wrap: c.withGeneration}, c.Log)
}

// Status says in one line what a login node does, which has nothing but its controllers.
func (c *Controllers) Status() string {
	_, addrs, err := c.current()
	switch {
	case err != nil:
		return err.Error()
	case len(addrs) == 1:
		return "login node, 1 controller is known"
	}
	return fmt.Sprintf("login node, %d controllers are known", len(addrs))
}

func (c *Controllers) current() (*api.Client, []string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return nil, nil, ErrNone
	}
	return c.client, c.addrs, nil
}

// Register implements [Controller].
func (c *Controllers) Register(
	ctx context.Context, node string, req api.RegisterRequest,
) (*api.RegisterResponse, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Register(ctx, node, req)
}

// Allocs implements [Controller].
func (c *Controllers) Allocs(
	ctx context.Context, node, boot string, after uint64, wait time.Duration, echo api.Echo,
) (*api.NodeAllocs, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Allocs(ctx, node, boot, after, wait, echo)
}

// Report implements [Controller].
func (c *Controllers) Report(ctx context.Context, node string, req api.ReportRequest) (*api.ReportResponse, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Report(ctx, node, req)
}

// DropCheckpoints implements [Controller].
func (c *Controllers) DropCheckpoints(
	ctx context.Context, node string, req api.KeptCheckpoints,
) (*api.DroppedCheckpoints, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.DropCheckpoints(ctx, node, req)
}

// Generation implements [Controller].
func (c *Controllers) Generation(ctx context.Context, node, boot string) (*api.Generation, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.Generation(ctx, node, boot)
}

// AcceptGeneration implements [Controller].
func (c *Controllers) AcceptGeneration(
	ctx context.Context, node string, req api.AcceptGeneration,
) (*api.Generation, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	return client.AcceptGeneration(ctx, node, req)
}

// withGeneration has requests carry the generation of the cluster that this node follows. A
// controller that was left behind by it then answers none of them.
func (c *Controllers) withGeneration(next http.RoundTripper) http.RoundTripper {
	return &generationCarrier{c.Follows, c.Credential, next}
}

type generationCarrier struct {
	generation func() generation.Generation // nil: none is carried
	credential *pki.Credential
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *generationCarrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if g.generation != nil {
		r = r.Clone(r.Context())
		r.Header.Set(api.HeaderGeneration, g.generation().String())
	}
	resp, err := g.next.RoundTrip(r)
	if err == nil && resp.TLS != nil { // the authority may have been replaced since the connection was made
		if _, err := g.credential.Verify(resp.TLS); errors.Is(err, pki.ErrRevoked) {
			resp.Body.Close()
			if t, ok := g.next.(interface{ CloseIdleConnections() }); ok {
				t.CloseIdleConnections()
			}
			return nil, fmt.Errorf("ignoring the answer of a controller: %w", err)
		}
	}
	return resp, err
}

// MayCopy asks whether another node may have a folder of this node.
func (c *Controllers) MayCopy(ctx context.Context, node, boot, id, to string) (*api.CheckpointCopy, error) {
	client, _, err := c.current()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkpoints.AskTimeout)
	defer cancel()
	return client.MayCopyCheckpoint(ctx, node, boot, id, to)
}
