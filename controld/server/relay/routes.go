package relay

import (
	"reflect"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
)

// streamMedia is what frames are called in the description of the API, see package stream.
const streamMedia = "application/x-rota-stream"

// Routes are the routes that the nodes of a job answer.
func (h *Handlers) Routes() []exchange.Route {
	// The bodies are streams, or the signatures of the handlers do not show their types.
	output := exchange.Get("/v1/jobs/{id}/logs", "Output of one worker of a job", exchange.PathID,
		exchange.InQuery(openapi.Integer, "worker", "tail", "attempt"), exchange.InQuery(openapi.String, "task", "stream"),
		exchange.InQuery(openapi.Boolean, "follow"))
	output.Media = "application/octet-stream"
	newStep := exchange.Post("/v1/jobs/{id}/steps", "Start a step in the allocation of a job; the answer is a stream",
		exchange.PathID)
	newStep.In = reflect.TypeFor[api.StepRequest]()
	steps := exchange.Get("/v1/jobs/{id}/steps", "The waiting and running steps of a job", exchange.PathID)
	steps.Out = reflect.TypeFor[api.StepList]()
	toStep := func(what, summary string, in reflect.Type) openapi.Operation {
		o := exchange.Post("/v1/jobs/{id}/steps/{step}"+what, summary, exchange.PathID, exchange.InPath("step",
			"number of the step"))
		o.In = in
		return o
	}
	process := exchange.Post("/v1/jobs/{id}/exec", "Start a process in a running job; the answer is a stream of frames",
		exchange.PathID)
	process.In, process.Media = reflect.TypeFor[api.ExecRequest](), streamMedia
	terminal := exchange.Post("/v1/jobs/{id}/attach", "Connect to the terminal of a job; the answer is a stream of frames",
		exchange.PathID)
	terminal.In, terminal.Media = reflect.TypeFor[api.AttachRequest](), streamMedia
	return []exchange.Route{
		{Operation: process, Rule: access.OfOwner, Token: trust.ScopeSubmit, Handle: h.execJob},
		{Operation: terminal, Rule: access.OfOwner, Token: trust.ScopeSubmit, Handle: h.attachJob},
		{Operation: output, Rule: access.ActOnJob, InJob: exchange.ItsOwnJob, Handle: h.logs},
		{Operation: newStep, Rule: access.OfOwner, Token: trust.ScopeSubmit, InJob: exchange.ItsOwnJob, Handle: h.jobSteps},
		{Operation: steps, Rule: access.ActOnJob, InJob: exchange.ItsOwnJob, Handle: h.jobSteps},
		{Operation: toStep("/attach", "Follow the output of a step; the answer is a stream",
			reflect.TypeFor[api.StepAttach]()),
			Rule: access.OfOwner, Token: trust.ScopeSubmit, InJob: exchange.ItsOwnJob, Handle: h.jobSteps},
		{Operation: toStep("/signal", "Send a signal to all tasks of a step", reflect.TypeFor[api.StepSignal]()),
			Rule: access.ActOnJob, Token: trust.ScopeSubmit, InJob: exchange.ItsOwnJob, Handle: h.jobSteps},
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/jobs/{id}/usage",
			"Usage of an attempt of a job so far, by worker", exchange.PathID,
			[]openapi.Param{{Name: "attempt", In: "query", Kind: openapi.Integer,
				Doc: "number of the attempt (default: the last)"}}),
			Rule: access.SeeJob, Past: true}, h.getUsage),
	}
}

// FolderRoutes are the routes about checkpoint folders that a node keeps.
func (h *Handlers) FolderRoutes() []exchange.Route {
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/nodes/{name}/kept",
			"Checkpoint folders on a node whose jobs or attempts the controllers do not know", exchange.PathNode),
			Rule: access.ForOperators},
			h.listKept),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/nodes/{name}/kept/drop", "Remove such folders",
			exchange.PathNode),
			Rule: access.ForAdmins, Place: exchange.OnLeader}, h.dropKept),
	}
}
