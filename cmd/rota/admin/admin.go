// Package admin has the commands of operators: node, cluster and check.
package admin

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
)

// Commands are those of operators for single nodes.
func Commands(env *command.Env) []*command.Command {
	return command.InCategory("Operators", []*command.Command{

		{Command: &cli.Command{Name: "node", Usage: "take a node out of use, or back", ArgsUsage: "drain NODE... --reason TEXT | resume NODE...", Action: env.Action(changeNodes),
			Description: "A drained node gets nothing new, and what runs there goes on to its end. NODE may be a list: gpu[01-04,07].",
			Flags:       slices.Concat([]cli.Flag{&cli.StringFlag{Name: "reason", Usage: "say why with `TEXT`; drain needs it"}}, command.CommonFlags())}, Arguments: complete.Subcommand(complete.Words("drain", "resume"), complete.Nodes)},
		{Command: &cli.Command{Name: "cluster", Usage: "show the controllers and the policy by which they schedule", ArgsUsage: "[OPTIONS] | remove NAME...", Action: env.Action(controllers),
			Description: "A controller that is gone for good keeps its vote, so that a majority takes one more of the others. remove takes it, once the\n" +
				"controller has stopped; a new one is added by itself. Operators only.",
			Flags: command.CommonFlags()}, Arguments: complete.Subcommand(complete.Words("remove"), completeControllers)},
		{Command: &cli.Command{Name: "check", Usage: "check every invariant on the live state", ArgsUsage: "[OPTIONS]", Action: env.Action(checkState), Flags: command.CommonFlags()}},
	})
}

func changeNodes(env *command.Env, c *cli.Context) error {
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return err
	}
	verb, done := c.Args().First(), map[string]string{"drain": "drained", "resume": "resumed"}
	if done[verb] == "" || c.Args().Len() < 2 {
		return exit.Usagef("rota node %s", c.Command.ArgsUsage)
	}
	if verb == "drain" && c.String("reason") == "" {
		return exit.Usagef("why? rota node drain NODE --reason TEXT: whoever finds the node unused wants to know")
	}
	names, err := command.NodeRefs(c.Args().Slice()[1:])
	if err != nil {
		return err
	}
	client, err := env.Dial(c)
	if err != nil {
		return err
	}
	return env.ForEach(names, "node", done[verb], asJSON, func(name string) (*api.ControlResponse, error) {
		if err := client.SetNode(c.Context, name, verb, c.String("reason")); err != nil {
			return nil, err
		}
		return &api.ControlResponse{Items: []api.ControlItem{{Ref: name}}}, nil
	})
}
