package report

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/retry"
)

// timeout is the timeout of one request with a report; a healthy controller answers in
// milliseconds.
const timeout = 15 * time.Second

// Controller takes reports.
type Controller interface {
	// Report sends the states of workers and samples of their progress.
	Report(ctx context.Context, node string, req api.ReportRequest) (*api.ReportResponse, error)
}

// Sender sends the content of an outbox to the controllers.
type Sender struct {
	Outbox       *Outbox
	Control      Controller
	Node, BootID string
	Log          *slog.Logger
	// Retry logs that a try has failed and is repeated after the time waited.
	Retry func(ctx context.Context, what string, err error, waited time.Duration)
	// StepsConfirmed gets the rows of steps that the controllers have confirmed, and then Confirmed the
	// states of workers.
	StepsConfirmed func([]model.StepReport)
	Confirmed      func([]model.WorkerReport)
}

// Run sends the outbox, one batch at a time, so that the reports of a worker arrive in order.
func (s *Sender) Run(ctx context.Context) error {
	var wait retry.Backoff // of samples alone
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.Outbox.ready:
		}
		b := s.Outbox.nextBatch()
		if b.empty() {
			if len(b.samples) > 0 {
				s.sendSamples(ctx, b.samples, &wait)
			}
			continue
		}
		if s.deliver(ctx, b) {
			s.Outbox.dropConfirmed(b)
			s.StepsConfirmed(b.steps)
			s.Confirmed(b.states())
		}
	}
}

// sendSamples sends samples once. If that fails, those that an array waits for go back into the
// outbox, where newer ones replace them and reports of workers overtake them.
func (s *Sender) sendSamples(ctx context.Context, samples []api.Sample, wait *retry.Backoff) {
	err := s.send(ctx, batch{samples: samples})
	if err == nil {
		*wait = retry.Backoff{}
		return
	}
	if samples = awaitedSamples(samples); len(samples) > 0 {
		s.Retry(ctx, "cannot report progress to the controllers; trying again", err, wait.Sleep(ctx))
		s.Outbox.PutSamples(samples, true)
	}
}

// awaitedSamples returns the samples that an array waits for. The others are only for display.
func awaitedSamples(samples []api.Sample) []api.Sample {
	return slices.DeleteFunc(samples, func(one api.Sample) bool { return one.Reached == nil })
}

// deliver sends one batch until it is confirmed or ctx ends. It reports whether it was confirmed.
// If the controllers refuse it as invalid, it is sent in halves. A single row that they refuse is
// dropped, because it would be refused again and hold up all others.
func (s *Sender) deliver(ctx context.Context, b batch) bool {
	var wait retry.Backoff
	for ctx.Err() == nil {
		err := s.send(ctx, b)
		if err == nil {
			return true
		}
		b.samples = awaitedSamples(b.samples)
		if invalid(err) {
			first, second, more := b.halves()
			if more {
				return s.deliver(ctx, first) && s.deliver(ctx, second)
			}
			s.Log.Error("the controllers refuse a report; dropping it", "workers", b.workers, "steps", b.steps,
				"samples", b.samples, "err", err)
			return true
		}
		s.Retry(ctx, "cannot report to the controllers; trying again", err, wait.Sleep(ctx))
	}
	return false
}

// invalid reports whether the controllers would refuse the same request again.
func invalid(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Status == http.StatusBadRequest || p.Status == http.StatusUnprocessableEntity ||
		p.Status == http.StatusRequestEntityTooLarge)
}

// halves divides a batch in the order in which it arrives: samples, steps, workers. It returns false
// if it has one row or none.
func (b *batch) halves() (first, second batch, ok bool) {
	n := len(b.samples) + len(b.steps) + len(b.workers)
	if n < 2 {
		return batch{}, batch{}, false
	}
	half := n / 2
	at := min(half, len(b.samples))
	first.samples, second.samples = b.samples[:at], b.samples[at:]
	half -= at
	at = min(half, len(b.steps))
	first.steps, second.steps = b.steps[:at], b.steps[at:]
	half -= at
	first.workers, second.workers = b.workers[:half], b.workers[half:]
	return first, second, true
}

// send sends one report.
func (s *Sender) send(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := s.Control.Report(ctx, s.Node,
		api.ReportRequest{BootID: s.BootID, Workers: b.workers, Samples: b.samples, Steps: b.steps})
	if err == nil && resp != nil {
		for _, row := range resp.Refused {
			s.Log.Error("the controllers refuse a row of a report; it is not sent again", "row", row)
		}
	}
	return err
}
