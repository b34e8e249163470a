package system

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// check answers GET /v1/check: every invariant on the live state of this controller, and that
// state's digest.
func (h *Handlers) check(x *exchange.Exchange) (*api.Check, error) {
	v, err := h.Replica.Check()
	digest := sha256.New()
	if err := v.WriteSnapshot(digest); err != nil {
		return nil, err
	}
	out := &api.Check{OK: err == nil, Index: v.Index(), Violations: []string{},
		Digest: hex.EncodeToString(digest.Sum(nil))}
	for _, e := range unjoin(err) {
		out.Violations = append(out.Violations, e.Error())
	}
	return out, nil
}

// unjoin returns the errors that were joined.
func unjoin(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, unjoin(e)...)
		}
		return all
	}
	return []error{err}
}

// health is the answer of the two probes.
type health struct {
	Status string `json:"status"`
}

// healthz answers as long as the process can.
func healthz(*exchange.Exchange) (*health, error) { return &health{"ok"}, nil }

// readyz answers with an error while there is no leader to write to.
func (h *Handlers) readyz(x *exchange.Exchange) (*health, error) {
	if x.Stale() {
		return nil, problem.NoLeader("there is no leader now")
	}
	if h.Replica.IsLeader() && !h.Replica.Leading() {
		return nil, problem.NoLeader("this controller is becoming the leader")
	}
	return &health{"ready"}, nil
}

// recordBatch is how many finished jobs another controller gets at a time.
const recordBatch = 1000

// internalRecords answers another controller that missed finished jobs.
func (h *Handlers) internalRecords(x *exchange.Exchange) (any, error) {
	jobs, err := h.History.Range(x.Context(), x.Number("from", 1), x.Number("to", 0), recordBatch)
	if err != nil {
		return nil, &api.Problem{Status: http.StatusInternalServerError, Code: api.CodeInternal,
			Detail: "read the history: " + err.Error()}
	}
	if jobs == nil {
		jobs = []*model.Job{}
	}
	return jobs, nil
}
