package exchange

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// lapseEvery is how often a stream asks whether its caller's credential is still good.
const lapseEvery = 500 * time.Millisecond

// lapsed returns why the credential of a request is no longer good. Its API token was revoked or
// has expired, or the vouching member's certificate was revoked. A certificate that has merely
// ended does not count, because its member has a new one by then.
func (s *Service) lapsed(r *http.Request) error {
	if shown(r) {
		_, err := s.bearer(r)
		return err
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	if _, err := s.Credential.Verify(r.TLS); errors.Is(err, pki.ErrRevoked) {
		return err
	}
	return nil
}

// WhileCredentialHolds returns a context that ends with ctx, and within a second after the
// credential of the caller is no longer good. Work that goes on after its request was allowed runs
// under it.
func (x *Exchange) WhileCredentialHolds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	s, r, route, from := x.s, x.Request, x.Route.Path, x.origin()
	if !shown(r) && r.TLS == nil {
		return ctx, cancel // a user of this machine, known by the kernel
	}
	go func() {
		tick := time.NewTicker(lapseEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.lapsed(r); err != nil {
				s.Log.Info("ending a stream, because its credential has expired or was revoked", "route", route, "from", from,
					"reason", err)
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}
