package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// submission is one that was acknowledged.
type submission struct {
	id       string
	sent     time.Time
	answered time.Time
}

// record is what clients that submit without pause note: each acknowledged submission. Its methods
// may be called from any goroutine.
type record struct {
	mu      sync.Mutex
	clients [][]submission // of each client, in order
	changed chan struct{}  // closed and replaced after each submission
}

func newRecord(clients int) *record {
	return &record{clients: make([][]submission, clients), changed: make(chan struct{})}
}

// during runs the clients while body runs. Each repeats submit until then; the first error ends all.
// A submission without an id was not acknowledged, and is not noted.
func (r *record) during(ctx context.Context, submit func(ctx context.Context, client int) (string, error),
	body func(context.Context) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range r.clients {
		wg.Go(func() {
			if err := r.loop(ctx, i, submit, stop); err != nil {
				cancel(err)
			}
		})
	}
	err := body(ctx)
	close(stop)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(err, cause)
	}
	return err
}

func (r *record) loop(ctx context.Context, client int, submit func(context.Context, int) (string, error),
	stop <-chan struct{},
) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		sent := time.Now()
		id, err := submit(ctx, client)
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		r.add(client, submission{id: id, sent: sent, answered: time.Now()})
	}
}

func (r *record) add(client int, s submission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[client] = append(r.clients[client], s)
	close(r.changed)
	r.changed = make(chan struct{})
}

// all returns every submission.
func (r *record) all() []submission {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.clients...)
}

// answersAfter waits until each client has been answered a submission that it sent after an instant.
// It returns when each got its first such answer, in order of time.
func (r *record) answersAfter(ctx context.Context, at time.Time) ([]time.Time, error) {
	for {
		r.mu.Lock()
		answers, changed := firstAnswers(r.clients, at), r.changed
		r.mu.Unlock()
		if len(answers) == len(r.clients) {
			return answers, nil
		}
		select {
		case <-ctx.Done():
			return answers, context.Cause(ctx)
		case <-changed:
		}
	}
}

// firstAnswers returns the first answer to each client after an instant, in order of time. An answer
// counts if its submission was sent after the instant, too: one that was under way may have been
// acknowledged before. Clients without such an answer are left out.
func firstAnswers(clients [][]submission, at time.Time) []time.Time {
	var answers []time.Time
	for _, all := range clients {
		i, _ := slices.BinarySearchFunc(all, at, func(s submission, at time.Time) int { return s.sent.Compare(at) })
		if i < len(all) {
			answers = append(answers, all[i].answered)
		}
	}
	slices.SortFunc(answers, time.Time.Compare)
	return answers
}
