package identity

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// echo answers on every connection that a link lets in with what it reads, and returns its address.
func echo(t *testing.T, l *Link) string {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	guarded := l.Listen(plain)
	go func() {
		for {
			c, err := guarded.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c) // until it is closed
			}()
		}
	}()
	return plain.Addr().String()
}

func link(t *testing.T, k Key) *Link {
	t.Helper()
	l, err := NewLink(k)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// hears says "hello" on a connection and reports whether it came back.
func hears(t *testing.T, c net.Conn) bool {
	t.Helper()
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		return false
	}
	b := make([]byte, 5)
	_, err := io.ReadFull(c, b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection stays open and nothing comes")
	}
	return err == nil && string(b) == "hello"
}

func TestALinkTakesWhoHasTheKey(t *testing.T) {
	const other = "another key, long enough to be one"
	for what, c := range map[string]struct {
		here, there *Link
		works       bool
	}{
		"the same key":        {link(t, testKey), link(t, testKey), true},
		"no key, on loopback": {link(t, nil), link(t, nil), true},
		"another key":         {link(t, testKey), link(t, Key(other)), false},
		"no key there":        {link(t, testKey), link(t, nil), false},
		"no key here":         {link(t, nil), link(t, testKey), false},
	} {
		conn, err := c.there.Dial(t.Context(), "tcp", echo(t, c.here))
		if works := err == nil && hears(t, conn); works != c.works {
			t.Errorf("%s: works %t: %v", what, works, err)
		}
	}
}

// TestALinkTakesNobodyWithACertificateOfTheirOwn is about a TLS client that has no key but says all
// that TLS asks for.
func TestALinkTakesNobodyWithACertificateOfTheirOwn(t *testing.T) {
	forged := link(t, Key("a key of the forger's own"))
	cfg := forged.tls.Clone()
	cfg.VerifyConnection = nil
	c, err := tls.Dial("tcp", echo(t, link(t, testKey)), cfg)
	if err == nil && hears(t, c) {
		t.Error("it was let in")
	}
}

const strangerVariable = "ROTA_TEST_STRANGER"

// TestMain is what another user does in TestALinkWithoutAKeyIsForOneAccount, if it was started by
// that.
func TestMain(m *testing.M) {
	what, addr, _ := strings.Cut(os.Getenv(strangerVariable), " ")
	switch what {
	case "dial":
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_, err = io.WriteString(c, "hello")
		}
		b := []byte("x")
		if err == nil {
			_, err = c.Read(b)
		}
		if err == nil {
			os.Stdout.WriteString("answered\n")
		}
		os.Stdout.WriteString("refused\n")
		os.Exit(0)
	case "listen":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString(l.Addr().String() + "\n")
		io.Copy(io.Discard, os.Stdin) // until the test has seen enough
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stranger starts this test as user nobody to do something, and returns the first line that it
// prints.
func stranger(t *testing.T, what string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can run as another user")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), strangerVariable+"="+what)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	b := make([]byte, 100)
	n, err := out.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b[:n]))
}

func TestALinkWithoutAKeyIsForOneAccount(t *testing.T) {
	if said := stranger(t, "dial "+echo(t, link(t, nil))); said != "refused" {
		t.Errorf("another user was %s", said)
	}
	c, err := link(t, nil).Dial(t.Context(), "tcp", stranger(t, "listen"))
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, ErrStranger) {
		t.Errorf("another user's listener: %v", err)
	}
}
