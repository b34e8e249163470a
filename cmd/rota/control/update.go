package control

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
)

// updateJobs changes jobs that have not ended.
func updateJobs(env *command.Env, c *cli.Context) error {
	session, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	change, err := readChange(c)
	if err != nil {
		return err
	}
	return session.ForEach(refs, "job", "updated", func(ref string) (*api.ControlResponse,
		error) {
		return session.Update(c.Context, ref, change)
	})
}

// readChange reads the change from the flags.
func readChange(c *cli.Context) (api.UpdateRequest, error) {
	var change api.UpdateRequest
	if text := c.String("time"); text != "" {
		limit, err := command.ParseLimit(strings.TrimLeft(text, "+-"))
		if err != nil {
			return change, err
		}
		switch text[0] {
		case '+':
			change.AddTime = &limit
		case '-':
			limit = -limit
			change.AddTime = &limit
		default:
			change.TimeLimit = &limit
		}
	}
	if c.IsSet("priority") {
		n := c.Int("priority")
		change.Priority = &n
	}
	if name := c.String("name"); name != "" {
		change.Name = &name
	}
	if c.IsSet("comment") {
		text := c.String("comment")
		change.Comment = &text
	}
	if change == (api.UpdateRequest{}) {
		return change, exit.Usagef("no change given: rota update %s", c.Command.ArgsUsage)
	}
	return change, nil
}
