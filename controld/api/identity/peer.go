// Package identity identifies the other end of a connection, and lets machines vouch for their
// users.
//
// The kernel identifies a local user by SO_PEERCRED on a unix socket. In rota dev it does so by the
// owner of the other end of a loopback TCP connection. A machine is known by its certificate
// (package pki), and may vouch for its users in headers; any other caller that tries is refused.
package identity

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// Peer is the process at the other end of a local connection.
type Peer struct {
	UID  uint32
	GID  uint32
	GIDs []uint32 // supplementary; nil when the kernel does not say (TCP)
	PID  int      // of the process that connected; 0 when the kernel does not say (TCP)
	TCP  bool     // known by the owner of its socket only: GID and GIDs are not set
}

// ErrNotLocal says that the connection comes from another machine, so that the kernel cannot
// identify it.
var ErrNotLocal = errors.New("the connection is not from this machine")

type connKey struct{}

// peerOnce finds a connection's peer when it is first asked for: most connections between machines
// never ask.
type peerOnce struct {
	conn net.Conn
	once sync.Once
	peer Peer
	err  error
}

// ConnContext is an http.Server's ConnContext: it lets PeerOf find the peer of a request's
// connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &peerOnce{conn: c})
}

// PeerOf returns the process at the other end of a request's connection. It is found once for each
// connection.
func PeerOf(ctx context.Context) (Peer, error) {
	p, ok := ctx.Value(connKey{}).(*peerOnce)
	if !ok {
		return Peer{}, errors.New("the server does not record its connections (ConnContext is not set)")
	}
	p.once.Do(func() { p.peer, p.err = peerOfConn(p.conn) })
	return p.peer, p.err
}

func peerOfConn(c net.Conn) (Peer, error) {
	switch c := c.(type) {
	case *net.UnixConn:
		return unixPeer(c)
	case *net.TCPConn:
		return tcpPeer(c)
	case interface{ NetConn() net.Conn }:
		return peerOfConn(c.NetConn())
	}
	return Peer{}, fmt.Errorf("connection of type %T: %w", c, ErrNotLocal)
}

func unixPeer(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("socket peer: %w", err)
	}
	var peer Peer
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if err != nil {
			failed = fmt.Errorf("SO_PEERCRED: %w", err)
			return
		}
		peer = Peer{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}
		if peer.GIDs, err = peerGroups(int(fd)); err != nil {
			failed = fmt.Errorf("SO_PEERGROUPS: %w", err)
		}
	})
	return peer, errors.Join(err, failed)
}

// soPeerGroups is SO_PEERGROUPS of asm-generic/socket.h (Linux 4.13).
const soPeerGroups = 59

// peerGroups returns the supplementary groups that the peer had when it connected.
func peerGroups(fd int) ([]uint32, error) {
	gids := make([]uint32, 64)
	for range 4 { // the list may be longer than guessed: the kernel then says how long
		size := uint32(4 * len(gids))
		_, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), syscall.SOL_SOCKET, soPeerGroups,
			uintptr(unsafe.Pointer(&gids[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			return slices.Clip(gids[:size/4]), nil
		case syscall.ERANGE:
			gids = make([]uint32, size/4)
		default:
			return nil, errno
		}
	}
	return nil, syscall.ERANGE
}

// tcpPeer finds the owner of the other end of a loopback connection, which is a socket of this
// machine too.
func tcpPeer(c *net.TCPConn) (Peer, error) {
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return Peer{}, fmt.Errorf("peer address: %w", err)
	}
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return Peer{}, fmt.Errorf("own address: %w", err)
	}
	return peerAt(remote, local)
}

// peerAt finds the owner of the socket at remote that is connected to local.
func peerAt(remote, local netip.AddrPort) (Peer, error) {
	if !remote.Addr().Unmap().IsLoopback() {
		return Peer{}, ErrNotLocal
	}
	uid, err := owner(remote, local)
	return Peer{UID: uid, TCP: true}, err
}

// owner finds the owner of the socket of this machine that has these ends. Where the kernel has no
// socket monitoring, or cannot find the socket by it, the table has it.
func owner(local, remote netip.AddrPort) (uint32, error) {
	if uid, err := diagOwner(local, remote); err == nil || errors.Is(err, errClosed) {
		return uid, err
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
				continue
			}
			return 0, fmt.Errorf("find the owner of %s: %w", local, err)
		}
		if uid, ok := socketOwner(string(b), local, remote); ok {
			return uid, nil
		}
	}
	return 0, fmt.Errorf("no owner of %s in /proc/net/tcp: %w", local, ErrNotLocal)
}

// socketOwner finds, in a table of /proc/net/tcp, the uid of the socket whose own end is local and
// whose other end is remote.
func socketOwner(table string, local, remote netip.AddrPort) (uint32, bool) {
	const established = "01"
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 || f[9] == "0" || f[3] != established || !sameAddr(f[1], local) || !sameAddr(f[2], remote) {
			continue
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		return uint32(uid), err == nil
	}
	return 0, false
}

// sameAddr compares an address of /proc/net/tcp, such as 0100007F:1F90, with ap. Each 4 bytes of it
// are in host order.
func sameAddr(text string, ap netip.AddrPort) bool {
	host, port, ok := strings.Cut(text, ":")
	if !ok {
		return false
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(n) != ap.Port() {
		return false
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for i := 0; i+4 <= len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(b)
	return ok && addr.Unmap() == ap.Addr().Unmap()
}
