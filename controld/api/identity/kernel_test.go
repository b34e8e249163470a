package identity

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// message is an answer of the kernel's socket monitoring.
func message(typ uint16, body ...uint32) []byte {
	var b bytes.Buffer
	host := binary.NativeEndian
	header := make([]byte, headerSize)
	host.PutUint32(header, uint32(headerSize+4*len(body)))
	host.PutUint16(header[4:], typ)
	b.Write(header)
	for _, word := range body {
		b.Write(host.AppendUint32(nil, word))
	}
	return b.Bytes()
}

// TestWhatTheKernelSaysOfASocket reads answers of the kernel. Other answers are never mistaken for
// the owner of an open socket: a word of zeros would be root.
func TestWhatTheKernelSaysOfASocket(t *testing.T) {
	socket := func(uid, inode uint32) []uint32 { // struct inet_diag_msg: the owner and the inode end it
		return append(make([]uint32, 16), uid, inode)
	}
	failure := func(e syscall.Errno) []uint32 { return []uint32{uint32(-int32(e))} }
	for _, c := range []struct {
		name   string
		answer []byte
		uid    uint32
		err    error  // that it is
		says   string // a part of the error
	}{
		{"a user's socket", message(sockDiagByFamily, socket(1001, 77)...), 1001, nil, ""},
		{"root's socket", message(sockDiagByFamily, socket(0, 77)...), 0, nil, ""},
		{"with what newer kernels add", append(message(sockDiagByFamily, socket(1001, 77)...), 1, 2, 3), 1001, nil, ""},
		{"no process has it any more", message(sockDiagByFamily, socket(0, 0)...), 0, errClosed, ""},
		{"there is none", message(syscall.NLMSG_ERROR, failure(syscall.ENOENT)...), 0, errNoSocket, ""},
		{"it may not be asked", message(syscall.NLMSG_ERROR, failure(syscall.EPERM)...), 0, syscall.EPERM,
			"socket monitoring: operation not permitted"},
		{"nothing", nil, 0, nil, "too short"},
		{"a header alone", message(sockDiagByFamily), 0, nil, "too short"},
		{"half a word", message(syscall.NLMSG_ERROR, 0)[:headerSize+3], 0, nil, "too short"},
		{"cut off in the inode", message(sockDiagByFamily, socket(1001, 77)...)[:headerSize+71], 0, nil,
			fmt.Sprintf("type %d and %d bytes", sockDiagByFamily, headerSize+71)},
		{"of another type", message(syscall.NLMSG_DONE, socket(1001, 77)...), 0, nil, "an answer of type 3"},
	} {
		uid, err := readDiag(c.answer)
		switch {
		case uid != c.uid || (err == nil) != (c.err == nil && c.says == ""),
			c.err != nil && !errors.Is(err, c.err), !strings.Contains(fmt.Sprint(err), c.says) && err != nil:
			t.Errorf("%s: uid %d, %v", c.name, uid, err)
		}
	}
}

// TestWhatTheKernelIsAsked compares a question with linux/inet_diag.h: one socket, by both of its
// ends, in any state.
func TestWhatTheKernelIsAsked(t *testing.T) {
	for _, c := range []struct {
		local, remote    string
		family           byte
		source, receiver []byte // addresses
	}{
		{"127.0.0.1:258", "127.0.0.2:8080", syscall.AF_INET, []byte{127, 0, 0, 1}, []byte{127, 0, 0, 2}},
		{"[::ffff:127.0.0.1]:258", "[::ffff:127.0.0.2]:8080", syscall.AF_INET, []byte{127, 0, 0, 1}, []byte{127, 0, 0, 2}},
		{"[::1]:258", "[::1]:8080", syscall.AF_INET6, append(make([]byte, 15), 1), append(make([]byte, 15), 1)},
	} {
		got := diagRequest(netip.MustParseAddrPort(c.local), netip.MustParseAddrPort(c.remote))
		host := binary.NativeEndian
		var want []byte
		want = host.AppendUint32(want, 72)                       // nlmsg_len
		want = host.AppendUint16(want, 20)                       // nlmsg_type: SOCK_DIAG_BY_FAMILY
		want = host.AppendUint16(want, 1)                        // nlmsg_flags: NLM_F_REQUEST
		want = host.AppendUint32(want, 1)                        // nlmsg_seq
		want = host.AppendUint32(want, 0)                        // nlmsg_pid
		want = append(want, c.family, syscall.IPPROTO_TCP, 0, 0) // sdiag_family, sdiag_protocol, idiag_ext, pad
		want = host.AppendUint32(want, 0xffffffff)               // idiag_states
		want = append(want, 1, 2, 0x1f, 0x90)                    // idiag_sport, idiag_dport
		want = append(want, append(c.source, make([]byte, 16-len(c.source))...)...)
		want = append(want, append(c.receiver, make([]byte, 16-len(c.receiver))...)...)
		want = host.AppendUint32(want, 0)          // idiag_if
		want = host.AppendUint32(want, 0xffffffff) // idiag_cookie
		want = host.AppendUint32(want, 0xffffffff)
		if !bytes.Equal(got, want) {
			t.Errorf("%s to %s:\n%x, want\n%x", c.local, c.remote, got, want)
		}
	}
}

// TestAskingTheKernelLeavesNothingOpen counts descriptors: a daemon asks for each connection.
func TestAskingTheKernelLeavesNothingOpen(t *testing.T) {
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before, end := open(), netip.MustParseAddrPort("127.0.0.1:1")
	for range 50 {
		if _, err := diagOwner(end, end); err == nil {
			t.Fatal("a socket that there is not has an owner")
		}
	}
	if after := open(); after > before+10 {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}

// TestAnotherMachineIsNobodyHere: an address that is not this machine's is never looked up, and so
// never root's.
func TestAnotherMachineIsNobodyHere(t *testing.T) {
	for remote, local := range map[string]string{"192.0.2.1:5000": "192.0.2.2:7070", "[2001:db8::1]:5000": "[::1]:7070",
		"[::ffff:192.0.2.1]:5000": "127.0.0.1:7070", "0.0.0.0:0": "127.0.0.1:7070"} {
		if p, err := peerAt(netip.MustParseAddrPort(remote), netip.MustParseAddrPort(local)); !errors.Is(err, ErrNotLocal) ||
			p.TCP || p.UID != 0 {
			t.Errorf("%s: %+v, %v", remote, p, err)
		}
	}
	// from this machine, but from no socket of it
	if p, err := peerAt(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")); err == nil {
		t.Errorf("no socket: %+v", p)
	}
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	if _, err := peerOfConn(pipe); !errors.Is(err, ErrNotLocal) || !strings.Contains(fmt.Sprint(err), "net.pipe") {
		t.Errorf("a connection of another kind: %v", err)
	}
	if p, err := peerOfConn(&net.UnixConn{}); err == nil {
		t.Errorf("a socket that was never opened: %+v", p)
	}
	if _, err := PeerOf(t.Context()); err == nil || !strings.Contains(err.Error(), "ConnContext") {
		t.Errorf("a server that does not keep its connections: %v", err)
	}
}

// TestTablesThatAreCutOff reads lines of /proc/net/tcp that are not whole or not as they should be.
func TestTablesThatAreCutOff(t *testing.T) {
	local, remote := netip.MustParseAddrPort("127.0.0.1:54321"), netip.MustParseAddrPort("127.0.0.1:8080")
	line := func(own, other, uid, inode string) string {
		return "2: " + own + " " + other + " 01 00000000:00000000 00:00000000 00000000 " + uid + " 0 " + inode
	}
	const own, other = "0100007F:D431", "0100007F:1F90"
	if uid, ok := socketOwner(line(own, other, "1001", "3"), local, remote); !ok || uid != 1001 { // no field more
		t.Fatalf("the shortest line: %d, %t", uid, ok)
	}
	good := line(own, other, "1001", "3")
	for _, bad := range []string{"", "2:", strings.TrimSuffix(good, " 3"), line(own, other, "root", "3"),
		line(own, other, "4294967296", "3"), line("0100007F", other, "1001", "3"), line("0100007FD431", other, "1001", "3"),
		line("0100007F:G", other, "1001", "3"), line("0100007F:1D431", other, "1001", "3"),
		line("0100007:D431", other, "1001", "3"), line("007F:D431", other, "1001", "3"),
		line("xx00007F:D431", other, "1001", "3"),
		line(":D431", other, "1001", "3"),
		line("0100007F0100007F:D431", other, "1001", "3"), line(own, own, "1001", "3"), line(other, other, "1001", "3")} {
		if uid, ok := socketOwner(bad, local, remote); ok || uid != 0 && !strings.Contains(bad, " 42949") {
			t.Errorf("%q: %d, %t", bad, uid, ok)
		}
		if uid, ok := socketOwner("sl\n"+bad+"\n"+good+"\n", local, remote); uid != 1001 && !strings.Contains(bad, "root") &&
			!strings.Contains(bad, " 42949") {
			t.Errorf("after %q: %d, %t", bad, uid, ok)
		}
	}
}

// envConnect has the test program connect to this socket and wait until it is closed.
const envConnect = "ROTA_TEST_CONNECT"

func TestMain(m *testing.M) {
	if path := os.Getenv(envConnect); path != "" {
		c, err := net.Dial("unix", path)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, c) // to its end
		return
	}
	os.Exit(m.Run())
}

// TestAUserOfManyGroups has a process connect that is in more groups than the first guess has room
// for, and then in none. A missing group denies a user an account; an extra one opens another's.
func TestAUserOfManyGroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root chooses the groups of a process")
	}
	for _, n := range []int{0, 1, 63, 64, 65, 300} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var groups []uint32
		for i := range n {
			groups = append(groups, uint32(70_000+i))
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envConnect+"="+path)
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Gid: 70_500, Groups: groups}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p, err := peerOfConn(c)
		if err != nil || p.UID != 0 || p.GID != 70_500 || p.TCP || !slices.Equal(p.GIDs, groups) {
			t.Errorf("%d groups: %+v, %v", n, p, err)
		}
		c.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if _, err := peerOfConn(c); err == nil {
			t.Error("a connection that is closed has a peer")
		}
	}
}

// TestAConnectionIsAskedForOnce keeps the answer for all requests of a connection: the process may
// have ended before the last.
func TestAConnectionIsAskedForOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx := ConnContext(httptest.NewRequest("GET", "/", nil).Context(), here)
	first, err := PeerOf(ctx)
	if err != nil || first.UID != uint32(os.Getuid()) {
		t.Fatalf("%+v, %v", first, err)
	}
	here.Close()
	if again, err := PeerOf(ctx); err != nil || again.UID != first.UID || again.GID != first.GID {
		t.Errorf("the second time %+v, %v", again, err)
	}
}
