// Package controld is the control daemon: it replicates the cluster's state, schedules while it
// leads, and serves the API.
//
// [Run] opens the parts and connects them: the log, gossip, the history, the server that answers
// requests and the leader that schedules. Each part is a package of its own.
package controld

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// Config is the complete configuration of the daemon. Zero durations mean the values of
// DefaultConfig.
type Config struct {
	Name      string   // of this controller, unique in the cluster
	DataDir   string   // log, snapshots and history
	HTTP      string   // host:port of the API
	Raft      string   // host:port for the other controllers
	Gossip    string   // host:port for discovery
	Advertise string   // host that others use when the above listen on every address; "" finds one
	Socket    string   // unix socket for local users; "" for none
	Join      []string // gossip addresses of any members, besides those known since it joined
	// Loopback is host:port of plain HTTP for the users of this machine, for rota dev; "" for none.
	Loopback      string
	AllowRootJobs bool
	RootJobsAs    string // account that the jobs of root run as

	// Cluster is the replicated configuration that this controller proposes when it leads; nil
	// keeps the current one.
	Cluster *cluster.Config
	// Reload, if set, returns Cluster again after a signal on ReloadOn.
	Reload func() (*cluster.Config, error)
	// ReloadOn delivers requests to reload. It may be nil.
	ReloadOn <-chan os.Signal

	Heartbeat   time.Duration // of the log; zero: the default of package consensus
	Election    time.Duration
	LeaderLease time.Duration
	KeepRecords int           // finished jobs that stay in the state although the history has them
	KeepFor     time.Duration // and for how long at most
	Shutdown    time.Duration // for requests in progress
	AuditFor    time.Duration // how long entries of the audit log are kept
	AuditMost   int64         // and how many at most

	Logger *slog.Logger
	// Ready, if set, is called once all listeners are open.
	Ready func(Addresses)
	// Supervise, if set, runs beside the daemon from the time at which its API answers, until its
	// context ends. Alive returns nil once the API and the log's main loop have answered, with or
	// without a leader. Status is one line for people.
	Supervise func(ctx context.Context, alive func(context.Context) error, status func() string) error

	knows int // greatest cluster version that this controller can apply; 0: fsm.LatestVersion. Only tests set it
}

// Addresses are where a daemon can be reached.
type Addresses struct {
	HTTP, Raft, Gossip string
	Loopback           string // of plain HTTP for users of this machine; "" for none
}

// DefaultConfig is a controller on the default ports of this machine.
func DefaultConfig() Config {
	name, _ := os.Hostname() // an empty name is refused by Validate
	return Config{
		Name: name, DataDir: "/var/lib/rota/controld", HTTP: "127.0.0.1:7070", Raft: "127.0.0.1:7071",
		Gossip:      "127.0.0.1:7072",
		Socket:      "/run/rota/rota.sock",
		KeepRecords: 1000, KeepFor: 5 * time.Minute, Shutdown: 5 * time.Second,
		AuditFor: 90 * 24 * time.Hour, AuditMost: 1_000_000,
	}
}

// latestVersion returns the greatest cluster version that this controller can apply.
func (c Config) latestVersion() int { return cmp.Or(c.knows, fsm.LatestVersion) }

// Validate returns every problem of c, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !member.ValidName(c.Name) {
		bad("--name %q: a name has 1 to 63 letters, digits, '-', '_' or '.'", c.Name)
	}
	if c.DataDir == "" {
		bad("--data-dir is not set: name a directory that only this controller uses")
	}
	for _, a := range c.listens() {
		if err := checkAddr(a.addr); err != nil {
			bad("%s %q: %w", a.flag, a.addr, err)
		}
	}
	if c.Loopback != "" && !serve.Loopback(c.Loopback) {
		bad("--loopback-http %s: plain HTTP is for users of this machine only: listen on 127.0.0.1", c.Loopback)
	}
	return errors.Join(errs...)
}

type listenAddr struct{ flag, addr string }

func (c Config) listens() []listenAddr {
	return []listenAddr{{"--http", c.HTTP}, {"--raft", c.Raft}, {"--gossip", c.Gossip}}
}

func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("write host:port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("the port is a number from 0 to 65535")
	}
	return nil
}

// advertised replaces the host of a listener on every address by one that others can dial.
func advertised(listening, host string) (string, error) {
	h, port, err := net.SplitHostPort(listening)
	if err != nil {
		return "", fmt.Errorf("address %s: %w", listening, err)
	}
	ip, err := netip.ParseAddr(h)
	if err != nil || !ip.IsUnspecified() {
		return listening, nil
	}
	if host == "" {
		if host, err = ownAddress(); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, port), nil
}

// ownAddress is the first address of this machine that is not loopback.
func ownAddress() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("own address: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("this machine has only loopback addresses: set --advertise HOST")
}
