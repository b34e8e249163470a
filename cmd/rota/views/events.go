package views

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// eventFilter selects events; an empty field matches all events.
type eventFilter struct {
	jobs  []model.JobID
	nodes []string
	types []string
}

func (f eventFilter) matches(e *api.Event) bool {
	return (len(f.jobs) == 0 || slices.Contains(f.jobs, e.Job)) &&
		(len(f.nodes) == 0 || f.onNode(e.Node)) &&
		(len(f.types) == 0 || slices.Contains(f.types, e.Type))
}

// onNode reports whether an event names one of the nodes.
func (f eventFilter) onNode(list string) bool {
	names, err := hostlist.Expand(list)
	return err == nil && slices.ContainsFunc(names, func(name string) bool { return slices.Contains(f.nodes, name) })
}

func showEvents(env *command.Env, c *cli.Context) error {
	v, session, err := listing.Open(env, c, eventCells)
	if err != nil {
		return err
	}
	if err := command.RefuseEmpty(c, "type", "job", "node"); err != nil {
		return err
	}
	filter := eventFilter{types: command.SplitList(c.String("type"))}
	for _, name := range filter.types {
		if !slices.Contains(eventTypes, name) {
			return exit.Usagef("--type %s: must be one of %s", name, strings.Join(eventTypes, ", "))
		}
	}
	if filter.nodes, err = command.NodesOf(c, "node"); err != nil {
		return err
	}
	if text := c.String("job"); text != "" {
		refs, err := command.JobRefs([]string{text})
		if err != nil {
			return err
		}
		for _, ref := range refs {
			id, err := session.JobID(c.Context, ref)
			if err != nil {
				return err
			}
			filter.jobs = append(filter.jobs, id)
		}
	}
	ctx, stop := command.Interruptible(c.Context)
	defer stop()
	list, answer, err := eventsAfter(ctx, session.Client, c.Uint64("after"))
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if !c.Bool("follow") {
		list.Items = filter.apply(list.Items)
		return v.Show(env, list)
	}
	return followEvents(ctx, session, list, max(answer.Index, c.Uint64("after")), filter, v)
}

// eventsAfter returns the events after an index that the controller still holds in memory, fetched
// in several requests.
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

func (f eventFilter) apply(events []api.Event) []api.Event {
	kept := make([]api.Event, 0, len(events))
	for i := range events {
		if f.matches(&events[i]) {
			kept = append(kept, events[i])
		}
	}
	return kept
}

// followEvents prints events as they occur, one per line, until the user interrupts; in JSON, one
// object per line.
func followEvents(ctx context.Context, session *command.Session, list *api.List[api.Event], index uint64,
	f eventFilter, v *listing.View[api.Event]) error {
	away := follow.Retry{Env: session.Env}
	away.Answered()
	for {
		for _, e := range f.apply(list.Items) {
			if err := printEvent(session.Env, e, v); err != nil {
				return err
			}
		}
		for _, e := range list.Items {
			index = max(index, e.Index)
		}
		var answer api.Answer
		var err error
		list, answer, err = session.Events(ctx, index, follow.PollWait)
		if ctx.Err() != nil {
			return nil // an interrupt is the normal end
		}
		if err != nil {
			if list = (&api.List[api.Event]{}); away.ShouldRetry(ctx, err) {
				continue
			}
			return err
		}
		away.Answered()
		if len(list.Items) == 0 {
			index = max(index, answer.Index)
		}
	}
}

func printEvent(env *command.Env, e api.Event, v *listing.View[api.Event]) error {
	one, err := listing.Filtered([]api.Event{e}, v.Filter)
	if err != nil || len(one) == 0 {
		return err
	}
	switch v.Format {
	case table.JSON:
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "%s\n", b)
		return err
	case table.Template:
		return listing.PrintTemplate(env.Stdout, v.Template, one)
	}
	return v.Table(one).Print(env.Stdout, env.Screen(), v.Format, false)
}

// eventTypes are the types of events.
var eventTypes = show.Words([]model.EventType{model.EventSubmitted, model.EventHeld, model.EventReleased,
	model.EventUpdated, model.EventAssigned, model.EventCreated, model.EventStarted, model.EventEarly,
	model.EventSuspending, model.EventSuspended, model.EventResuming, model.EventContinued, model.EventStopping,
	model.EventResizing, model.EventResized,
	model.EventClass, model.EventPolicy, model.EventEnded, model.EventRequeued, model.EventFinished, model.EventReserved,
	model.EventUnreserved, model.EventNodeUp, model.EventNodeDown, model.EventNodeDrain, model.EventNodeDead,
	model.EventConfig,
	model.EventPaused, model.EventResumed, model.EventDryRunOn, model.EventDryRunOff, model.EventWouldPreempt,
	model.EventTried, model.EventMeasured})
