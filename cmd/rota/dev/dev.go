// Package dev has the command dev, which runs a whole cluster on one machine.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// How long rota dev waits for a part before it fails or continues without it.
const (
	devReadyWait   = 60 * time.Second // until there is a leader and all nodes are up
	devJobsWait    = 90 * time.Second // until cancelled jobs have ended; longer than the usual kill_timeout
	devEmptyWait   = 15 * time.Second // until containers are removed after the last job
	devDaemonWait  = 10 * time.Second // until a daemon has stopped
	devRestartWait = 500 * time.Millisecond
	devPoll        = 50 * time.Millisecond
)

// devDir is the default of --dir, in which commands look for a cluster.
const devDir = ".rota"

// devOptions are the flags of rota dev.
type devOptions struct {
	dir         string // absolute path
	from        string // current directory, shared with the jobs
	controllers int
	nodes       int
	simGPUs     int
	cores       int    // 0: as many as the node finds
	memory      string // of each node; "": by what the machine has
	config      string // absolute path of the controllers' configuration; "": the defaults
	keep        bool
	jobsAs      string
	slurm       []string // names of Slurm's commands under which there are links to this program
	command     []string
}

// Commands returns the commands of this package. slurm are names of Slurm's commands that this program
// has too.
func Commands(slurm ...string) []*command.Command {
	return command.InCategory("Other", []*command.Command{{Name: "dev",
		Usage: "run a whole cluster on this machine", ArgsUsage: "[OPTIONS] [-- COMMAND...]",
		Action: func(env *command.Env, c *cli.Context) error { return runDev(env, c, slurm) },
		Description: "Starts controllers and nodes, prints \"ready ADDR\", and stops everything on Ctrl-C. With COMMAND, " +
			"runs the command with\n" +
			"ROTA_ADDR set, stops the cluster, and returns the command's exit code. Jobs see the current directory and " +
			"DIR/shared.\n" +
			"Files that jobs write there are kept. The queue, the history and output that the nodes keep are removed at the " +
			"end,\nunless --keep is given.\n" +
			"Jobs of root run as the user that called sudo, otherwise as nobody. Daemons that die are restarted. If this " +
			"process\n" +
			"is killed, its daemons die too, and the next \"rota dev\" in DIR removes what they left behind.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "directory `DIR` for all data; removed at the end if it did not exist before",
				Value: devDir},
			&cli.IntFlag{Name: "controllers", Usage: "run `N` controllers: 1, 3 or 5", Value: 1},
			&cli.IntFlag{Name: "nodes", Usage: "run `N` nodes", Value: 1},
			command.Number("sim-gpus", "give each node `N` simulated GPUs"),
			&cli.IntFlag{Name: "cores", Usage: "give each node `N` cores, possibly more than the machine has",
				DefaultText: "the machine's cores, divided among the nodes"},
			command.Switch("slurm", "put Slurm's commands into DIR/slurm, and DIR/slurm first on the PATH of COMMAND"),
			&cli.StringFlag{Name: "memory", Usage: "give each node `SIZE` of memory, such as 8G",
				DefaultText: "the machine's memory, divided among the nodes"},
			command.Text("config", "start the controllers with the configuration in `FILE`"),
			command.Switch("keep", "keep DIR at the end, and continue with its queue the next time"),
		}, EndsFlags: command.AtFirstArgument, Arguments: complete.Programs,
		Values: map[string]command.Source{"dir": complete.Files, "config": complete.Files}}})
}

// runDev runs the cluster until a signal comes or its command has ended.
func runDev(env *command.Env, c *cli.Context, slurm []string) error {
	opts, err := readOptions(env, c)
	if err != nil {
		return err
	}
	if c.Bool("slurm") {
		opts.slurm = slurm
	}
	// The kernel kills a child with PDEATHSIG when the thread that started it ends. One locked
	// thread starts all children.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	layout, err := openDev(opts)
	if err != nil {
		return err
	}
	d := &devCluster{Env: env, opts: opts, devLayout: layout, signals: signals, died: make(chan *daemon, 64)}
	result := d.runUntilStopped(c.Context)
	return errors.Join(result, d.stop())
}

func readOptions(env *command.Env, c *cli.Context) (devOptions, error) {
	o := devOptions{controllers: c.Int("controllers"), nodes: c.Int("nodes"), simGPUs: c.Int("sim-gpus"),
		cores: c.Int("cores"),
		keep:  c.Bool("keep"), command: c.Args().Slice(), jobsAs: "nobody"}
	if name := env.Getenv("SUDO_USER"); name != "" && name != "root" {
		o.jobsAs = name
	}
	var err error
	if o.dir, err = command.AbsolutePath(c.String("dir")); err != nil {
		return o, err
	}
	if o.from, err = os.Getwd(); err != nil {
		return o, fmt.Errorf("find the working directory: %w", err)
	}
	if text := c.String("memory"); text != "" {
		size, err := command.ParseSize(text)
		if err != nil {
			return o, err
		}
		o.memory = strconv.FormatInt(int64(size/jobspec.MiB), 10) + "MiB"
	}
	if file := c.String("config"); file != "" {
		if o.config, err = command.AbsolutePath(file); err != nil {
			return o, err
		}
		if _, err := os.Stat(o.config); err != nil {
			return o, exit.Usagef("--config: %v", err)
		}
	}
	return o, o.validate()
}

func (o *devOptions) validate() error {
	switch {
	case o.controllers != 1 && o.controllers != 3 && o.controllers != 5:
		return exit.Usagef("--controllers %d: must be 1, 3 or 5", o.controllers)
	case o.nodes < 1 || o.nodes > 64:
		return exit.Usagef("--nodes %d: must be from 1 to 64", o.nodes)
	case o.simGPUs < 0 || o.simGPUs > 64:
		return exit.Usagef("--sim-gpus %d: must be from 0 to 64", o.simGPUs)
	case o.cores < 0 || o.cores > 4096:
		return exit.Usagef("--cores %d: must be from 1 to 4096", o.cores)
	case o.from == "/":
		return exit.Usagef("rota dev shares the current directory with the jobs, and / cannot be shared: change to " +
			"another directory")
	case os.Geteuid() != 0:
		return &exit.CodeError{Code: exit.Denied, Text: "rota dev creates containers and cgroups, so it needs root: run  " +
			"sudo rota dev"}
	}
	return nil
}

// devCluster is a running cluster. One goroutine calls its methods and starts processes.
type devCluster struct {
	*command.Env
	devLayout
	opts    devOptions
	signals chan os.Signal
	died    chan *daemon
	daemons []*daemon
	client  *api.Client
	ready   bool // it has had a leader and all nodes, so that there may be jobs
}

// runUntilStopped starts all daemons, prints that the cluster is ready, and returns when it must
// stop.
func (d *devCluster) runUntilStopped(ctx context.Context) error {
	client, err := api.Dial(d.addr)
	if err != nil {
		return err
	}
	d.client = client
	for _, spec := range d.specs(d.opts) {
		p, err := d.startDaemon(spec)
		if err != nil {
			return err
		}
		d.daemons = append(d.daemons, p)
	}
	if err := d.awaitReady(ctx); err != nil {
		return err
	}
	d.ready = true
	if err := os.WriteFile(d.path("addr"), []byte(d.addr+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the address: %w", err)
	}
	d.noteNoWrite()
	if len(d.opts.command) > 0 {
		return d.runCommand()
	}
	d.noteReach()
	d.sayReady(d.Stdout)
	return d.supervise(nil)
}

// noteReach says how commands in other terminals find the cluster.
func (d *devCluster) noteReach() {
	if d.dir == filepath.Join(d.opts.from, devDir) {
		d.Notef("commands in %s and below find this cluster; elsewhere: export ROTA_ADDR=%s", d.opts.from, d.addr)
		return
	}
	d.Notef("in other terminals: export ROTA_ADDR=%s", d.addr)
}

// sayReady says where the cluster is, and where Slurm's commands are.
func (d *devCluster) sayReady(out io.Writer) {
	fmt.Fprintf(out, "ready %s\n", d.addr)
	if len(d.opts.slurm) > 0 {
		fmt.Fprintf(out, "slurm %s\n", d.path(slurmDir))
	}
}

// awaitReady waits for a leader and for all nodes.
func (d *devCluster) awaitReady(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, devReadyWait)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.awaitMembers(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("the cluster was not ready after %s: %w%s", devReadyWait, err, d.allTails())
		}
		return nil
	case p := <-d.died:
		return fmt.Errorf("%s ended while starting: %w%s", p.name, p.reason(), p.tail())
	case s := <-d.signals:
		return fmt.Errorf("%s: %w", s, exit.ErrInterrupted)
	}
}

// awaitMembers waits until the cluster has a leader and all nodes.
func (d *devCluster) awaitMembers(ctx context.Context) error {
	ticker := time.NewTicker(devPoll)
	defer ticker.Stop()
	for {
		missing := d.missingMembers(ctx)
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return missing
		case <-ticker.C:
		}
	}
}

// missingMembers returns an error that names what the cluster lacks.
func (d *devCluster) missingMembers(ctx context.Context) error {
	cl, _, err := d.client.Cluster(ctx)
	if err != nil {
		return err
	}
	if cl.Leader == "" {
		return errors.New("no leader")
	}
	if len(cl.Controllers) < d.opts.controllers {
		return fmt.Errorf("%d of %d controllers", len(cl.Controllers), d.opts.controllers)
	}
	nodes, _, err := d.client.Nodes(ctx, api.Read{})
	if err != nil {
		return err
	}
	up := 0
	for _, n := range nodes.Items {
		if !strings.HasPrefix(n.State, "down") {
			up++
		}
	}
	if up < d.opts.nodes {
		return fmt.Errorf("%d of %d nodes", up, d.opts.nodes)
	}
	return nil
}

// supervise restarts daemons that die, until a signal comes or finished delivers.
func (d *devCluster) supervise(finished <-chan error) error {
	restarts := make(chan *daemon, 64)
	for {
		select {
		case err := <-finished:
			return err
		case s := <-d.signals:
			if finished == nil {
				return nil
			}
			d.forward(s)
		case p := <-d.died:
			if p.diedTooOften() {
				return fmt.Errorf("%s keeps dying: %w%s", p.name, p.reason(), p.tail())
			}
			d.Notef("%s died (%v) and is restarted", p.name, p.reason())
			time.AfterFunc(devRestartWait, func() { restarts <- p })
		case p := <-restarts:
			if err := d.launch(p); err != nil {
				return err
			}
		}
	}
}

// forward sends a signal to the command. The terminal has already sent Ctrl-C to it.
func (d *devCluster) forward(s os.Signal) {
	if s == os.Interrupt || d.commandProcess == nil {
		return
	}
	_ = d.commandProcess.Signal(s) // it may have ended
}

// runCommand runs the command with ROTA_ADDR set, and returns its exit code.
func (d *devCluster) runCommand() error {
	cmd := exec.Command(d.program(d.opts.command[0]), d.opts.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.Stdin, d.Stdout, d.Stderr
	search := os.Getenv("PATH") + ":" + d.bin
	if len(d.opts.slurm) > 0 {
		search = d.path(slurmDir) + ":" + search
	}
	cmd.Env = append(os.Environ(), "ROTA_ADDR="+d.addr, "PATH="+search)
	d.sayReady(d.Stderr)
	if err := cmd.Start(); err != nil {
		return &exit.CodeError{Code: 127, Text: fmt.Sprintf("run %s: %v", d.opts.command[0], err)}
	}
	d.commandProcess = cmd.Process
	finished := make(chan error, 1)
	go func() { finished <- cmd.Wait() }()
	err := d.supervise(finished)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return exit.WithCode(codeOf(ended.ProcessState))
	}
	return err
}

// program returns the path of a command, where Slurm's names come first on the PATH, and our own
// programs last.
func (d *devCluster) program(name string) string {
	if slices.Contains(d.opts.slurm, name) {
		return filepath.Join(d.path(slurmDir), name)
	}
	if _, err := exec.LookPath(name); err != nil && !strings.Contains(name, "/") {
		if ours, err := exec.LookPath(filepath.Join(d.bin, name)); err == nil {
			return ours
		}
	}
	return name
}

// codeOf returns a process's exit code, or 128 plus the signal that ended it.
func codeOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
