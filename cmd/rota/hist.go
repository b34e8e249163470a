package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// histLimit is how many ended jobs are shown unless --limit says otherwise.
const histLimit = 1000

// histSince is how far back they go without -S.
const histSince = "now-7days"

func histFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "me", Usage: "my jobs only"},
		&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of `USER` only"},
		&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of `ACCOUNT` only"},
		&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "jobs called `NAME` only"},
		&cli.StringFlag{Name: "jobs", Aliases: []string{"j", "job"}, Usage: "these `IDS` only, however old"},
		&cli.StringFlag{Name: "states", Aliases: []string{"s", "state"}, Usage: "jobs that ended in `STATES` only, such as CD,F"},
		&cli.StringFlag{Name: "since", Aliases: []string{"S"}, Usage: "ended at or after `TIME`", DefaultText: histSince},
		&cli.StringFlag{Name: "until", Aliases: []string{"E"}, Usage: "ended before `TIME`"},
		&cli.IntFlag{Name: "limit", Usage: "the last `N` only", Value: histLimit},
		&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "the same as -o wide"},
	}
}

func (w *world) hist(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	o, err := w.viewOptions(c)
	if err != nil {
		return err
	}
	v, err := newView(o, histCells)
	if err != nil {
		return err
	}
	filter, err := w.historyFilter(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	list, more, err := pages(func(page string) (*api.List[api.Job], error) {
		filter.Page = page
		list, answer, err := client.History(c.Context, filter, api.Read{})
		if err == nil && page == "" {
			w.warnStale(answer)
		}
		return list, err
	}, c.Int("limit"))
	if err != nil {
		return err
	}
	if more && !c.IsSet("limit") {
		fmt.Fprintf(w.stderr, "rota: these are the last %d of the jobs that ended then: --limit N is for more\n", histLimit)
	}
	if o.form != formatJSON && o.form != formatYAML {
		slices.Reverse(list.Items) // the newest stands next to the prompt
	}
	seen := map[cluster.JobID]bool{}
	for i := range list.Items {
		seen[list.Items[i].ID] = true
	}
	if err := v.show(w, list); err != nil {
		return err
	}
	return w.notShown(c.Context, client, filter.Refs, seen, func(j *job) string {
		if ended(j) {
			return "" // and was left out by another option
		}
		return fmt.Sprintf("job %d has not ended: \"rota queue -j %d\" shows it", j.ID, j.ID)
	}, v.form == formatJSON)
}

func (w *world) historyFilter(c *cli.Context) (api.HistoryFilter, error) {
	f := api.HistoryFilter{User: c.String("user"), Account: c.String("account"), Name: c.String("name"),
		States: splitList(c.String("states")), Limit: min(c.Int("limit"), histLimit)}
	if err := notEmpty(c, "user", "account", "name", "states", "jobs"); err != nil {
		return f, err
	}
	if c.Int("limit") < 1 {
		return f, usagef("--limit %d: at least 1", c.Int("limit"))
	}
	if c.Bool("me") {
		name, err := w.currentUser()
		if err != nil {
			return f, err
		}
		f.User = name
	}
	refs, err := jobRefs(splitList(c.String("jobs")))
	if err != nil {
		return f, err
	}
	f.Refs = refs
	since := c.String("since")
	if since == "" && len(refs) == 0 {
		since = histSince
	}
	if since != "" {
		if f.Since, err = parseWhen(since, w.now(), c.Bool("utc")); err != nil {
			return f, err
		}
	}
	if until := c.String("until"); until != "" {
		if f.Until, err = parseWhen(until, w.now(), c.Bool("utc")); err != nil {
			return f, err
		}
	}
	return f, nil
}

func reasonText(r api.Reason) string {
	switch {
	case r.Code == "":
		return r.Text
	case r.Text == "":
		return r.Code
	}
	return fmt.Sprintf("%s: %s", r.Code, r.Text)
}
