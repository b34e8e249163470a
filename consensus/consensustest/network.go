package consensustest

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/rota-hpc/rota/consensus"
)

// network carries the connections between members. A connection belongs to the link between its two
// ends; cutting the link closes it and refuses new ones.
type network struct {
	mu    sync.Mutex
	names map[string]string // member names by address
	cut   map[[2]string]bool
	conns map[*linkConn]struct{}
}

// link names a link, regardless of direction.
func link(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// addMember makes m's address known.
func (n *network) addMember(m consensus.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names, n.conns = map[string]string{}, map[*linkConn]struct{}{}
	}
	n.names[m.Addr] = m.Name
}

// dial connects from a member to an address.
func (n *network) dial(ctx context.Context, from, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := link(from, n.names[addr])
	down := n.cut[l]
	n.mu.Unlock()
	if down {
		return nil, fmt.Errorf("link %v is cut", l)
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut[l] {
		raw.Close()
		return nil, fmt.Errorf("link %v is cut", l)
	}
	c := &linkConn{Conn: raw, network: n, link: l}
	n.conns[c] = struct{}{}
	return c, nil
}

// sever cuts the link between a and b.
func (n *network) sever(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := link(a, b)
	n.cut[l] = true
	for c := range n.conns {
		if c.link == l {
			c.Conn.Close()
		}
	}
}

// heal mends every link.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}

// linkConn is a connection over a link.
type linkConn struct {
	net.Conn
	network *network
	link    [2]string
}

// Close closes and forgets c.
func (c *linkConn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}
