package report

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
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
	created, running := row(wid(1), model.WorkerCreated), row(wid(1), model.WorkerRunning)
	finding := running
	finding.Policy = "p"
	o.Put(wid(1), State(model.WorkerCreated))
	o.Put(wid(1), Finding{Policy: "p"})
	if !woken() || woken() {
		t.Error("it is not woken once")
	}
	b := o.nextBatch() // a finding comes before the end that it explains
	if sent := b.workers; len(sent) != 2 || sent[0] != finding || sent[1] != created {
		t.Errorf("sent %+v", sent)
	}
	if states := b.states(); len(states) != 1 || states[0] != created {
		t.Errorf("confirmed are %+v", states)
	}
	o.Put(wid(1), State(model.WorkerRunning)) // meanwhile
	_ = woken()
	o.dropConfirmed(b)
	if !woken() {
		t.Error("the newer state is forgotten")
	}
	if b = o.nextBatch(); len(b.workers) != 1 || b.workers[0] != running {
		t.Errorf("then %+v", b.workers)
	}
	o.dropConfirmed(b)
	if b = o.nextBatch(); len(b.workers) != 0 || woken() {
		t.Errorf("in the end %+v", b.workers)
	}
	o.Put(wid(1), Rate(15))
	if b = o.nextBatch(); len(b.workers) != 1 || b.workers[0].Rate != 15 || len(b.states()) != 0 {
		t.Errorf("a rate: %+v", b.workers)
	}
	o.dropConfirmed(b)
	if b = o.nextBatch(); len(b.workers) != 0 {
		t.Errorf("a rate that was confirmed: %+v", b.workers)
	}
	for job := range int64(Most + 10) {
		o.Put(wid(job+1), State(model.WorkerRunning))
	}
	if b = o.nextBatch(); len(b.workers) != Most {
		t.Errorf("%d reports at once", len(b.workers))
	}
}

// row returns the row of a worker's state.
func row(id container.ID, state model.WorkerState) model.WorkerReport {
	return model.WorkerReport{Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: state}
}

// TestEachKindOfNewsStaysItself: the newest message of each kind is sent, as a row that the
// controllers know. No message replaces one of another kind.
func TestEachKindOfNewsStaysItself(t *testing.T) {
	result := row(wid(1), model.WorkerExited)
	result.ExitCode = 3
	old := []News{State(model.WorkerCreated), Rate(1), Class("slow"), Finding{Policy: "a", Line: "1"}, Switch{Number: 1}}
	last := []News{Result(result), Rate(2), Class("fast"), Finding{Policy: "a", Line: "2"},
		Finding{Policy: "b", Line: "3"}, Switch{Number: 2, Means: "m", TookMS: 4}, &Profile{Rate: 5},
		&Packed{Number: 6, Rate: 7}}
	o := NewOutbox()
	for _, n := range slices.Concat(old, last) {
		o.Put(wid(1), n)
	}
	b := o.nextBatch()
	var got []string
	for _, r := range b.workers {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	end := got[len(got)-1]
	slices.Sort(got)
	const id = `{"job":1,"attempt":1,"worker":0,"state":`
	want := []string{
		id + `"exited","exit_code":3}`, id + `"running","class":"fast"}`, id + `"running","message":"2","policy":"a"}`,
		id + `"running","message":"3","policy":"b"}`, id + `"running","packed":{"number":6,"rate":7}}`,
		id + `"running","profile":{"utilisation":0,"memory":0,"rate":5}}`, id + `"running","rate":2}`,
		id + `"running","switch":2,"means":"m","took_ms":4}`,
	}
	if !slices.Equal(got, want) || end != want[0] {
		t.Errorf("the rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
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

// TestRowsOfStepsArriveInOrder notices rows that overtake each other, or that come after the end of
// their worker. Meanwhile no controller answers for a while and the daemon restarts.
func TestRowsOfStepsArriveInOrder(t *testing.T) {
	o := NewOutbox()
	id := container.ID{Job: 1, Attempt: 1}
	for row := 1; row <= Most+2; row++ {
		o.PutStep(model.StepReport{Job: 1, Attempt: 1, Step: model.Step{Row: row}})
	}
	end, other := row(id, model.WorkerExited), row(wid(2), model.WorkerExited)
	o.Put(id, State(model.WorkerExited))
	o.Put(wid(2), State(model.WorkerExited))
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
