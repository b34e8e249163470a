package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// pollWait is how long one long poll is held open.
const pollWait = 50 * time.Second

// eventFilter selects events; what is zero matches all.
type eventFilter struct {
	job  cluster.JobID
	node string
	kind string
}

func (f eventFilter) matches(e *api.Event) bool {
	return (f.job == 0 || e.Job == f.job) && (f.node == "" || e.Node == f.node) && (f.kind == "" || e.Type == f.kind)
}

func (w *world) events(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	form, err := w.format(c, formatTable, formatJSON, formatCSV)
	if err != nil {
		return err
	}
	filter := eventFilter{node: c.String("node"), kind: c.String("type")}
	if text := c.String("job"); text != "" {
		if filter.job, err = jobID(text); err != nil {
			return err
		}
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	list, answer, err := client.Events(ctx, c.Uint64("after"), 0)
	if err != nil {
		return err
	}
	w.warnStale(answer)
	if !c.Bool("follow") {
		list.Items = filter.of(list.Items)
		if form == formatJSON {
			return printJSON(w.stdout, list)
		}
		return eventTable(list.Items, c.Bool("utc")).print(w.stdout, form, !c.Bool("no-header"))
	}
	return w.followEvents(ctx, client, list, max(answer.Index, c.Uint64("after")), filter, form, c.Bool("utc"))
}

func (f eventFilter) of(events []api.Event) []api.Event {
	kept := make([]api.Event, 0, len(events))
	for i := range events {
		if f.matches(&events[i]) {
			kept = append(kept, events[i])
		}
	}
	return kept
}

// followEvents prints events as they come, one a line, until the user interrupts; in JSON one object a line.
func (w *world) followEvents(ctx context.Context, client *api.Client, list *api.List[api.Event], index uint64, f eventFilter, form format, utc bool) error {
	for {
		for _, e := range f.of(list.Items) {
			if err := w.printEvent(&e, form, utc); err != nil {
				return err
			}
		}
		for _, e := range list.Items {
			index = max(index, e.Index)
		}
		var answer api.Answer
		var err error
		list, answer, err = client.Events(ctx, index, pollWait)
		if ctx.Err() != nil {
			return nil // interrupting is how following ends
		}
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			index = max(index, answer.Index)
		}
	}
}

func (w *world) printEvent(e *api.Event, form format, utc bool) error {
	if form == formatJSON {
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w.stdout, "%s\n", b)
		return err
	}
	return eventTable([]api.Event{*e}, utc).print(w.stdout, form, false)
}

func eventTable(events []api.Event, utc bool) *table {
	t := &table{columns: []column{{title: "INDEX", right: true}, {title: "TIME"}, {title: "TYPE"}, {title: "JOB", right: true},
		{title: "ATTEMPT", right: true}, {title: "NODE", least: 8}, {title: "CAUSE"}, {title: "FOR", right: true}}}
	for _, e := range events {
		t.add(strconv.FormatUint(e.Index, 10), stamp(e.At, utc), e.Type, orDash(int64(e.Job)), orDash(int64(e.Attempt)), dashIfEmpty(e.Node),
			dashIfEmpty(string(e.Cause)), orDash(int64(e.For)))
	}
	return t
}

func orDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func dashIfEmpty(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
