package serve

import (
	"container/list"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"github.com/rota-hpc/rota/controld/api/identity"
)

// Limits of the connections to one listener. One more is closed at once: an unknown caller must
// take neither memory nor file descriptors from the others. A connection without a request takes
// some 20 KiB.
const (
	// MaxConnections of all peers that have shown no certificate, and of users of this machine.
	MaxConnections = 32_768
	// MaxPeerConnections of one member of the cluster, and of one network without a certificate: a login
	// node has one for each request in progress.
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
	// evicts is set if peers are strangers until they show a certificate. The oldest connection of
	// a full peer is then closed instead of the new one, which may be a member's.
	evicts bool

	mu      sync.Mutex
	all     int
	peers   map[peer]*list.List // of *counted, the oldest first
	members map[string]int      // connections of members, by their names
}

// peer is what connections are counted by. The zero value is not counted.
type peer string

func limit(l net.Listener, most int, of func(peer) int) *limited {
	return &limited{Listener: l, most: most, limit: of, peers: map[peer]*list.List{}, members: map[string]int{}}
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
		own := &counted{Conn: c, of: l, peer: peerOf(c)}
		old, ok := l.take(own)
		if old != nil {
			_ = old.Close()
		}
		if ok {
			return own, nil
		}
		c.Close()
	}
}

// take counts a connection. It returns one that is to be closed in its place, and false if there is no
// room for it.
func (l *limited) take(c *counted) (old *counted, ok bool) {
	if c.peer == "" {
		return nil, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.peers[c.peer]
	full := own != nil && own.Len() >= l.limit(c.peer)
	if full || l.all >= l.most {
		if !l.evicts {
			return nil, false
		}
		from := own
		if !full {
			from = l.largest()
		}
		if from == nil {
			return nil, false
		}
		old = from.Front().Value.(*counted)
		l.forget(old)
		own = l.peers[c.peer] // it may have had that one alone
	}
	if own == nil {
		own = list.New()
		l.peers[c.peer] = own
	}
	c.at = own.PushBack(c)
	l.all++
	return old, true
}

// largest returns the connections of the peer that has most, nil if no peer has any.
func (l *limited) largest() *list.List {
	var most *list.List
	for _, p := range l.peers {
		if most == nil || p.Len() > most.Len() {
			most = p
		}
	}
	return most
}

// forget counts a connection no more.
func (l *limited) forget(c *counted) {
	if c.member != "" {
		if l.members[c.member]--; l.members[c.member] == 0 {
			delete(l.members, c.member)
		}
		c.member = ""
	}
	if c.at == nil {
		return
	}
	own := l.peers[c.peer]
	own.Remove(c.at)
	c.at = nil
	l.all--
	if own.Len() == 0 {
		delete(l.peers, c.peer)
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

// NetworkOf returns the network that one machine has for itself, from an address with a port. It is
// the whole IPv4 address, or the first 64 bits of an IPv6 address.
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

// counted is a connection that counts for its peer, or for a member, until it is closed.
type counted struct {
	net.Conn
	of     *limited
	peer   peer
	at     *list.Element // in the connections of the peer; nil: it does not count for it
	member string        // that it counts for; "": none
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// BelongsTo counts a connection for a member of the cluster that has shown its certificate, instead
// of for its network. Many members may share a network, and jobs share their node's network. It is
// an error if the member has [MaxPeerConnections] already.
func (c *counted) BelongsTo(member string) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.at == nil {
		return nil // it counts for no peer, or was closed
	}
	if c.of.members[member] >= max(MaxPeerConnections, c.of.limit(c.peer)) {
		return fmt.Errorf("%s has %d connections already", member, c.of.members[member])
	}
	c.of.forget(c)
	c.member = member
	c.of.members[member]++
	return nil
}

// NetConn returns the connection below, as that of package tls does.
func (c *counted) NetConn() net.Conn { return c.Conn }
