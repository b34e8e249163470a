package controld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/member"
)

// daemon is one controller with everything it holds open.
type daemon struct {
	cfg     Config
	log     *slog.Logger
	key     identity.Key
	link    *identity.Link // to the logs of the others
	addrs   Addresses
	machine *machine
	replica *consensus.Node
	gossip  *member.List
	records *history.Store

	guard        identity.Guard
	users        identity.Users
	machines     *http.Client // signs; for other controllers and nodes
	operators    map[string]bool
	clock        logClock
	leading      atomic.Bool // everything acknowledged has been applied and the loops of the leader run
	fresh        atomic.Bool // this replica has caught up once since it started
	contacts     contacts
	samples      samples
	contests     contests
	waiting      waiting
	lookout      lookout // wakes long polls
	metrics      *metrics
	peersChanged broadcast                    // gossip has news
	unlinked     atomic.Pointer[[]netip.Addr] // where controllers run of a version that knows no links
	alive        context.Context              // ends when the daemon stops; long polls and streams end with it
	stopping     <-chan struct{}              // closed then
	wanted       atomic.Pointer[cluster.Config]
}

// Run runs a controller until ctx ends or something fails that it cannot go on without. Jobs are not touched by either.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	d := &daemon{cfg: cfg, log: cfg.Logger, machine: newMachine()}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	listeners, err := d.open()
	if err != nil {
		return errors.Join(err, d.close())
	}
	if cfg.Ready != nil {
		cfg.Ready(d.addrs)
	}
	d.log.Info("controller is up", "name", cfg.Name, "http", d.addrs.HTTP, "raft", d.addrs.Raft, "gossip", d.addrs.Gossip,
		"version", api.Build())
	err = d.run(ctx, listeners)
	return errors.Join(err, d.close())
}

// open opens everything in the order in which the parts need each other. What it opened before a failure, close closes.
func (d *daemon) open() ([]net.Listener, error) {
	if err := d.prepare(); err != nil {
		return nil, err
	}
	var err error
	if d.records, err = history.Open(filepath.Join(d.cfg.DataDir, "history.db")); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	listeners, err := d.listen()
	if err != nil {
		return nil, err
	}
	if err = d.openReplica(); err == nil {
		err = d.openGossip()
	}
	if err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return nil, err
	}
	return listeners, nil
}

// prepare readies what needs no cleaning up.
func (d *daemon) prepare() error {
	if d.cfg.KeyFile != "" {
		key, err := identity.ReadKey(d.cfg.KeyFile)
		if err != nil {
			return err
		}
		d.key = key
	}
	var err error
	if d.link, err = identity.NewLink(d.key); err != nil {
		return err
	}
	d.link.Old = func(a netip.Addr) bool { return slices.Contains(*d.unlinked.Load(), a) }
	d.unlinked.Store(new([]netip.Addr))
	if d.cfg.RootJobsAs != "" {
		if _, err := d.users.ByName(d.cfg.RootJobsAs); err != nil {
			return fmt.Errorf("--root-jobs-as: %w", err)
		}
	}
	if err := os.MkdirAll(d.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w (is it on a writable disk, and does it belong to this account?)", err)
	}
	if err := checkDataFormat(d.cfg.DataDir); err != nil {
		return err
	}
	d.guard = identity.Guard{Key: d.key, Users: &d.users, MaxBody: maxBody}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext}
	if len(d.key) == 0 {
		transport.DialContext = d.link.Dial // with a key requests are signed
	}
	d.machines = &http.Client{Transport: &identity.Signer{Key: d.key, From: d.cfg.Name, Next: transport}}
	d.operators = map[string]bool{}
	for _, name := range d.cfg.Operators {
		d.operators[name] = true
	}
	d.wanted.Store(d.cfg.Cluster)
	d.metrics = newMetrics(d)
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
	cfg.Name, cfg.Dir, cfg.Addr, cfg.Listener, cfg.Logger = d.cfg.Name, filepath.Join(d.cfg.DataDir, "raft"), d.addrs.Raft, d.link.Listen(l), d.log
	cfg.Dial = d.link.Dial
	if d.cfg.Heartbeat > 0 {
		cfg.Heartbeat, cfg.Election, cfg.LeaderLease = d.cfg.Heartbeat, d.cfg.Election, d.cfg.LeaderLease
	}
	if d.replica, err = consensus.Open(cfg, d.machine); err != nil {
		l.Close()
		return fmt.Errorf("open the log: %w", err)
	}
	return nil
}

func (d *daemon) openGossip() error {
	var err error
	addr := d.cfg.Gossip
	if d.cfg.Advertise != "" || !loopback(addr) {
		if addr, err = advertised(addr, d.cfg.Advertise); err != nil {
			return err
		}
	}
	d.gossip, err = member.Open(member.Config{
		Name: d.cfg.Name, Addr: addr, Join: d.seeds(), Key: d.key.Sum("gossip"), Logger: d.log, Fast: loopback(addr),
		Meta: member.Meta{Role: member.Controld, HTTP: d.addrs.HTTP, Raft: d.addrs.Raft, Version: api.Build(), Links: true},
	})
	if err != nil {
		return fmt.Errorf("--gossip: %w", err)
	}
	d.addrs.Gossip = d.gossip.Addr()
	return nil
}

// run serves and leads until the first part fails or ctx ends.
func (d *daemon) run(ctx context.Context, listeners []net.Listener) error {
	told := ctx
	g, ctx := errgroup.WithContext(ctx)
	d.alive, d.stopping = ctx, ctx.Done()
	for _, l := range listeners {
		g.Go(func() error { return d.serve(ctx, l) })
	}
	g.Go(func() error { return d.gossip.Run(ctx) })
	g.Go(func() error { return d.watchPeers(ctx) })
	g.Go(func() error { return d.bootstrap(ctx) })
	g.Go(func() error { return d.leadUntilStopped(ctx) })
	g.Go(func() error { return d.freshen(ctx) })
	g.Go(func() error { return d.record(ctx) })
	g.Go(func() error { return d.look(ctx) })
	g.Go(func() error { return d.reload(ctx) })
	g.Go(func() error {
		select {
		case err := <-d.replica.Failed():
			return fmt.Errorf("stopped: %w", err)
		case <-ctx.Done():
			return nil
		}
	})
	err := g.Wait()
	if told.Err() != nil && (errors.Is(err, told.Err()) || errors.Is(err, context.Cause(told)) || errors.Is(err, context.Canceled)) {
		return nil
	}
	return err
}

// leadUntilStopped leads whenever it is this controller's turn. When the log has failed, the reason is left to whoever waits for it.
func (d *daemon) leadUntilStopped(ctx context.Context) error {
	err := d.replica.Lead(ctx, d.lead)
	if errors.Is(err, consensus.ErrStopped) {
		d.pause(ctx, 2*time.Second)
	}
	return err
}

// close closes what open opened, in reverse.
func (d *daemon) close() error {
	var errs []error
	if d.gossip != nil {
		if err := d.gossip.Leave(time.Second); err != nil { // the others notice by themselves
			d.log.Debug("nobody was told that this controller goes", "error", err)
		}
		errs = append(errs, d.gossip.Shutdown())
	}
	if d.replica != nil {
		errs = append(errs, d.replica.Shutdown())
	}
	if d.records != nil {
		errs = append(errs, d.records.Close())
	}
	return errors.Join(errs...)
}

// reload reads the cluster's configuration anew when asked to.
func (d *daemon) reload(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.cfg.ReloadOn:
		}
		if d.cfg.Reload == nil {
			d.log.Info("nothing to re-read: no configuration file was given")
			continue
		}
		cfg, err := d.cfg.Reload()
		if err != nil {
			d.log.Error("configuration not re-read; the old one stays", "error", err)
			continue
		}
		d.wanted.Store(cfg)
		d.machine.changed.wake()
		d.log.Info("configuration re-read")
	}
}
