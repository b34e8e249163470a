package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Link guards connections between daemons that carry no HTTP, as those of the log do. With a
// cluster key both ends prove in a TLS handshake that they have it, and the traffic is encrypted.
// Without one only this machine is reached, and the kernel says whether the other end belongs to
// root or to the account of this process. The zero value is without a key.
type Link struct {
	tls *tls.Config // nil without a key
}

// ErrStranger says that the other end of a connection is not of this cluster.
var ErrStranger = errors.New("the other end of the connection is not of this cluster")

// How long the other end may take to answer, and to prove itself.
const (
	dialTimeout      = 3 * time.Second
	handshakeTimeout = 5 * time.Second
)

// NewLink returns the links of a machine with this key, which may be empty.
func NewLink(k Key) (*Link, error) {
	if len(k) == 0 {
		return &Link{}, nil
	}
	// Every machine makes the same pair of the key, and accepts no other pair.
	private := ed25519.NewKeyFromSeed(k.Sum("links"))
	public := private.Public().(ed25519.PublicKey)
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<37, 0)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		return nil, fmt.Errorf("links with the cluster key: %w", err)
	}
	return &Link{tls: &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		MinVersion:   tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // names and authorities say nothing here: the key does
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !public.Equal(s.PeerCertificates[0].PublicKey) {
				return fmt.Errorf("%w: it has another cluster key", ErrStranger)
			}
			return nil
		},
	}}, nil
}

// Dial connects to addr and verifies the other end. Errors wrap ErrStranger where that is the
// reason.
func (l *Link) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if l.tls == nil {
		if err := ownListener(c); err != nil {
			c.Close()
			return nil, dialError(c, err)
		}
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secure := tls.Client(c, l.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, dialError(c, err)
	}
	return secure, nil
}

// dialError says that no connection was made: nothing has been sent, and another machine may be
// asked.
func dialError(c net.Conn, err error) error {
	return &net.OpError{Op: "dial", Net: c.RemoteAddr().Network(), Addr: c.RemoteAddr(), Err: err}
}

// Listen returns a listener whose connections are proven: one that proves nothing is closed.
func (l *Link) Listen(from net.Listener) net.Listener { return &linkListener{from, l} }

type linkListener struct {
	net.Listener
	link *Link
}

// Accept implements net.Listener. A handshake is left to the first read, so that no connection
// waits for another's.
func (ll *linkListener) Accept() (net.Conn, error) {
	for {
		c, err := ll.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if ll.link.tls != nil {
			return &incoming{Conn: c, link: ll.link}, nil
		}
		if ownPeer(c) == nil {
			return c, nil
		}
		c.Close()
	}
}

// incoming is a connection whose other end has yet to prove itself.
type incoming struct {
	net.Conn
	link   *Link
	once   sync.Once
	proven net.Conn
	err    error
}

// Read implements net.Conn.
func (c *incoming) Read(b []byte) (int, error) {
	if c.once.Do(c.prove); c.err != nil {
		return 0, c.err
	}
	return c.proven.Read(b)
}

// Write implements net.Conn.
func (c *incoming) Write(b []byte) (int, error) {
	if c.once.Do(c.prove); c.err != nil {
		return 0, c.err
	}
	return c.proven.Write(b)
}

func (c *incoming) prove() {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	secure := tls.Server(c.Conn, c.link.tls)
	if c.err = secure.HandshakeContext(ctx); c.err != nil {
		c.Conn.Close()
	}
	c.proven = secure
}

// ownPeer verifies that the process that made a connection to here runs as root or under this
// account.
func ownPeer(c net.Conn) error {
	p, err := peerOfConn(c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStranger, err)
	}
	return own(p.UID, c)
}

// ownListener verifies the same of the process that listens at the other end of a connection from
// here. The connected socket would not do: until it has been accepted it has no owner, which the
// kernel writes as root.
func ownListener(c net.Conn) error {
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return fmt.Errorf("peer address: %w", err)
	}
	if !remote.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s is another machine, and without a cluster key its callers cannot be identified",
			ErrStranger, remote)
	}
	uid, err := listenerOwner(remote)
	if err != nil {
		return fmt.Errorf("%w: owner of the listener on %s: %w", ErrStranger, remote, err)
	}
	return own(uid, c)
}

func own(uid uint32, c net.Conn) error {
	if uid != 0 && uid != uint32(os.Getuid()) {
		return fmt.Errorf("%w: %s belongs to uid %d (without a cluster key all daemons run as root or under one "+
			"account)", ErrStranger,
			c.RemoteAddr(), uid)
	}
	return nil
}
