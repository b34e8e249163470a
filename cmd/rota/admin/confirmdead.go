package admin

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// confirmDead says that nothing runs any more on nodes that are down, and what that does to their jobs.
func confirmDead(env *command.Env, c *cli.Context) error {
	names, err := command.NodeRefs(c.Args().Slice()[1:])
	if err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	request := api.ConfirmDeadRequest{Nodes: names, Reason: c.String("reason"), DryRun: c.Bool("dry-run")}
	done, err := session.ConfirmDead(c.Context, request)
	if err != nil {
		return exit.LostAnswer(err, "the nodes may have been confirmed dead: rota nodes shows the reason")
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, done)
	}
	_, err = fmt.Fprint(env.Stdout, deadText(done, request.DryRun, c.Bool("utc")))
	return err
}

// deadText says of each node since when it is down, and which jobs leave it.
func deadText(d *api.ConfirmedDead, dry, utc bool) string {
	verb, one, many := "is confirmed dead", "job leaves", "jobs leave"
	if dry {
		verb, one, many = "would be confirmed dead", "job would leave", "jobs would leave"
	}
	var b strings.Builder
	for _, n := range d.Items {
		jobs := "it had no jobs"
		if len(n.Jobs) > 0 {
			jobs = fmt.Sprintf("%s it at once: %s", show.Count(len(n.Jobs), one, many), show.IDs(n.Jobs))
		}
		fmt.Fprintf(&b, "%s %s, down since %s; %s\n", n.Name, verb, show.Time(n.Since, utc), jobs)
	}
	return b.String()
}
