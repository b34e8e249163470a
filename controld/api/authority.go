package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// How often a member asks the controllers which authorities to trust.
const (
	AuthorityEvery     = time.Minute
	AuthorityEveryFast = time.Second
)

// FollowAuthority keeps a member that is no controller up to date about replacements of the
// certificate authority, until ctx ends. addrs returns the addresses of the controllers' APIs.
// While an authority is being replaced, the member shows its certificate to every controller, so
// that they know which members need a new one.
func FollowAuthority(ctx context.Context, c *pki.Credential, addrs func() []string, every time.Duration, o Options,
	log *slog.Logger,
) error {
	o.TLS, o.Any4xx = c.Client(pki.Controller), true
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := followAuthority(ctx, c, addrs(), o); err != nil && ctx.Err() == nil {
			log.Warn("cannot ask the controllers which authority issues certificates; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// followAuthority does one round of requests. If answers differ, the answer from the newest state
// counts.
func followAuthority(ctx context.Context, c *pki.Credential, addrs []string, o Options) error {
	var newest *Authority
	var errs []error
	for _, addr := range addrs {
		a, err := askAuthority(ctx, addr, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if newest == nil || a.Index > newest.Index {
			newest = a
		}
		if c.Authorities() == 1 && a.Trusted == c.Trusted() {
			break // no replacement is in progress
		}
	}
	if newest == nil {
		return errors.Join(errs...)
	}
	before := c.Issuer()
	err := c.Adopt(newest.Trusted, func(request []byte) (cert []byte, err error) {
		for _, addr := range addrs {
			if cert, err = askCertificate(ctx, addr, o, request); err == nil {
				break
			}
		}
		return cert, err
	})
	if err == nil && c.Issuer() != before { // the controllers must see the new certificate
		for _, addr := range addrs {
			_, _ = askAuthority(ctx, addr, o) // an error is ignored, because the next round asks again
		}
	}
	return err
}

// askAuthority uses a new connection, which shows the member's current certificate.
func askAuthority(ctx context.Context, addr string, o Options) (*Authority, error) {
	client, err := DialWith(addr, o)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Authority(ctx)
}

func askCertificate(ctx context.Context, addr string, o Options, request []byte) ([]byte, error) {
	client, err := DialWith(addr, o)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.RenewCertificate(ctx, request)
}
