package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model"
)

// clusterShown is the JSON of rota cluster.
type clusterShown struct {
	*api.Cluster
	Settings *model.Policy `json:"settings"` // settings of the policy
}

// controllers shows the controllers and the scheduling policy, or removes controllers.
func controllers(env *command.Env, c *cli.Context) error {
	names := c.Args().Tail()
	if c.Args().Present() && (c.Args().First() != "remove" || len(names) == 0) {
		return exit.Usagef("rota cluster %s", c.Command.ArgsUsage)
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return session.ForEach(names, "controller", "removed", func(name string) (*api.ControlResponse, error) {
			if err := session.RemoveController(c.Context, name); err != nil {
				return nil, err
			}
			return &api.ControlResponse{Items: []api.ControlItem{{Ref: name}}}, nil
		})
	}
	cl, answer, err := session.Cluster(c.Context)
	if err != nil {
		return err
	}
	cfg, _, err := session.Config(c.Context, api.Read{})
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, clusterShown{cl, &cfg.Policy})
	}
	_, err = fmt.Fprint(env.Stdout, clusterText(cl, &cfg.Policy))
	return err
}

// clusterText writes the controllers, and the policy in the form of a configuration file.
func clusterText(cl *api.Cluster, p *model.Policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Cluster %s, version %d\n", cl.Name, cl.Version)
	for _, m := range cl.Controllers {
		fmt.Fprintf(&b, "  controller %s%s\n", m.Name, roleOf(&m))
	}
	return b.String() + "\n" + config.Text(p)
}

func roleOf(m *api.Controller) string {
	switch {
	case m.Leader:
		return ", leader"
	case m.HTTP == "":
		return ", unreachable"
	case !m.Voter:
		return ", no vote yet"
	}
	return ""
}

func completeControllers(l *command.Line) []command.Candidate {
	var found []command.Candidate
	l.Ask(func(ctx context.Context, client *api.Client) error {
		cl, _, err := client.Cluster(ctx)
		if err != nil {
			return err
		}
		for _, m := range cl.Controllers {
			found = append(found, command.Candidate{Word: m.Name, About: strings.TrimPrefix(roleOf(&m), ", ")})
		}
		return nil
	})
	return found
}
