package serve

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// taken returns how many of n connections a listener keeps open, and closes them.
func taken(t *testing.T, l net.Listener, n int) int {
	t.Helper()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	kept := 0
	for range n {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write([]byte("x")) // it may be closed
		if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
			kept++
		}
	}
	return kept
}

// TestManyConnectionsOfOnePeer is the attack that opens connections until a daemon has no memory or
// file descriptors left for others.
func TestManyConnectionsOfOnePeer(t *testing.T) {
	for name, test := range map[string]struct{ all, each, want int }{
		"one peer": {100, 5, 5}, "all peers": {7, 100, 7}, "below the limits": {100, 100, 20},
	} {
		t.Run(name, func(t *testing.T) {
			from, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := limit(from, test.all, func(peer) int { return test.each })
			defer l.Close()
			if got := taken(t, l, 20); got != test.want {
				t.Errorf("%d of 20 connections were kept, want %d", got, test.want)
			}
			count := func() int {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.all
			}
			for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(time.Millisecond) {
				if count() == 0 { // closed ones make room again
					return
				}
			}
			t.Errorf("%d connections still count", count())
		})
	}
}

func TestPeers(t *testing.T) {
	for addr, want := range map[string]peer{
		"10.0.0.1:5": "10.0.0.1/32", "[::ffff:10.0.0.1]:5": "10.0.0.1/32", "[2001:db8::5]:6": "2001:db8::/64",
		"[2001:db8::6]:6": "2001:db8::/64", "[fe80::1%eth0]:6": "fe80::/64", "[::1]:5": "::1/128",
		"127.0.0.1:5": "127.0.0.1/32", "odd": "unknown",
	} {
		if got := peerOf(remote(addr)); got != want {
			t.Errorf("%s counts as %q, want %q", addr, got, want)
		}
	}
	if tcpLimit("127.0.0.1/32") != MaxLoopbackConnections || tcpLimit("::1/128") != MaxLoopbackConnections ||
		tcpLimit("10.0.0.1/32") != MaxPeerConnections || tcpLimit("unknown") != MaxPeerConnections {
		t.Error("loopback has the limit of another machine, or the other way round")
	}
}

// remote is a connection from an address.
type remote string

func (r remote) RemoteAddr() net.Addr           { return r }
func (remote) LocalAddr() net.Addr              { return nil }
func (remote) Network() string                  { return "tcp" }
func (r remote) String() string                 { return string(r) }
func (remote) Read([]byte) (int, error)         { return 0, io.EOF }
func (remote) Write([]byte) (int, error)        { return 0, io.EOF }
func (remote) Close() error                     { return nil }
func (remote) SetDeadline(time.Time) error      { return nil }
func (remote) SetReadDeadline(time.Time) error  { return nil }
func (remote) SetWriteDeadline(time.Time) error { return nil }

// TestTheDaemonsOwnAccountIsNotCounted: a daemon that asks itself is not refused because it is busy.
func TestTheDaemonsOwnAccountIsNotCounted(t *testing.T) {
	l, err := Unix(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := taken(t, l, MaxUserConnections+10); got != MaxUserConnections+10 {
		t.Errorf("%d connections were kept", got)
	}
}

// TestMembersHaveTheirOwnRoom: connections of a member count for it alone. Strangers at the same
// address, and very many members of one network, take no room from it. Among strangers the newest
// connection replaces the oldest.
func TestMembersHaveTheirOwnRoom(t *testing.T) {
	const each = 5
	l := limit(nil, 8, func(peer) int { return each })
	l.evicts = true
	connect := func(from string) (*counted, *counted) {
		t.Helper()
		c := &counted{Conn: remote(from), of: l, peer: peerOf(remote(from))}
		old, ok := l.take(c)
		if !ok {
			t.Fatalf("a connection from %s finds no room", from)
		}
		return c, old
	}
	const network = "[2001:db8::%d]:1"
	for n := range 2000 { // each shows its certificate at once
		c, old := connect(fmt.Sprintf(network, n))
		if old != nil {
			t.Fatalf("member %d closes a connection of another one", n)
		}
		if err := c.BelongsTo(fmt.Sprintf("node n%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	var strangers []*counted
	for n := range 3 * each {
		c, old := connect("[2001:db8::1]:1")
		strangers = append(strangers, c)
		if want := n - each; want >= 0 && old != strangers[want] || want < 0 && old != nil {
			t.Errorf("stranger %d replaces %p", n, old)
		}
	}
	member, _ := connect("[2001:db8::1]:1") // it shares the address with the strangers
	if err := member.BelongsTo("node n1"); err != nil {
		t.Errorf("a member among strangers: %v", err)
	}
	for range 20 {
		if _, old := connect("[2001:db8:9::1]:1"); old == member {
			t.Error("strangers replace a member")
		}
	}
	for n := range MaxPeerConnections + 1 {
		c, _ := connect("10.0.0.1:1")
		if err := c.BelongsTo("node greedy"); (err != nil) != (n == MaxPeerConnections) {
			t.Fatalf("connection %d of one member: %v", n+1, err)
		}
	}
	if l.all > 8 {
		t.Errorf("%d strangers are connected", l.all)
	}
	before := len(l.members)
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	if l.members["node n1"] != 1 || len(l.members) != before {
		t.Errorf("member n1 has %d connections after one was closed", l.members["node n1"])
	}
}
