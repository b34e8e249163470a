// Package daemon holds the common parts of rota-controld and rota-noded as programs. These are the
// frame of their command lines, the format of their logs, the signals they answer, and their
// version. The daemons themselves are the packages controld and noded.
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
)

// Main runs a daemon with the arguments of this process. SIGTERM and SIGINT end the context of run.
// An error of run is written to standard error, each line with the program's name before it, and
// the process exits with 1.
func Main(name string, run func(ctx context.Context, args []string, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := checkClock(name, os.Stderr)
	if err == nil {
		err = run(ctx, os.Args, os.Stderr)
	}
	if err != nil {
		prefix := name + ": "
		fmt.Fprintln(os.Stderr, prefix+strings.ReplaceAll(err.Error(), "\n", "\n"+prefix))
		stop()
		os.Exit(1)
	}
}

// checkClock refuses an offset of the clock that cannot be read, and says so if there is one.
func checkClock(name string, stderr io.Writer) error {
	offset, err := clock.Offset()
	if err == nil && offset != 0 {
		fmt.Fprintf(stderr, "%s: %s moves this daemon's wall clock by %v; that is for tests only\n", name,
			clock.OffsetVariable, offset)
	}
	return err
}

// NewApp returns the command line of a daemon: its own flags, those of both daemons (--config,
// --log-format), --version and --help. Arguments that are no flags are refused
// before run is called. Values of list flags are not split at commas: [SplitList] does that.
func NewApp(name, usage string, stderr io.Writer, own []cli.Flag, run func(*cli.Context) error) *cli.App {
	return &cli.App{
		Name: name, Usage: usage, Version: api.Build(), HideHelpCommand: true, ErrWriter: stderr,
		ExitErrHandler: func(*cli.Context, error) {}, // Main prints the error
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return fmt.Errorf("%w (--help lists the flags)", err)
		},
		DisableSliceFlagSeparator: true,
		Flags:                     append(own, sharedFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("unexpected argument %q (%s --help lists commands and flags)", c.Args().First(), name)
			}
			return run(c)
		},
	}
}

func sharedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "read settings from `FILE.hcl`; flags take precedence"},
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORMAT` of the daemon's own log: text or json"},
	}
}

// NewLogger returns a logger that writes to w in the given format, text or json.
func NewLogger(format string, w io.Writer) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, fmt.Errorf("--log-format %q: write text or json", format)
}

// WarnOfPreRelease logs that this daemon's data has no future, if it is older than the first release.
func WarnOfPreRelease(log *slog.Logger) {
	if api.PreRelease() {
		log.Warn("this is a pre-release: Rota "+api.Release+" will not read the data of this one, so use it for trials "+
			"only", "version",
			api.Build())
	}
}

// Reloads returns a channel that gets a value for each SIGHUP until the process ends. Without it
// SIGHUP would end the daemon.
func Reloads() <-chan os.Signal {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// SplitList returns the parts of values that are separated by commas, without spaces around them
// and without empty parts. Lists may be written with commas, with repeated flags, or both.
func SplitList(values []string) []string {
	var list []string
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
	}
	return list
}

// SetFlags sets each flag that the command line does not have to what a configuration file says.
// file points to a struct with hcl tags. Attributes are named after the flags, with underscores for
// hyphens. A single value is a pointer, nil if the file does not have it. A flag that may be
// repeated is a list, or a map of names to values. Blocks are left out.
func SetFlags(c *cli.Context, file any) error {
	v := reflect.ValueOf(file).Elem()
	for i := range v.NumField() {
		attribute, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		name := strings.ReplaceAll(attribute, "_", "-")
		if c.IsSet(name) {
			continue
		}
		for _, text := range flagValues(v.Field(i).Interface()) {
			if err := c.Set(name, text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// flagValues returns a setting of a file as the values of a flag, one for each use of the flag.
func flagValues(setting any) []string {
	switch s := setting.(type) {
	case []string:
		return s
	case map[string]string:
		var pairs []string
		for key, value := range s {
			pairs = append(pairs, key+"="+value)
		}
		return pairs
	}
	if p := reflect.ValueOf(setting); p.Kind() == reflect.Pointer && !p.IsNil() && p.Elem().Kind() != reflect.Struct {
		return []string{fmt.Sprint(p.Elem())}
	}
	return nil
}
