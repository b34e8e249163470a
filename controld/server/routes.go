package server

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/jobspec"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func inQuery(kind openapi.Kind, names ...string) []openapi.Param {
	var ps []openapi.Param
	for _, n := range names {
		ps = append(ps, openapi.Param{Name: n, In: "query", Kind: kind})
	}
	return ps
}

var (
	pathID = []openapi.Param{{Name: "id", In: "path", Kind: openapi.String,
		Doc: "id of the job: 123, 123_4 for an array task, 123.train for a group"}}
	pathNode       = []openapi.Param{{Name: "name", In: "path", Kind: openapi.String, Doc: "name of the node"}}
	pathController = []openapi.Param{{Name: "name", In: "path", Kind: openapi.String, Doc: "name of the controller"}}
	paging         = []openapi.Param{{Name: "limit", In: "query", Kind: openapi.Integer,
		Doc: "items of one page: 1000 if not said, at most 10000"},
		{Name: "page", In: "query", Kind: openapi.Page, Doc: "next of the page before"}}
)

// routes is the whole API.
func routes() []route {
	return slices.Concat(jobRoutes(), nodeRoutes(), systemRoutes())
}

func jobRoutes() []route {
	jobFilters := slices.Concat(inQuery(openapi.Array, "id", "state"), inQuery(openapi.String, "user", "account", "queue", "name", "class"),
		inQuery(openapi.Boolean, "all", "spec", "delta", "stream"), inQuery(openapi.Array, "fields"), paging)
	historyFilters := slices.Concat(inQuery(openapi.Array, "id", "state"),
		inQuery(openapi.String, "user", "account", "name"), inQuery(openapi.Instant, "since", "until"), paging)
	routes := []route{
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/jobs",
			Summary: "Submit one job, or a list of them, all or none",
			In:      typeOf[api.SubmitRequest](), AlsoIn: typeOf[jobspec.Job](),
			Out: typeOf[api.SubmitResponse]()},
			place: onLeader, handle: submit},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/jobs",
			Summary: "List jobs, those that have ended only if asked for", Params: jobFilters,
			Poll: true, Out: typeOf[api.List[api.Job]]()},
			ready: listReady, gather: listGather, handle: listJobs},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/jobs/cancel", Summary: "Cancel every live job that matches",
			In: typeOf[api.CancelRequest](), Out: typeOf[api.ControlResponse]()},
			place: onLeader, handle: cancelMany},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/jobs/{id}/update",
			Summary: "Change a job's time limit, priority or name", Params: pathID,
			In: typeOf[api.UpdateRequest](), Out: typeOf[api.ControlResponse]()},
			place: onLeader, handle: update},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/jobs/{id}/prune",
			Summary: "Cancel all tasks of an array but the best by a metric", Params: pathID,
			In: typeOf[api.PruneRequest](), Out: typeOf[api.PruneResponse]()},
			place: onLeader, handle: prune},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/jobs/{id}", Summary: "One job with its specification",
			Params: pathID, Poll: true, Out: typeOf[api.Job]()},
			past: true, ready: jobReady, handle: getJob},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/jobs/{id}/why", Summary: "Why a job waits", Params: pathID,
			Poll: true, Out: typeOf[api.Why]()},
			past: true, handle: why},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/jobs/{id}/logs", Summary: "Output of one worker of a job",
			Params: slices.Concat(pathID, inQuery(openapi.Integer, "worker", "tail", "attempt"), inQuery(openapi.String, "task", "stream"),
				inQuery(openapi.Boolean, "follow")),
			Media: "application/octet-stream"},
			handle: logs},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/plan", Summary: "Whether a job would start now",
			In: typeOf[api.PlanRequest](), Out: typeOf[api.PlanResponse]()},
			handle: plan},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/history", Summary: "Finished jobs, the last to end first",
			Params: historyFilters, Poll: true, Out: typeOf[api.List[api.Job]]()},
			past: true, handle: listHistory},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/shares", Summary: "What each account holds", Poll: true,
			Out: typeOf[api.List[api.Share]]()},
			handle: listShares},
	}
	for verb, summary := range map[model.Verb]string{
		model.VerbCancel: "Stop a job for good", model.VerbHold: "Keep a pending job from starting",
		model.VerbRelease: "End a hold", model.VerbRequeue: "Stop a job and make it pending again",
	} {
		routes = append(routes, route{Operation: openapi.Operation{Method: "POST", Path: "/v1/jobs/{id}/" + string(verb),
			Summary: summary, Params: pathID,
			In: typeOf[api.ControlRequest](), Out: typeOf[api.ControlResponse]()},
			place: onLeader, handle: control(verb)})
	}
	return routes
}

func nodeRoutes() []route {
	return []route{
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/nodes", Summary: "List nodes", Poll: true,
			Out: typeOf[api.List[api.Node]]()},
			handle: listNodes},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/nodes/{name}/drain", Summary: "Give a node nothing new",
			Params: pathNode, In: typeOf[api.NodeRequest](), Out: typeOf[api.Node]()},
			place: onLeader, handle: setNode(model.NodeDrained)},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/nodes/{name}/resume", Summary: "Take a drained node back",
			Params: pathNode, In: typeOf[api.NodeRequest](), Out: typeOf[api.Node]()},
			place: onLeader, handle: setNode(model.NodeUp)},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/nodes/{name}/register",
			Summary: "A node registers its inventory",
			Params:  pathNode, In: typeOf[api.RegisterRequest](), Out: typeOf[api.RegisterResponse]()},
			access: machines, place: onLeader, handle: register},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/nodes/{name}/allocs",
			Summary: "What should exist on a node",
			Params:  slices.Concat(pathNode, inQuery(openapi.String, "boot_id"), inQuery(openapi.Duration, "wait"), inQuery(openapi.Integer, "after")),
			Out:     typeOf[api.NodeAllocs]()},
			access: machines, place: onLeader, handle: allocs},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/nodes/{name}/report",
			Summary: "A node reports what has changed on it", Params: pathNode,
			In: typeOf[api.ReportRequest](), Out: typeOf[api.ReportResponse]()},
			access: machines, place: onLeader, handle: report},
	}
}

func systemRoutes() []route {
	return []route{
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/events", Summary: "What happened, oldest first", Poll: true,
			Out: typeOf[api.List[api.Event]]()},
			ready: eventsReady, handle: listEvents},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/config", Summary: "The replicated configuration", Poll: true,
			Out: typeOf[model.Config]()},
			handle: getConfig},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/cluster", Summary: "The controllers", Poll: true,
			Out: typeOf[api.Cluster]()},
			handle: getCluster},
		{Operation: openapi.Operation{Method: "POST", Path: "/v1/controllers/{name}/remove",
			Summary: "Take the vote of a controller that is gone for good", Params: pathController,
			Out: typeOf[api.Cluster]()},
			place: onLeader, handle: removeController},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/check",
			Summary: "The invariants that do not hold", Poll: true,
			Out: typeOf[api.Check]()},
			handle: check},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/healthz", Summary: "Whether the process answers",
			Out: typeOf[health]()},
			access: anyone, handle: healthz},
		{Operation: openapi.Operation{Method: "GET", Path: "/v1/readyz", Summary: "Whether it can take writes",
			Out: typeOf[health]()},
			access: anyone, handle: readyz},
		{Operation: openapi.Operation{Method: "GET", Path: "/metrics", Summary: "Metrics for Prometheus",
			Media: "text/plain"},
			access: anyone, handle: getMetrics},
		{Operation: openapi.Operation{Method: "GET", Path: "/openapi.json", Summary: "This document",
			Media: "application/json"},
			access: anyone, handle: getOpenAPI},
		{Operation: openapi.Operation{Method: "GET", Path: peers.StatePath},
			access: machines, handle: internalState},
		{Operation: openapi.Operation{Method: "GET", Path: peers.RecordsPath, Params: inQuery(openapi.Integer, "from", "to")},
			access: machines, handle: internalRecords},
	}
}

// Document describes the API for OpenAPI.
func Document() (*huma.OpenAPI, error) {
	all := routes()
	operations := make([]openapi.Operation, len(all))
	for i := range all {
		operations[i] = all[i].Operation
	}
	return openapi.Document(operations)
}

// getOpenAPI answers GET /openapi.json.
func getOpenAPI(*exchange) (any, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	return json.RawMessage(text), err
}
