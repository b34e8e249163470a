package identity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// Constants of the kernel's socket monitoring (linux/sock_diag.h, linux/inet_diag.h).
const (
	netlinkSockDiag  = 4
	sockDiagByFamily = 20
	headerSize       = 16 // struct nlmsghdr
	requestSize      = 56 // struct inet_diag_req_v2
	uidOffset        = 64 // of idiag_uid in struct inet_diag_msg
	inodeOffset      = 68 // of idiag_inode
	diagTimeout      = 2  // seconds
)

// errNoSocket says that the kernel has no such connection.
var errNoSocket = errors.New("no such connection")

// errClosed says that no process has a socket any more. The kernel still sends the data, and shows
// owner 0, which is root. A process that closed its socket while its request waited would be
// mistaken for root.
var errClosed = errors.New("the connection has been closed at the other end")

// diagOwner asks the kernel for the owner of one connected socket, by its own address and its
// peer's. It costs microseconds, where reading /proc/net/tcp costs as much as the machine has room
// for sockets, which may be tens of milliseconds.
func diagOwner(local, remote netip.AddrPort) (uint32, error) {
	answer, err := askDiag(diagRequest(local, remote))
	if err != nil {
		return 0, fmt.Errorf("socket monitoring: %w", err)
	}
	return readDiag(answer)
}

// askDiag sends a question to the kernel's socket monitoring and returns the answer.
func askDiag(question []byte) ([]byte, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkSockDiag)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	timeout := &syscall.Timeval{Sec: diagTimeout}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, timeout); err != nil {
		return nil, err
	}
	kernel := &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}
	if err := syscall.Sendto(fd, question, 0, kernel); err != nil {
		return nil, err
	}
	answer := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, answer, 0)
	return answer[:max(n, 0)], err
}

// diagRequest asks for the one TCP socket with these ends.
func diagRequest(local, remote netip.AddrPort) []byte {
	b := make([]byte, headerSize+requestSize)
	host := binary.NativeEndian
	host.PutUint32(b[0:], uint32(len(b)))
	host.PutUint16(b[4:], sockDiagByFamily)
	host.PutUint16(b[6:], syscall.NLM_F_REQUEST)
	host.PutUint32(b[8:], 1)
	req := b[headerSize:]
	req[0], req[1] = syscall.AF_INET6, syscall.IPPROTO_TCP
	src, dst := local.Addr().Unmap(), remote.Addr().Unmap()
	if src.Is4() {
		req[0] = syscall.AF_INET
	}
	host.PutUint32(req[4:], ^uint32(0)) // in any state
	binary.BigEndian.PutUint16(req[8:], local.Port())
	binary.BigEndian.PutUint16(req[10:], remote.Port())
	copy(req[12:28], src.AsSlice())
	copy(req[28:44], dst.AsSlice())
	host.PutUint32(req[48:], ^uint32(0)) // no cookie
	host.PutUint32(req[52:], ^uint32(0))
	return b
}

// readDiag reads the owner from the kernel's answer.
func readDiag(b []byte) (uint32, error) {
	host := binary.NativeEndian
	if len(b) < headerSize+4 {
		return 0, errors.New("socket monitoring: the answer is too short")
	}
	switch typ := host.Uint16(b[4:]); {
	case typ == syscall.NLMSG_ERROR:
		errno := syscall.Errno(-int32(host.Uint32(b[headerSize:])))
		if errno == syscall.ENOENT {
			return 0, errNoSocket
		}
		return 0, fmt.Errorf("socket monitoring: %w", errno)
	case typ != sockDiagByFamily || len(b) < headerSize+inodeOffset+4:
		return 0, fmt.Errorf("socket monitoring: an answer of type %d and %d bytes", typ, len(b))
	case host.Uint32(b[headerSize+inodeOffset:]) == 0:
		return 0, errClosed
	}
	return host.Uint32(b[headerSize+uidOffset:]), nil
}
