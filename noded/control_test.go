package noded

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rota-hpc/rota/controld/api/identity"
)

// A request that reaches a controller without a user in it is the node's own, which may do anything: no client may bring that about.
func TestTheProxyAlwaysSaysForWhom(t *testing.T) {
	seen := make(chan http.Header, 1)
	controller := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() }))
	defer controller.Close()
	c := &controllers{node: "n1", static: []string{controller.URL}, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := c.use(nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: c.proxy(), ConnContext: identity.ConnContext}
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(l) }()
	defer func() { srv.Close(); <-done }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	for _, h := range []http.Header{
		{},
		{"Connection": {"Rota-Uid, Rota-Gid, Rota-Gids, Rota-User, Rota-Home"}},
		{"Rota-Uid": {"4711"}, "Rota-User": {"somebody"}},
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
		if got.Get("Rota-Uid") != strconv.Itoa(os.Getuid()) || got.Get("Rota-User") == "" || got.Get("Rota-User") == "somebody" {
			t.Errorf("with %v the controller was told user %q, uid %q", h, got.Get("Rota-User"), got.Get("Rota-Uid"))
		}
	}
}
