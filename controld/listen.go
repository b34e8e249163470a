package controld

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/rota-hpc/rota/controld/api/serve"
)

// Limits of a request.
const (
	maxBody     = 64 << 20        // bytes: 10,000 jobs with scripts of a few KiB
	bodyTimeout = 2 * time.Minute // for the whole of a request
)

// listen opens the API's listeners.
func (d *daemon) listen() ([]net.Listener, error) {
	l, err := serve.TCP(d.cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	if d.addrs.HTTP, err = advertised(l.Addr().String(), d.cfg.Advertise); err != nil {
		l.Close()
		return nil, err
	}
	if d.cfg.Socket == "" {
		return []net.Listener{l}, nil
	}
	s, err := serve.Unix(d.cfg.Socket)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("--socket: %w", err)
	}
	return []net.Listener{l, s}, nil
}

// serve answers requests on l until ctx ends, and then gives those in progress a moment.
func (d *daemon) serve(ctx context.Context, l net.Listener) error {
	srv := serve.NewServer(d.handler(), d.log)
	srv.ReadTimeout = bodyTimeout
	return serve.Until(ctx, l, srv, d.cfg.Shutdown)
}
