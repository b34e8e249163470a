package noded

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/member"
)

// A request that reaches a controller without a user in it is the node's own and may do anything:
// no client may cause such a request.
func TestTheProxyAlwaysNamesTheUser(t *testing.T) {
	seen := make(chan http.Header, 1)
	controller := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		seen <- r.Header.Clone()
	}))
	defer controller.Close()
	c := &controllers{node: "n1", static: []string{controller.URL}, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := c.setPeers(nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: c.proxyHandler(), ConnContext: identity.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	defer func() { srv.Close(); <-done }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	for _, h := range []http.Header{
		{},
		{"Connection": {"Rota-Uid, Rota-Gid, Rota-Gids, Rota-User, Rota-Home"}},
		{"Rota-Uid": {"4711"}, "Rota-User": {"other"}},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://rota/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got := <-seen
		if got.Get("Rota-Uid") != strconv.Itoa(os.Getuid()) || got.Get("Rota-User") == "" ||
			got.Get("Rota-User") == "other" {
			t.Errorf("with %v the controller got user %q, uid %q", h, got.Get("Rota-User"), got.Get("Rota-Uid"))
		}
	}
}

const falseVariable = "ROTA_TEST_FALSE_CONTROLLER"

// TestMain is also the program that another user runs in the next test: it answers as a controller
// would.
func TestMain(m *testing.M) {
	if os.Getenv(falseVariable) == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, `{"index":666}`)
	}))
	io.Copy(io.Discard, os.Stdin) // until the test ends
}

// TestAControllerOfAnotherUserIsNotObeyed is about machines without a key, where any account can
// take part in gossip.
func TestAControllerOfAnotherUserIsNotObeyed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run a program as another user")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Dir = append(os.Environ(), falseVariable+"=1"), "/"
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
	var evil string
	if _, err := fmt.Fscan(out, &evil); err != nil {
		t.Fatal(err)
	}
	honest := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, `{"index":7}`)
	}))
	defer honest.Close()
	c := &controllers{node: "n1", log: slog.New(slog.DiscardHandler)}
	var peers []member.Peer
	for _, addr := range []string{evil, honest.Listener.Addr().String()} {
		peers = append(peers, member.Peer{Name: addr, Meta: member.Meta{Role: member.Controld, HTTP: addr}})
	}
	if err := c.setPeers(peers); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Allocs(t.Context(), "n1", "boot", 0, 0); err != nil || got.Index != 7 {
		t.Errorf("it obeys the false controller: %+v, %v", got, err)
	}
}
