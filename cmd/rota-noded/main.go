// Rota-noded is the node daemon: flags, configuration, signals, and one call to noded.Run.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded"
	"github.com/rota-hpc/rota/noded/gpu"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rota-noded:", strings.ReplaceAll(err.Error(), "\n", "\nrota-noded: "))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	defaults := noded.DefaultConfig()
	app := &cli.App{
		Name: "rota-noded", Usage: "run the jobs of a Rota cluster on this machine", Version: api.Build(),
		HideHelpCommand: true, ErrWriter: stderr, Flags: flags(defaults),
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return fmt.Errorf("%w (--help lists the flags)", err)
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("argument %q is not understood: everything is said by flags", c.Args().First())
			}
			if path := c.String("config"); path != "" {
				if err := readFile(c, path); err != nil {
					return err
				}
			}
			cfg, err := config(c)
			if err != nil {
				return err
			}
			if cfg.Logger, err = logger(c.String("log-format"), stderr); err != nil {
				return err
			}
			reload(ctx, cfg.Logger)
			return noded.Run(ctx, cfg)
		},
		Commands: []*cli.Command{{
			Name: "nvml-helper", Hidden: true, Usage: "answer the node daemon's questions about GPUs on the standard streams",
			Flags:  []cli.Flag{&cli.StringFlag{Name: "library"}},
			Action: func(c *cli.Context) error { return gpu.ServeNVML(c.String("library"), os.Stdin, os.Stdout) },
		}},
	}
	return app.RunContext(ctx, args)
}

// reload answers SIGHUP: there is nothing yet that can be re-read, and the default would end the daemon.
func reload(ctx context.Context, log *slog.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hup)
		for {
			select {
			case <-hup:
				log.Info("nothing is re-read on SIGHUP yet: restart the daemon, which disturbs no job")
			case <-ctx.Done():
				return
			}
		}
	}()
}

func logger(format string, w io.Writer) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
}

func flags(d noded.Config) []cli.Flag {
	text := func(name, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: value, Usage: usage}
	}
	list := func(name, usage string) cli.Flag { return &cli.StringSliceFlag{Name: name, Usage: usage} }
	return []cli.Flag{
		text("config", "", "read settings from `FILE`, in HCL; flags win over it"),
		text("name", d.Name, "`NAME` of this node, unique in the cluster"),
		text("data-dir", d.DataDir, "`DIR` for journal, containers and logs"),
		text("gossip", d.Gossip, "`ADDR` for discovery"),
		text("http", "", "`ADDR` of the listener that logs are read from (default: a free port on the host of --gossip)"),
		list("join", "gossip `ADDR` of anyone in the cluster"),
		list("controller", "`ADDR` of a controller, besides those that gossip finds"),
		text("socket", d.Socket, "unix socket `PATH` for local users; empty for none"),
		&cli.IntFlag{Name: "cores", Usage: "`N` cores for jobs; more than there are: shared by quota", DefaultText: "all"},
		text("memory", "", "`SIZE` of memory for jobs, such as 64GiB (default: all but 5 %)"),
		&cli.IntFlag{Name: "sim-gpus", Usage: "`N` simulated GPUs instead of real ones"},
		list("label", "`KEY=VALUE` of this node"),
		text("cgroup-root", "", "`PATH` below which containers get their cgroups (default: /rota/NAME)"),
		list("shared-path", "`DIR` that all nodes share, besides /home, /shared and /data"),
		text("ports", "", "range `LOW-HIGH` for MASTER_PORT"),
		text("cluster-key-file", "", "`FILE` with the key that the machines of the cluster share"),
		text("shim", "", "`PATH` of rota-shim (default: beside this program)"),
		text("init", "", "`PATH` of rota-init (default: beside this program)"),
		&cli.IntFlag{Name: "warm-shims", Value: d.WarmShims, Usage: "`N` shims started ahead of need"},
		text("max-memlock", "", "the most `SIZE` of memory that a task may lock (default: no bound)"),
		&cli.Int64Flag{Name: "max-nofile", Usage: "the most files, `N`, that a task may have open", DefaultText: "no bound"},
		text("log-format", "text", "`FORMAT` of the daemon's own log: text or json"),
	}
}

// config is what the flags say.
func config(c *cli.Context) (noded.Config, error) {
	cfg := noded.Config{
		Name: c.String("name"), DataDir: c.String("data-dir"), Gossip: c.String("gossip"), HTTP: c.String("http"),
		Join: split(c.StringSlice("join")), Controllers: split(c.StringSlice("controller")), Socket: c.String("socket"),
		Cores: c.Int("cores"), SimGPUs: c.Int("sim-gpus"), CgroupRoot: c.String("cgroup-root"),
		SharedPaths: c.StringSlice("shared-path"), Ports: c.String("ports"), KeyFile: c.String("cluster-key-file"),
		ShimPath: c.String("shim"), InitPath: c.String("init"), WarmShims: c.Int("warm-shims"), MaxNofile: c.Int64("max-nofile"),
	}
	var err error
	for flag, size := range map[string]*jobspec.Bytes{"memory": &cfg.Memory, "max-memlock": &cfg.MaxMemlock} {
		if s := c.String(flag); s != "" {
			if *size, err = jobspec.ParseSize(s); err != nil {
				return cfg, fmt.Errorf("--%s: %w", flag, err)
			}
		}
	}
	cfg.Labels, err = labels(c.StringSlice("label"))
	return cfg, err
}

func split(values []string) []string {
	var out []string
	for _, v := range values {
		for one := range strings.SplitSeq(v, ",") {
			if one = strings.TrimSpace(one); one != "" {
				out = append(out, one)
			}
		}
	}
	return out
}

func labels(values []string) (map[string]string, error) {
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
