package controld

import (
	"net/http"
	"reflect"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func query(kind string, names ...string) []param {
	var ps []param
	for _, n := range names {
		ps = append(ps, param{name: n, in: "query", kind: kind})
	}
	return ps
}

func params(groups ...[]param) []param {
	var all []param
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

var (
	pathID         = []param{{name: "id", in: "path", kind: "string", doc: "id of the job: 123, 123_4 for an element of an array, 123.train for a group"}}
	pathNode       = []param{{name: "name", in: "path", kind: "string", doc: "name of the node"}}
	pathController = []param{{name: "name", in: "path", kind: "string", doc: "name of the controller"}}
	paging         = []param{{name: "limit", in: "query", kind: "integer", doc: "items of one page: 1000 if not said, at most 10000"},
		{name: "page", in: "query", kind: "string", doc: "next of the page before"}}
)

// routes is the whole API.
func (d *daemon) routes() []route {
	all := d.jobRoutes()
	all = append(all, d.nodeRoutes()...)
	return append(all, d.systemRoutes()...)
}

func (d *daemon) jobRoutes() []route {
	jobFilters := params(query("array", "id", "state"), query("string", "user", "account", "queue", "name", "class"), query("boolean", "all", "spec", "delta", "stream"), query("array", "fields"), paging)
	historyFilters := params(query("array", "id", "state"), query("string", "user", "account", "name", "since", "until"), paging)
	routes := []route{
		{method: "POST", path: "/v1/jobs", summary: "Submit one job, or a list of them, all or none", place: onLeader,
			in: typeOf[api.SubmitRequest](), alsoIn: typeOf[jobspec.Job](), out: typeOf[api.SubmitResponse](), handle: submit},
		{method: "GET", path: "/v1/jobs", summary: "List jobs, those that have ended only if asked for", params: jobFilters, poll: true,
			ready: listReady, gather: listGather, out: typeOf[api.List[api.Job]](), handle: listJobs},
		{method: "POST", path: "/v1/jobs/cancel", summary: "Cancel every live job that matches", place: onLeader,
			in: typeOf[api.CancelRequest](), out: typeOf[api.ControlResponse](), handle: cancelMany},
		{method: "POST", path: "/v1/jobs/{id}/update", summary: "Change a job's time limit, priority or name", place: onLeader, params: pathID,
			in: typeOf[api.UpdateRequest](), out: typeOf[api.ControlResponse](), handle: update},
		{method: "POST", path: "/v1/jobs/{id}/prune", summary: "Cancel all elements of an array but the best by a metric", place: onLeader, params: pathID,
			in: typeOf[api.PruneRequest](), out: typeOf[api.PruneResponse](), handle: prune},
		{method: "GET", path: "/v1/jobs/{id}", summary: "One job with its specification", params: pathID, poll: true, past: true, ready: jobReady,
			out: typeOf[api.Job](), handle: getJob},
		{method: "GET", path: "/v1/jobs/{id}/why", summary: "Why a job waits", params: pathID, poll: true, past: true, out: typeOf[api.Why](), handle: why},
		{method: "GET", path: "/v1/jobs/{id}/logs", summary: "Output of one worker of a job",
			params: params(pathID, query("integer", "worker", "tail", "attempt"), query("string", "task", "stream"), query("boolean", "follow")),
			media:  "application/octet-stream", handle: logs},
		{method: "POST", path: "/v1/plan", summary: "Whether a job would start now", in: typeOf[api.PlanRequest](), out: typeOf[api.PlanResponse](),
			handle: plan},
		{method: "GET", path: "/v1/history", summary: "Finished jobs, the last to end first", params: historyFilters, poll: true, past: true,
			out: typeOf[api.List[api.Job]](), handle: listHistory},
		{method: "GET", path: "/v1/shares", summary: "What each account holds", poll: true, out: typeOf[api.List[api.Share]](), handle: listShares},
	}
	for verb, summary := range map[cluster.Verb]string{
		cluster.VerbCancel: "Stop a job for good", cluster.VerbHold: "Keep a pending job from starting",
		cluster.VerbRelease: "End a hold", cluster.VerbRequeue: "Stop a job and make it pending again",
	} {
		routes = append(routes, route{method: "POST", path: "/v1/jobs/{id}/" + string(verb), summary: summary, place: onLeader,
			params: pathID, in: typeOf[api.ControlRequest](), out: typeOf[api.ControlResponse](), handle: control(verb)})
	}
	return routes
}

func (d *daemon) nodeRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/nodes", summary: "List nodes", poll: true, out: typeOf[api.List[api.Node]](), handle: listNodes},
		{method: "POST", path: "/v1/nodes/{name}/drain", summary: "Give a node nothing new", place: onLeader, params: pathNode,
			in: typeOf[api.NodeRequest](), out: typeOf[api.Node](), handle: setNode(cluster.NodeDrained)},
		{method: "POST", path: "/v1/nodes/{name}/resume", summary: "Take a drained node back", place: onLeader, params: pathNode,
			in: typeOf[api.NodeRequest](), out: typeOf[api.Node](), handle: setNode(cluster.NodeUp)},
		{method: "POST", path: "/v1/nodes/{name}/register", summary: "A node tells its inventory", access: machines, place: onLeader,
			params: pathNode, in: typeOf[api.RegisterRequest](), out: typeOf[api.RegisterResponse](), handle: register},
		{method: "GET", path: "/v1/nodes/{name}/allocs", summary: "A node asks what should exist on it", access: machines, place: onLeader,
			params: params(pathNode, query("string", "boot_id", "wait"), query("integer", "after")), out: typeOf[api.NodeAllocs](), handle: allocs},
		{method: "POST", path: "/v1/nodes/{name}/report", summary: "A node tells what has changed on it", access: machines, place: onLeader,
			params: pathNode, in: typeOf[api.ReportRequest](), out: typeOf[api.ReportResponse](), handle: report},
	}
}

func (d *daemon) systemRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/events", summary: "What happened, oldest first", poll: true, ready: eventsReady,
			out: typeOf[api.List[api.Event]](), handle: listEvents},
		{method: "GET", path: "/v1/config", summary: "The replicated configuration", poll: true, out: typeOf[cluster.Config](), handle: getConfig},
		{method: "GET", path: "/v1/cluster", summary: "The controllers", poll: true, out: typeOf[api.Cluster](), handle: getCluster},
		{method: "POST", path: "/v1/controllers/{name}/remove", summary: "Take the vote of a controller that is gone for good", place: onLeader,
			params: pathController, out: typeOf[api.Cluster](), handle: removeController},
		{method: "GET", path: "/v1/check", summary: "The invariants that do not hold", poll: true, out: typeOf[api.Check](), handle: check},
		{method: "GET", path: "/v1/healthz", summary: "Whether the process answers", access: anyone, out: typeOf[health](), handle: healthz},
		{method: "GET", path: "/v1/readyz", summary: "Whether it can take writes", access: anyone, out: typeOf[health](), handle: readyz},
		{method: "GET", path: "/metrics", summary: "Metrics for Prometheus", access: anyone, media: "text/plain", handle: getMetrics},
		{method: "GET", path: "/openapi.json", summary: "This document", access: anyone, out: nil, media: "application/json", handle: getOpenAPI},
		{method: "GET", path: internalPrefix + "state", access: machines, handle: internalState},
		{method: "GET", path: internalPrefix + "records", access: machines, params: query("integer", "from", "to"), handle: internalRecords},
	}
}

// internalPrefix begins the routes between controllers, which are documented nowhere.
const internalPrefix = "/v1/internal/"

// success is the status of every answer that is not a problem.
const success = http.StatusOK
