package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// How long the other end of a connection may take to accept it, and to prove itself.
const (
	dialTimeout      = 3 * time.Second
	handshakeTimeout = 5 * time.Second
)

// Dialer returns the function that makes connections and has the other end prove itself, such as
// http.Transport's DialTLSContext. Its errors are *net.OpError of operation dial: nothing has been
// sent.
func Dialer(conf *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		secure := tls.Client(c, conf)
		if err := secure.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, &net.OpError{Op: "dial", Net: network, Addr: c.RemoteAddr(), Err: Explain(err)}
		}
		return secure, nil
	}
}

// joinAgain is what the administrator of a machine does whose certificate no longer counts.
const joinAgain = "have it join again with a new token (rota cluster join-token)"

// Explain says of a failed handshake, or of the first bytes that follow it, what an operator can do.
func Explain(err error) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.Is(err, errReplaced):
		return err
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("it refuses the certificate of this machine: the certificate was revoked or has expired, or its "+
			"authority was replaced while this machine was off: %s: %w", joinAgain, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("its certificate is expired, or the clock of one of the two machines is wrong: %w", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("it does not belong to this cluster: %w", err)
	case errors.As(err, &name):
		return fmt.Errorf("it has the wrong role in the cluster: %w", err)
	case errors.As(err, &record):
		return fmt.Errorf("it does not speak TLS: %w", err)
	}
	return err
}

// NotSent reports whether a request has certainly had no effect, so that another machine may be
// asked. That is so if the two ends did not recognise each other, or no connection was made. The
// other end may refuse a certificate after the request has left, but before it reads it.
func NotSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "remote error")
}
