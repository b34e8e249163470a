package noded

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/journal"
)

// serving returns the address of a server with the credential of a member.
func serving(t *testing.T, c *pki.Credential, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS, s.Config.ErrorLog = c.Server(), log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// badJournal has an entry that no daemon has written.
type badJournal struct{ Journal }

func (badJournal) Entries() []journal.Entry { return []journal.Entry{{ID: "../1.1.0"}} }

// TestAJournalOfSomethingElse notices a daemon that goes on although it does not know what runs.
func TestAJournalOfSomethingElse(t *testing.T) {
	a := NewAgent(Parts{Journal: badJournal{}, Log: slog.New(slog.DiscardHandler)})
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"../1.1.0" is not a container id`) {
		t.Errorf("got %v", err)
	}
}

// TestAListenerOnEveryAddress notices a node whose logs are looked for at an address that is none.
func TestAListenerOnEveryAddress(t *testing.T) {
	for http, want := range map[string]string{"0.0.0.0:0": "node7:", "[::]:0": "node7:", "127.0.0.1:0": "127.0.0.1:"} {
		cfg := installed(t, pkitest.New(t), pki.Node)
		cfg.HTTP = http
		d := &daemon{outage: &follow.Outage{}, cfg: cfg.withDefaults()}
		d.machine.Hostname = "node7"
		if err := d.loadCredential(); err != nil {
			t.Fatal(err)
		}
		if err := d.listen(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.machine.Node.Addr; !strings.HasPrefix(got, want) || strings.HasSuffix(got, ":0") {
			t.Errorf("at %s: %q", http, got)
		}
		d.cfg.Login = true // it has made no cgroups
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestALoginNodeThatMustNotStart notices a login node that goes on without its socket, its
// certificate or a directory of its own.
func TestALoginNodeThatMustNotStart(t *testing.T) {
	isRoot(t)
	cluster := pkitest.New(t)
	for says, edit := range map[string]func(*Config){
		"--socket: ":       func(c *Config) { c.Socket = "/etc/passwd/s" },
		"gossip":           func(c *Config) { c.Gossip = "192.0.2.1:0" },
		"belongs to uid":   func(c *Config) { mustChown(t, c.DataDir) },
		"join --login":     func(c *Config) { c.DataDir = t.TempDir() },
		"for a machine of": func(c *Config) { c.Login = true; *c = loginOn(t, cluster, *c) },
	} {
		cfg := installed(t, cluster, pki.Login)
		edit(&cfg)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := Run(ctx, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
		cancel()
	}
}

func mustChown(t *testing.T, path string) {
	t.Helper()
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
}

// loginOn has a login node start with the certificate of a compute node.
func loginOn(t *testing.T, cluster *pkitest.Cluster, c Config) Config {
	t.Helper()
	c.DataDir = installed(t, cluster, pki.Node).DataDir
	return c
}

// TestPartsOfADaemonRun notices a part that is not started, or that works for another daemon. The
// parts are the agent, which registers the node, and the removal of old logs. A directory without
// containers is of the cluster that the machine has joined last.
func TestPartsOfADaemonRun(t *testing.T) {
	isRoot(t)
	cluster := pkitest.New(t)
	registered := make(chan string, 100)
	at := serving(t, cluster.First(), func(w http.ResponseWriter, r *http.Request) {
		select {
		case registered <- r.Method + " " + r.URL.Path:
		default:
		}
		api.WriteProblem(w, http.StatusServiceUnavailable, api.CodeNoLeader, "later")
	})
	cfg := installed(t, cluster, pki.Node)
	cfg.Controllers = []string{at}
	old := filepath.Join(cfg.DataDir, "logs", "9.1.0")
	week := time.Now().Add(-8 * 24 * time.Hour)
	if err := errors.Join(os.MkdirAll(old, 0o700), os.Chtimes(old, week, week),
		os.WriteFile(filepath.Join(cfg.DataDir, clusterFile), []byte("another\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, _ := runDaemon(t, cfg)
	defer r.stop()
	for asked, late := "", time.After(30*time.Second); asked != "POST /v1/nodes/n1/register"; {
		select {
		case asked = <-registered: // others ask for the authority of certificates meanwhile
		case <-late:
			t.Fatal("it does not register")
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(old); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("an old log stays")
		}
	}
	b, err := os.ReadFile(filepath.Join(cfg.DataDir, clusterFile))
	if err != nil || strings.Contains(string(b), "another") {
		t.Errorf("the directory is of cluster %q, %v", b, err)
	}
}
