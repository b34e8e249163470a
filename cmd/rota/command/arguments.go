package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// JobRefs reads arguments as jobs: 123, 123_4, 123_[4-9,12], 123.train; commas may stand between them. What they mean the controller says.
func JobRefs(args []string) ([]string, error) {
	var refs []string
	for _, arg := range args {
		for _, text := range SplitOutsideBrackets(arg) {
			if text == "" || text[0] < '0' || text[0] > '9' {
				return nil, &exit.UsageError{Text: fmt.Sprintf("%q is not a job id", text),
					Hint: "write an id, 123_4 or 123_[4-9] for array tasks, or 123.train for a group: \"rota queue\" shows them"}
			}
			refs = append(refs, text)
		}
	}
	return refs, nil
}

// SplitOutsideBrackets splits at commas that are not within brackets.
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

// JobArgument reads the one job that a command wants.
func JobArgument(c *cli.Context) (string, error) {
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

// JobArguments reads one or more jobs.
func JobArguments(c *cli.Context) ([]string, error) {
	if c.Args().Len() == 0 {
		return nil, exit.Usagef("no job given: rota %s %s", c.Command.Name, c.Command.ArgsUsage)
	}
	return JobRefs(c.Args().Slice())
}

// JobID asks which id a job has that may be named as 123_4 or 123.train.
func JobID(ctx context.Context, client *api.Client, ref string) (cluster.JobID, error) {
	if n, err := strconv.ParseInt(ref, 10, 64); err == nil && n > 0 {
		return cluster.JobID(n), nil
	}
	job, _, err := client.JobBy(ctx, ref, api.Read{})
	if err != nil {
		return 0, err
	}
	return job.ID, nil
}

// RefuseEmpty refuses options that are given and say nothing: what a script's empty variable leaves would otherwise mean all jobs.
func RefuseEmpty(c *cli.Context, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) && strings.Trim(c.String(name), " ,") == "" {
			return exit.Usagef("--%s is empty", name)
		}
	}
	return nil
}

func RefuseArguments(c *cli.Context) error {
	if c.Args().Len() == 0 {
		return nil
	}
	return exit.Usagef("unexpected argument for rota %s: %q; see \"rota help %s\"", c.Command.Name, c.Args().First(), c.Command.Name)
}

// SplitList reads a list with commas.
func SplitList(text string) []string {
	var items []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			items = append(items, s)
		}
	}
	return items
}

// WithTimeout bounds ctx by --timeout; the cause of its end is errTimeout.
func WithTimeout(ctx context.Context, c *cli.Context) (context.Context, context.CancelFunc, error) {
	text := c.String("timeout")
	if text == "" {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil, nil, exit.Usagef("--timeout %q is not a duration: write 90s or 10m", text)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("after %s: %w", d, exit.ErrTimeout))
	return ctx, cancel, nil
}

// NodeRefs reads arguments as nodes: names, and lists of them in brackets such as gpu[01-04].
func NodeRefs(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		some, err := hostlist.Expand(arg)
		if err != nil {
			return nil, &exit.UsageError{Text: err.Error(), Hint: "separate names by commas, or write ranges in brackets: gpu01 or gpu[01-04,07]"}
		}
		names = append(names, some...)
	}
	return show.Distinct(names), nil
}
