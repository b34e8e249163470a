package main

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// adminCommands are those of operators for single nodes.
func (w *world) adminCommands() []*Command {
	return inCategory("Operators", []*Command{

		{Command: &cli.Command{Name: "node", Usage: "take a node out of use, or back", ArgsUsage: "drain NODE... --reason TEXT | resume NODE...", Action: w.node,
			Description: "A drained node gets nothing new, and what runs there goes on to its end. NODE may be a list: gpu[01-04,07].",
			Flags:       with([]cli.Flag{&cli.StringFlag{Name: "reason", Usage: "say why with `TEXT`; drain needs it"}}, commonFlags())}, Arguments: CompleteSubcommand(CompleteWords("drain", "resume"), CompleteNodes)},
		{Command: &cli.Command{Name: "cluster", Usage: "show the controllers and the policy by which they schedule", ArgsUsage: "[OPTIONS] | remove NAME...", Action: w.cluster,
			Description: "A controller that is gone for good keeps its vote, so that a majority takes one more of the others. remove takes it, once the\n" +
				"controller has stopped; a new one is added by itself. Operators only.",
			Flags: commonFlags()}, Arguments: CompleteSubcommand(CompleteWords("remove"), completeControllers)},
		{Command: &cli.Command{Name: "check", Usage: "check every invariant on the live state", ArgsUsage: "[OPTIONS]", Action: w.check, Flags: commonFlags()}},
	})
}

func (w *world) node(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	verb, done := c.Args().First(), map[string]string{"drain": "drained", "resume": "resumed"}
	if done[verb] == "" || c.Args().Len() < 2 {
		return usagef("rota node %s", c.Command.ArgsUsage)
	}
	if verb == "drain" && c.String("reason") == "" {
		return usagef("why? rota node drain NODE --reason TEXT: whoever finds the node unused wants to know")
	}
	names, err := nodeRefs(c.Args().Slice()[1:])
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	return w.forEach(names, "node", done[verb], asJSON, func(name string) (*api.ControlResponse, error) {
		if err := client.SetNode(c.Context, name, verb, c.String("reason")); err != nil {
			return nil, err
		}
		return &api.ControlResponse{Items: []api.ControlItem{{Ref: name}}}, nil
	})
}
