// Command rota-noded is the node daemon: its flags and configuration file, and one call to
// noded.Run. Code shared with rota-controld is in cmd/daemon. The hidden command nvml-helper is the
// child process that talks to NVIDIA's driver (noded/gpu).
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/config"
	"github.com/rota-hpc/rota/noded/gpu/nvml"
)

func main() { daemon.Main("rota-noded", run) }

func run(ctx context.Context, args []string, stderr io.Writer) error {
	own := flags(noded.DefaultConfig())
	app := daemon.NewApp("rota-noded", "node daemon of a Rota cluster", stderr, own, func(c *cli.Context) error {
		cfg, err := readSettings(c)
		if err != nil {
			return err
		}
		if cfg.Logger, err = daemon.NewLogger(c.String("log-format"), stderr); err != nil {
			return err
		}
		daemon.WarnOfPreRelease(cfg.Logger)
		cfg.Supervise = daemon.NewNotifier(cfg.Logger).Supervise
		go answerReloads(c.Context, cfg.Logger)
		return noded.Run(c.Context, cfg)
	})
	app.Commands = []*cli.Command{{
		Name: "nvml-helper", Hidden: true, Usage: "answer the node daemon's queries about GPUs on standard input and output",
		Flags:  []cli.Flag{&cli.StringFlag{Name: "library"}},
		Action: func(c *cli.Context) error { return nvml.Serve(c.String("library"), os.Stdin, os.Stdout) },
	}}
	app.Commands = append(app.Commands, daemon.FormatCommand(strconv.Itoa(noded.DataFormat), os.Stdout),
		daemon.JoinCommand("rota-noded", []cli.Flag{
			&cli.StringFlag{Name: "name", Value: noded.DefaultConfig().Name,
				Usage: "`NAME` of this node, unique in the cluster"},
			&cli.StringFlag{Name: "data-dir", Value: noded.DefaultConfig().DataDir,
				Usage: "`DIR` for journal, containers and logs"},
			&cli.StringFlag{Name: "config", Usage: "read name, data_dir and login from `FILE.hcl`; flags take precedence"},
			&cli.BoolFlag{Name: "login", Usage: "join as a login node"},
		}, os.Stdout, roleOf, placeOf))
	return app.RunContext(ctx, daemon.ArgumentLast(args))
}

// roleOf is the role in which a machine joins.
func roleOf(c *cli.Context) pki.Role {
	if c.Bool("login") {
		return pki.Login
	}
	return pki.Node
}

// placeOf returns what the flags of join and the configuration file say.
func placeOf(c *cli.Context) (daemon.Identity, error) {
	if path := c.String("config"); path != "" {
		f, err := config.Read(path)
		if err != nil {
			return daemon.Identity{}, fmt.Errorf("--config: %w", err)
		}
		if err := daemon.SetFlags(c, &config.File{Name: f.Name, DataDir: f.DataDir, Login: f.Login}); err != nil {
			return daemon.Identity{}, err
		}
	}
	return daemon.Identity{Name: c.String("name"), DataDir: c.String("data-dir")}, nil
}

// answerReloads logs, for each SIGHUP, that the node daemon has no settings that it can re-read.
func answerReloads(ctx context.Context, log *slog.Logger) {
	hangups := daemon.Reloads()
	for {
		select {
		case <-hangups:
			log.Info("SIGHUP re-reads nothing: restart the node daemon to apply new settings; running jobs continue")
		case <-ctx.Done():
			return
		}
	}
}

func flags(d noded.Config) []cli.Flag {
	text := func(name, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: value, Usage: usage}
	}
	list := func(name, usage string) cli.Flag { return &cli.StringSliceFlag{Name: name, Usage: usage} }
	return []cli.Flag{
		text("name", d.Name, "`NAME` of this node, unique in the cluster"),
		text("data-dir", d.DataDir, "`DIR` for journal, containers and logs"),
		text("gossip", d.Gossip, "`ADDR` for discovery"),
		text("http", "", "`ADDR` of the listener that logs are read from (default: a free port on the host of "+
			"--gossip)"),
		&cli.BoolFlag{Name: "login", Usage: "run as a login node: a socket for local users, but no jobs"},
		list("join", "gossip `ADDR` of any daemon in the cluster, in addition to those that it remembers"),
		list("controller", "`ADDR` of a controller, in addition to those that gossip finds"),
		text("socket", d.Socket, "unix socket `PATH` for local users; empty for none"),
		&cli.IntFlag{Name: "cores", Usage: "`N` cores for jobs; if the machine has fewer, jobs get shares of processor time",
			DefaultText: "all"},
		text("memory", "", "`SIZE` of memory for jobs, such as 64GiB (default: all but 5 %)"),
		&cli.IntFlag{Name: "gpus", Usage: "refuse to start with fewer than `N` GPUs"},
		&cli.IntFlag{Name: "sim-gpus", Usage: "`N` simulated GPUs instead of real ones"},
		&cli.BoolFlag{Name: "mps", Usage: "use NVIDIA's Multi-Process Service for jobs with parts of GPUs"},
		list("label", "give this node the label `KEY=VALUE`"),
		text("cgroup-root", "", "`PATH` below which containers get their cgroups (default: /rota/NAME)"),
		list("shared-path", "`DIR` that all nodes share, in addition to /home, /shared and /data"),
		text("ports", "", "range `LOW-HIGH` for MASTER_PORT"),
		text("shim", "", "`PATH` of rota-shim (default: beside this program or in ../libexec/rota)"),
		text("init", "", "`PATH` of rota-init (default: beside this program or in ../libexec/rota)"),
		text("rota", "", "`PATH` of the rota program for use in jobs (default: in ../libexec/rota or beside this program)"),
		&cli.IntFlag{Name: "warm-shims", Value: d.WarmShims, Usage: "`N` shims started in advance"},
		text("max-memlock", "", "most memory that a task may lock, `SIZE` (default: unlimited)"),
		&cli.Int64Flag{Name: "max-nofile", Usage: "most files that a task may have open, `N`",
			DefaultText: "no bound"},
		&cli.Int64Flag{Name: "max-pids", Usage: "most processes and threads of a worker, `N`",
			DefaultText: "4096 and 512 for each core"},
		text("max-output-rate", d.MaxOutputRate.String(),
			"most output of a worker per second, `SIZE`: a faster worker has to wait; 0B: unlimited"),
		text("max-logs", d.MaxLogs.String(),
			"most space for the logs of jobs, `SIZE`: beyond it the oldest are removed; 0B: unlimited"),
		&cli.BoolFlag{Name: "allow-root-jobs", Usage: "run jobs whose user is root"},
		&cli.BoolFlag{Name: "allow-user-namespaces", Usage: "allow jobs to create user namespaces"},
		&cli.BoolFlag{Name: "criu", Usage: "save whole containers with CRIU, and restore containers that other nodes have " +
			"saved"},
		text("criu-program", "", "`PATH` of CRIU 4.3.1 or later (default: criu from $PATH)"),
	}
}

// readSettings merges flags, configuration file and defaults, in this order of precedence.
func readSettings(c *cli.Context) (noded.Config, error) {
	if path := c.String("config"); path != "" {
		if err := readFile(c, path); err != nil {
			return noded.Config{}, err
		}
	}
	cfg := noded.Config{
		Name: c.String("name"), DataDir: c.String("data-dir"), Gossip: c.String("gossip"), HTTP: c.String("http"),
		Join: daemon.SplitList(c.StringSlice("join")), Controllers: daemon.SplitList(c.StringSlice("controller")),
		Socket: c.String("socket"), Cores: c.Int("cores"), GPUs: c.Int("gpus"), SimGPUs: c.Int("sim-gpus"),
		MPS:         c.Bool("mps"),
		CgroupRoot:  c.String("cgroup-root"),
		SharedPaths: daemon.SplitList(c.StringSlice("shared-path")), Ports: c.String("ports"),
		Login: c.Bool("login"), ShimPath: c.String("shim"), InitPath: c.String("init"), RotaPath: c.String("rota"),
		WarmShims: c.Int("warm-shims"), MaxNofile: c.Int64("max-nofile"), MaxPids: c.Int64("max-pids"),
		AllowRootJobs: c.Bool("allow-root-jobs"), AllowUserNamespaces: c.Bool("allow-user-namespaces"),
		Criu: c.Bool("criu"), CriuProgram: c.String("criu-program"),
	}
	var err error
	for flag, size := range map[string]*jobspec.Bytes{"memory": &cfg.Memory, "max-memlock": &cfg.MaxMemlock,
		"max-output-rate": &cfg.MaxOutputRate, "max-logs": &cfg.MaxLogs} {
		if s := c.String(flag); s != "" {
			if *size, err = jobspec.ParseSize(s); err != nil {
				return cfg, fmt.Errorf("--%s: %w", flag, err)
			}
		}
	}
	cfg.Labels, err = parseLabels(daemon.SplitList(c.StringSlice("label")))
	return cfg, err
}

func parseLabels(values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		key, value, ok := strings.Cut(v, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--label %q: write KEY=VALUE", v)
		}
		out[key] = value
	}
	return out, nil
}
