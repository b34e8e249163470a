package views

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// histLimit is the default number of ended jobs in the list.
const histLimit = 1000

// histSince is the default of --since.
const histSince = "now-7days"

func histFlags() []cli.Flag {
	return []cli.Flag{
		command.Switch("me", "only your jobs"),
		command.Text("user,u", "only jobs of `USER`"),
		command.Text("account,A", "only jobs of `ACCOUNT`"),
		command.Text("name,n", "only jobs with `NAME`"),
		command.Text("jobs,j,job", "only jobs `IDS`, however old"),
		command.Text("states,s,state", "only jobs that ended in `STATES`, such as CD,F"),
		&cli.StringFlag{Name: "since", Aliases: []string{"S"}, Usage: "only jobs that ended at or after `TIME`",
			DefaultText: histSince},
		command.Text("until,E", "only jobs that ended before `TIME`"),
		&cli.IntFlag{Name: "limit", Usage: "only the last `N` jobs", Value: histLimit},
		command.Switch("long,l", "the same as -o wide"),
	}
}

func showHistory(env *command.Env, c *cli.Context) error {
	v, session, err := listing.Open(env, c, histCells)
	if err != nil {
		return err
	}
	filter, err := historyFilter(env, c)
	if err != nil {
		return err
	}
	list, more, err := listing.JoinPages(func(page string) (*api.List[api.Job], error) {
		filter.Page = page
		list, answer, err := session.History(c.Context, filter, api.Read{})
		if err == nil && page == "" {
			env.WarnStale(answer)
			for _, text := range list.Warnings {
				env.Notef("%s", text)
			}
		}
		return list, err
	}, c.Int("limit"))
	if err != nil {
		return err
	}
	if more && !c.IsSet("limit") {
		env.Notef("only the last %d jobs are shown: use --limit N for more", histLimit)
	}
	if !v.Structured() {
		slices.Reverse(list.Items) // the newest job comes last, next to the prompt
	}
	seen := map[model.JobID]bool{}
	for i := range list.Items {
		seen[list.Items[i].ID] = true
	}
	if err := v.Show(env, list); err != nil {
		return err
	}
	return reportMissing(c.Context, session, filter.Refs, seen, func(j *api.Job) string {
		if j.Code.Final() {
			return "" // another flag excludes the default of --since
		}
		return fmt.Sprintf("job %d has not ended: \"rota queue -j %d\" shows it", j.ID, j.ID)
	})
}

func historyFilter(env *command.Env, c *cli.Context) (api.HistoryFilter, error) {
	f := api.HistoryFilter{Account: c.String("account"), Name: c.String("name"),
		States: command.SplitList(c.String("states")), Limit: min(c.Int("limit"), histLimit)}
	if err := command.RefuseEmpty(c, "user", "account", "name", "states", "jobs"); err != nil {
		return f, err
	}
	if c.Int("limit") < 1 {
		return f, exit.Usagef("--limit %d: must be at least 1", c.Int("limit"))
	}
	var err error
	if f.User, err = env.SelectedUser(c); err != nil {
		return f, err
	}
	if f.Refs, err = command.JobRefs(command.SplitList(c.String("jobs"))); err != nil {
		return f, err
	}
	since := c.String("since")
	if since == "" && len(f.Refs) == 0 {
		since = histSince
	}
	if since != "" {
		if f.Since, err = command.ParseWhen(since, env.Now(), c.Bool("utc")); err != nil {
			return f, err
		}
	}
	if until := c.String("until"); until != "" {
		if f.Until, err = command.ParseWhen(until, env.Now(), c.Bool("utc")); err != nil {
			return f, err
		}
	}
	return f, nil
}
