package member

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// transport carries the gossip. Packets are sealed with a key of the cluster. Streams are mutual
// TLS with the certificates of members. For gossip each end also proves that it has a key.
// Controllers refuse an expelled machine because they know of it. Everyone else refuses it once the
// key has changed.
type transport struct {
	memberlist.NodeAwareTransport
	credential *pki.Credential
	log        *slog.Logger
	ring       atomic.Pointer[keyring]
	self       instance
	keysFor    func(pki.Member) ([][]byte, error) // of controllers; nil: this member hands out none

	packets chan *memberlist.Packet
	streams chan net.Conn
	room    chan struct{}   // has one element for each stream that is being opened
	ctx     context.Context // ends with the transport
	stop    context.CancelFunc
	running sync.WaitGroup
}

// instance is one run of a daemon.
type instance struct {
	ID      [16]byte
	Started int64 // wall clock, ms
}

// Kinds of streams; the first byte of a stream says its kind.
const (
	streamGossip   = 'g'
	streamInstance = 'i' // which run of a daemon answers here
	streamKeys     = 'k' // the keys of the gossip, from a controller
)

// Limits of streams.
const (
	openTimeout = 10 * time.Second // to make a stream, up to the first message
	openMax     = 64               // streams that are being opened by others at a time
	askTimeout  = 3 * time.Second  // for a question to another member; a daemon that stops waits for it
)

// newTransport wraps a transport that listens.
func newTransport(inner memberlist.NodeAwareTransport, cfg Config, log *slog.Logger) (*transport, error) {
	t := &transport{NodeAwareTransport: inner, credential: cfg.Credential, log: log, keysFor: cfg.KeysFor,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), room: make(chan struct{}, openMax)}
	t.ctx, t.stop = context.WithCancel(context.Background())
	rand.Read(t.self.ID[:]) // never fails
	t.self.Started = cfg.Meta.Started
	if err := t.setKeys(cfg.Credential.GossipKeys()); err != nil {
		return nil, err
	}
	t.running.Go(t.receive)
	t.running.Go(t.accept)
	return t, nil
}

// setKeys has packets and streams use other keys from now on.
func (t *transport) setKeys(keys [][]byte) error {
	ring, err := newKeyring(keys)
	if err == nil {
		t.ring.Store(&ring)
	}
	return err
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.NodeAwareTransport.WriteToAddress(t.ring.Load().seal(t.credential.Member.Cluster, b), a)
}

// WriteTo implements memberlist.Transport.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	return t.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// PacketCh implements memberlist.Transport.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements memberlist.Transport.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown implements memberlist.Transport. The listener waits until its last packet was taken, so
// it ends first.
func (t *transport) Shutdown() error {
	err := t.NodeAwareTransport.Shutdown()
	t.stop()
	t.running.Wait()
	return err
}

// receive opens packets and passes good ones on.
func (t *transport) receive() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case p := <-t.NodeAwareTransport.PacketCh():
			plain, err := t.ring.Load().open(t.credential.Member.Cluster, p.Buf)
			if err == nil {
				err = checkPacket(plain)
			}
			if err != nil {
				t.log.Debug("gossip packet dropped", "from", p.From, "error", err)
				continue
			}
			p.Buf = plain
			select {
			case t.packets <- p:
			case <-t.ctx.Done():
				return
			}
		}
	}
}

// accept opens the streams that others make. Those beyond openMax are closed.
func (t *transport) accept() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case c := <-t.NodeAwareTransport.StreamCh():
			select {
			case t.room <- struct{}{}:
				t.running.Go(func() { t.serve(c) })
			default:
				c.Close()
			}
		}
	}
}

// serve answers the other end of a stream, or passes it on to the library.
func (t *transport) serve(raw net.Conn) {
	stop := context.AfterFunc(t.ctx, func() { raw.Close() })
	defer stop()
	c, err := t.serveStream(raw)
	<-t.room
	if err != nil {
		t.log.Debug("gossip stream refused", "from", raw.RemoteAddr(), "error", err)
	}
	if c == nil {
		raw.Close()
		return
	}
	select {
	case t.streams <- c:
	case <-t.ctx.Done():
		c.Close()
	}
}

// serveStream returns a stream that is for the library, nil if it is not.
func (t *transport) serveStream(raw net.Conn) (net.Conn, error) {
	if err := raw.SetDeadline(time.Now().Add(openTimeout)); err != nil {
		return nil, err
	}
	c := tls.Server(raw, t.credential.Server(pki.Roles()...))
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil {
		return nil, err
	}
	state := c.ConnectionState()
	switch kind[0] {
	case streamGossip:
		if err := t.proveToClient(c, &state); err != nil {
			return nil, err
		}
		return &framed{Conn: c}, nil
	case streamInstance:
		return nil, writeJSON(c, t.self)
	case streamKeys:
		if t.keysFor == nil {
			return nil, errors.New("it asks for the gossip keys, which only controllers hand out")
		}
		m, err := t.credential.Verify(&state)
		if err != nil {
			return nil, err
		}
		keys, err := t.keysFor(m)
		if err != nil {
			return nil, err
		}
		return nil, writeJSON(c, keys)
	}
	return nil, fmt.Errorf("unknown kind of stream %d", kind[0])
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	c, err := t.dial(a, timeout, streamGossip, t.credential.ClientAny())
	if err != nil {
		return nil, err
	}
	if err := t.proveToServer(c); err != nil {
		raw := c.NetConn()
		raw.Close()
		return nil, err
	}
	return &framed{Conn: c}, nil
}

// DialTimeout implements memberlist.Transport.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// dial makes a stream of a kind.
func (t *transport) dial(a memberlist.Address, timeout time.Duration, kind byte, conf *tls.Config) (*tls.Conn, error) {
	raw, err := t.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, conf)
	if err = raw.SetDeadline(time.Now().Add(timeout)); err == nil {
		_, err = c.Write([]byte{kind})
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("gossip with %s: %w", a.Addr, pki.Explain(err))
	}
	return c, nil
}

// instanceAt returns which run of the daemon of a member answers at an address.
func (t *transport) instanceAt(addr string, m pki.Member) (in instance, err error) {
	c, err := t.dial(memberlist.Address{Addr: addr}, askTimeout, streamInstance, t.credential.ClientOf(m.Role, m.Name))
	if err != nil {
		return in, err
	}
	defer c.NetConn().Close()
	return in, json.NewDecoder(io.LimitReader(c, 1<<10)).Decode(&in)
}

// keysFrom asks the controller at an address for the keys of the gossip.
func (t *transport) keysFrom(addr string) (keys [][]byte, err error) {
	c, err := t.dial(memberlist.Address{Addr: addr}, askTimeout, streamKeys, t.credential.Client(pki.Controller))
	if err != nil {
		return nil, err
	}
	defer c.NetConn().Close()
	err = json.NewDecoder(io.LimitReader(c, 4<<10)).Decode(&keys)
	return keys, err
}

func writeJSON(c net.Conn, v any) error {
	if err := json.NewEncoder(c).Encode(v); err != nil {
		return err
	}
	return c.Close()
}

// proof shows that one end of a connection has a key, without telling it.
func (k sealKey) proof(s *tls.ConnectionState, end string) ([]byte, error) {
	bound, err := s.ExportKeyingMaterial("EXPORTER-rota-gossip", nil, sha256.Size)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, k.raw)
	mac.Write(bound)
	mac.Write([]byte(end))
	return mac.Sum(nil), nil
}

// proveToServer shows the other end that this one has a key, and has it prove the same. A key that this
// member has only begun to use may be unknown there, so it tells all of them.
func (t *transport) proveToServer(c *tls.Conn) error {
	s := c.ConnectionState()
	ring := *t.ring.Load()
	out := []byte{byte(len(ring))}
	for _, k := range ring {
		p, err := k.proof(&s, "client")
		if err != nil {
			return err
		}
		out = append(append(out, k.id[:]...), p...)
	}
	if _, err := c.Write(out); err != nil {
		return err
	}
	answer := make([]byte, keyIDSize+sha256.Size)
	if _, err := io.ReadFull(c, answer); err != nil {
		return fmt.Errorf("%s takes none of this member's gossip keys: %w", c.RemoteAddr(), pki.Explain(err))
	}
	return ring.verify(&s, "server", answer)
}

// proveToClient is the other end of proveToServer.
func (t *transport) proveToClient(c *tls.Conn, s *tls.ConnectionState) error {
	var n [1]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return err
	}
	if n[0] > 8 {
		return fmt.Errorf("it has %d gossip keys", n[0])
	}
	shown := make([]byte, int(n[0])*(keyIDSize+sha256.Size))
	if _, err := io.ReadFull(c, shown); err != nil {
		return err
	}
	ring := *t.ring.Load()
	for ; len(shown) > 0; shown = shown[keyIDSize+sha256.Size:] {
		one := shown[:keyIDSize+sha256.Size]
		if ring.verify(s, "client", one) != nil {
			continue
		}
		k, _ := ring.find(one[:keyIDSize])
		p, err := k.proof(s, "server")
		if err == nil {
			_, err = c.Write(append(k.id[:], p...))
		}
		return err
	}
	return errSealed
}

// verify checks a key's id and proof, as the other end shows them.
func (r keyring) verify(s *tls.ConnectionState, end string, shown []byte) error {
	k, ok := r.find(shown[:keyIDSize])
	if !ok {
		return errSealed
	}
	want, err := k.proof(s, end)
	if err == nil && !hmac.Equal(want, shown[keyIDSize:]) {
		err = errSealed
	}
	return err
}

// framed sends and receives whole messages: the library writes each at once. So a message is looked at
// before the library reads its first byte.
type framed struct {
	net.Conn
	rest []byte
}

// Write sends one message.
func (f *framed) Write(b []byte) (int, error) {
	if len(b) > frameMax {
		return 0, fmt.Errorf("a gossip message has %d bytes; at most %d can be sent", len(b), frameMax)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b)))
	if _, err := f.Conn.Write(append(out, b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Read reads of the message that has come, or waits for the next.
func (f *framed) Read(b []byte) (int, error) {
	if len(f.rest) == 0 {
		var head [4]byte
		if _, err := io.ReadFull(f.Conn, head[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > frameMax {
			return 0, fmt.Errorf("%w: %d bytes", errRefused, n)
		}
		message, err := io.ReadAll(io.LimitReader(f.Conn, int64(n))) // grows with the bytes that really come
		if err == nil && len(message) < int(n) {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = checkStream(message)
		}
		if err != nil {
			return 0, err
		}
		f.rest = message
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
