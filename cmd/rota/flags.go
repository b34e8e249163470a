package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// commonFlags are those that every command has, and that may stand before the command too.
func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "addr", Usage: "controllers `ADDR`: http://host:port, unix:PATH, or several with commas (ROTA_ADDR)"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "print in `FORMAT`, such as json"},
		&cli.StringFlag{Name: "color", Aliases: []string{"colour"}, Usage: "colour what is shown: auto, always or never, `WHEN`", DefaultText: "auto"},
		&cli.BoolFlag{Name: "utc", Usage: "show times in UTC"},
	}
}

// listFlags are those of the commands that print tables.
func listFlags() []cli.Flag {
	return append([]cli.Flag{&cli.BoolFlag{Name: "no-header", Usage: "leave the titles out"}}, commonFlags()...)
}

func with(flags []cli.Flag, more []cli.Flag) []cli.Flag { return append(flags, more...) }

// dial makes a client for the cluster that c means.
func (w *world) dial(c *cli.Context) (*api.Client, error) {
	addr := c.String("addr")
	if addr == "" {
		addr = api.DefaultAddr(w.getenv)
	}
	client, err := api.DialWith(addr, w.client)
	if err != nil {
		return nil, &usageError{text: err.Error(), hint: "--addr or ROTA_ADDR says where the controllers are"}
	}
	return client, nil
}

// format reads -o, or ROTA_OUTPUT where the command knows that format.
func (w *world) format(c *cli.Context, allowed ...format) (format, error) {
	if c.IsSet("output") && c.String("output") == "" {
		return "", usagef("--output has an empty value")
	}
	if text := c.String("output"); text != "" {
		return parseFormat(text, allowed...)
	}
	if f, err := parseFormat(w.getenv("ROTA_OUTPUT"), allowed...); err == nil {
		return f, nil
	}
	return allowed[0], nil
}

// plainOrJSON reads -o of commands that print text.
func (w *world) plainOrJSON(c *cli.Context) (asJSON bool, err error) {
	f, err := w.format(c, formatTable, formatJSON)
	return f == formatJSON, err
}

// jobRefs reads arguments as jobs: 123, 123_4, 123_[4-9,12], 123.train; commas may stand between them. What they mean the controller says.
func jobRefs(args []string) ([]string, error) {
	var refs []string
	for _, arg := range args {
		for _, text := range splitOutside(arg) {
			if text == "" || text[0] < '0' || text[0] > '9' {
				return nil, &usageError{text: fmt.Sprintf("%q is not a job", text),
					hint: "write an id, 123_4 or 123_[4-9] for elements of an array, 123.train for a group: \"rota queue\" shows them"}
			}
			refs = append(refs, text)
		}
	}
	return refs, nil
}

// splitOutside splits at commas that are not within brackets.
func splitOutside(text string) []string {
	var parts []string
	depth, begin := 0, 0
	for i, r := range text {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				parts = append(parts, text[begin:i])
				begin = i + 1
			}
		}
	}
	return append(parts, text[begin:])
}

// oneJob reads the one job that a command wants.
func oneJob(c *cli.Context) (string, error) {
	if c.Args().Len() != 1 {
		return "", usagef("rota %s takes one job: rota %s %s", c.Command.Name, c.Command.Name, c.Command.ArgsUsage)
	}
	refs, err := jobRefs([]string{c.Args().First()})
	if err != nil {
		return "", err
	}
	if len(refs) > 1 {
		return "", usagef("rota %s takes one job, not %d", c.Command.Name, len(refs))
	}
	return refs[0], nil
}

// someJobs reads one or more jobs.
func someJobs(c *cli.Context) ([]string, error) {
	if c.Args().Len() == 0 {
		return nil, usagef("which job? rota %s %s", c.Command.Name, c.Command.ArgsUsage)
	}
	return jobRefs(c.Args().Slice())
}

// idOf asks which id a job has that may be named as 123_4 or 123.train.
func idOf(ctx context.Context, client *api.Client, ref string) (cluster.JobID, error) {
	if n, err := strconv.ParseInt(ref, 10, 64); err == nil && n > 0 {
		return cluster.JobID(n), nil
	}
	job, _, err := client.JobBy(ctx, ref, api.Read{})
	if err != nil {
		return 0, err
	}
	return job.ID, nil
}

// notEmpty refuses options that are given and say nothing: what a script's empty variable leaves would otherwise mean all jobs.
func notEmpty(c *cli.Context, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) && strings.Trim(c.String(name), " ,") == "" {
			return usagef("--%s has an empty value", name)
		}
	}
	return nil
}

func noArguments(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return nil
	}
	return usagef("rota %s takes no argument, but got %q: \"rota help %s\" shows its options", c.Command.Name, c.Args().First(), c.Command.Name)
}

// splitList reads a list with commas.
func splitList(text string) []string {
	var items []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			items = append(items, s)
		}
	}
	return items
}

// within bounds ctx by --timeout; the cause of its end is errTimeout.
func within(ctx context.Context, c *cli.Context) (context.Context, context.CancelFunc, error) {
	text := c.String("timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil, nil, usagef("--timeout %q is not a duration: write 90s or 10m", text)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("after %s: %w", d, errTimeout))
	return ctx, cancel, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// readColor takes --color over, before a command runs.
func (w *world) readColor(c *cli.Context) error {
	switch text := c.String("color"); text {
	case "", "auto":
	case "always", "never":
		w.color = text
	default:
		return usagef("--color %s: auto, always or never", text)
	}
	return nil
}

// colour reports whether out gets escape sequences: what --color says, else a terminal does, unless NO_COLOR is set.
func (w *world) colour(out io.Writer) bool {
	if w.color != "" {
		return w.color == "always"
	}
	return w.getenv("NO_COLOR") == "" && w.getenv("TERM") != "dumb" && w.terminal(out)
}

// warnStale says on stderr that an answer may be old.
func (w *world) warnStale(a api.Answer) {
	if a.Stale > 0 {
		fmt.Fprintf(w.stderr, "rota: no leader was heard of for %s: this is the state from then\n", a.Stale)
	}
}

// currentUser names the user for --me, without the machinery of os/user where the environment has it.
func (w *world) currentUser() (string, error) {
	name, err := userName(os.Getuid())
	if err != nil {
		return "", fmt.Errorf("--me: %w", err)
	}
	return name, nil
}
