package relay

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// execJob answers POST /v1/jobs/{id}/exec: the node of a worker starts a process in its container.
func (h *Handlers) execJob(x *exchange.Exchange) (any, error) {
	var req api.ExecRequest
	if err := x.Decode(&req); err != nil {
		return nil, err
	}
	if len(req.Argv) > 0 && req.Argv[0] == "" {
		return nil, problem.Invalid("argv: the first word, the program, is empty")
	}
	return h.streamFromWorker(x, "exec", req.Worker, req, model.Running)
}

// attachJob answers POST /v1/jobs/{id}/attach: it goes on with the terminal of a job.
func (h *Handlers) attachJob(x *exchange.Exchange) (any, error) {
	var req api.AttachRequest
	if err := x.Decode(&req); err != nil {
		return nil, err
	}
	if req.From != nil && *req.From < 0 {
		return nil, problem.Invalid("from: must not be below 0")
	}
	return h.streamFromWorker(x, "attach", req.Worker, req, model.Running, model.Suspended, model.Completing)
}
