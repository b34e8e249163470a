package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// pollWait is how long one long poll is held open.
const pollWait = 50 * time.Second

// eventFilter selects events; what is zero matches all.
type eventFilter struct {
	jobs  []cluster.JobID
	nodes []string
	types []string
}

func (f eventFilter) matches(e *api.Event) bool {
	return (len(f.jobs) == 0 || slices.Contains(f.jobs, e.Job)) && (len(f.nodes) == 0 || slices.Contains(f.nodes, e.Node)) &&
		(len(f.types) == 0 || slices.Contains(f.types, e.Type))
}

func (w *world) events(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	o, err := w.viewOptions(c)
	if err != nil {
		return err
	}
	v, err := newView(o, eventCells)
	if err != nil {
		return err
	}
	filter := eventFilter{types: splitList(c.String("type"))}
	for _, name := range filter.types {
		if known := eventTypes(); !slices.Contains(known, name) {
			return usagef("--type %s: the types are %s", name, strings.Join(known, ", "))
		}
	}
	if filter.nodes, err = nodeRefs(splitOutside(c.String("node"))); err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	if text := c.String("job"); text != "" {
		refs, err := jobRefs([]string{text})
		if err != nil {
			return err
		}
		for _, ref := range refs {
			id, err := idOf(c.Context, client, ref)
			if err != nil {
				return err
			}
			filter.jobs = append(filter.jobs, id)
		}
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	list, answer, err := eventsAfter(ctx, client, c.Uint64("after"))
	if err != nil {
		return err
	}
	w.warnStale(answer)
	if !c.Bool("follow") {
		list.Items = filter.of(list.Items)
		return v.show(w, list)
	}
	return w.followEvents(ctx, client, list, max(answer.Index, c.Uint64("after")), filter, v)
}

// eventsAfter asks for all events that the controller remembers; it gives them in parts.
func eventsAfter(ctx context.Context, client *api.Client, after uint64) (*api.List[api.Event], api.Answer, error) {
	all, answer, err := client.Events(ctx, after, 0)
	for part := all; err == nil && len(part.Items) > 0 && part.Index < answer.Index; {
		part, answer, err = client.Events(ctx, part.Index, 0)
		if err == nil {
			all.Items = append(all.Items, part.Items...)
			all.Index = part.Index
		}
	}
	return all, answer, err
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
func (w *world) followEvents(ctx context.Context, client *api.Client, list *api.List[api.Event], index uint64, f eventFilter, v *view[api.Event]) error {
	away := patience{world: w}
	away.answered()
	for {
		for _, e := range f.of(list.Items) {
			if err := w.printEvent(e, v); err != nil {
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
			if list = (&api.List[api.Event]{}); away.bears(ctx, err) {
				continue
			}
			return err
		}
		away.answered()
		if len(list.Items) == 0 {
			index = max(index, answer.Index)
		}
	}
}

func (w *world) printEvent(e api.Event, v *view[api.Event]) error {
	one, err := filtered([]api.Event{e}, v.filter)
	if err != nil || len(one) == 0 {
		return err
	}
	switch v.form {
	case formatJSON:
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w.stdout, "%s\n", b)
		return err
	case formatTemplate:
		return printTemplate(w.stdout, v.template, one)
	}
	return v.table(one).print(w.stdout, v.form, false)
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

// eventTypes are the types that events have.
func eventTypes() []string {
	all := []cluster.EventType{cluster.EventSubmitted, cluster.EventHeld, cluster.EventReleased, cluster.EventUpdated, cluster.EventAssigned,
		cluster.EventCreated, cluster.EventStarted, cluster.EventStopping, cluster.EventPolicy, cluster.EventEnded, cluster.EventRequeued,
		cluster.EventFinished, cluster.EventReserved, cluster.EventUnreserved, cluster.EventNodeUp, cluster.EventNodeDown,
		cluster.EventNodeDrain, cluster.EventConfig}
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = string(t)
	}
	return names
}
