package identity

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// Link makes and takes the connections between controllers that carry no HTTP, as those of the log
// do. Both ends prove in a TLS handshake that they are controllers of this cluster.
type Link struct {
	credential *pki.Credential
	server     *tls.Config
	generation atomic.Pointer[func() (string, bool)]
}

// handshakeTimeout is how long the other end may take to prove itself.
const handshakeTimeout = 5 * time.Second

// NewLink returns the links of a controller.
func NewLink(c *pki.Credential) *Link { return &Link{credential: c, server: c.Server(pki.Controller)} }

// Dial connects to the controller with this name. An error is a *net.OpError of operation dial:
// nothing has been sent.
func (l *Link) Dial(ctx context.Context, name, addr string) (net.Conn, error) {
	conf := l.credential.ClientOf(pki.Controller, name)
	offered, err := l.offered()
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	conf.NextProtos = []string{offered}
	c, err := pki.Dialer(conf)(ctx, "tcp", addr)
	return c, explainGeneration(err, name)
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
	c, err := ll.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &incoming{Conn: c, credential: ll.link.credential,
		config: &tls.Config{GetConfigForClient: ll.link.accept}}, nil
}

// incoming is a connection whose other end has yet to prove itself.
type incoming struct {
	net.Conn
	credential *pki.Credential
	config     *tls.Config
	once       sync.Once
	proven     *tls.Conn
	err        error
	trusted    any // what was trusted when the other end was last verified; of the goroutine that reads
}

// Read implements net.Conn.
func (c *incoming) Read(b []byte) (int, error) {
	if c.once.Do(c.prove); c.err != nil {
		return 0, c.err
	}
	n, err := c.proven.Read(b)
	if now := c.credential.TrustVersion(); err == nil && now != c.trusted { // an authority was replaced since
		s := c.proven.ConnectionState()
		if _, err := c.credential.Verify(&s); err != nil {
			c.Conn.Close()
			return 0, err
		}
		c.trusted = now
	}
	return n, err
}

// Write implements net.Conn.
func (c *incoming) Write(b []byte) (int, error) {
	if c.once.Do(c.prove); c.err != nil {
		return 0, c.err
	}
	return c.proven.Write(b)
}

// takeRoom has the connection count for the member that it belongs to, where connections are limited.
func (c *incoming) takeRoom(s tls.ConnectionState) error {
	limited, ok := c.Conn.(interface{ BelongsTo(member string) error })
	if !ok {
		return nil
	}
	m, err := pki.MemberOf(s.PeerCertificates[0]) // the handshake has verified it
	if err != nil {
		return err
	}
	return limited.BelongsTo(m.String())
}

func (c *incoming) prove() {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	secure := tls.Server(c.Conn, c.config)
	if c.err = secure.HandshakeContext(ctx); c.err == nil {
		c.err = c.takeRoom(secure.ConnectionState())
	}
	if c.err != nil {
		c.Conn.Close()
	}
	c.proven = secure
}
