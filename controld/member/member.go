// Package member finds the controllers of a cluster by gossip. It is the only importer of
// memberlist. Gossip carries identity, at most 512 bytes a machine. Inventory and liveness travel
// in the daemons' own reports. A machine with the key of the gossip can say anything there, so that
// only signed records of controllers are used.
package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// Errors that callers tell apart with errors.Is.
var (
	ErrPortInUse   = errors.New("address is already in use")
	ErrMetaTooLong = errors.New("identity does not fit")
	ErrNameTaken   = errors.New("another machine of the cluster has this name and role")
)

// Role is the role of a member.
type Role string

// Roles.
const (
	Controld Role = "controld"
	Noded    Role = "noded"
)

// Meta is a member's record of itself.
type Meta struct {
	Role    Role   `json:"r"`
	HTTP    string `json:"h,omitempty"` // host:port of its HTTP listener
	Raft    string `json:"f,omitempty"` // host:port of its Raft listener, for controllers
	Version string `json:"v,omitempty"`
	Cluster string `json:"c,omitempty"` // id of its cluster
	Started int64  `json:"s,omitempty"` // wall clock, ms; Open sets it
}

// Peer is another member as gossip knows it.
type Peer struct {
	Name string
	Addr string // host:port of its gossip
	Meta
}

// Config says how to take part.
type Config struct {
	Name string
	Addr string   // host:port to listen on and to advertise; port 0 lets the system choose
	Join []string // host:port of anyone in the cluster; may be empty, unreachable, or name this member itself
	Meta Meta
	// Credential makes streams, signs and verifies, and has the keys of the gossip. Without it all is sent in
	// the clear and believed, in tests.
	Credential *pki.Credential
	// KeysFor returns the gossip keys for a member that asks a controller for them. If KeysFor is
	// nil, this member hands out no keys and asks the controllers for its own.
	KeysFor func(pki.Member) ([][]byte, error)

	Logger *slog.Logger  // nil discards
	Rejoin time.Duration // between attempts to reach every known address again; 0: 30 s

	// Fast probes often, for tests and for clusters on one machine.
	Fast bool

	wrap func(*memberlist.NetTransport) memberlist.NodeAwareTransport // cuts links, in tests
}

// rejoinDefault is well below the time an operator would wait, and rare enough to cost nothing.
const rejoinDefault = 30 * time.Second

// forgetAfter is how long an address that answers nothing is tried again.
const forgetAfter = 24 * time.Hour

// addressesMax bounds the addresses remembered, and triesMax those tried at a time.
const (
	addressesMax = 256
	triesMax     = 32
)

// ValidName reports whether s can name a machine. A name may stand in a path, a metric and a
// cgroup.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return false
		}
	}
	return true
}

// List is one member's view of the cluster. Its methods may be called from any goroutine.
type List struct {
	cfg  Config
	log  *slog.Logger
	list *memberlist.Memberlist
	wire *transport // nil without a credential
	meta atomic.Pointer[[]byte]
	addr string // this member's, as others dial it

	alone struct { // the last warning that no other machine can be reached; of the goroutine of Run
		text string
		said time.Time
	}

	changed chan struct{} // has one element after a change
	twins   chan string   // address of another member that may have this one's name

	mu sync.Mutex
	// by the library's name for them, without this member; its own records are not safe to read
	alive       map[string]Peer
	seen        map[string]time.Time  // gossip addresses of members that were alive once, and when last
	controllers map[string]controller // by name, without this one
}

// Open starts to gossip. A cluster that cannot be reached yet is no error: [List.Run] goes on
// trying. Errors wrap ErrPortInUse or ErrMetaTooLong where one of them is the reason.
func Open(cfg Config) (*List, error) {
	cfg.Meta.Started = clock.Wall().UnixMilli()
	l := &List{
		cfg: cfg, log: cfg.Logger, changed: make(chan struct{}, 1), twins: make(chan string, 1),
		alive: map[string]Peer{}, seen: map[string]time.Time{}, controllers: map[string]controller{},
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.cfg.Rejoin == 0 {
		l.cfg.Rejoin = rejoinDefault
	}
	settings, err := l.settings()
	if err != nil {
		return nil, err
	}
	l.list, err = memberlist.Create(settings)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gossip: %w", err), settings.Transport.Shutdown())
	}
	l.addr = l.list.LocalNode().Address()
	return l, nil
}

// settings translates the configuration and opens the listeners.
func (l *List) settings() (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	if l.cfg.Fast {
		c.ProbeInterval, c.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
		c.GossipInterval, c.PushPullInterval = 50*time.Millisecond, 2*time.Second
		c.SuspicionMult, c.TCPTimeout = 3, 3*time.Second
		c.GossipToTheDeadTime = 2 * time.Second
	}
	c.Name = l.gossipName()
	c.EnableCompression = false // compressed messages of others are refused
	c.Logger = newBridge(l.log)
	c.Delegate, c.Events, c.Conflict, c.Merge, c.Alive = l, l, l, l, l
	c.DeadNodeReclaimTime = time.Second // a machine that comes back with another address takes its name over
	host, port, err := splitAddr(l.cfg.Addr)
	if err != nil {
		return nil, err
	}
	transport, err := listen(host, port, c)
	if err != nil {
		return nil, err
	}
	c.BindAddr, c.BindPort = host, transport.GetAutoBindPort()
	if err := l.secure(c, transport); err != nil {
		return nil, errors.Join(err, transport.Shutdown())
	}
	return c, nil
}

// secure fixes the address of this member, signs its identity, and has the credential protect its
// packets.
func (l *List) secure(c *memberlist.Config, listening *memberlist.NetTransport) error {
	ip, port, err := listening.FinalAdvertiseAddr("", c.BindPort)
	if err != nil {
		return fmt.Errorf("gossip: %w", err)
	}
	c.AdvertiseAddr, c.AdvertisePort = ip.String(), port
	meta, err := l.encodeMeta(net.JoinHostPort(c.AdvertiseAddr, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	l.meta.Store(&meta)
	var inner memberlist.NodeAwareTransport = listening
	if l.cfg.wrap != nil {
		inner = l.cfg.wrap(listening)
	}
	c.Transport = inner
	if l.cfg.Credential != nil {
		l.wire, err = newTransport(inner, l.cfg, l.log)
		c.Transport = l.wire
	}
	return err
}

// splitAddr cuts host:port and resolves the host.
func splitAddr(addr string) (string, int, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return "", 0, fmt.Errorf("gossip address %q: %w", addr, err)
	}
	if a.IP == nil {
		return "0.0.0.0", a.Port, nil
	}
	return a.IP.String(), a.Port, nil
}

// listen opens TCP and UDP on one port. A port that the system chose for one may be taken for the
// other, so it tries again.
func listen(host string, port int, c *memberlist.Config) (*memberlist.NetTransport, error) {
	var err error
	for range 10 {
		var t *memberlist.NetTransport
		t, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{host}, BindPort: port, Logger: c.Logger,
		})
		if err == nil {
			return t, nil
		}
		if port != 0 {
			break
		}
	}
	return nil, listenError(net.JoinHostPort(host, strconv.Itoa(port)), err)
}

// listenError explains err. The library hides the cause, so the cause is provoked again.
func listenError(addr string, err error) error {
	tcp, cause := net.Listen("tcp", addr)
	if cause == nil {
		tcp.Close()
		var udp net.PacketConn
		if udp, cause = net.ListenPacket("udp", addr); cause == nil {
			_ = udp.Close()
		}
	}
	if errors.Is(cause, syscall.EADDRINUSE) {
		return fmt.Errorf("gossip cannot listen on %s: %w (another daemon may be running; stop it or choose another "+
			"--gossip)", addr, ErrPortInUse)
	}
	if cause != nil {
		err = cause
	}
	return fmt.Errorf("gossip cannot listen on %s: %w", addr, err)
}

// Addr returns the address that others reach this member at.
func (l *List) Addr() string { return l.addr }

// gossipName is the name under which the library knows this member: a machine may be a member in
// both roles.
func (l *List) gossipName() string { return string(l.cfg.Meta.Role) + "/" + l.cfg.Name }

// Peers returns the other members that gossip takes for alive, by role and name. Only
// [List.Controllers] is to be believed.
func (l *List) Peers() []Peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	peers := slices.Collect(maps.Values(l.alive))
	slices.SortFunc(peers, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
	})
	return peers
}

// Changed delivers after members have come, gone or changed; several changes may share a delivery.
func (l *List) Changed() <-chan struct{} { return l.changed }

// Run joins the cluster. It joins every known address and seed again from time to time, because
// gossip does not heal a long partition by itself. It returns when ctx ends, or with ErrNameTaken
// when another machine shows a certificate for this name, and started earlier.
func (l *List) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	if l.wire != nil && l.cfg.KeysFor == nil {
		others.Go(func() { l.followKeys(ctx) })
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	joined := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case addr := <-l.twins:
			if err := l.checkTwin(addr); err != nil {
				return err
			}
		case <-wait.C:
			joined = l.rejoin(joined)
			wait.Reset(l.nextTry(joined))
		}
	}
}

// checkTwin asks whether another run of this daemon answers at an address, and returns an error if
// this run must give way. The newcomer gives way, so that a wrong name cannot stop a machine at
// work.
func (l *List) checkTwin(addr string) error {
	if l.wire == nil {
		return nil
	}
	other, err := l.wire.instanceAt(addr, l.cfg.Credential.Member)
	own := l.wire.self
	switch {
	case err != nil:
		l.log.Warn("gossip reports another machine with the name of this one, but that machine does not answer", "addr", addr,
			"error", err)
		return nil
	case other.ID == own.ID:
		return nil
	}
	l.log.Error("two machines have the same name and role; rename one", "member", l.gossipName(), "other", addr)
	if cmp.Or(cmp.Compare(other.Started, own.Started), slices.Compare(other.ID[:], own.ID[:])) > 0 {
		return nil
	}
	return fmt.Errorf("gossip as %s %s at %s: %w at %s (give this machine another --name)", l.cfg.Meta.Role, l.cfg.Name,
		l.Addr(), ErrNameTaken, addr)
}

// firstTries is how soon a member that knows no other tries again.
const firstTries = time.Second

// nextTry is how long to wait.
func (l *List) nextTry(joined bool) time.Duration {
	if !joined {
		return min(firstTries, l.cfg.Rejoin)
	}
	return l.cfg.Rejoin
}

// rejoin tries every address that is not known to be alive. It reports whether this member now
// knows another member, or has no address to try.
func (l *List) rejoin(joined bool) bool {
	targets := l.targets(time.Now())
	if len(targets) > 0 {
		if n, err := l.list.Join(targets); err != nil && n == 0 && len(l.Peers()) == 0 {
			l.warnAlone(targets, err)
		}
	}
	known := len(l.Peers()) > 0
	if known && !joined {
		l.log.Info("joined the cluster", "peers", len(l.Peers()))
	}
	return known || len(targets) == 0
}

// againEvery is how often the same warning is repeated.
const againEvery = time.Minute

// warnAlone says why no other machine can be reached, when that changes and once a minute.
func (l *List) warnAlone(targets []string, err error) {
	if text := err.Error(); text != l.alone.text || time.Since(l.alone.said) >= againEvery {
		l.alone.text, l.alone.said = text, time.Now()
		l.log.Warn("no machine of the cluster can be reached yet; trying again", "join", targets, "error", err)
	}
}

// targets returns seeds and remembered addresses, less this member and those alive.
func (l *List) targets(now time.Time) []string {
	skip := map[string]bool{l.Addr(): true, l.cfg.Addr: true}
	for _, p := range l.Peers() {
		skip[p.Addr] = true
	}
	var targets []string
	for _, addr := range slices.Concat(l.controllerAddrs(), l.cfg.Join, l.remembered(now)) {
		if !skip[addr] && len(targets) < triesMax {
			skip[addr] = true
			targets = append(targets, addr)
		}
	}
	return targets
}

// remembered returns the addresses of members seen not too long ago, and forgets the others.
func (l *List) remembered(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var addrs []string
	for addr, last := range l.seen {
		if now.Sub(last) > forgetAfter {
			delete(l.seen, addr)
			continue
		}
		addrs = append(addrs, addr)
	}
	rand.Shuffle(len(addrs), func(i, k int) { addrs[i], addrs[k] = addrs[k], addrs[i] }) // not all may be tried
	return addrs
}

// controllerAddrs returns the gossip addresses of controllers.
func (l *List) controllerAddrs() []string {
	var addrs []string
	for _, p := range l.Controllers() {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}

// tell has Changed deliver.
func (l *List) tell() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Leave tells the others that this member goes, and waits up to timeout until someone has heard it.
func (l *List) Leave(timeout time.Duration) error {
	if err := l.list.Leave(timeout); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

// Shutdown stops gossiping. Without Leave before it the others take this member for dead.
func (l *List) Shutdown() error { return l.list.Shutdown() }
