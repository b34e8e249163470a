// Command rota-controld is the control daemon: flags, configuration, signals, and one call to controld.Run.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go boundGarbage(ctx)
	if err := profiled(ctx, os.Args, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "rota-controld:", strings.ReplaceAll(err.Error(), "\n", "\nrota-controld: "))
		stop()
		os.Exit(1)
	}
}

// profiled is run with a profile of it, if one is asked for.
func profiled(ctx context.Context, args []string, stderr io.Writer) error {
	stop, err := profile(os.Getenv(profileVariable))
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, args, stderr), stop())
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	return app(stderr).RunContext(ctx, args)
}

func app(stderr io.Writer) *cli.App {
	def := controld.DefaultConfig()
	return &cli.App{
		Name: "rota-controld", Usage: "control daemon of a Rota cluster", Version: api.Build(), HideHelpCommand: true,
		ErrWriter: stderr, ExitErrHandler: func(*cli.Context, error) {}, // main says it once
		DisableSliceFlagSeparator: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return fmt.Errorf("%w (--help lists the flags)", err)
		},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Value: def.Name, Usage: "`NAME` of this controller, unique in the cluster"},
			&cli.StringFlag{Name: "data-dir", Value: def.DataDir, Usage: "`DIR` for log, snapshots and history"},
			&cli.StringFlag{Name: "http", Value: def.HTTP, Usage: "`ADDR` of the API, host:port"},
			&cli.StringFlag{Name: "raft", Value: def.Raft, Usage: "`ADDR` for the other controllers"},
			&cli.StringFlag{Name: "gossip", Value: def.Gossip, Usage: "`ADDR` for discovery"},
			&cli.StringFlag{Name: "advertise", Usage: "`HOST` that others use when an ADDR above is 0.0.0.0 (default: the first of this machine)"},
			&cli.StringFlag{Name: "socket", Value: def.Socket, Usage: "`PATH` of the unix socket for local users, \"\" for none"},
			&cli.StringSliceFlag{Name: "join", Usage: "gossip `ADDR` of anyone in the cluster"},
			&cli.IntFlag{Name: "bootstrap-expect", Usage: "make a new cluster once `N` controllers are there", DefaultText: "1 without --join"},
			&cli.StringFlag{Name: "config", Usage: "read these settings, and the cluster's policy, from `FILE.hcl`; flags come first"},
			&cli.StringFlag{Name: "cluster-key-file", Usage: "`FILE` with the secret that the machines of the cluster share"},
			&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT` of its own log: text or json"},
			&cli.BoolFlag{Name: "allow-root-jobs", Usage: "let root submit jobs that run as root"},
			&cli.StringFlag{Name: "root-jobs-as", Usage: "run the jobs that root submits as account `NAME`"},
			&cli.StringSliceFlag{Name: "operator", Usage: "`ACCOUNT` that may act on everyone's jobs"},
		},
		Action: func(c *cli.Context) error {
			cfg, err := settings(c, stderr)
			if err != nil {
				return err
			}
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			cfg.ReloadOn = hangup
			return controld.Run(c.Context, cfg)
		},
	}
}

// settings merges flags, configuration file and defaults, in this order.
func settings(c *cli.Context, stderr io.Writer) (controld.Config, error) {
	cfg := controld.DefaultConfig()
	if c.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q: rota-controld takes flags only (--help lists them)", c.Args().First())
	}
	format := c.String("log-format")
	if err := readFile(c, &cfg, &format); err != nil {
		return cfg, err
	}
	for name, field := range map[string]*string{
		"name": &cfg.Name, "data-dir": &cfg.DataDir, "http": &cfg.HTTP, "raft": &cfg.Raft, "gossip": &cfg.Gossip,
		"advertise": &cfg.Advertise, "socket": &cfg.Socket, "cluster-key-file": &cfg.KeyFile, "root-jobs-as": &cfg.RootJobsAs,
		"log-format": &format,
	} {
		if c.IsSet(name) {
			*field = c.String(name)
		}
	}
	if c.IsSet("join") {
		cfg.Join = addresses(c.StringSlice("join"))
	}
	if c.IsSet("bootstrap-expect") {
		cfg.BootstrapExpect = c.Int("bootstrap-expect")
	}
	if c.IsSet("allow-root-jobs") {
		cfg.AllowRootJobs = c.Bool("allow-root-jobs")
	}
	if c.IsSet("operator") {
		cfg.Operators = addresses(c.StringSlice("operator"))
	}
	var err error
	cfg.Logger, err = logger(format, stderr)
	return cfg, err
}

// addresses allows for lists with commas and for repeated flags.
func addresses(values []string) []string {
	var all []string
	for _, v := range values {
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

func logger(format string, w io.Writer) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("--log-format %q: write text or json", format)
}
