package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/backup"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestABackupForRoot is whole, says what it is of, and leaves nothing behind on the controller.
func TestABackupForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root gets a backup")
	}
	s := keyed(t)
	s.DataDir = t.TempDir()
	job := s.SubmitAt("kept")
	var about exchange.Subject
	var failure error
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := &http.Server{ConnContext: identity.ConnContext, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			x := s.Of(servertest.Named("root", 0), "")
			x.Request, x.Writer = r, w
			_, failure = s.writeBackup(x)
			if about = x.About; failure != nil && !x.Sent {
				w.WriteHeader(http.StatusTeapot)
			}
		})}
	go func() { _ = served.Serve(listener) }()
	t.Cleanup(func() { served.Close() })
	dial := func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", listener.Addr().String())
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	file := filepath.Join(t.TempDir(), "backup")
	ask := func(body string) error {
		t.Helper()
		resp, err := client.Post("http://c1/v1/backup", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(s.DataDir); len(left) > 0 {
			t.Errorf("%s leaves %v", body, left)
		}
		if failure == nil && resp.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("the answer is %v", resp.Header)
		}
		return failure
	}
	if err := ask(`{}`); servertest.CodeOf(err) != api.CodeNoLeader || !strings.Contains(err.Error(), "just started") {
		t.Errorf("while the controller has just started: %v", err)
	}
	if err := s.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	const passphrase = "correct horse battery"
	for _, keys := range []bool{false, true} {
		body := fmt.Sprintf(`{"with_keys":%t,"passphrase":%q}`, keys, passphrase)
		if err := ask(body); err != nil {
			t.Fatal(err)
		}
		parts, has := "", false
		from, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		m, sealed, err := backup.Read(from, file, backup.Uses{
			State: func(r io.Reader) error {
				text, err := io.ReadAll(r)
				has = strings.Contains(string(text), `"kept"`)
				parts += "state "
				return err
			},
			History: func(r io.Reader) error {
				text, err := io.ReadAll(r)
				parts += fmt.Sprintf("history %t", len(text) > 0)
				return err
			}})
		v := s.Replica.View()
		if err != nil || parts != "state history true" || !has || m.Controller != "c1" || m.Index != v.Index() ||
			m.LastSeq != v.LastSeq() || m.DataFormat != state.DataFormat || m.Version != api.Build() ||
			m.Cluster != v.Trust().Cluster || m.Name != v.Config().ClusterName || m.Generation != "0" || m.Keys != keys ||
			time.Since(m.Saved) > time.Minute || (about.Object == "keys") != keys {
			t.Errorf("with keys %t: %+v, %q, has job %d: %t, %v, about %q", keys, m, parts, job, has, err, about.Object)
		}
		if !keys {
			continue
		}
		opened, err := backup.Unseal(sealed, m.Cluster, passphrase)
		own, err2 := s.Credential.Files()
		if err != nil || err2 != nil || len(opened.Files) != len(own) || len(own) == 0 {
			t.Errorf("%d keys of %d, %v, %v", len(opened.Files), len(own), err, err2)
		}
	}
	refused := func(what, body, code, says string) {
		t.Helper()
		if err := ask(body); servertest.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("keys under a short passphrase", `{"with_keys":true,"passphrase":"short"}`, api.CodeInvalid, "keys: ")
	refused("an odd word", `{"with":true}`, api.CodeInvalid, "with")
	s.backups.mu.Lock()
	refused("while another one is written", `{}`, api.CodeWrongState, "another backup")
	s.backups.mu.Unlock()
	dir := s.DataDir
	s.DataDir = filepath.Join(dir, "none")
	if err := ask(`{}`); err == nil || !strings.Contains(err.Error(), "room for the backup") {
		t.Errorf("without room: %v", err)
	}
	s.DataDir = dir
	if err := ask(`{}`); err != nil {
		t.Errorf("after all that: %v", err)
	}
	x := s.Of(servertest.Named("root", 0), "")
	if servertest.WantCode(t, localRoot(x), api.CodeDenied); x.Sent {
		t.Error("a request over the network gets a backup")
	}
	mine := errors.New("full")
	if err := writeFile(filepath.Join(dir, "x"), func(io.Writer) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("a part that is not written: %v", err)
	}
	if err := writeFile(filepath.Join(dir, "x"), func(io.Writer) error { return nil }); err == nil {
		t.Error("a file that is there already is written over")
	}
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
			x := exchangetest.Ask("POST", "/v1/backup", servertest.Named("root", 0))
			x.Request = r
			refused <- localRoot(x)
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

// TestNoOtherCallerGetsABackup than root of this machine, by a socket.
func TestNoOtherCallerGetsABackup(t *testing.T) {
	for _, at := range []net.Addr{nil, &net.TCPAddr{}, &net.UnixAddr{Net: "unix"}} { // the last has no peer
		x := exchangetest.Ask("POST", "/v1/backup", servertest.Named("root", 0))
		if at != nil {
			x.Request = x.Request.WithContext(context.WithValue(x.Request.Context(), http.LocalAddrContextKey, at))
		}
		servertest.WantCode(t, localRoot(x), api.CodeDenied)
	}
}

// keyed is a small controller with an authority.
func keyed(t *testing.T) *site {
	t.Helper()
	s := small(t)
	dir := filepath.Join(t.TempDir(), "tls")
	if _, err := pki.Init(dir, "c1"); err != nil {
		t.Fatal(err)
	}
	credential, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Credential = credential
	return s
}
