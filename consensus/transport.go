package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/rota-hpc/rota/consensus/logcache"
	"github.com/rota-hpc/rota/consensus/mark"
)

// Limits of the connections between members.
const (
	connsPerPeer = 3
	rpcTimeout   = 10 * time.Second // even a large group on a slow link fits
)

// serialTransport sends heartbeats in the same way as all other requests. The library's shortcut
// handles heartbeats on another goroutine than the owner of the log. Two goroutines at once can
// make logs diverge (hashicorp/raft#695).
//
// It dials members by name at their current address, while the library dials a fixed address.
//
// It reports a follower as unreachable only after that follower answers heartbeats again, see
// [confirmations.untilAnswered].
//
// Messages of members show how far they have come; known records that.
type serialTransport struct {
	*raft.NetworkTransport
	find      func(name string) (string, bool)
	followers *confirmations
	known     *witness
	requests  chan raft.RPC // requests of peers after take has handled them
	silent    func() bool   // this member is not allowed to vote or stand for election
	stopped   <-chan struct{}
}

// at returns the target for dialling a member by name: NAME/ADDR.
func (t serialTransport) at(id raft.ServerID, addr raft.ServerAddress) raft.ServerAddress {
	if t.find != nil {
		if now, ok := t.find(memberOf(id, addr).Name); ok {
			addr = raft.ServerAddress(now)
		}
	}
	return raft.ServerAddress(id) + "/" + addr
}

// AppendEntries implements raft.Transport.
func (t serialTransport) AppendEntries(id raft.ServerID, addr raft.ServerAddress, args *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse,
) error {
	logcache.Shorten(args)
	begun := time.Now()
	err := t.NetworkTransport.AppendEntries(id, t.at(id, addr), args, resp)
	switch {
	case err != nil && !isHeartbeat(args):
		t.followers.untilAnswered(string(id), begun, t.stopped)
	case err == nil && resp.Success:
		t.known.noteAppend(id, args)
		t.followers.note(string(id), begun)
	}
	return err
}

// isHeartbeat reports whether a request is a heartbeat of the library: heartbeats name no entry.
func isHeartbeat(args *raft.AppendEntriesRequest) bool {
	return len(args.Entries) == 0 && args.PrevLogEntry == 0 && args.LeaderCommitIndex == 0
}

// AppendEntriesPipeline implements raft.Transport.
func (t serialTransport) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, t.at(id, addr))
	if err != nil {
		return nil, err
	}
	return newPipeline(p, func(a *raft.AppendEntriesRequest) { t.known.noteAppend(id, a) }), nil
}

// RequestVote implements raft.Transport.
func (t serialTransport) RequestVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestVoteRequest,
	resp *raft.RequestVoteResponse,
) error {
	if t.silent() {
		return nil // the answer is no
	}
	err := t.NetworkTransport.RequestVote(id, t.at(id, addr), args, resp)
	if err == nil && resp.Granted {
		t.known.note(id, mark.Mark{Term: args.Term, Vote: args.Term})
	}
	return err
}

// RequestPreVote implements raft.WithPreVote.
func (t serialTransport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, args *raft.RequestPreVoteRequest,
	resp *raft.RequestPreVoteResponse,
) error {
	if t.silent() {
		return nil // the answer is no
	}
	return t.NetworkTransport.RequestPreVote(id, t.at(id, addr), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (t serialTransport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress, args *raft.InstallSnapshotRequest,
	resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, t.at(id, addr), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t serialTransport) TimeoutNow(id raft.ServerID, addr raft.ServerAddress, args *raft.TimeoutNowRequest,
	resp *raft.TimeoutNowResponse,
) error {
	return t.NetworkTransport.TimeoutNow(id, t.at(id, addr), args, resp)
}

// SetHeartbeatHandler does nothing, so that the shortcut stays unused.
func (serialTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// Consumer implements raft.Transport.
func (t serialTransport) Consumer() <-chan raft.RPC { return t.requests }

// take handles requests of peers. It records what they reveal about the peer, and answers requests
// that the library must not see.
func (t serialTransport) take(rpc raft.RPC) (passed bool) {
	switch c := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		t.known.noteAppend(raft.ServerID(c.ID), c)
	case *raft.RequestVoteRequest: // the candidate's vote for itself may not be on its disk yet
		t.known.note(raft.ServerID(c.ID), mark.Mark{Term: c.Term, LastTerm: c.LastLogTerm, Last: c.LastLogIndex})
	}
	return !t.silent() || !refuseVotes(rpc)
}

// newTransport creates the transport over s.
func newTransport(s *stream, known *witness, find func(string) (string, bool), silent func() bool,
	stopped <-chan struct{}, log hclog.Logger,
) serialTransport {
	return serialTransport{raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s, MaxPool: connsPerPeer, Timeout: rpcTimeout, Logger: log, MsgpackUseNewTimeFormat: true,
	}), find, newConfirmations(), known, make(chan raft.RPC), silent, stopped}
}

// takeRequests passes requests of peers to take until the node stops.
func (n *Node) takeRequests() {
	for {
		select {
		case rpc := <-n.trans.NetworkTransport.Consumer():
			if !n.trans.take(rpc) || n.refuseLog(rpc) {
				continue
			}
			select {
			case n.trans.requests <- rpc:
			case <-n.stopped:
				rpc.Respond(nil, raft.ErrRaftShutdown)
				return
			}
		case <-n.stopped:
			return
		}
	}
}

// pipeline wraps the library's pipeline and records the requests that succeeded.
type pipeline struct {
	raft.AppendPipeline // the library's pipeline
	answers             chan raft.AppendFuture
	closed              chan struct{}
	close               func() error
}

func newPipeline(p raft.AppendPipeline, succeeded func(*raft.AppendEntriesRequest)) *pipeline {
	o := &pipeline{AppendPipeline: p, answers: make(chan raft.AppendFuture, cap(p.Consumer())),
		closed: make(chan struct{})}
	o.close = sync.OnceValue(func() error {
		close(o.closed)
		return p.Close()
	})
	go func() {
		for {
			select {
			case f := <-p.Consumer():
				if f.Response().Success {
					succeeded(f.Request())
				}
				select {
				case o.answers <- f:
				case <-o.closed:
					return
				}
			case <-o.closed:
				return
			}
		}
	}()
	return o
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) (raft.AppendFuture, error) {
	logcache.Shorten(args)
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error { return p.close() }

// stream is the listener and dialer of one node. It tracks open connections, because closing a
// listener keeps accepted ones alive, and a stopped node must not answer.
type stream struct {
	net.Listener
	addr  address
	dial  Dialer
	greet *greeter // set before the first connection

	mu     sync.Mutex
	conns  map[*conn]struct{} // nil after Close
	closed bool
}

// address is the address that peers dial. It may contain a host name.
type address string

// Network implements net.Addr.
func (a address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// listen creates the stream described by cfg.
func listen(cfg Config) (*stream, error) {
	ln := cfg.Listener
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", cfg.Addr); err != nil {
			return nil, listenError(cfg.Addr, err)
		}
	}
	addr, err := advertised(cfg.Addr, ln.Addr())
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &stream{Listener: ln, addr: addr, dial: cfg.Dial, conns: map[*conn]struct{}{}}, nil
}

// listenError explains why the node cannot listen on an address.
func listenError(at string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("raft cannot listen on %s: %w (another daemon may be running; stop it or choose another --raft)",
			at, ErrPortInUse)
	}
	return fmt.Errorf("raft cannot listen on %s: %w", at, err)
}

// advertised returns the address that peers dial: the configured one, or the listener's if the
// system chose the port.
func advertised(configured string, actual net.Addr) (address, error) {
	if configured == "" {
		return address(actual.String()), nil
	}
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return "", fmt.Errorf("raft address %q: %w", configured, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", fmt.Errorf("other members cannot dial the raft address %s: use an address of this machine",
			configured)
	}
	if port == "0" {
		_, port, _ = net.SplitHostPort(actual.String())
	}
	return address(net.JoinHostPort(host, port)), nil
}

// Addr returns the advertised address.
func (s *stream) Addr() net.Addr { return s.addr }

// Accept waits for a peer.
func (s *stream) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t, err := s.track(c)
	if err != nil {
		return nil, err
	}
	return &accepted{conn: t, greet: s.greet}, nil
}

// accepted is an incoming connection of a peer. Its first read waits for the peer's hello, because
// the library accepts connections one by one and must not wait.
type accepted struct {
	*conn
	greet   *greeter
	greeted bool
}

// Read implements io.Reader.
func (a *accepted) Read(b []byte) (int, error) {
	if !a.greeted {
		if err := a.greet.answer(a.conn.Conn); err != nil {
			return 0, io.EOF // the peer has got the reason, and the library closes the connection
		}
		a.greeted = true
	}
	return a.conn.Read(b)
}

// Dial connects to a peer; target is ID/ADDR. It fails if a log with another id answers.
func (s *stream) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	id, addr, ok := strings.Cut(string(target), "/")
	if !ok {
		return nil, fmt.Errorf("%s does not name a member", target)
	}
	begun := time.Now()
	c, err := s.dial(ctx, memberOf(raft.ServerID(id), raft.ServerAddress(addr)))
	if err != nil {
		return nil, err
	}
	t, err := s.track(c)
	if err != nil {
		return nil, err
	}
	if err := s.greet.call(t.Conn, raft.ServerID(id), timeout-time.Since(begun)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// track remembers c until it is closed.
func (s *stream) track(c net.Conn) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	t := &conn{Conn: c, stream: s}
	s.conns[t] = struct{}{}
	return t, nil
}

// Close closes the listener and every connection.
func (s *stream) Close() error {
	s.mu.Lock()
	conns := s.conns
	s.conns, s.closed = nil, true
	s.mu.Unlock()
	for c := range conns {
		c.Conn.Close()
	}
	return s.Listener.Close()
}

// conn is a connection that its stream tracks.
type conn struct {
	net.Conn
	stream *stream
}

// Close closes c and stops tracking it.
func (c *conn) Close() error {
	c.stream.mu.Lock()
	delete(c.stream.conns, c)
	c.stream.mu.Unlock()
	return c.Conn.Close()
}
