// Package admin has the commands of operators, such as node, cluster, sched and config; and token,
// which is for every user.
package admin

import (
	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	access := command.InCategory("Access", []*command.Command{tokenCommand()})
	return append(command.InCategory("Operators", []*command.Command{

		{Name: "node", Usage: "drain or resume nodes, or confirm that they are dead",
			ArgsUsage: "drain NODE... --reason TEXT | resume NODE... | confirm-dead NODE... [--reason TEXT] [--dry-run] | " +
				"kept NODE | discard NODE JOB.ATTEMPT.WORKER...",
			Action: changeNodes,
			Description: "A drained node gets no new jobs; its running jobs continue to their end. NODE may be a list: " +
				"gpu[01-04,07].\n" +
				"confirm-dead states that nothing runs any more on nodes that are down, so that their jobs start elsewhere at " +
				"once.\n" +
				"Use it only for machines that are off: a machine that is merely cut off still runs its jobs, and then they run " +
				"twice.\n" +
				"After the controllers were restored from a backup, a node keeps checkpoint folders that are unknown to them for " +
				"14 days.\n" +
				"kept lists these folders; discard removes some at once (admins only).",
			Flags: command.WithCommon(command.Text("reason", "record `TEXT` as the reason; required for drain"),
				command.Switch("dry-run", "with confirm-dead: show what would happen, and change nothing")),
			Arguments: complete.Subcommand(complete.Words("drain", "resume", "confirm-dead", "kept", "discard"),
				complete.Nodes)},
		{Name: "cluster", Usage: "show the controllers and the scheduling policy, and let machines join",
			ArgsUsage: "[OPTIONS] | join-token [--role ROLE] | revoke ROLE/NAME... | rotate-key | " +
				"rotate-authority [--finish] | remove NAME... | backup FILE [--with-keys]", Action: controllers,
			Description: "A controller that is gone for good still counts as a voter, so a majority needs one more of the " +
				"others. remove takes its vote\n" +
				"away once the controller has stopped. A new controller is added automatically.\n" +
				"join-token prints a token that lets one machine join within 24 hours, as a node, a login node or a controller. " +
				"revoke refuses\n" +
				"the certificates of a machine; it may join again with a token. rotate-key then replaces the gossip key, which " +
				"every\n" +
				"machine has. Machines that are down get the new key when they return, unless their certificates were revoked.\n" +
				"rotate-authority replaces the authority that issues certificates; every controller has its key. The old " +
				"authority is\n" +
				"dropped once every controller and every registered node has a certificate of the new one. --finish drops it at " +
				"once;\n" +
				"machines without a new certificate must then join again. Admins only.\n" +
				"backup writes the state, the history and the configuration to FILE, for rota-controld restore. Run it on a " +
				"controller, as root.\n" +
				"The file contains the scripts and environments of all users.",
			Flags: command.WithCommon(
				command.Switch("with-keys", "with backup: include the keys of the cluster, encrypted with a passphrase"),
				&cli.StringFlag{Name: "passphrase-file", Usage: "with backup: read the passphrase from `FILE` (default: ask)"},
				command.Switch("finish", "with rotate-authority: stop trusting the old authority now"),
				command.Switch("force", "with backup: overwrite FILE if it exists"), &cli.StringFlag{Name: "role", Value: "node",
					Usage: "`ROLE` of the machine that joins: node, login or controller"}),
			Arguments: complete.Subcommand(
				complete.Words("join-token", "revoke", "rotate-key", "rotate-authority", "remove", "backup"),
				completeControllers),
			Values: map[string]command.Source{"role": complete.Words(joiningRoles...), "passphrase-file": complete.Files}},
		{Name: "check", Usage: "check all invariants of the live state", ArgsUsage: "[OPTIONS]",
			Action: checkState, Flags: command.CommonFlags()},
		schedCommand(), configCommand(),
	}), access...)
}

func changeNodes(env *command.Env, c *cli.Context) error {
	if verb := c.Args().First(); verb == "kept" || verb == "discard" {
		if err := command.RefuseFlags(c, "rota node drain", "reason"); err != nil {
			return err
		}
		if err := command.RefuseFlags(c, "rota node confirm-dead", "dry-run"); err != nil {
			return err
		}
		return keptFolders(env, c)
	}
	verb, done := c.Args().First(), map[string]string{"drain": "drained", "resume": "resumed"}
	if verb == "confirm-dead" && c.Args().Len() > 1 {
		return confirmDead(env, c)
	}
	if err := command.RefuseFlags(c, "rota node confirm-dead", "dry-run"); err != nil {
		return err
	}
	if done[verb] == "" || c.Args().Len() < 2 {
		return exit.Usagef("rota node %s", c.Command.ArgsUsage)
	}
	if verb == "drain" && c.String("reason") == "" {
		return exit.Usagef("rota node drain needs a reason for other operators: rota node drain NODE --reason TEXT")
	}
	names, err := command.NodeRefs(c.Args().Slice()[1:])
	if err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	return session.ForEach(names, "node", done[verb], func(name string) (*api.ControlResponse, error) {
		if err := session.SetNode(c.Context, name, verb, c.String("reason")); err != nil {
			return nil, err
		}
		return &api.ControlResponse{Items: []api.ControlItem{{Ref: name}}}, nil
	})
}
