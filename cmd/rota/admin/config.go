package admin

import (
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

func configCommand() *command.Command {
	return &command.Command{Name: "config", Usage: "compare, apply and roll back the configuration of the cluster",
		ArgsUsage: "diff FILE | apply FILE | history [N] | rollback VERSION", Action: configure,
		Description: "FILE is a controller's configuration file. Only its settings for the whole cluster count here.\n" +
			"Settings that FILE leaves out get their defaults; if it names no policy, the policy stays.\n" +
			"diff prints what FILE would change. Exit codes: 0 no change, 1 changes, 2 FILE is wrong.\n" +
			"apply puts FILE in force, and prints the changes. An error in FILE is reported with its line, and the\n" +
			"configuration in force stays. history lists the last 20 versions, or the last N, with the changes of each; the\n" +
			"version in force comes first. rollback puts an old version in force again, as a new version.\n" +
			"apply and rollback change nothing if another version comes into force meanwhile. With --if-version they act\n" +
			"only if that version is in force: give the version that FILE was made from, as printed by diff.\n" +
			"A controller applies its own file when the file is new or has changed, at its start or after kill -HUP.\n" +
			"diff and history are for operators, apply and rollback for admins.",
		Flags: command.WithCommon(command.Text("comment", "record `TEXT` with the version"),
			&cli.IntFlag{Name: "if-version", Usage: "do nothing unless version `N` is in force"}),
		Arguments: complete.Subcommand(complete.Words("diff", "apply", "history", "rollback"), complete.Files)}
}

// configure does what the first argument says.
func configure(env *command.Env, c *cli.Context) error {
	verb, rest := c.Args().First(), c.Args().Tail()
	usage := exit.Usagef("rota config %s", c.Command.ArgsUsage)
	if verb != "apply" && verb != "rollback" {
		if err := command.RefuseFlags(c, "rota config apply and rollback", "comment", "if-version"); err != nil {
			return err
		}
	}
	if c.IsSet("if-version") && c.Int("if-version") < 1 {
		return exit.Usagef("--if-version %d: versions are numbered from 1", c.Int("if-version"))
	}
	switch {
	case verb == "history" && len(rest) <= 1:
		return showVersions(env, c, rest)
	case len(rest) != 1:
		return usage
	case verb == "diff":
		return diffConfig(env, c, rest[0])
	case verb == "apply":
		return applyConfig(env, c, rest[0])
	case verb == "rollback":
		return rollBack(env, c, rest[0])
	}
	return usage
}

// readConfig returns what a file says of the whole cluster. It names settings of one controller on
// stderr, because they have no effect here.
func readConfig(env *command.Env, path string) (*cluster.Config, error) {
	f, err := config.Read(path)
	if err != nil {
		return nil, exit.Usagef("%v", err)
	}
	cfg := f.Replicated()
	if cfg == nil {
		return nil, exit.Usagef("%s has no settings for the whole cluster: it has none of cluster, queue, policy, lease, "+
			"limits, account, accounts, capacity, operators, admins and private", path)
	}
	if f.OfController() {
		env.Notef("%s has settings of a single controller too: these count only in that controller's own file", path)
	}
	return cfg, nil
}

// compare returns the version in force, and what a file would change.
func compare(env *command.Env, c *cli.Context, session *command.Session, path string) (*api.ConfigVersion,
	*cluster.Config, []config.Change, error) {
	next, err := readConfig(env, path)
	if err != nil {
		return nil, nil, nil, err
	}
	list, answer, err := session.ConfigVersions(c.Context)
	if err != nil {
		return nil, nil, nil, err
	}
	env.WarnStale(answer)
	if len(list.Items) == 0 {
		return nil, nil, nil, fmt.Errorf("the controller's answer has no version of the configuration")
	}
	now := &list.Items[0]
	if next.Policy.Name == "" {
		next.Policy.Name = now.Config.Policy.Name
	}
	return now, next, config.Changes(now.Config, next), nil
}

// diffShown is the JSON of rota config diff.
type diffShown struct {
	Version int                `json:"version"` // in force
	Changes []api.ConfigChange `json:"changes"`
}

func diffConfig(env *command.Env, c *cli.Context, path string) error {
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	now, _, changes, err := compare(env, c, session, path)
	if err != nil {
		return err
	}
	shown := diffShown{Version: now.Number, Changes: []api.ConfigChange{}}
	for _, change := range changes {
		shown.Changes = append(shown.Changes, api.ConfigChange(change))
	}
	if session.AsJSON {
		if err := table.PrintJSON(env.Stdout, shown); err != nil {
			return err
		}
	} else {
		printChanges(env, shown.Changes, "")
		env.Notef("compared with version %d, which is in force", now.Number)
	}
	if len(changes) > 0 {
		return exit.WithCode(exit.Failed)
	}
	return nil
}

func applyConfig(env *command.Env, c *cli.Context, path string) error {
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	now, next, changes, err := compare(env, c, session, path)
	if err != nil {
		return err
	}
	ifVersion := now.Number
	if c.IsSet("if-version") {
		ifVersion = c.Int("if-version")
	}
	if len(changes) == 0 && ifVersion == now.Number {
		if session.AsJSON {
			return table.PrintJSON(env.Stdout, now)
		}
		env.Notef("nothing to change: version %d has the same settings", now.Number)
		return nil
	}
	made, err := session.SetConfig(c.Context, api.ConfigRequest{Config: next, Comment: c.String("comment"),
		IfVersion: ifVersion})
	if err != nil {
		return err
	}
	return printMade(env, session, made)
}

func rollBack(env *command.Env, c *cli.Context, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return exit.Usagef("%q is not a version: rota config history lists the versions", text)
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	list, _, err := session.ConfigVersions(c.Context)
	if err != nil {
		return err
	}
	ifVersion := list.Items[0].Number
	if c.IsSet("if-version") {
		ifVersion = c.Int("if-version")
	}
	comment := c.String("comment")
	if comment == "" {
		comment = fmt.Sprintf("back to version %d", n)
	}
	made, err := session.RollBackConfig(c.Context, api.RollbackRequest{Version: n, Comment: comment, IfVersion: ifVersion})
	if err != nil {
		return err
	}
	return printMade(env, session, made)
}

func printMade(env *command.Env, session *command.Session, made *api.ConfigVersion) error {
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, made)
	}
	fmt.Fprintf(env.Stdout, "version %d is in force\n", made.Number)
	printChanges(env, made.Changes, "  ")
	return nil
}

func printChanges(env *command.Env, changes []api.ConfigChange, indent string) {
	for _, change := range changes {
		fmt.Fprintf(env.Stdout, "%s%s\n", indent, show.Clean(config.Change(change).String()))
	}
}

// showVersions lists the last versions.
func showVersions(env *command.Env, c *cli.Context, args []string) error {
	most := 0
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return exit.Usagef("%q is not a number of versions", args[0])
		}
		most = n
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	list, answer, err := session.ConfigVersions(c.Context)
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if most > 0 {
		list.Items = list.Items[:min(most, len(list.Items))]
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, list)
	}
	for i := range list.Items {
		v := &list.Items[i]
		line := fmt.Sprintf("version %d", v.Number)
		if v.At != nil {
			line += "  " + show.Time(v.At, c.Bool("utc"))
		}
		if v.By != "" {
			line += "  by " + show.Clean(v.By)
		}
		if v.Comment != "" {
			line += "  " + show.Clean(v.Comment)
		}
		fmt.Fprintln(env.Stdout, line)
		printChanges(env, v.Changes, "  ")
	}
	return nil
}
