package serve

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"github.com/rota-hpc/rota/controld/api/identity"
)

// Limits of the connections to one listener. One more is closed at once, so that a caller takes
// neither memory nor file descriptors from the others before it is known which caller it is. A
// connection without a request takes some 20 KiB.
const (
	// MaxConnections of all peers: 10,000 nodes have two each.
	MaxConnections = 32_768
	// MaxPeerConnections of another machine: a login node has one for each request in progress.
	MaxPeerConnections = 1024
	// MaxLoopbackConnections of this machine by TCP: rota dev has its nodes there too.
	MaxLoopbackConnections = 16_384
	// MaxUserConnections of one user of the unix socket. Root and the daemon's own account are not
	// counted.
	MaxUserConnections = 256
	// MaxJobConnections of the socket in a job's container: each srun that runs has one.
	MaxJobConnections = 1024
	// spareJobConnections are for those beyond them, which are told so and closed.
	spareJobConnections = 256
)

// limited closes connections beyond the limits of its peers.
type limited struct {
	net.Listener
	most  int            // of all peers
	limit func(peer) int // of one

	mu    sync.Mutex
	all   int
	peers map[peer]int
}

// peer is what connections are counted by. The zero value is not counted.
type peer string

func limit(l net.Listener, most int, of func(peer) int) *limited {
	return &limited{Listener: l, most: most, limit: of, peers: map[peer]int{}}
}

// tcpLimit is the limit of an address, or of a network of IPv6 that one machine has for itself.
func tcpLimit(p peer) int {
	if prefix, err := netip.ParsePrefix(string(p)); err == nil && prefix.Addr().IsLoopback() {
		return MaxLoopbackConnections
	}
	return MaxPeerConnections
}

func userLimit(peer) int { return MaxUserConnections }

// Job limits the connections to the socket in a job's container. Beyond [MaxJobConnections] requests in
// progress its server is to answer that there are too many.
func Job(l net.Listener) net.Listener {
	const most = MaxJobConnections + spareJobConnections
	return limit(l, most, func(peer) int { return most })
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p := peerOf(c); l.take(p) {
			return &counted{Conn: c, release: sync.OnceFunc(func() { l.release(p) })}, nil
		}
		c.Close()
	}
}

func (l *limited) take(p peer) bool {
	if p == "" {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.peers[p] >= l.limit(p) {
		return false
	}
	l.all++
	l.peers[p]++
	return true
}

func (l *limited) release(p peer) {
	if p == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.peers[p]--; l.peers[p] == 0 {
		delete(l.peers, p)
	}
}

// peerOf returns what a connection counts for.
func peerOf(c net.Conn) peer {
	if _, local := c.(*net.UnixConn); local {
		p, err := identity.PeerOf(identity.ConnContext(context.Background(), c))
		switch {
		case err != nil:
			return "unknown"
		case p.UID == 0 || int(p.UID) == os.Geteuid():
			return ""
		}
		return peer("uid " + strconv.FormatUint(uint64(p.UID), 10))
	}
	return peer(NetworkOf(c.RemoteAddr().String()))
}

// NetworkOf returns the network that one machine has for itself, from an address with a port: the
// address of IPv4, and the first 64 bits of one of IPv6.
func NetworkOf(from string) string {
	ap, err := netip.ParseAddrPort(from)
	if err != nil {
		return "unknown"
	}
	addr, bits := ap.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
		if addr.IsLoopback() {
			bits = 128
		}
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}

// counted is a connection that counts for its peer until it is closed.
type counted struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// NetConn returns the connection below, as that of package tls does.
func (c *counted) NetConn() net.Conn { return c.Conn }
