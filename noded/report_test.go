package noded

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

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
		a := &Agent{}
		a.Control, a.Log = s, slog.New(slog.DiscardHandler)
		if !a.deliverReports(t.Context(), b) {
			t.Fatalf("seed=%d: the batch is not done", seed)
		}
		slices.Sort(s.taken)
		if !slices.Equal(s.taken, want) {
			t.Fatalf("seed=%d: %v arrived, want %v", seed, s.taken, want)
		}
	}
}
