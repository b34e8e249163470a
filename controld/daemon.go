package controld

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/leader"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/recovery"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server"
	"github.com/rota-hpc/rota/controld/server/audit"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// daemon is one controller with everything it holds open.
type daemon struct {
	cfg        Config
	credential *pki.Credential
	log        *slog.Logger
	link       *identity.Link // to the logs of the others
	users      identity.Users
	client     *http.Client // to other controllers
	nodes      *http.Client // to nodes
	metrics    *prometheus.Registry

	records    *history.Store
	recordGaps chan struct{} // has one element after a gap in records was found
	fetching   atomic.Bool   // records may lack jobs that another controller is about to be asked for

	replica *replica.Replica
	gossip  *member.List
	peers   *peers.Peers
	found   atomic.Pointer[peers.Peers] // the same, once they are open
	leader  *leader.Leader

	contacts telemetry.Contacts
	touch    telemetry.Touch
	samples  telemetry.Samples
	arrays   earlystop.Arrays

	listeners []net.Listener // of the API
	addrs     Addresses
}

// Run runs a controller until ctx ends, or a part fails that it cannot do without. Either way jobs
// go on.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	d := &daemon{cfg: cfg, log: cfg.Logger, metrics: newRegistry()}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if err := d.open(); err != nil {
		return errors.Join(err, d.close())
	}
	if cfg.Ready != nil {
		cfg.Ready(d.addrs)
	}
	d.log.Info("controller is up", "name", cfg.Name, "http", d.addrs.HTTP, "raft", d.addrs.Raft, "gossip", d.addrs.Gossip,
		"version", api.Build())
	return errors.Join(d.run(ctx), d.close())
}

// liveHeap is the heap that is in use: the heap's size depends on how much garbage there happens to
// be.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}

// newRegistry returns metrics with those of the process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// open opens the parts in the order in which they need each other. After a failure, close closes
// the parts that it has opened.
func (d *daemon) open() error {
	for _, open := range []func() error{d.prepare, d.openHistory, d.openListeners, d.openReplica, d.openGossip} {
		if err := open(); err != nil {
			return err
		}
	}
	d.leader = leader.New(leader.Config{
		Name: d.cfg.Name, Cluster: d.credential.Member.Cluster, Knows: d.cfg.latestVersion(), Replica: d.replica,
		Peers: d.peers, History: d.records,
		Contacts: &d.contacts, Touch: &d.touch, Samples: &d.samples,
		Arrays: &d.arrays, Wanted: d.cfg.Cluster, KeepRecords: d.cfg.KeepRecords, KeepFor: d.cfg.KeepFor,
		Lacking: d.lacking, Metrics: d.metrics, Log: d.log, Fast: serve.Loopback(d.cfg.Gossip),
	})
	return nil
}

// prepare makes what close need not close.
func (d *daemon) prepare() error {
	if err := d.loadCredential(); err != nil {
		return err
	}
	if d.cfg.RootJobsAs != "" {
		if _, err := d.users.ByName(d.cfg.RootJobsAs); err != nil {
			return fmt.Errorf("--root-jobs-as: %w", err)
		}
	}
	if err := checkDataDir(d.cfg.DataDir, d.log); err != nil {
		return err
	}
	if err := checkDataFormat(d.cfg.DataDir); err != nil {
		return err
	}
	return nil
}

// loadCredential reads what makes this machine a controller of its cluster.
func (d *daemon) loadCredential() (err error) {
	d.credential, err = pki.Load(pki.Dir(d.cfg.DataDir))
	if errors.Is(err, pki.ErrNoCredential) {
		return fmt.Errorf("%w (%s): make a cluster with rota-controld init, or join one with rota-controld join ADDR "+
			"--token TOKEN, with the same --name and --data-dir", err, d.cfg.DataDir)
	}
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("data directory: %w (is it on a writable disk, and does it belong to this account?)", err)
	}
	if err != nil {
		return err
	}
	switch m := d.credential.Member; {
	case m.Role != pki.Controller:
		return fmt.Errorf("the certificate in %s is for a machine of role %s: join with rota-controld join", d.cfg.DataDir,
			m.Role)
	case m.Name != d.cfg.Name:
		return fmt.Errorf("--name %s: this machine joined as controller %s: start it with --name %s", d.cfg.Name, m.Name,
			m.Name)
	}
	d.link = identity.NewLink(d.credential)
	d.client, d.nodes = httpClient(d.credential.Client(pki.Controller)), httpClient(d.credential.Client(pki.Node))
	return nil
}

func httpClient(conf *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true, DialTLSContext: pki.Dialer(conf)}}
}

// historyFile has the ended jobs and the audit log.
func (d *daemon) historyFile() string { return filepath.Join(d.cfg.DataDir, "history.db") }

func (d *daemon) openHistory() (err error) {
	if d.records, err = history.Open(d.historyFile()); err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	d.records.OnBadRow = func(row int64, err error) {
		d.log.Error("cannot read a row of the history; answers leave it out", "row", row, "error", err)
	}
	d.recordGaps = make(chan struct{}, 1)
	d.fetching.Store(true)
	for _, m := range recordMetrics(d.records) {
		d.metrics.MustRegister(m)
	}
	return nil
}

func (d *daemon) openListeners() error {
	l, err := serve.TCP(d.cfg.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	d.listeners = append(d.listeners, serve.TLS(l, d.credential.Server(), d.credential.NameOf))
	if d.addrs.HTTP, err = advertised(l.Addr().String(), d.cfg.Advertise); err != nil {
		return err
	}
	if d.cfg.Loopback != "" {
		l, err := serve.TCP(d.cfg.Loopback)
		if err != nil {
			return fmt.Errorf("--loopback-http: %w", err)
		}
		d.listeners, d.addrs.Loopback = append(d.listeners, l), l.Addr().String()
	}
	if d.cfg.Socket == "" {
		return nil
	}
	s, err := serve.Unix(d.cfg.Socket)
	if err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	d.listeners = append(d.listeners, s)
	return nil
}

func (d *daemon) openReplica() error {
	l, err := serve.TCP(d.cfg.Raft)
	if err != nil {
		return fmt.Errorf("--raft: %w", err)
	}
	if d.addrs.Raft, err = advertised(l.Addr().String(), d.cfg.Advertise); err != nil {
		l.Close()
		return err
	}
	cfg := consensus.DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr, cfg.Logger = d.cfg.Name, filepath.Join(d.cfg.DataDir, "raft"), d.addrs.Raft, d.log
	cfg.Listener, cfg.Find = d.link.Listen(l), d.find
	if d.cfg.Socket != "" { // its directory is in memory, or at least another one
		cfg.Record = filepath.Join(filepath.Dir(d.cfg.Socket), d.cfg.Name+".promises")
	}
	cfg.Dial = func(ctx context.Context, to consensus.Member) (net.Conn, error) {
		return d.link.Dial(ctx, to.Name, to.Addr)
	}
	if d.cfg.Heartbeat > 0 {
		cfg.Heartbeat, cfg.Election, cfg.LeaderLease = d.cfg.Heartbeat, d.cfg.Election, d.cfg.LeaderLease
	}
	if d.replica, err = replica.Open(cfg, d.metrics); err != nil {
		l.Close()
		return fmt.Errorf("open the log: %w", err)
	}
	d.link.SetGeneration(d.generation)
	d.credential.SetRevocations(func(r pki.Role, name string) int64 {
		return d.replica.View().Trust().Generation(string(r), name)
	})
	return nil
}

// generation returns that of the log here. It is not known as long as the log is empty.
func (d *daemon) generation() (text string, known bool) {
	return d.replica.View().Recovery().Generation.String(), d.replica.HasState()
}

// find returns where another controller said that its log is, over mutual TLS. It is called before gossip
// has begun too.
func (d *daemon) find(name string) (string, bool) {
	others := d.found.Load()
	if others == nil {
		return "", false
	}
	return others.Raft(name)
}

func (d *daemon) openGossip() error {
	var err error
	addr := d.cfg.Gossip
	if d.cfg.Advertise != "" || !serve.Loopback(addr) {
		if addr, err = advertised(addr, d.cfg.Advertise); err != nil {
			return err
		}
	}
	file := filepath.Join(d.cfg.DataDir, "peers.json")
	d.gossip, err = member.Open(member.Config{
		Name: d.cfg.Name, Addr: addr, Logger: d.log,
		Join: peers.Seeds(slices.Concat(d.cfg.Join, d.credential.Seeds), file, d.log), Credential: d.credential,
		KeysFor: d.gossipKeysFor, Fast: serve.Loopback(addr),
		Meta: member.Meta{Role: member.Controld, HTTP: d.addrs.HTTP, Raft: d.addrs.Raft, Version: api.Build(),
			Cluster: d.credential.Member.Cluster},
	})
	if err != nil {
		return fmt.Errorf("--gossip: %w", err)
	}
	d.addrs.Gossip = d.gossip.Addr()
	d.peers = peers.New(d.cfg.Name, d.gossip, d.link, d.client, file, serve.Loopback(addr), d.log)
	d.peers.SetGeneration(func() string { text, _ := d.generation(); return text })
	d.found.Store(d.peers)
	return nil
}

// gossipKeysFor returns the keys of the gossip for a member whose certificate is good.
func (d *daemon) gossipKeysFor(pki.Member) ([][]byte, error) { return d.credential.GossipKeys(), nil }

// run serves, and leads when it is this controller's turn, until the first part fails or ctx ends.
func (d *daemon) run(ctx context.Context) error {
	stopped := ctx
	g, ctx := errgroup.WithContext(ctx)
	auditLog := &audit.Log{History: d.records, For: d.cfg.AuditFor, Most: d.cfg.AuditMost, Logger: d.log}
	srv := server.New(ctx, server.Config{
		Common: exchange.Config{
			Name: d.cfg.Name, HTTP: d.addrs.HTTP, RootJobsAs: d.cfg.RootJobsAs, Loopback: d.cfg.Loopback != "",
			Credential: d.credential, Users: &d.users, Replica: d.replica, Peers: d.peers, Client: d.client,
			History: d.records, Fetching: d.fetchesRecords, Audit: auditLog, Metrics: d.metrics, Log: d.log,
			NoteGeneration: func(number int64) error { return recovery.NoteSeen(d.cfg.DataDir, number) },
		},
		Raft: d.addrs.Raft, Gossip: d.addrs.Gossip, Knows: d.cfg.latestVersion(), AllowRootJobs: d.cfg.AllowRootJobs,
		Lacking: d.lacking, AuthorityState: d.authorityState, Nodes: d.nodes, Contacts: &d.contacts, Touch: &d.touch,
		Samples: &d.samples, Arrays: &d.arrays, DataDir: d.cfg.DataDir,
	})
	for _, l := range d.listeners {
		web := serve.NewServer(identity.Fresh(d.credential, srv.Handler()), d.log)
		web.ReadTimeout = exchange.BodyTimeout
		g.Go(func() error { return serve.Until(ctx, l, web, d.cfg.Shutdown) })
	}
	for _, part := range []func(context.Context) error{
		d.gossip.Run, d.peers.Watch, d.bootstrap, d.leader.Run, d.replica.Watch, srv.CatchUp, d.reload, d.watchCluster,
		d.renew, d.followGossipKeys, d.followAuthority, auditLog.Run, d.fillRecords, d.pruneRecords, d.checkRecords,
		func(ctx context.Context) error { return d.storeRecords(ctx, srv.CaughtUp()) },
	} {
		g.Go(func() error { return part(ctx) })
	}
	if d.cfg.Supervise != nil {
		alive := func(ctx context.Context) error { return errors.Join(d.replica.Alive(ctx), answers(ctx, srv.Handler())) }
		g.Go(func() error { return d.cfg.Supervise(ctx, alive, d.status) })
	}
	g.Go(func() error {
		select {
		case err := <-d.replica.Failed():
			return fmt.Errorf("stopped: %w", err)
		case <-ctx.Done():
			return nil
		}
	})
	err := g.Wait()
	if err := auditLog.Store(context.Background()); err != nil { // requests that ended while it stopped
		d.log.Error("cannot write the last requests to the audit log", "error", err)
	}
	if cause := context.Cause(stopped); cause != nil &&
		(errors.Is(err, stopped.Err()) || errors.Is(err, cause) || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// renew renews the certificate of this controller, which signs it itself.
func (d *daemon) renew(ctx context.Context) error {
	return d.credential.Renew(ctx, d.log, func(_ context.Context, request []byte) ([]byte, error) {
		return d.credential.Renewal(request, d.credential.Member)
	})
}

// close closes what open opened, in reverse.
func (d *daemon) close() error {
	var errs []error
	if d.gossip != nil {
		if err := d.gossip.Leave(time.Second); err != nil { // the others notice by themselves
			d.log.Debug("cannot tell other machines that this controller stops", "error", err)
		}
		errs = append(errs, d.gossip.Shutdown())
	}
	if d.replica != nil {
		errs = append(errs, d.replica.Shutdown())
	}
	for _, l := range d.listeners {
		l.Close() // unless its server has done so
	}
	if d.records != nil {
		errs = append(errs, d.records.Close())
	}
	return errors.Join(errs...)
}

// reload reads the cluster's configuration again when asked to.
func (d *daemon) reload(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.cfg.ReloadOn:
		}
		if d.cfg.Reload == nil {
			d.log.Info("SIGHUP has no effect: no configuration file was given")
			continue
		}
		cfg, err := d.cfg.Reload()
		if err != nil {
			d.log.Error("cannot re-read the configuration; the old one stays in force", "error", err)
			continue
		}
		d.leader.Want(cfg)
		d.log.Info("configuration re-read")
	}
}
