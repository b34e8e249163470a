package member

import (
	"bytes"
	"compress/lzw"
	"encoding/json"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
)

// attacker has the key of a cluster's gossip, and no certificate.
type attacker struct {
	t       *testing.T
	ring    keyring
	cluster string
	udp     net.PacketConn
}

func newAttacker(t *testing.T, stolen *pki.Credential) *attacker {
	t.Helper()
	ring, err := newKeyring(stolen.GossipKeys())
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	return &attacker{t, ring, stolen.Member.Cluster, udp}
}

// claim is an alive, suspect or dead message.
type claim struct {
	Incarnation uint32
	Node        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Vsn         []uint8
	From        string
}

var goodVersions = []uint8{1, 5, 2, 2, 5, 4}

// at returns the message with an address.
func (c claim) at(addr string) claim {
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		panic(err)
	}
	c.Addr, c.Port, c.Vsn = a.IP.To4(), uint16(a.Port), goodVersions
	return c
}

// meta is an identity without a signature.
func (a *attacker) meta(m Meta) []byte {
	m.Cluster = a.cluster
	b, err := json.Marshal(m)
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

func pack(t *testing.T, kind byte, v any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	if err := codec.NewEncoder(b, &codec.MsgpackHandle{}).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// send sends one message to each member.
func (a *attacker) send(to []*List, message []byte) {
	a.t.Helper()
	for _, l := range to {
		addr, err := net.ResolveUDPAddr("udp", l.Addr())
		if err != nil {
			a.t.Fatal(err)
		}
		if _, err := a.udp.WriteTo(a.ring.seal(a.cluster, message), addr); err != nil {
			a.t.Fatal(err)
		}
	}
}

// company is a cluster of gossips.
type company struct {
	t       *testing.T
	cluster *pkitest.Cluster
	lists   []*List
	ended   []<-chan error
}

func (c *company) add(r pki.Role, name string) *List {
	c.t.Helper()
	cfg := as(c.cluster.Member(r, name))
	if len(c.lists) > 0 {
		cfg.Join = []string{c.lists[0].Addr()}
	}
	l, done := open(c.t, cfg)
	c.lists, c.ended = append(c.lists, l), append(c.ended, done)
	return l
}

// known returns the controllers that a member knows, and where.
func known(l *List) string {
	var b strings.Builder
	for _, p := range l.Controllers() {
		b.WriteString(p.Name + "@" + p.Addr + "/" + p.HTTP + "/" + p.Raft + " ")
	}
	return b.String()
}

// wants returns what a member has to know of the controllers.
func (c *company) wants(l *List) string {
	var b strings.Builder
	for _, p := range c.lists {
		if p.cfg.Meta.Role == Controld && p != l {
			b.WriteString(p.cfg.Name + "@" + p.Addr() + "/" + p.cfg.Meta.HTTP + "/" + p.cfg.Meta.Raft + " ")
		}
	}
	return b.String()
}

// settled waits until every member knows every controller.
func (c *company) settled() {
	c.t.Helper()
	eventually(c.t, "member knows every controller", func() bool {
		return !slices.ContainsFunc(c.lists, func(l *List) bool { return known(l) != c.wants(l) })
	})
}

// unharmed checks that no daemon has stopped, and that each knows the controllers by what they said.
func (c *company) unharmed(what string) {
	c.t.Helper()
	for i, l := range c.lists {
		select {
		case err := <-c.ended[i]:
			c.t.Fatalf("%s: %s ended: %v", what, l.gossipName(), err)
		default:
		}
		if got, want := known(l), c.wants(l); got != want {
			c.t.Errorf("%s: %s knows %s, not %s", what, l.gossipName(), got, want)
		}
	}
}

// TestTheKeyAloneHarmsNobody notices a daemon that stops, or believes an address, because of a machine
// that has the key of the gossip and no certificate.
func TestTheKeyAloneHarmsNobody(t *testing.T) {
	c := &company{t: t, cluster: pkitest.New(t)}
	c1 := c.add(pki.Controller, "c1")
	c.add(pki.Controller, "c2")
	n1 := c.add(pki.Node, "n1")
	c.add(pki.Node, "n2")
	c.settled()
	full(t, c.lists)
	a := newAttacker(t, n1.cfg.Credential)
	own := a.udp.LocalAddr().String()
	for what, message := range map[string][]byte{
		"an address of controller c1": pack(t, msgAlive, claim{Incarnation: 1000, Node: "controld/c1",
			Meta: a.meta(Meta{Role: Controld, HTTP: own, Raft: own, Started: math.MaxInt64})}.at(own)),
		"an older start of controller c1": pack(t, msgAlive, claim{Incarnation: 1000, Node: "controld/c1",
			Meta: a.meta(Meta{Role: Controld, HTTP: own, Raft: own, Started: 1})}.at(own)),
		"an older start of node n1": pack(t, msgAlive, claim{Incarnation: 1000, Node: "noded/n1",
			Meta: a.meta(Meta{Role: Noded, HTTP: own, Started: 1})}.at(own)),
		"the address of another as that of n1": pack(t, msgAlive, claim{Incarnation: 2000, Node: "noded/n1",
			Meta: a.meta(Meta{Role: Noded, HTTP: own, Started: 1})}.at(c1.Addr())),
		"another controller": pack(t, msgAlive, claim{Incarnation: 1, Node: "controld/evil",
			Meta: a.meta(Meta{Role: Controld, HTTP: own, Raft: own})}.at(own)),
		"a node with a name of the Internet": pack(t, msgAlive, claim{Incarnation: 1, Node: "noded/pypi.org",
			Meta: a.meta(Meta{Role: Noded, HTTP: own})}.at(own)),
		"the death of c1":      pack(t, msgDead, claim{Incarnation: math.MaxUint32, Node: "controld/c1", From: "noded/n2"}),
		"the death of n1":      pack(t, msgDead, claim{Incarnation: math.MaxUint32, Node: "noded/n1", From: "noded/n2"}),
		"a suspicion about c2": pack(t, msgSuspect, claim{Incarnation: math.MaxUint32 - 1, Node: "controld/c2", From: "x"}),
		"few versions": pack(t, msgAlive, claim{Incarnation: 1, Node: "noded/x", Addr: []byte{127, 0, 0, 1},
			Vsn: []uint8{1}}),
		"a bomb":              bomb(t),
		"a message of a user": pack(t, msgUser, map[string]int{"UserMsgLen": math.MaxInt64}),
		"too many parts":      {msgCompound, 255, 0, 1},
	} {
		for range 3 {
			a.send(c.lists, message)
		}
		c.unharmed(what)
	}
	alive := func(name string) []byte {
		return pack(t, msgAlive, claim{Incarnation: 1, Node: "noded/" + name, Meta: a.meta(Meta{Role: Noded})}.at(own))
	}
	a.send(c.lists, compressed(t, alive("zipped")))
	a.send(c.lists, alive("plain"))
	eventually(t, "member that has read the second message", func() bool { return slices.Contains(names(c1), "plain") })
	if slices.Contains(names(c1), "zipped") {
		t.Error("a compressed message was read")
	}
	c3 := c.add(pki.Controller, "c3") // members still reach each other
	c.settled()
	if err := c3.Shutdown(); err != nil {
		t.Fatal(err)
	}
	c.unharmed("at the end")
}

// TestRefutation notices a member that the others lose for longer than it takes to hear that it lives.
func TestRefutation(t *testing.T) {
	lists := five(t, nil)
	a := newAttacker(t, lists[0].cfg.Credential)
	for i := range 5 {
		a.send(lists, pack(t, msgDead, claim{Incarnation: uint32(100 * (i + 1)), Node: "noded/m3", From: "noded/m1"}))
		full(t, lists)
	}
}

// TestOldRecords notices a controller's address of before its restart that is believed again because
// someone has kept the signed record.
func TestOldRecords(t *testing.T) {
	c := &company{t: t, cluster: pkitest.New(t)}
	c.add(pki.Controller, "c1")
	old := c.add(pki.Controller, "c2")
	c.add(pki.Node, "n1")
	c.settled()
	kept, at := slices.Clone(*old.meta.Load()), old.Addr()
	if err := old.Shutdown(); err != nil {
		t.Fatal(err)
	}
	c.lists, c.ended = slices.Delete(c.lists, 1, 2), slices.Delete(c.ended, 1, 2)
	c.add(pki.Controller, "c2")
	c.settled()
	a := newAttacker(t, old.cfg.Credential)
	for n := range uint32(20) {
		a.send(c.lists, pack(t, msgAlive, claim{Incarnation: 1000 + n, Node: "controld/c2", Meta: kept}.at(at)))
		// the signature is for another address
		a.send(c.lists, pack(t, msgAlive, claim{Incarnation: 1000 + n, Node: "controld/c2",
			Meta: *c.lists[len(c.lists)-1].meta.Load()}.at(at)))
		for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end) && !t.Failed(); runtime.Gosched() {
			c.unharmed("after old records")
		}
	}
	c.add(pki.Node, "n2")
	c.settled()
}

// TestKeysChange notices members that lose each other while the key changes. It also notices a
// returning member that does not get the new key, and one that gets it without the right to.
func TestKeysChange(t *testing.T) {
	c := &company{t: t, cluster: pkitest.New(t)}
	first := c.cluster.Member(pki.Controller, "c1")
	before, after := first.GossipKeys()[0], pki.NewGossipKey()
	cfg := as(first)
	cfg.KeysFor = func(m pki.Member) ([][]byte, error) {
		if m.Name == "expelled" {
			return nil, pki.ErrRevoked
		}
		return first.GossipKeys(), nil
	}
	c1, done := open(t, cfg)
	c.lists, c.ended = append(c.lists, c1), append(c.ended, done)
	n1 := c.add(pki.Node, "n1")
	late, expelled := c.cluster.Member(pki.Node, "late"), c.cluster.Member(pki.Node, "expelled")
	full(t, c.lists)
	has := func(l *List, keys ...[]byte) func() bool {
		return func() bool { return slices.EqualFunc(l.cfg.Credential.GossipKeys(), keys, bytes.Equal) }
	}
	for _, keys := range [][][]byte{{before, after}, {after, before}, {after}} {
		if err := c1.SetKeys(keys); err != nil {
			t.Fatal(err)
		}
		eventually(t, "member that has the keys", has(n1, keys...))
		if len(c1.Peers()) != 1 || len(n1.Peers()) != 1 {
			t.Fatalf("with %d keys the members lost each other", len(keys))
		}
	}
	for _, one := range []*pki.Credential{late, expelled} {
		cfg := as(one)
		cfg.Join = []string{c1.Addr()}
		l, _ := open(t, cfg)
		if one == late {
			eventually(t, "member that was late", func() bool { return has(l, after)() && len(l.Peers()) == 2 })
			continue
		}
		time.Sleep(2 * keysEveryFast) // it has asked
		if !has(l, before)() || len(l.Peers()) > 0 {
			t.Error("an expelled member has the new key, or has joined")
		}
		if _, err := l.list.Join([]string{n1.Addr()}); err == nil {
			t.Error("an expelled member has joined at a node")
		}
	}
}

// bomb is a compressed message that becomes large.
func bomb(t *testing.T) []byte { return compressed(t, make([]byte, 8<<20)) }

// compressed is a message as the library compresses it.
func compressed(t *testing.T, message []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	if _, err := w.Write(message); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return pack(t, msgCompressed, struct {
		Algo uint8
		Buf  []byte
	}{0, b.Bytes()})
}

// TestMessagesThatTheLibraryDoesNotBound notices a message that memberlist gets and does not check itself.
func TestMessagesThatTheLibraryDoesNotBound(t *testing.T) {
	good := claim{Incarnation: 1, Node: "noded/x", Meta: []byte("{}")}.at("127.0.0.1:1")
	edit := func(f func(*claim)) []byte {
		c := good
		f(&c)
		return pack(t, msgAlive, c)
	}
	compound := func(parts ...[]byte) []byte {
		b := []byte{msgCompound, byte(len(parts))}
		for _, p := range parts {
			b = append(b, byte(len(p)>>8), byte(len(p)))
		}
		return append(b, bytes.Join(parts, nil)...)
	}
	checksum := func(b []byte) []byte { return append([]byte{msgChecksum, 0, 0, 0, 0}, b...) }
	alive, short := edit(func(*claim) {}), edit(func(c *claim) { c.Vsn = c.Vsn[:5] })
	for what, c := range map[string]struct {
		packet []byte
		ok     bool
	}{
		"alive": {alive, true}, "in a compound": {compound(alive, alive), true},
		"with a checksum": {checksum(compound(alive)), true},
		"few versions":    {short, false}, "few in a compound": {compound(alive, short), false},
		"few with a checksum":        {checksum(short), false},
		"no name":                    {edit(func(c *claim) { c.Node = "" }), false},
		"a long name":                {edit(func(c *claim) { c.Node = strings.Repeat("x", nameMax+1) }), false},
		"a long identity":            {edit(func(c *claim) { c.Meta = make([]byte, 513) }), false},
		"a short address":            {edit(func(c *claim) { c.Addr = c.Addr[:3] }), false},
		"a compound in a compound":   {compound(compound(alive)), false},
		"a checksum in a compound":   {compound(checksum(alive)), false},
		"a checksum in a checksum":   {checksum(checksum(alive)), false},
		"a compound cut off":         {[]byte{msgCompound, 9, 0, 1}, false},
		"compressed":                 {bomb(t), false},
		"compressed, in a compound":  {compound(pack(t, msgCompressed, good)), false},
		"encrypted":                  {[]byte{msgEncrypted, 0}, false},
		"of a user":                  {[]byte{msgUser, 0}, false},
		"states":                     {[]byte{msgPushPull, 0}, false},
		"empty":                      {nil, false},
		"an empty one in a compound": {compound(nil), false},
		"half":                       {alive[:len(alive)/2], false},
	} {
		if err := checkPacket(c.packet); (err == nil) != c.ok {
			t.Errorf("packet, %s: %v", what, err)
		}
	}
	type header struct {
		Nodes, UserStateLen int
		Join                bool
	}
	type node struct {
		Name string
		Addr []byte
		Meta []byte
		Vsn  []uint8
	}
	states := func(h header, nodes ...node) []byte {
		b := pack(t, msgPushPull, h)
		for _, n := range nodes {
			b = append(b, pack(t, 0, n)[1:]...)
		}
		return b
	}
	x := node{Name: "noded/x", Addr: good.Addr, Vsn: goodVersions}
	y := x
	y.Vsn = nil
	for what, c := range map[string]struct {
		message []byte
		ok      bool
	}{
		"states": {states(header{Nodes: 2}, x, x), true}, "ping": {pack(t, msgPing, good), true},
		"fewer than said":  {states(header{Nodes: 2}, x), false},
		"no versions":      {states(header{Nodes: 2}, x, y), false},
		"too many":         {states(header{Nodes: nodesMax + 1}), false},
		"a negative count": {states(header{Nodes: -1}), false},
		"other bytes":      {states(header{UserStateLen: 1}), false},
		"compressed":       {bomb(t), false}, "of a user": {[]byte{msgUser}, false}, "empty": {nil, false},
	} {
		if err := checkStream(c.message); (err == nil) != c.ok {
			t.Errorf("stream, %s: %v", what, err)
		}
	}
}
