package report

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// wid returns the first worker of a job.
func wid(job int64) container.ID { return container.ID{Job: job, Attempt: 1} }

// TestWhatTheOutboxKeeps notices reports that are lost, sent twice, or sent in the wrong order.
func TestWhatTheOutboxKeeps(t *testing.T) {
	o := NewOutbox()
	woken := func() bool {
		select {
		case <-o.ready:
			return true
		default:
			return false
		}
	}
	created, running := Of(wid(1), model.WorkerCreated), Of(wid(1), model.WorkerRunning)
	finding := running
	finding.Policy = "p"
	o.PutState(created)
	o.PutFinding(finding)
	if !woken() || woken() {
		t.Error("it is not woken once")
	}
	sent := o.nextBatch().workers
	if len(sent) != 2 || sent[0] != finding || sent[1] != created { // a finding comes before the end that it explains
		t.Errorf("sent %+v", sent)
	}
	o.PutState(running) // meanwhile
	_ = woken()
	o.dropConfirmed(batch{workers: sent})
	if !woken() {
		t.Error("the newer state is forgotten")
	}
	if sent = o.nextBatch().workers; len(sent) != 1 || sent[0] != running {
		t.Errorf("then %+v", sent)
	}
	o.dropConfirmed(batch{workers: sent})
	if sent = o.nextBatch().workers; len(sent) != 0 || woken() {
		t.Errorf("in the end %+v", sent)
	}
	rate := running
	rate.Rate = 15
	o.PutFinding(rate)
	if sent = o.nextBatch().workers; len(sent) != 1 {
		t.Errorf("a rate: %+v", sent)
	}
	o.dropConfirmed(batch{workers: sent})
	if sent = o.nextBatch().workers; len(sent) != 0 {
		t.Errorf("a rate that was confirmed: %+v", sent)
	}
	for job := range int64(Most + 10) {
		o.PutState(Of(wid(job+1), model.WorkerRunning))
	}
	if sent = o.nextBatch().workers; len(sent) != Most {
		t.Errorf("%d reports at once", len(sent))
	}
}

// TestSamplesThatAreSentAgain notices an older sample that replaces a newer one, and a newer one that
// is dropped.
func TestSamplesThatAreSentAgain(t *testing.T) {
	o := NewOutbox()
	step := func(n int64) []api.Sample { return []api.Sample{{Job: 1, Attempt: 1, Step: n}} }
	for _, c := range []struct {
		put   []api.Sample
		again bool
		want  int64
	}{{step(1), false, 1}, {step(2), false, 2}, {step(1), true, 2}} {
		o.PutSamples(c.put, c.again)
		if got := o.samples[wid(1)].Step; got != c.want {
			t.Errorf("%+v: step %d", c, got)
		}
	}
	if samples := o.nextBatch().samples; len(samples) != 1 {
		t.Errorf("sent %+v", samples)
	}
	o.PutSamples(step(1), true)
	if samples := o.nextBatch().samples; len(samples) != 1 || samples[0].Step != 1 {
		t.Errorf("sent again %+v", samples)
	}
	if samples := o.nextBatch().samples; len(samples) != 0 {
		t.Errorf("sent twice: %+v", samples)
	}
}

// TestRowsOfStepsArriveInOrder notices rows that overtake each other, or that come after the end of the
// worker that has them, when no controller answers for a while and the daemon is restarted.
func TestRowsOfStepsArriveInOrder(t *testing.T) {
	o := NewOutbox()
	id := container.ID{Job: 1, Attempt: 1}
	for row := 1; row <= Most+2; row++ {
		o.PutStep(model.StepReport{Job: 1, Attempt: 1, Step: model.Step{Row: row}})
	}
	end, other := Of(id, model.WorkerExited), Of(wid(2), model.WorkerExited)
	o.PutState(end)
	o.PutState(other)
	b := o.nextBatch()
	if len(b.steps) != Most || b.steps[0].Row != 1 || len(b.workers) != 1 || b.workers[0] != other {
		t.Errorf("first %d steps and %+v", len(b.steps), b.workers)
	}
	o.PutStep(model.StepReport{Job: 1, Attempt: 1, Step: model.Step{Row: Most + 3}})
	o.dropConfirmed(b)
	if b = o.nextBatch(); len(b.steps) != 3 || b.steps[0].Row != Most+1 || len(b.workers) != 1 ||
		b.workers[0] != end {
		t.Errorf("then %+v", b)
	}
	o.dropConfirmed(b)
	if b = o.nextBatch(); !b.empty() {
		t.Errorf("last %+v", b)
	}
}

// strict is a controller that refuses a report as a whole if one job of it is bad.
type strict struct {
	Controller
	bad, taken []model.JobID
	requests   int
}

// Report implements Controller.
func (s *strict) Report(_ context.Context, _ string, req api.ReportRequest) (*api.ReportResponse, error) {
	s.requests++
	var ids []model.JobID
	for _, r := range req.Workers {
		ids = append(ids, r.Job)
	}
	for i := range req.Steps {
		ids = append(ids, req.Steps[i].Job)
	}
	for _, r := range req.Samples {
		ids = append(ids, r.Job)
	}
	if slices.ContainsFunc(ids, func(id model.JobID) bool { return slices.Contains(s.bad, id) }) {
		return nil, &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalid, Detail: "bad"}
	}
	s.taken = append(s.taken, ids...)
	return &api.ReportResponse{Refused: []string{"a row"}}, nil
}

// TestARefusedRowHoldsUpNoOther: of a batch with random rows that the controllers refuse all others
// arrive, each once and in order, and the batch is done.
func TestARefusedRowHoldsUpNoOther(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed=%d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		s, b, want := &strict{}, batch{}, []model.JobID(nil)
		id := model.JobID(0)
		next := func() model.JobID {
			id++
			if r.IntN(5) == 0 {
				s.bad = append(s.bad, id)
			} else {
				want = append(want, id)
			}
			return id
		}
		for range r.IntN(4) {
			b.samples = append(b.samples, api.Sample{Job: next(), Reached: &api.Reached{}})
		}
		for range r.IntN(6) {
			b.steps = append(b.steps, model.StepReport{Job: next()})
		}
		for range 1 + r.IntN(20) {
			b.workers = append(b.workers, model.WorkerReport{Job: next()})
		}
		sender := &Sender{Control: s, Log: slog.New(slog.DiscardHandler)}
		if !sender.deliver(t.Context(), b) {
			t.Fatalf("seed=%d: the batch is not done", seed)
		}
		slices.Sort(s.taken)
		if !slices.Equal(s.taken, want) {
			t.Fatalf("seed=%d: %v arrived, want %v", seed, s.taken, want)
		}
	}
}
