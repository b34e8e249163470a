package main

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// found is what the jobs have written, and what the cluster says of them.
type found struct {
	trained   []trained
	tried     []tried
	lives     map[model.JobID][]training.Life
	history   map[model.JobID]*api.Job
	events    []api.Event
	assigned  map[attemptID]api.Event // the first of each attempt, as the next ones
	stopping  map[attemptID]api.Event
	ended     map[attemptID]api.Event
	reserved  []model.JobID // for which others had to leave
	takeOvers []takeOver
}

// found reads everything.
func (p *proof) found(ctx context.Context) (*found, error) {
	f := &found{trained: p.stream.trained, tried: p.stream.tried, lives: map[model.JobID][]training.Life{},
		history: map[model.JobID]*api.Job{}, events: p.log.sorted(), takeOvers: p.kills.takeOvers}
	f.assigned, f.stopping, f.ended = first(f.events, model.EventAssigned), first(f.events, model.EventStopping),
		first(f.events, model.EventEnded)
	for _, e := range f.events {
		if e.Type == string(model.EventReserved) {
			f.reserved = append(f.reserved, e.Job)
		}
	}
	for i := range f.trained {
		t := &f.trained[i]
		var err error
		if f.lives[t.id], err = t.lives(); err != nil {
			return nil, err
		}
	}
	client, err := p.cluster.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for page := ""; ; {
		list, _, err := client.History(ctx, api.HistoryFilter{Limit: 10_000, Page: page}, api.Read{Consistent: true})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			f.history[list.Items[i].ID] = &list.Items[i]
		}
		if page = list.Next; page == "" {
			return f, nil
		}
	}
}

// life returns what an attempt wrote; nil if it was over before its first beat.
func (f *found) life(id attemptID) *training.Life {
	all := f.lives[id.job]
	for i := range all {
		if all[i].Attempt == id.n {
			return &all[i]
		}
	}
	return nil
}

// exit is when an attempt that had to leave was gone. That is its last beat, or, if it never beat,
// when the cluster heard of its end.
func (f *found) exit(e api.Event) time.Time {
	if l := f.life(attemptID{e.Job, e.Attempt}); l != nil {
		return l.Last
	}
	return e.At.Time
}

// attempts are those of which the events tell that they were assigned to nodes.
func (f *found) attempts(id model.JobID) []attemptID {
	var all []attemptID
	for n := 1; ; n++ {
		a := attemptID{id, n}
		if _, ok := f.assigned[a]; !ok {
			return all
		}
		all = append(all, a)
	}
}
