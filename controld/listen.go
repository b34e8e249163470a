package controld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/express"
)

// Limits of the HTTP server.
const (
	maxBody       = 64 << 20 // bytes: 10,000 jobs with scripts of a few KiB
	maxHeader     = 64 << 10 // bytes
	headerTimeout = 10 * time.Second
	bodyTimeout   = 2 * time.Minute // for the whole of a request
	idleTimeout   = 2 * time.Minute
)

// listenTCP listens on addr, with an error that says what to do when that is not possible.
func listenTCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port in use: another process listens on %s: stop it or choose another port: %w", addr, err)
	}
	return l, err
}

// listen opens the API's listeners.
func (d *daemon) listen() ([]net.Listener, error) {
	l, err := listenTCP(d.cfg.HTTP)
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
	s, err := listenUnix(d.cfg.Socket)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("--socket: %w", err)
	}
	return []net.Listener{l, s}, nil
}

// listenUnix listens on a socket that everyone may connect to: the kernel tells who does. The socket of a daemon that was killed is
// replaced, that of a running one is not.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("another process listens on %s: stop it or choose another path", path)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is there and is not a socket: choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// serve answers requests on l until ctx ends, and then gives those in progress a moment.
func (d *daemon) serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: d.handler(), ConnContext: identity.ConnContext,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, MaxHeaderBytes: maxHeader, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
	}
	quick := d.express()
	done := make(chan error, 1)
	go func() { done <- srv.Serve(quick.Listen(ctx, l)) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.Shutdown)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close()
	}
	quick.Wait(grace)
	<-done
	return nil
}

// express serves submissions of the usual form: they come by the ten thousand each second.
func (d *daemon) express() *express.Server {
	s := &express.Server{
		Method: http.MethodPost, Path: "/v1/jobs", ConnContext: identity.ConnContext,
		HeadTimeout: headerTimeout, BodyTimeout: bodyTimeout, IdleTimeout: idleTimeout, Log: d.log,
	}
	for _, rt := range d.routes() {
		if rt.method == s.Method && rt.path == s.Path {
			s.Handler = d.answer(&rt)
		}
	}
	return s
}
