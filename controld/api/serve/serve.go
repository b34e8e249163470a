// Package serve opens the listeners of a daemon and answers HTTP requests on them until the daemon
// stops. Both daemons use it.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api/identity"
)

// Limits of every server.
const (
	maxHeader     = 64 << 10 // bytes of a request's header
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// TCP listens on addr, host:port. If the port is in use, the error says what to do. Connections are
// limited, see [MaxConnections].
func TCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port in use: another process listens on %s: stop it or choose another port: %w", addr, err)
	}
	if err != nil {
		return nil, err
	}
	limited := limit(l, MaxConnections, tcpLimit)
	limited.evicts = true
	return limited, nil
}

// TLS answers connections of [TCP] over TLS. A member of the cluster, whose name memberOf returns for its
// certificate ("" for none), has a room of its own for connections.
func TLS(l net.Listener, config *tls.Config, memberOf func(*tls.ConnectionState) string) net.Listener {
	outer := config.Clone()
	outer.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own := config.Clone()
		own.VerifyConnection = func(s tls.ConnectionState) error {
			if config.VerifyConnection != nil {
				if err := config.VerifyConnection(s); err != nil {
					return err
				}
			}
			c, counted := hello.Conn.(*counted)
			name := memberOf(&s)
			if !counted || name == "" {
				return nil
			}
			return c.BelongsTo(name)
		}
		return own, nil
	}
	return tls.NewListener(l, outer)
}

// Unix listens on a socket that every local user may connect to: the kernel tells which user does.
// It replaces the socket of a daemon that was killed. The socket of a running daemon and a file of
// another kind are errors. Connections are limited, see [MaxUserConnections].
func Unix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, fmt.Errorf("another process listens on %s: stop it or choose another path", path)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s exists and is not a socket: choose another path", path)
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
	return limit(l, MaxConnections, userLimit), nil
}

// Loopback reports whether only this machine can reach addr, host:port. A name counts as loopback
// only if it is localhost.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// NewServer returns a server whose requests know the peer of their connection. It limits the size
// of headers and the time that a slow client may take. Its owner sets ReadTimeout and BaseContext
// as its routes need.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ConnContext: identity.ConnContext,
		ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeader, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Until answers requests on l until ctx ends. Requests in progress then have the grace to finish
// before they are cut off. It returns an error only if l failed before ctx ended.
func Until(ctx context.Context, l net.Listener, srv *http.Server, grace time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		srv.Close()
	}
	<-done
	return nil
}
