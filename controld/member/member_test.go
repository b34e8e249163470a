package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	t.Fatalf("no %s within %v", what, patience)
}

// cuts says which gossip addresses cannot reach each other.
type cuts struct {
	mu   sync.Mutex
	cut  map[[2]string]bool
	lost time.Time // when the last packet was lost
}

// lose notes a lost packet.
func (c *cuts) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = time.Now()
}

// quiet reports whether no packet was sent over a cut link for a while: all have forgotten the
// other side.
func (c *cuts) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lost) > time.Second
}

func (c *cuts) set(a, b string, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[[2]string{min(a, b), max(a, b)}] = down
}

func (c *cuts) down(a, b string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut[[2]string{min(a, b), max(a, b)}]
}

// cutTransport loses what goes over a cut link.
type cutTransport struct {
	*memberlist.NetTransport
	self string
	cuts *cuts
}

func (t *cutTransport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if t.cuts.down(t.self, a.Addr) {
		t.cuts.lose()
		return time.Now(), nil
	}
	return t.NetTransport.WriteToAddress(b, a)
}

func (t *cutTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

func (t *cutTransport) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	if t.cuts.down(t.self, a.Addr) {
		return nil, errors.New("link is cut")
	}
	return t.NetTransport.DialAddressTimeout(a, d)
}

func (t *cutTransport) DialTimeout(addr string, d time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, d)
}

// open starts a member and its Run, and stops both with the test. The result of Run arrives on the
// channel.
func open(t *testing.T, cfg Config) (*List, <-chan error) {
	t.Helper()
	cfg.Fast = true
	cfg.Addr = orLoopback(cfg.Addr)
	if cfg.Rejoin == 0 {
		cfg.Rejoin = 200 * time.Millisecond
	}
	if cfg.Meta.Role == "" {
		cfg.Meta.Role = Noded
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- l.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := l.Shutdown(); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return l, done
}

func orLoopback(addr string) string {
	if addr == "" {
		return "127.0.0.1:0"
	}
	return addr
}

// as is the configuration of the member with a credential.
func as(c *pki.Credential) Config {
	cfg := Config{Name: c.Member.Name, Credential: c, Meta: Meta{Role: Noded, Cluster: c.Member.Cluster}}
	if c.Member.Role == pki.Controller {
		cfg.Meta.Role, cfg.Meta.HTTP, cfg.Meta.Raft = Controld, c.Member.Name+":7070", c.Member.Name+":7071"
		cfg.KeysFor = func(pki.Member) ([][]byte, error) { return c.GossipKeys(), nil }
	}
	return cfg
}

// names returns the names of l's peers.
func names(l *List) []string {
	var names []string
	for _, p := range l.Peers() {
		names = append(names, p.Name)
	}
	return names
}

// five starts five members that know only the first one's address.
func five(t *testing.T, c *cuts) []*List {
	t.Helper()
	var lists []*List
	cluster := pkitest.New(t)
	for i := range 5 {
		cfg := as(cluster.Member(pki.Node, fmt.Sprintf("m%d", i)))
		cfg.Meta.HTTP, cfg.Meta.Version = fmt.Sprintf("10.0.0.%d:7070", i), "v"
		if i > 0 {
			cfg.Join = []string{lists[0].Addr()}
		}
		if c != nil {
			cfg.wrap = func(n *memberlist.NetTransport) memberlist.NodeAwareTransport {
				return &cutTransport{NetTransport: n, self: fmt.Sprintf("127.0.0.1:%d", n.GetAutoBindPort()), cuts: c}
			}
		}
		l, _ := open(t, cfg)
		lists = append(lists, l)
	}
	full(t, lists)
	return lists
}

// full waits until all members know each other.
func full(t *testing.T, lists []*List) {
	t.Helper()
	eventually(t, "full view", func() bool {
		return !slices.ContainsFunc(lists, func(l *List) bool { return len(l.Peers()) != len(lists)-1 })
	})
}

func TestFiveMembersFindEachOther(t *testing.T) {
	lists := five(t, nil)
	if got, want := names(lists[2]), []string{"m0", "m1", "m3", "m4"}; !slices.Equal(got, want) {
		t.Errorf("peers %v, want %v", got, want)
	}
	p := lists[2].Peers()[3]
	if p.HTTP != "10.0.0.4:7070" || p.Role != Noded || p.Version != "v" ||
		p.Addr != lists[4].Addr() {
		t.Errorf("m4 is known as %+v", p)
	}
	select {
	case <-lists[2].Changed():
	default:
		t.Error("the change was not delivered")
	}
}

func TestDeathAndLeaveAreNoticed(t *testing.T) {
	lists := five(t, nil)
	if err := lists[4].Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := lists[3].Leave(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	eventually(t, "notice", func() bool {
		return !slices.ContainsFunc(lists[:3], func(l *List) bool { return len(l.Peers()) != 2 })
	})
}

// TestLongPartitionHeals keeps two halves apart until each has given the other up for dead. The
// second half does not know the seed's half by any other way than by what it remembers.
func TestLongPartitionHeals(t *testing.T) {
	c := &cuts{cut: map[[2]string]bool{}}
	lists := five(t, c)
	each := func(down bool) {
		for _, a := range lists[:2] {
			for _, b := range lists[2:] {
				c.set(a.Addr(), b.Addr(), down)
			}
		}
	}
	each(true)
	eventually(t, "split", func() bool {
		return len(lists[0].Peers()) == 1 && len(lists[1].Peers()) == 1 && len(lists[2].Peers()) == 2 &&
			len(lists[3].Peers()) == 2 && len(lists[4].Peers()) == 2
	})
	eventually(t, "silence", c.quiet)
	each(false)
	full(t, lists)
}

func TestSeedThatComesLater(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	early, _ := open(t, Config{Name: "early", Join: []string{addr}})
	late, _ := open(t, Config{Name: "late", Addr: addr, Join: []string{addr}})
	full(t, []*List{early, late})
}

func TestSameNameGivesWay(t *testing.T) {
	cluster := pkitest.New(t)
	first, firstDone := open(t, as(cluster.Member(pki.Node, "twin")))
	cfg := as(cluster.Member(pki.Node, "witness"))
	cfg.Join = []string{first.Addr()}
	witness, _ := open(t, cfg)
	full(t, []*List{first, witness})
	cfg = as(cluster.Member(pki.Node, "twin"))
	cfg.Join = []string{witness.Addr()}
	_, done := open(t, cfg)
	select {
	case err := <-done:
		if !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "twin") {
			t.Errorf("the second twin ended with %v", err)
		}
	case err := <-firstDone:
		t.Errorf("the first twin ended with %v", err)
	case <-time.After(patience):
		t.Error("it was not noticed")
	}
}

func TestSameNameInAnotherRole(t *testing.T) {
	a, _ := open(t, Config{Name: "host", Meta: Meta{Role: Controld}})
	b, _ := open(t, Config{Name: "host", Join: []string{a.Addr()}})
	full(t, []*List{a, b})
}

// TestStrangersStayOut notices a stream with a machine that has a certificate and not the key, or neither.
func TestStrangersStayOut(t *testing.T) {
	cluster := pkitest.New(t)
	a, _ := open(t, as(cluster.Member(pki.Node, "a")))
	cfg := as(cluster.Member(pki.Node, "b"))
	cfg.Join = []string{a.Addr()}
	b, _ := open(t, cfg)
	full(t, []*List{a, b})
	keyless := cluster.Member(pki.Node, "c")
	if err := keyless.SetGossipKeys([][]byte{pki.NewGossipKey()}); err != nil {
		t.Fatal(err)
	}
	foreign := pkitest.New(t).Member(pki.Node, "c")
	if err := foreign.SetGossipKeys(cluster.First().GossipKeys()); err != nil {
		t.Fatal(err)
	}
	for what, cfg := range map[string]Config{
		"in the clear":            {Name: "c", Meta: Meta{Role: Noded, Cluster: a.cfg.Meta.Cluster}},
		"without the key":         as(keyless),
		"with a foreign identity": as(foreign),
	} {
		c, _ := open(t, cfg)
		if _, err := c.list.Join([]string{a.Addr()}); err == nil {
			t.Errorf("%s: joined", what)
		}
		if got := names(a); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%s: a knows %v", what, got)
		}
	}
}

// TestACertificateAloneOpensNoStream notices a member that takes messages from a peer without a
// proof of the key, or with a wrong one. The peer may ignore the answer to its proof.
func TestACertificateAloneOpensNoStream(t *testing.T) {
	cluster := pkitest.New(t)
	a, _ := open(t, as(cluster.Member(pki.Node, "a")))
	b, _ := open(t, as(cluster.Member(pki.Node, "b")))
	id := (*b.wire.ring.Load())[0].id
	for what, shown := range map[string][]byte{
		"no key": {0}, "a wrong proof": slices.Concat([]byte{1}, id[:], make([]byte, 32)),
		"an unknown key": slices.Concat([]byte{1}, make([]byte, keyIDSize+32)), "too many": {255},
	} {
		c, err := b.wire.dial(memberlist.Address{Addr: a.Addr()}, patience, streamGossip, b.cfg.Credential.ClientAny())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(shown); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Errorf("%s: the stream is open: %d bytes, %v", what, n, err)
		}
		_ = c.NetConn().Close()
	}
}

func TestOpenErrors(t *testing.T) {
	a, _ := open(t, Config{Name: "a"})
	for _, c := range []struct {
		cfg  Config
		want error
	}{
		{Config{Name: "b", Addr: a.Addr(), Meta: Meta{Role: Noded}}, ErrPortInUse},
		{Config{Name: "b", Addr: "127.0.0.1:0", Meta: Meta{Role: Noded, HTTP: strings.Repeat("x", 500)}}, ErrMetaTooLong},
		{Config{Name: "b/c", Addr: "127.0.0.1:0", Meta: Meta{Role: Noded}}, nil},
		{Config{Name: "b", Addr: "127.0.0.1:0"}, nil},
		{Config{Name: "b", Addr: "nonsense", Meta: Meta{Role: Noded}}, nil},
	} {
		l, err := Open(c.cfg)
		if err == nil {
			l.Shutdown()
		}
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("open %+v: %v, want %v", c.cfg, err, c.want)
		}
	}
}
