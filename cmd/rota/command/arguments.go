package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec/duration"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// JobRefs reads arguments as names of jobs: 123, 123_4, 123_[4-9,12] or 123.train, also
// comma-separated. The controller resolves them.
func JobRefs(args []string) ([]string, error) {
	var refs []string
	for _, arg := range args {
		for _, text := range SplitOutsideBrackets(arg) {
			if text == "" || text[0] < '0' || text[0] > '9' {
				return nil, exit.Usagef("%q is not a job id", text).
					WithHint("write an id, 123_4 or 123_[4-9] for array tasks, or 123.train for a group: " +
						"\"rota queue\" shows them")
			}
			refs = append(refs, text)
		}
	}
	return refs, nil
}

// SplitOutsideBrackets splits a text at the commas that are not within brackets.
func SplitOutsideBrackets(text string) []string {
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

// jobArgument returns the one job that a command needs as its argument.
func jobArgument(c *cli.Context) (string, error) {
	if c.Args().Len() != 1 {
		return "", exit.Usagef("rota %s needs one job: rota %s %s", c.Command.Name, c.Command.Name, c.Command.ArgsUsage)
	}
	refs, err := JobRefs([]string{c.Args().First()})
	if err != nil {
		return "", err
	}
	if len(refs) > 1 {
		return "", exit.Usagef("rota %s needs one job, not %d", c.Command.Name, len(refs))
	}
	return refs[0], nil
}

// jobArguments returns the jobs that a command has as its arguments, at least one.
func jobArguments(c *cli.Context) ([]string, error) {
	if c.Args().Len() == 0 {
		return nil, exit.Usagef("no job given: rota %s %s", c.Command.Name, c.Command.ArgsUsage)
	}
	return JobRefs(c.Args().Slice())
}

// RefuseEmpty refuses flags that are given with an empty value. A script's empty variable would
// otherwise select all jobs.
func RefuseEmpty(c *cli.Context, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) && strings.Trim(c.String(name), " ,") == "" {
			return exit.Usagef("--%s is empty", name)
		}
	}
	return nil
}

// RefuseFlags refuses flags that only another form of the command reads, such as "rota token create".
func RefuseFlags(c *cli.Context, form string, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) {
			return exit.Usagef("--%s is for %s only", name, form)
		}
	}
	return nil
}

// RefuseOthers refuses a value of a flag that is none of allowed.
func RefuseOthers(c *cli.Context, name string, allowed ...string) error {
	value := c.String(name)
	if slices.Contains(allowed, value) {
		return nil
	}
	if err := RefuseEmpty(c, name); err != nil {
		return err
	}
	return exit.Usagef("--%s %s: must be one of %s", name, value, strings.Join(allowed, ", ")).
		WithHint(DidYouMean("did you mean %s?", value, allowed))
}

// RefuseArguments returns an error if a command has arguments.
func RefuseArguments(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return nil
	}
	return exit.Usagef("unexpected argument for rota %s: %q; see \"rota help %s\"", c.Command.Name, c.Args().First(),
		c.Command.Name)
}

// SplitList splits a comma-separated list and drops empty items.
func SplitList(text string) []string {
	var items []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			items = append(items, s)
		}
	}
	return items
}

// WithTimeout ends ctx after the flag --timeout, if it is given, with exit.ErrTimeout as the cause.
func WithTimeout(ctx context.Context, c *cli.Context) (context.Context, context.CancelFunc, error) {
	text := c.String("timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	ns, ok := duration.Parse(text)
	d := time.Duration(ns)
	if !ok || d <= 0 {
		return nil, nil, exit.Usagef("--timeout %q is not a duration: write 90s or 10m", text)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("after %s: %w", d, exit.ErrTimeout))
	return ctx, cancel, nil
}

// NodesOf reads the nodes that a flag names, none if it is not given.
func NodesOf(c *cli.Context, flag string) ([]string, error) {
	if err := RefuseEmpty(c, flag); err != nil || !c.IsSet(flag) {
		return nil, err
	}
	return NodeRefs(SplitOutsideBrackets(c.String(flag)))
}

// NodeRefs reads arguments as names of nodes, each once. An argument may be a list such as
// gpu[01-04].
func NodeRefs(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		if strings.TrimSpace(arg) == "" { // of a script's empty variable: it names no node, and not all of them
			return nil, exit.Usagef("the name of a node is empty")
		}
		some, err := hostlist.Expand(arg)
		if err != nil {
			return nil, exit.Usagef("%v", err).
				WithHint("separate names by commas, or write ranges in brackets: gpu01 or gpu[01-04,07]")
		}
		names = append(names, some...)
	}
	return show.Distinct(names), nil
}
