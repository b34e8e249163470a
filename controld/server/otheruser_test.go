package server

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/identity"
)

// dialAs connects to a socket as another user of this machine. Only the thread of the call changes its user,
// and it ends with its goroutine.
func dialAs(uid int, addr string) (net.Conn, error) {
	type answer struct {
		c   net.Conn
		err error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread()
		keep := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
			done <- answer{err: errno}
			return
		}
		c, err := net.Dial("unix", addr)
		done <- answer{c, err}
	}()
	a := <-done
	return a.c, a.err
}

// TestABackupIsForRootAlone notices a backup for another user, through the controller's own socket.
func TestABackupIsForRootAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can be another user")
	}
	listener, err := net.Listen("unix", fmt.Sprintf("@rota-test-%d-backup", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	served := &http.Server{ConnContext: identity.ConnContext, Handler: http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			x := ask("POST", "/v1/backup", named("root", 0))
			x.r = r
			refused <- x.localRoot()
		})}
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(func() { served.Close() })
	for uid, denied := range map[int]bool{0: false, 1: true, 65534: true} {
		c, err := dialAs(uid, listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("POST / HTTP/1.1\r\nHost: c1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; (err != nil) != denied {
			t.Errorf("user %d: %v", uid, err)
		}
		c.Close()
	}
}
