// Command rota-controld is the control daemon: its flags and configuration file, and one call to
// controld.Run. Code shared with rota-noded is in cmd/daemon.
package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/daemon"
	"github.com/rota-hpc/rota/controld"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

func main() { daemon.Main("rota-controld", runProfiled) }

// runProfiled bounds the garbage of the heap and runs the daemon, with a profile if one is asked
// for.
func runProfiled(ctx context.Context, args []string, stderr io.Writer) error {
	go boundGarbage(ctx)
	stop, err := startProfile(os.Getenv(profileVariable))
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, args, stderr), stop())
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	app := daemon.NewApp("rota-controld", "control daemon of a Rota cluster", stderr, flags(),
		func(c *cli.Context) error {
			cfg, err := readSettings(c, stderr)
			if err != nil {
				return err
			}
			daemon.WarnOfPreRelease(cfg.Logger)
			superviseBy(daemon.NewNotifier(cfg.Logger), &cfg)
			cfg.ReloadOn = daemon.Reloads()
			return controld.Run(c.Context, cfg)
		})
	app.Commands = append(memberCommands(os.Stdout), recoverCommand(os.Stdout), restoreCommand(os.Stdout),
		daemon.FormatCommand(state.DataFormat, os.Stdout))
	return app.RunContext(ctx, daemon.ArgumentLast(args))
}

// superviseBy lets the service manager know of the daemon's life and of its reloads.
func superviseBy(n *daemon.Notifier, cfg *controld.Config) {
	cfg.Supervise = n.Supervise
	if reload := cfg.Reload; reload != nil {
		cfg.Reload = func() (again *cluster.Config, err error) {
			n.Reload(func() { again, err = reload() })
			return again, err
		}
	}
}

func flags() []cli.Flag {
	def := controld.DefaultConfig()
	text := func(name, value, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: value, Usage: usage}
	}
	return []cli.Flag{
		text("name", def.Name, "`NAME` of this controller, unique in the cluster"),
		text("data-dir", def.DataDir, "`DIR` for log, snapshots and history"),
		text("http", def.HTTP, "`ADDR` of the API, host:port"),
		text("raft", def.Raft, "`ADDR` for the other controllers"),
		text("gossip", def.Gossip, "`ADDR` for discovery"),
		text("advertise", "", "`HOST` that others use when an ADDR above is 0.0.0.0 (default: the first of this "+
			"machine)"),
		text("socket", def.Socket, "`PATH` of the unix socket for local users, \"\" for none"),
		&cli.StringSliceFlag{Name: "join", Usage: "gossip `ADDR` of any daemon in the cluster, in addition to those that " +
			"it remembers"},
		&cli.StringFlag{Name: "loopback-http", Hidden: true,
			Usage: "`ADDR` of plain HTTP for the users of this machine, for rota dev"},
		&cli.BoolFlag{Name: "allow-root-jobs", Usage: "allow root to submit jobs that run as root"},
		text("root-jobs-as", "", "run the jobs that root submits as user `NAME`"),
	}
}

// readSettings merges flags, configuration file and defaults, in this order of precedence.
func readSettings(c *cli.Context, stderr io.Writer) (controld.Config, error) {
	cfg := controld.DefaultConfig()
	if path := c.String("config"); path != "" {
		if err := readFile(c, path, &cfg); err != nil {
			return cfg, err
		}
	}
	for name, field := range map[string]*string{
		"name": &cfg.Name, "data-dir": &cfg.DataDir, "http": &cfg.HTTP, "raft": &cfg.Raft, "gossip": &cfg.Gossip,
		"advertise": &cfg.Advertise, "socket": &cfg.Socket, "root-jobs-as": &cfg.RootJobsAs, "loopback-http": &cfg.Loopback,
	} {
		*field = c.String(name)
	}
	cfg.Join = daemon.SplitList(c.StringSlice("join"))
	cfg.AllowRootJobs = c.Bool("allow-root-jobs")
	var err error
	cfg.Logger, err = daemon.NewLogger(c.String("log-format"), stderr)
	return cfg, err
}
