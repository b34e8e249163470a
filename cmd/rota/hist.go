package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
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
	form, err := w.format(c, listFormats...)
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
	list, err := pages(func(page string) (*api.List[api.Job], error) {
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
	if form == formatTable && c.Bool("long") {
		form = formatWide
	}
	if form == formatJSON {
		return printJSON(w.stdout, list)
	}
	slices.Reverse(list.Items) // the newest stands next to the prompt
	return histTable(list.Items, c.Bool("utc")).print(w.stdout, form, !c.Bool("no-header"))
}

func (w *world) historyFilter(c *cli.Context) (api.HistoryFilter, error) {
	f := api.HistoryFilter{User: c.String("user"), Account: c.String("account"), Name: c.String("name"),
		States: splitList(c.String("states")), Limit: min(c.Int("limit"), histLimit)}
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
	ids, err := jobIDs(splitList(c.String("jobs")))
	if err != nil {
		return f, err
	}
	f.IDs = ids
	since := c.String("since")
	if since == "" && len(ids) == 0 {
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

func histTable(jobs []api.Job, utc bool) *table {
	t := &table{columns: []column{
		{title: "JOBID", right: true}, {title: "NAME", least: 8}, {title: "USER", least: 6}, {title: "ACCOUNT", wide: true},
		{title: "QUEUE", least: 6}, {title: "CLASS"}, {title: "GPUS", right: true}, {title: "STATE", least: 9}, {title: "EXIT", right: true},
		{title: "ELAPSED", right: true}, {title: "GPUH", right: true}, {title: "ATTEMPTS", right: true, wide: true},
		{title: "STARTED", wide: true}, {title: "ENDED", wide: true}, {title: "NODELIST", least: 8}, {title: "REASON", wide: true},
	}}
	for i := range jobs {
		j := &jobs[i]
		t.add(idText(j.ID), j.Name, j.User, j.Account, j.Queue, string(j.Class), strconv.Itoa(j.GPUs), j.State, exitText(j),
			clockText(j.Elapsed), hoursText(j.GPUSeconds), strconv.Itoa(j.Attempt), stamp(j.Started, utc), stamp(j.Ended, utc),
			hosts(j.Nodes), reasonText(j.Reason))
	}
	return t
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
