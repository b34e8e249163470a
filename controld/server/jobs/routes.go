package jobs

import (
	"reflect"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/jobspec"
)

// Routes are the routes about jobs: submission, lists, changes, and one job.
func (h *Handlers) Routes() []exchange.Route {
	// The signatures of these handlers do not show the types of the bodies.
	submission := exchange.Post("/v1/jobs", "Submit a job, or a list of jobs: either all are accepted or none")
	submission.In, submission.AlsoIn = reflect.TypeFor[api.SubmitRequest](), reflect.TypeFor[jobspec.Job]()
	list := exchange.Poll("/v1/jobs", "List jobs; ended jobs are included only on request", exchange.InQuery(openapi.Array,
		"id", "state"),
		exchange.InQuery(openapi.String, "user", "account", "queue", "name", "class"),
		exchange.InQuery(openapi.Boolean, "all", "spec", "steps", "delta", "stream", "start"), exchange.InQuery(openapi.Array,
			"fields"), exchange.Paging)
	list.Out = reflect.TypeFor[api.List[api.Job]]()
	return []exchange.Route{
		// Submission and lists.
		exchange.Returning(exchange.Route{Operation: submission, Rule: access.ForUsers.With(access.PartDepend),
			Place: exchange.OnLeader,
			Token: trust.ScopeSubmit}, h.submit),
		{Operation: list, Rule: access.SeeJobs.With(access.PartJobs, access.PartDetails), Ready: h.listReady,
			Gather: listGather, Handle: h.listJobs},
		// Changes of jobs.
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/cancel", "Cancel every live job that matches"),
			Rule: access.SeeJobs.With(access.PartAct, access.PartJobs), Place: exchange.OnLeader, Token: trust.ScopeSubmit},
			h.cancelMany),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/cancel", "Stop a job for good",
			exchange.PathID),
			Rule: access.ActOnJob, Place: exchange.OnLeader, Token: trust.ScopeSubmit, InJob: exchange.ItsOwnJob},
			control(model.VerbCancel)),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/hold", "Keep a pending job from starting",
			exchange.PathID),
			Rule: access.ActOnJob.With(access.PartHold), Place: exchange.OnLeader, Token: trust.ScopeSubmit,
			InJob: exchange.ItsOwnJob},
			control(model.VerbHold)),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/release", "End a hold", exchange.PathID),
			Rule: access.ActOnJob.With(access.PartRelease), Place: exchange.OnLeader, Token: trust.ScopeSubmit,
			InJob: exchange.ItsOwnJob},
			control(model.VerbRelease)),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/requeue",
			"Stop a job and make it pending again", exchange.PathID),
			Rule: access.ActOnJob, Place: exchange.OnLeader, Token: trust.ScopeSubmit, InJob: exchange.ItsOwnJob},
			control(model.VerbRequeue)),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/signal",
			"Send a signal to the processes of a job", exchange.PathID),
			Rule: access.ActOnJob, Place: exchange.OnLeader, Token: trust.ScopeSubmit, InJob: exchange.ItsOwnJob}, h.Signal),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/update",
			"Change a job's time limit, priority, name or comment", exchange.PathID),
			Rule: access.ActOnJob.With(access.PartBeyond), Place: exchange.OnLeader, Token: trust.ScopeSubmit,
			InJob: exchange.ItsOwnJob}, update),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/jobs/{id}/prune",
			"Cancel all tasks of an array but the best by a metric", exchange.PathID),
			Rule: access.ActOnJob, Place: exchange.OnLeader, Token: trust.ScopeSubmit}, h.prune),
		// One job.
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/jobs/{id}", "One job with its specification",
			exchange.PathID),
			Rule: access.SeeJob.With(access.PartDetails), Past: true, Ready: jobReady}, h.getJob),
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/jobs/{id}/why", "Why a job waits", exchange.PathID),
			Rule: access.SeeJob.With(access.PartDetails), Past: true}, h.why),
	}
}

// QueueRoutes are the routes about the queue and the history.
func (h *Handlers) QueueRoutes() []exchange.Route {
	finished := exchange.Poll("/v1/history", "Ended jobs, the latest first", exchange.InQuery(openapi.Array, "id",
		"state"),
		exchange.InQuery(openapi.String, "user", "account", "name"), exchange.InQuery(openapi.Instant, "since", "until"),
		exchange.InQuery(openapi.Boolean, "steps"), exchange.InQuery(openapi.Array, "fields"), exchange.Paging)
	finished.Out = reflect.TypeFor[api.List[api.Job]]()
	return []exchange.Route{
		exchange.Returning(exchange.Route{Operation: exchange.Get("/v1/jobs/{id}/series",
			"Values that a job has reported of a metric, by step", exchange.PathID,
			[]openapi.Param{{Name: "metric", In: "query", Kind: openapi.String,
				Doc: "default: the metric named in the progress block, or else the first by name"}}),
			Rule: access.ActOnJob, Place: exchange.OnLeader, InJob: exchange.ItsOwnJob}, h.getSeries),
		exchange.Taking(exchange.Route{Operation: exchange.Post("/v1/plan", "Whether a job would start now"),
			Rule:  access.ForUsers.With(access.PartDepend),
			Token: trust.ScopeSubmit, Quiet: true}, h.plan),
		{Operation: finished, Rule: access.SeeJobs.With(access.PartEnded, access.PartDetails), Past: true,
			Handle: h.listHistory},
		exchange.Returning(exchange.Route{Operation: exchange.Poll("/v1/priorities",
			"Pending jobs, in the order of the scheduler"),
			Rule: access.SeeJobs.With(access.PartJobs)}, h.listPriorities),
	}
}
