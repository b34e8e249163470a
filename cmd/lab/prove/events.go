package main

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// attemptID names an attempt.
type attemptID struct {
	job model.JobID
	n   int
}

// eventLog collects the events of all controllers: each remembers those since it started, so that
// the others have what one that was killed has forgotten.
type eventLog struct {
	mu     sync.Mutex
	seen   map[api.Event]bool // without its pointer to a time
	events []api.Event

	leaving chan struct{} // gets something when a job is asked to leave for another one
}

func newEventLog() *eventLog {
	return &eventLog{seen: map[api.Event]bool{}, leaving: make(chan struct{}, 1)}
}

// watch collects from all controllers until ctx ends.
func (l *eventLog) watch(ctx context.Context, c *lab.Cluster) *sync.WaitGroup {
	var wg sync.WaitGroup
	for _, d := range c.Controllers {
		wg.Go(func() { l.follow(ctx, d) })
	}
	return &wg
}

// follow collects from one controller. While it is down it is asked again and again.
func (l *eventLog) follow(ctx context.Context, d *lab.Daemon) {
	client, err := api.DialWith("unix:"+d.Socket, api.Options{RetryFor: time.Millisecond, Unreachable: time.Millisecond})
	if err != nil {
		return // the path of the socket is a valid address: cannot be
	}
	defer client.Close()
	after := uint64(0)
	for ctx.Err() == nil {
		list, _, err := client.Events(ctx, after, 2*time.Second)
		if err != nil {
			lab.Sleep(ctx, 50*time.Millisecond)
			continue
		}
		l.add(list.Items)
		after = max(after, list.Index)
	}
}

func (l *eventLog) add(events []api.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		key := e
		key.At = nil
		if !l.seen[key] {
			l.seen[key] = true
			l.events = append(l.events, e)
			if e.Type == string(model.EventStopping) && e.Cause.Displaces() {
				select {
				case l.leaving <- struct{}{}:
				default:
				}
			}
		}
	}
}

// sorted returns all events in the order of the log.
func (l *eventLog) sorted() []api.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.events, func(a, b api.Event) int { return cmp.Compare(a.Index, b.Index) })
	return slices.Clone(l.events)
}

// first returns the first event of a type of each attempt.
func first(events []api.Event, kind model.EventType) map[attemptID]api.Event {
	all := map[attemptID]api.Event{}
	for _, e := range events {
		id := attemptID{e.Job, e.Attempt}
		if _, ok := all[id]; !ok && e.Type == string(kind) {
			all[id] = e
		}
	}
	return all
}
