package noded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/serve"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/bundle"
	"github.com/rota-hpc/rota/noded/checkpoint"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/controllers"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/jobsteps"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/logs"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/mps"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/requirements"
)

// bodyTimeout is how long a client may take to send the whole of a request.
const bodyTimeout = 2 * time.Minute

// shutdownTime is how long requests in progress may take when the daemon stops.
const shutdownTime = 3 * time.Second

// daemon holds the parts that Run has opened, in this order.
type daemon struct {
	cfg         Config
	credential  *pki.Credential
	machine     machine.Machine
	journal     *journal.Journal
	outage      *follow.Outage
	http        net.Listener
	socket      net.Listener // nil if none is configured
	list        *member.List
	shims       *container.Shims
	gpus        gpu.Source
	mps         *mps.Service
	simDir      string // where jobs declare their use of simulated GPUs, "" if the GPUs are real
	logs        *logs.Store
	checkpoints *checkpoint.Store
	criu        container.Criu // without a path: this node saves no processes
	bundles     *bundle.Store
	control     *controllers.Controllers
	jobs        *jobAPI
	agent       *Agent
}

// Run is the node daemon. It returns nil when ctx ends; containers go on running.
func Run(ctx context.Context, cfg Config) (err error) {
	unix.Umask(0o022) // jobs' users must be able to enter the directories made here, whatever the umask of the caller
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	d := &daemon{cfg: cfg}
	if cfg.Login {
		defer func() { err = errors.Join(err, d.close()) }()
		return d.runLogin(ctx)
	}
	err = checkRequirements(cfg)
	if err == nil {
		err = d.loadCredential()
	}
	if err != nil {
		requirements.RemoveCgroups(cfg.CgroupRoot, container.ShimsGroup)
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, open := range []func(context.Context) error{d.openState, d.listen, d.openDisk, d.newAgent} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return d.run(ctx)
}

// loadCredential reads this machine's credential of its cluster.
func (d *daemon) loadCredential() (err error) {
	role, flag := pki.Node, ""
	if d.cfg.Login {
		role, flag = pki.Login, " --login"
	}
	d.credential, err = pki.Load(pki.Dir(d.cfg.DataDir))
	if errors.Is(err, pki.ErrNoCredential) {
		return fmt.Errorf("%w (%s): join one with rota-noded join%s ADDR --token TOKEN, with the same --name and --data-dir",
			err, d.cfg.DataDir, flag)
	}
	if err != nil {
		return err
	}
	switch m := d.credential.Member; {
	case m.Role != role:
		return fmt.Errorf("the certificate in %s is for a machine of role %s: join as %s with rota-noded join%s",
			d.cfg.DataDir,
			m.Role, role, flag)
	case m.Name != d.cfg.Name:
		return fmt.Errorf("--name %s: this machine joined as %s: start it with --name %s", d.cfg.Name, m.Name, m.Name)
	}
	return nil
}

// runLogin runs a login node until ctx ends: its socket, gossip to find controllers, and nothing
// else.
func (d *daemon) runLogin(ctx context.Context) (err error) {
	if err := checkDataDir(d.cfg.DataDir, d.cfg.Logger); err != nil {
		return err
	}
	if err := d.loadCredential(); err != nil {
		return err
	}
	if d.socket, err = serve.Unix(d.cfg.Socket); err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	if err := d.gossip(""); err != nil {
		return err
	}
	d.control = &controllers.Controllers{Credential: d.credential, Static: d.cfg.Controllers, Log: d.cfg.Logger}
	group, running := errgroup.WithContext(ctx)
	d.runAsMember(group, running)
	d.supervise(group, running, d.gossipTurns, d.control.Status)
	d.cfg.Logger.Info("login node started", "node", d.cfg.Name, "socket", d.cfg.Socket, "version", api.Build())
	return untilDone(ctx, group.Wait())
}

// gossipTurns returns nil once the list of members has answered. It is the loop of a login node.
func (d *daemon) gossipTurns(context.Context) error {
	d.list.Peers()
	return nil
}

// runAsMember runs the duties of every node, with containers or without.
func (d *daemon) runAsMember(group *errgroup.Group, running context.Context) {
	group.Go(func() error { return d.list.Run(running) })
	group.Go(func() error { return d.control.WatchGossip(running, d.list) })
	group.Go(func() error { return d.credential.Renew(running, d.cfg.Logger, d.control.RenewCertificate) })
	group.Go(func() error { return d.control.FollowAuthority(running, serve.Loopback(d.cfg.Gossip)) })
	if d.socket != nil {
		group.Go(func() error { return d.serve(running, d.socket, d.control.ProxyHandler()) })
	}
}

// supervise runs the programs that the settings place beside the daemon.
func (d *daemon) supervise(
	group *errgroup.Group, running context.Context, alive func(context.Context) error, status func() string,
) {
	if d.cfg.Supervise != nil {
		group.Go(func() error { return d.cfg.Supervise(running, alive, status) })
	}
}

// untilDone drops the error of parts that ended because ctx did.
func untilDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// openState inspects the machine and opens the journal.
func (d *daemon) openState(ctx context.Context) (err error) {
	low, high, err := parsePorts(d.cfg.Ports)
	if err != nil {
		return err
	}
	d.machine, err = machine.Inspect(machine.Config{
		Name: d.cfg.Name, Cores: d.cfg.Cores, Memory: d.cfg.Memory, Labels: d.cfg.Labels,
		SharedPaths: d.cfg.SharedPaths,
		PortMin:     low, PortMax: high,
	})
	if err != nil {
		return err
	}
	if d.criu = findCriu(ctx, d.cfg); d.criu.Path != "" {
		d.machine.Node.Labels[jobspec.CriuLabel] = d.criu.Version
	}
	if err = checkFormat(d.cfg.DataDir); err != nil {
		return err
	}
	if d.outage, err = follow.OpenOutage(d.cfg.DataDir); err != nil {
		return err
	}
	if d.journal, err = journal.Open(filepath.Join(d.cfg.DataDir, "journal")); err != nil {
		return err
	}
	if n := d.journal.Dropped(); n > 0 {
		d.cfg.Logger.Warn("the last record of the journal was torn by a crash and is dropped", "bytes", n)
	}
	return nil
}

// listen opens the listeners and joins the gossip.
func (d *daemon) listen(context.Context) (err error) {
	if d.http, err = listenAgain(d.cfg.HTTP, d.outage.AddrOf(d.cfg.Name)); err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	d.machine.Node.Addr = d.http.Addr().String()
	if host, port, err := net.SplitHostPort(d.machine.Node.Addr); err == nil && net.ParseIP(host).IsUnspecified() {
		d.machine.Node.Addr = net.JoinHostPort(d.machine.Hostname, port)
	}
	if d.cfg.Socket != "" {
		if d.socket, err = serve.Unix(d.cfg.Socket); err != nil {
			return fmt.Errorf("--socket: %w", err)
		}
	}
	if err := d.gossip(d.machine.Node.Addr); err != nil {
		return err
	}
	if addr, known := registeredAddr(d.machine.Node.Addr, hostOnly(d.list.Addr())); known {
		d.machine.Node.IP = addr.String()
	}
	return nil
}

// listenAgain listens at an address. If any free port will do, it tries the port of the last daemon
// first. Other nodes call this port while no controller can tell them the new one.
func listenAgain(addr, last string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if _, before, lost := net.SplitHostPort(last); err == nil && port == "0" && lost == nil {
		if l, err := serve.TCP(net.JoinHostPort(host, before)); err == nil {
			return l, nil
		}
	}
	return serve.TCP(addr)
}

// gossip joins the gossip as a node that is reached at an address.
func (d *daemon) gossip(http string) (err error) {
	d.list, err = member.Open(member.Config{
		Name: d.cfg.Name, Addr: d.cfg.Gossip, Join: slices.Concat(d.cfg.Join, d.credential.Seeds),
		Credential: d.credential, Logger: d.cfg.Logger, Fast: serve.Loopback(d.cfg.Gossip),
		Meta: member.Meta{Role: member.Noded, HTTP: http, Version: api.Build(), Cluster: d.credential.Member.Cluster},
	})
	return err
}

// addrOf returns the registered address of a node's daemon if a job of this node runs there too, or
// has its checkpoint there; else "".
func (d *daemon) addrOf(node string) string { return d.agent.workers.AddrOf(node) }

// newAgent makes the agent and reads the GPUs. The inventory of simulated GPUs is not kept.
func (d *daemon) newAgent(ctx context.Context) error {
	foreign, err := noteCluster(d.cfg.DataDir, d.credential.Member.Cluster, len(d.journal.Entries()) > 0)
	if err != nil {
		return err
	}
	var file gpu.InventoryFile
	if d.cfg.SimGPUs > 0 {
		d.gpus = gpu.Sim{Node: d.cfg.Name, N: d.cfg.SimGPUs, Declared: d.simDir}
	} else {
		d.gpus = gpu.NewHelper(gpu.HelperConfig{Command: d.cfg.NVMLHelper, Log: d.cfg.Logger})
		file = gpu.InventoryFile{Path: filepath.Join(d.cfg.DataDir, "gpus.json"), BootID: d.machine.Node.BootID}
	}
	// a program has its contexts on the GPUs that it began with; simulated ones have none
	d.machine.Node.Suspends, d.machine.Node.PinsGPUs = true, d.cfg.SimGPUs == 0
	lineage, err := follow.OpenLineage(d.cfg.DataDir, d.credential.Member.Cluster)
	if err != nil {
		return err
	}
	d.control = &controllers.Controllers{Credential: d.credential, Static: d.cfg.Controllers, Log: d.cfg.Logger,
		Follows: lineage.Current}
	d.jobs = newJobAPI(filepath.Join(d.cfg.DataDir, "containers"), d.shims.ContainerOf, d.control)
	d.agent = NewAgent(Parts{
		Node: d.machine.Node, Control: d.control, Runtime: d.shims, Bundles: d.bundles, Journal: d.journal,
		Checkpoints: d.checkpoints, Criu: d.criu,
		GPUs: d.gpus, GPUFile: file, Foreign: foreign, Cores: d.machine.Cores, Log: d.cfg.Logger,
		Used: d.shims.Used, Serves: d.mps.Owns, Sockets: d.jobs,
		Lineage: lineage, Outage: d.outage, AskWitness: (&follow.WitnessClient{Credential: d.credential}).Ask,
		KeptFile: filepath.Join(d.cfg.DataDir, "kept-checkpoints.json"), Logged: d.logs.List,
	})
	d.agent.runSteps(ctx, StepParts{
		Build: d.buildStep,
		OpenIO: func(ctx context.Context, id container.ID, from int64) (*stream.Conn, error) {
			return d.shims.OpenIO(ctx, id, container.IORequest{Attach: &container.IOAttach{From: from}})
		},
		Remote: func(node string) jobsteps.Node {
			return &jobsteps.Remote{Name: node, Addr: d.addrOf, Credential: d.credential}
		},
	})
	d.jobs.runSteps(d.agent.jobSteps)
	if err := d.agent.gpus.Load(ctx); err != nil {
		return err
	}
	return d.agent.gpus.Expect(d.cfg.GPUs)
}

// buildStep writes the bundle of a part of a step.
func (d *daemon) buildStep(
	ctx context.Context, w jobsteps.Worker, id container.ID, cores []int, gpus []model.GPU, s oci.Step, p *jobsteps.Part,
) (string, error) {
	return d.bundles.BuildStep(ctx, id, w.Alloc, cores, gpus, w.Pid, s)
}

// run runs all parts until ctx ends or one of them fails.
func (d *daemon) run(ctx context.Context) error {
	group, running := errgroup.WithContext(ctx)
	d.runAsMember(group, running)
	group.Go(func() error { return d.agent.Run(running) })
	group.Go(func() error {
		if d.cfg.MPS {
			return d.mps.Run(running)
		}
		d.mps.Quit(running)
		return nil
	})
	group.Go(func() error { return d.logs.RunRetention(running, d.cfg.Logger) })
	guard := &identity.Guard{Credential: d.credential}
	mux := http.NewServeMux()
	mux.Handle("GET /v1/logs/{id}", &logs.Server{Store: d.logs, Live: d.agent.workers.Live})
	mux.HandleFunc("GET /v1/usage/{id}", d.agent.measure.ServeUsage)
	mux.Handle("GET "+checkpoint.Path+"{id}", &checkpoint.Server{Store: d.checkpoints,
		Runs: d.agent.workers.MayChangeFolder,
		May: func(ctx context.Context, id container.ID, node string) (*api.CheckpointCopy, error) {
			return d.control.MayCopy(ctx, d.cfg.Name, d.machine.Node.BootID, id.String(), node)
		}})
	mux.Handle(jobsteps.Path, (&jobsteps.Server{Local: d.agent.jobSteps.Local, Ctx: running}).Handler())
	mux.Handle(jobsteps.JobPath, d.agent.jobSteps.ForControllers())
	mux.HandleFunc("GET "+api.WitnessPath, d.agent.follow.ServeWitness)
	mux.HandleFunc("POST /v1/signal/{id}", d.agent.passSignal)
	mux.HandleFunc("GET "+api.KeptPath, d.agent.keeper.ServeKept)
	mux.HandleFunc("POST "+api.KeptPath, d.agent.keeper.DropKept)
	mux.HandleFunc("POST /v1/exec/{id}", d.execWorker)
	mux.HandleFunc("POST /v1/attach/{id}", d.attachWorker)
	mux.HandleFunc("GET /v1/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	handler := guard.Handler(mux, func(w http.ResponseWriter, _ *http.Request, err error) {
		api.WriteProblem(w, http.StatusUnauthorized, api.CodeUnauthorised, err.Error())
	})
	group.Go(func() error {
		return d.serve(running, serve.TLS(d.http, d.credential.Server(), d.credential.NameOf), identity.Fresh(d.credential,
			handler))
	})
	d.supervise(group, running, d.agent.Alive, d.agent.workers.Status)
	d.cfg.Logger.Info("node daemon started", "node", d.cfg.Name, "http", d.machine.Node.Addr, "gossip", d.list.Addr(),
		"version", api.Build())
	return untilDone(ctx, group.Wait())
}

// serve answers requests on l until ctx ends, and then waits for those in progress.
func (d *daemon) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := serve.NewServer(endDeadline(h), d.cfg.Logger)
	srv.ReadTimeout = bodyTimeout
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	if err := serve.Until(ctx, l, srv, shutdownTime); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// endDeadline ends the time within which a request must have arrived, for requests without a body:
// from now on it is the client that waits.
func endDeadline(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // an error: the connection is gone
		}
		h.ServeHTTP(w, r)
	})
}

// close closes the opened parts, in reverse order.
func (d *daemon) close() error {
	var errs []error
	if d.jobs != nil {
		d.jobs.closeAll()
	}
	if d.gpus != nil {
		errs = append(errs, d.gpus.Close())
	}
	if d.shims != nil {
		errs = append(errs, d.shims.Close())
	}
	if d.list != nil {
		errs = append(errs, d.list.Shutdown())
	}
	for _, l := range []net.Listener{d.socket, d.http} {
		if l != nil {
			_ = l.Close() // already closed if it was served
		}
	}
	if d.journal != nil {
		errs = append(errs, d.journal.Close())
	}
	if !d.cfg.Login {
		requirements.RemoveCgroups(d.cfg.CgroupRoot, container.ShimsGroup)
	}
	return errors.Join(errs...)
}
