package noded

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// TestWhatANodeAsksOfControllers notices a request that goes to another place or in another's name,
// an answer that is lost, and a node that fails in other words while it knows no controller.
func TestWhatANodeAsksOfControllers(t *testing.T) {
	cluster := pkitest.New(t)
	var asked []string
	at := serving(t, cluster.First(), func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(b))
		io.WriteString(w, `{"index":7,"lease_ms":9}`)
	})
	c := &controllers{credential: cluster.Member(pki.Node, "n1"), log: slog.New(slog.DiscardHandler)}
	ctx := t.Context()
	calls := []struct {
		path, body string
		call       func() error
	}{
		{"POST /v1/nodes/n1/register", `"boot_id":"b"`, func() error {
			_, err := c.Register(ctx, "n1", api.RegisterRequest{Node: model.Node{Name: "n1", BootID: "b"}})
			return err
		}},
		{"POST /v1/nodes/n1/report", `"boot_id":"b"`, func() error {
			_, err := c.Report(ctx, "n1", api.ReportRequest{BootID: "b"})
			return err
		}},
		{"GET /v1/nodes/n1/allocs", "", func() error {
			got, err := c.Allocs(ctx, "n1", "b", 3, 0, api.Echo{})
			if err == nil && (got.Index != 7 || got.LeaseMS != 9) {
				t.Errorf("the node got %+v", got)
			}
			return err
		}},
		{"POST /v1/certificate", "", func() error {
			_, err := c.renewCertificate(ctx, []byte("request"))
			return err
		}},
	}
	for _, one := range calls {
		if err := one.call(); !errors.Is(err, errNoController) {
			t.Errorf("%s without a controller: %v", one.path, err)
		}
	}
	peer := member.Peer{Name: "c1", Meta: member.Meta{Role: member.Controld, HTTP: at}}
	if err := c.setPeers([]member.Peer{peer}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, one := range calls {
			if err := one.call(); err != nil {
				t.Errorf("%s: %v", one.path, err)
			}
			if last := asked[len(asked)-1]; !strings.HasPrefix(last, one.path) || !strings.Contains(last, one.body) {
				t.Errorf("%s: it asked %q", one.path, last)
			}
		}
		if err := c.setPeers(nil); err != nil { // gossip knows none any more: the last may still be there
			t.Fatal(err)
		}
	}
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

// TestContainersOfAnotherCluster notices containers of a cluster that the node has left, which the
// present one stops, or a node that does not say that it has them.
func TestContainersOfAnotherCluster(t *testing.T) {
	j := newJournal(t)
	for _, id := range []string{"1.1.0", "2.1.0"} {
		if err := j.Append(journal.Record{Op: journal.Intend, ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Append(journal.Record{Op: journal.Final, ID: "2.1.0",
		Final: &model.WorkerReport{Job: 2, Attempt: 1, State: model.WorkerExited}}); err != nil {
		t.Fatal(err)
	}
	for foreign, want := range map[string]int{"": 1, "old": 2} {
		a := NewAgent(Parts{Journal: j, Foreign: foreign, Log: slog.New(slog.DiscardHandler)})
		if err := a.recoverEntries(); err != nil {
			t.Fatal(err)
		}
		if len(a.workers) != want || (foreign != "") != a.workers[wid(1)].Kept ||
			(foreign != "") != strings.Contains(a.notice, "its containers are of cluster old") {
			t.Errorf("foreign %q: %d workers, %+v, notice %q", foreign, len(a.workers), a.workers[wid(1)].Facts, a.notice)
		}
	}
}

// TestAListenerOnEveryAddress notices a node whose logs are looked for at an address that is none.
func TestAListenerOnEveryAddress(t *testing.T) {
	for http, want := range map[string]string{"0.0.0.0:0": "node7:", "[::]:0": "node7:", "127.0.0.1:0": "127.0.0.1:"} {
		cfg := installed(t, pkitest.New(t), pki.Node)
		cfg.HTTP = http
		d := &daemon{outage: &Outage{}, cfg: cfg.withDefaults()}
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

// TestPartsOfADaemonRun notices a part that is not started, or that works on what is not this
// daemon's: the agent, which registers the node, and the removal of old logs. A directory without
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
	select {
	case got := <-registered:
		if got != "POST /v1/nodes/n1/register" {
			t.Errorf("first it asks %q", got)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not register")
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

// TestANoticeEnds notices what rota nodes says for too long, or not long enough.
func TestANoticeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAgent(Parts{Journal: newJournal(t), Log: slog.New(slog.DiscardHandler)})
		a.keepAll("it went back")
		if !a.noticeChanged() {
			t.Error("the notice is not new")
		}
		a.noticed = a.notice
		time.Sleep(noticeFor) // of the bubble
		if a.noticeChanged() || a.notice == "" {
			t.Error("it ends too early")
		}
		time.Sleep(time.Nanosecond)
		if !a.noticeChanged() || a.notice != "" {
			t.Errorf("it does not end: %q", a.notice)
		}
	})
}

// TestWhatIsSaidOfARetry notices a node without a controller that fills its log with warnings, and
// failures that are not told.
func TestWhatIsSaidOfARetry(t *testing.T) {
	var said strings.Builder
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	a := NewAgent(Parts{Log: slog.New(slog.NewTextHandler(&said, options))})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), errNoController, "level=DEBUG"}, {t.Context(), errFault, "level=WARN"}, {ended, errFault, ""},
	} {
		said.Reset()
		a.logRetry(c.ctx, "cannot do it", c.err, time.Second)
		if !strings.Contains(said.String(), c.want) || (c.want == "") != (said.Len() == 0) {
			t.Errorf("%v: it says %q", c.err, said.String())
		}
	}
}

// manyChanges is a runtime with changes that one list shows.
type manyChanges struct {
	container.Runtime
	changes chan container.ID
	lists   chan int
}

func (m manyChanges) Changes() <-chan container.ID { return m.changes }

func (m manyChanges) List(context.Context) ([]container.Status, error) {
	m.lists <- len(m.changes)
	return nil, nil
}

// TestOneListShowsManyChanges notices a daemon that lists all containers once for each change.
func TestOneListShowsManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manyChanges{changes: make(chan container.ID, 100), lists: make(chan int, 100)}
		for n := range int64(100) {
			m.changes <- wid(n)
		}
		a := NewAgent(Parts{Journal: newJournal(t), Runtime: m, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.watchContainers(ctx) }()
		synctest.Wait()
		if n := len(m.lists); n != 1 {
			t.Errorf("%d lists", n)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// stoppedBuild has the daemon stop while it makes a bundle.
type stoppedBuild struct {
	Bundles
	stop func()
}

func (b stoppedBuild) Build(ctx context.Context, _ container.ID, _ *api.Alloc, _ []int, _ []model.GPU) (string,
	error,
) {
	b.stop()
	return "", ctx.Err()
}

func (stoppedBuild) Owner(a *api.Alloc) (model.Identity, error) { return a.Owner, nil }

// TestADaemonThatStopsWhileItCreates notices a container that is taken for made, or for failed,
// because its daemon was stopped.
func TestADaemonThatStopsWhileItCreates(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	j := newJournal(t)
	a := NewAgent(Parts{Journal: j, Bundles: stoppedBuild{stop: cancel}, Log: slog.New(slog.DiscardHandler),
		Cores: machine.NewCores([][]int{{0, 1}})})
	a.ctx = ctx
	w := a.workerOf(wid(1))
	f := w.Facts
	f.Desired = &api.Alloc{Job: 1, Attempt: 1, Request: model.Request{Active: model.Vector{Cores: 1}}}
	done, err := a.run.Do(ctx, wid(1), &f, reconcile.Action{Kind: reconcile.Create})
	if !errors.Is(err, context.Canceled) || done == nil {
		t.Fatalf("it ends with %v", err)
	}
	done(&w.Facts)
	if e, ok := j.Entry(wid(1).String()); !ok || e.Final != nil || !w.Journaled || w.Actual != "" ||
		len(w.Entry.Cores) != 1 {
		t.Errorf("entry %+v, %+v", e, w.Facts)
	}
}
