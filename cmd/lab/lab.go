// Package lab runs a cluster of real daemons on one machine, for end-to-end tests and measurements.
// Each daemon is a process of its own. They run on loopback, or each machine in a network namespace
// that the lab makes and removes.
package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
)

// Options say what cluster to run.
type Options struct {
	Bin         string // directory with the programs
	Dir         string // everything lies below it; it must exist
	Controllers int
	Nodes       int
	GPUs        int      // simulated, on each node
	Cores       int      // declared by each node
	Shared      []string // paths that jobs share
	Namespaces  bool     // a network namespace for each machine
	Disks       string   // size of a disk of its own, in memory, for the data of each daemon, such as "64m"; "": none
	Loopback    bool     // controllers serve plain HTTP on loopback too, to measure what TLS costs
	Controld    []string // further flags of every control daemon
	Noded       []string // further flags of every node daemon
}

// Cluster is a running cluster.
type Cluster struct {
	Options
	Controllers []*Daemon
	Nodes       []*Daemon
	nets        *network
	cgroup      string
	seeds       []string
}

// Daemon is one process of the cluster, which may be killed and started again.
type Daemon struct {
	Name   string
	Socket string
	Data   string
	Log    string
	HTTP   string   // of a control daemon
	Plain  string   // the same, without TLS, if Options.Loopback
	Env    []string // beside the lab's own environment, from the next start on
	argv   []string
	host   *host
	cmd    *exec.Cmd
	ended  chan struct{}
}

// Start starts every daemon and waits until a leader is known, all controllers vote and all nodes are up.
// Stop must be called also after an error.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Options: o, cgroup: fmt.Sprintf("/rota-lab-%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)}
	if err := c.prepare(ctx); err != nil {
		return c, err
	}
	for _, d := range slices.Concat(c.Controllers, c.Nodes) {
		if err := d.Start(); err != nil {
			return c, err
		}
	}
	if err := c.Ready(ctx); err != nil {
		return c, err
	}
	return c, c.vote(ctx)
}

// vote waits until all controllers vote: before that the loss of one may be the loss of a majority.
func (c *Cluster) vote(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		voters := 0
		info, _, err := client.Cluster(ctx)
		if err == nil {
			for _, m := range info.Controllers {
				if m.Voter {
					voters++
				}
			}
		}
		if voters >= c.Options.Controllers {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err, fmt.Errorf("%d of %d controllers vote", voters, c.Options.Controllers))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// prepare lays out machines, addresses and command lines.
func (c *Cluster) prepare(ctx context.Context) error {
	if c.Namespaces {
		var err error
		if c.nets, err = newNetwork(ctx, c.Options.Controllers+c.Options.Nodes); err != nil {
			return err
		}
	}
	var gossip []string
	for i := range c.Options.Controllers {
		d, addr, err := c.controller(i)
		if err != nil {
			return err
		}
		c.Controllers, gossip = append(c.Controllers, d), append(gossip, addr)
	}
	for i := range c.Options.Nodes {
		d, err := c.node(i)
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, d)
	}
	return c.makeMembers(gossip)
}

// makeMembers makes the cluster with the first controller, and gives every other daemon what it
// would get by joining.
func (c *Cluster) makeMembers(seeds []string) error {
	first := c.Controllers[0]
	c.seeds = seeds
	if _, err := pki.Init(pki.Dir(first.Data), first.Name); err != nil {
		return err
	}
	signer, err := c.Credential()
	if err != nil {
		return err
	}
	for _, d := range c.Controllers[1:] {
		if err := signer.Issue(pki.Dir(d.Data), pki.Controller, d.Name, seeds); err != nil {
			return err
		}
	}
	for _, d := range c.Nodes {
		if err := signer.Issue(pki.Dir(d.Data), pki.Node, d.Name, seeds); err != nil {
			return err
		}
	}
	return nil
}

// Seeds are the gossip addresses of the controllers, which a machine that joins is told.
func (c *Cluster) Seeds() []string { return c.seeds }

// Credential is that of the first controller, with which a test connects as it.
func (c *Cluster) Credential() (*pki.Credential, error) {
	return pki.Load(pki.Dir(c.Controllers[0].Data))
}

// Join makes a further member, as a machine with a join token becomes one, and returns its
// credential. No daemon runs for it.
func (c *Cluster) Join(role pki.Role, name string) (*pki.Credential, error) {
	signer, err := c.Credential()
	if err != nil {
		return nil, err
	}
	dir := pki.Dir(filepath.Join(c.Dir, string(role)+"-"+name))
	if err := signer.Issue(dir, role, name, nil); err != nil {
		return nil, err
	}
	return pki.Load(dir)
}

// HTTPS is where members of the cluster reach its controllers: the addresses of all of them.
func (c *Cluster) HTTPS() string {
	var addrs []string
	for _, d := range c.Controllers {
		addrs = append(addrs, d.HTTP)
	}
	return strings.Join(addrs, ",")
}

// host returns machine i, or nil on loopback, where all daemons share one.
func (c *Cluster) host(i int) *host {
	if c.nets == nil {
		return nil
	}
	return c.nets.hosts[i]
}

// addr is a listening address on h: the wanted port in a namespace, a free one on loopback.
func addr(h *host, port int) (string, error) {
	if h != nil {
		return net.JoinHostPort(h.ip, strconv.Itoa(port)), nil
	}
	return freeAddr()
}

// Ports that freeAddr tries. A daemon that asks for any port gets one of the kernel's, which are
// higher. So it cannot take a port that another daemon was told to listen on.
const (
	portMin   = 26_000 // above what jobPorts gives
	portMax   = 32_000
	portTries = 100
)

// given are the ports that freeAddr has returned: their daemon may not listen there yet.
var given sync.Map

// freeAddr returns an address on loopback on which no process listens, by TCP or UDP, another one
// each time.
func freeAddr() (string, error) {
	var errs error
	for range portTries {
		port := portMin + rand.IntN(portMax-portMin)
		if _, twice := given.LoadOrStore(port, true); twice {
			continue
		}
		a := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", a)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		u, err := net.ListenPacket("udp", a)
		if err = errors.Join(err, l.Close()); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		return a, u.Close()
	}
	return "", fmt.Errorf("no port is free: %w", errs)
}

func (c *Cluster) daemon(program, name string, h *host) (*Daemon, error) {
	d := &Daemon{
		Name: name, host: h, Socket: filepath.Join(c.Dir, name+".sock"), Data: filepath.Join(c.Dir, name),
		Log: filepath.Join(c.Dir, name+".log"),
	}
	d.argv = []string{filepath.Join(c.Bin, program), "--name", name, "--data-dir", d.Data, "--socket", d.Socket}
	if err := os.MkdirAll(d.Data, 0o700); err != nil || c.Disks == "" {
		return d, err
	}
	return d, d.mountDisk(c.Disks)
}

// Daemon lays out one more daemon of a program, on loopback, with further flags. It is for the caller
// to make it a member, to start and to end it.
func (c *Cluster) Daemon(program, name string, flags ...string) (*Daemon, error) {
	d, err := c.daemon(program, name, nil)
	if err == nil {
		d.argv = append(d.argv, flags...)
	}
	return d, err
}

func (c *Cluster) controller(i int) (*Daemon, string, error) {
	h := c.host(i)
	d, err := c.daemon("rota-controld", fmt.Sprintf("c%d", i+1), h)
	if err != nil {
		return nil, "", err
	}
	var addrs [3]string
	for p := range addrs {
		if addrs[p], err = addr(h, 7070+p); err != nil {
			return nil, "", err
		}
	}
	d.HTTP = "https://" + addrs[0]
	d.argv = append(d.argv, "--http", addrs[0], "--raft", addrs[1], "--gossip", addrs[2])
	if c.Loopback {
		at, err := freeAddr()
		if err != nil {
			return nil, "", err
		}
		d.Plain = "http://" + at
		d.argv = append(d.argv, "--loopback-http", at)
	}
	d.argv = append(d.argv, c.Controld...)
	return d, addrs[2], nil
}

func (c *Cluster) node(i int) (*Daemon, error) {
	h := c.host(c.Options.Controllers + i)
	name := fmt.Sprintf("n%d", i+1)
	d, err := c.daemon("rota-noded", name, h)
	if err != nil {
		return nil, err
	}
	at, err := addr(h, 7072)
	if err != nil {
		return nil, err
	}
	d.argv = append(d.argv, "--gossip", at, "--cgroup-root", c.cgroup+"/"+name)
	if c.GPUs > 0 {
		d.argv = append(d.argv, "--sim-gpus", strconv.Itoa(c.GPUs))
	}
	if c.Cores > 0 {
		d.argv = append(d.argv, "--cores", strconv.Itoa(c.Cores))
	}
	if h == nil {
		d.argv = append(d.argv, "--ports", jobPorts())
	}
	for _, p := range c.Shared {
		d.argv = append(d.argv, "--shared-path", p)
	}
	d.argv = append(d.argv, c.Noded...)
	return d, nil
}

// nodesOnLoopback counts the nodes that this process has laid out on its own machine.
var nodesOnLoopback atomic.Int64

// jobPorts is a range for the MASTER_PORTs of a node on loopback: one that no node near it in time
// has, and no daemon.
func jobPorts() string {
	const low, block = 20_000, 100
	const blocks = (portMin - low) / block
	first := low + block*((os.Getpid()+int(nodesOnLoopback.Add(1)))%blocks)
	return fmt.Sprintf("%d-%d", first, first+block-1)
}

// Start runs the daemon; after Kill or Term it runs it again on the same data. Its output is
// appended to Log. The process is told to die with the lab.
func (d *Daemon) Start() error {
	out, err := os.OpenFile(d.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	argv := d.argv
	if d.host != nil {
		// Not `ip netns exec`, which hides /sys and with it the cgroups.
		argv = append([]string{"nsenter", "--net=/run/netns/" + d.host.namespace}, argv...)
	}
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Stdout, d.cmd.Stderr, d.cmd.Env = out, out, append(os.Environ(), d.Env...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	d.ended = make(chan struct{})
	go func() {
		_ = d.cmd.Wait()
		close(d.ended)
	}()
	return nil
}

// Pid is the daemon's process.
func (d *Daemon) Pid() int { return d.cmd.Process.Pid }

// Running reports whether the process has not ended.
func (d *Daemon) Running() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// ExitCode is that of a daemon that has ended; -1 while it runs, and when a signal ended it.
func (d *Daemon) ExitCode() int {
	if d.Running() || d.cmd == nil {
		return -1
	}
	return d.cmd.ProcessState.ExitCode()
}

// WaitEnd waits until the daemon has ended, and returns false when it has not within limit.
func (d *Daemon) WaitEnd(limit time.Duration) bool {
	select {
	case <-d.ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// Kill ends the daemon at once, as a power cut would, and waits until it is gone.
func (d *Daemon) Kill() { d.end(syscall.SIGKILL, time.Minute) }

// Pause stops the process as a machine that hangs would; Continue lets it go on. They do nothing to a
// daemon that has ended.
func (d *Daemon) Pause() error { return d.signal(syscall.SIGSTOP) }

// Continue undoes Pause.
func (d *Daemon) Continue() error { return d.signal(syscall.SIGCONT) }

func (d *Daemon) signal(sig syscall.Signal) error {
	if err := d.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Term asks the daemon to end and waits until it has; after a minute it is killed.
func (d *Daemon) Term() { d.end(syscall.SIGTERM, time.Minute) }

func (d *Daemon) end(sig syscall.Signal, patience time.Duration) {
	if !d.Running() {
		return
	}
	_ = d.cmd.Process.Signal(sig)
	_ = d.Continue() // a signal reaches a paused process when it goes on
	select {
	case <-d.ended:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}

// LogTail is the end of the daemon's output, for a test that failed.
func (d *Daemon) LogTail(bytes int) string {
	b, err := os.ReadFile(d.Log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-bytes):])
}

// Addr is where commands reach the cluster: the sockets of all controllers.
func (c *Cluster) Addr() string {
	var addrs []string
	for _, d := range c.Controllers {
		addrs = append(addrs, "unix:"+d.Socket)
	}
	return strings.Join(addrs, ",")
}

// Client is a client of the whole cluster.
func (c *Cluster) Client() (*api.Client, error) { return api.Dial(c.Addr()) }

// Ready waits until a leader is known and every node is up.
func (c *Cluster) Ready(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		last := c.check(ctx, client)
		if last == nil {
			return nil
		}
		if d := c.dead(); d != nil {
			return fmt.Errorf("%s has ended:\n%s", d.Name, d.LogTail(2000))
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Cluster) check(ctx context.Context, client *api.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, _, err := client.Nodes(ctx, api.Read{Consistent: true})
	if err != nil {
		return err
	}
	up := 0
	for _, n := range list.Items {
		if n.State != "down" {
			up++
		}
	}
	if up < c.Options.Nodes {
		return fmt.Errorf("%d of %d nodes are up", up, c.Options.Nodes)
	}
	return nil
}

func (c *Cluster) dead() *Daemon {
	for _, d := range slices.Concat(c.Controllers, c.Nodes) {
		if d.cmd != nil && !d.Running() {
			return d
		}
	}
	return nil
}

// Leader returns the controller that leads, as any of them tells.
func (c *Cluster) Leader(ctx context.Context) (*Daemon, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for {
		if info, _, err := client.Cluster(ctx); err == nil {
			for _, d := range c.Controllers {
				if d.Name == info.Leader && d.Running() {
					return d, nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no leader: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Rota is a command line of the rota command against this cluster.
func (c *Cluster) Rota(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "rota"), args...)
	cmd.Env = append(os.Environ(), "ROTA_ADDR="+c.Addr(), "NO_COLOR=1")
	return cmd
}

// Stop ends everything and removes what the lab made outside Dir: shims that outlived their daemon,
// cgroups, namespaces.
func (c *Cluster) Stop() error {
	c.Term()
	err := removeCgroups(c.cgroup)
	if c.Disks != "" {
		for _, d := range slices.Concat(c.Nodes, c.Controllers) {
			err = errors.Join(err, d.unmountDisk())
		}
	}
	if c.nets != nil {
		err = errors.Join(err, c.nets.close())
	}
	return err
}
