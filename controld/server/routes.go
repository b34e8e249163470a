package server

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/openapi"
	"github.com/rota-hpc/rota/jobspec"
)

// returning returns a route with its handler, and with the answer that the handler returns.
func returning[Out any](rt route, handle func(*exchange) (*Out, error)) route {
	rt.Out = reflect.TypeFor[Out]()
	rt.handle = func(x *exchange) (any, error) { return handle(x) }
	return rt
}

// taking is returning for a handler that gets the request's body.
func taking[In, Out any](rt route, handle func(*exchange, *In) (*Out, error)) route {
	rt.In = reflect.TypeFor[In]()
	return returning(rt, func(x *exchange) (*Out, error) {
		req := new(In)
		if err := x.decode(req); err != nil {
			return nil, err
		}
		return handle(x, req)
	})
}

// get is an operation that reads.
func get(path, summary string, params ...[]openapi.Param) openapi.Operation {
	return openapi.Operation{Method: "GET", Path: path, Summary: summary, Params: slices.Concat(params...)}
}

// poll is a get that may wait for news.
func poll(path, summary string, params ...[]openapi.Param) openapi.Operation {
	o := get(path, summary, params...)
	o.Poll = true
	return o
}

// post is an operation that acts, most often with a body.
func post(path, summary string, params ...[]openapi.Param) openapi.Operation {
	o := get(path, summary, params...)
	o.Method = "POST"
	return o
}

func inQuery(kind openapi.Kind, names ...string) []openapi.Param {
	var ps []openapi.Param
	for _, n := range names {
		ps = append(ps, openapi.Param{Name: n, In: "query", Kind: kind})
	}
	return ps
}

func inPath(name, doc string) []openapi.Param {
	return []openapi.Param{{Name: name, In: "path", Kind: openapi.String, Doc: doc}}
}

var (
	pathID   = inPath("id", "id of the job: 123, 123_4 for an array task, 123.train for a group")
	pathNode = inPath("name", "name of the node")
	paging   = []openapi.Param{
		{Name: "limit", In: "query", Kind: openapi.Integer, Doc: "items of one page: 1000 if not said, at most 10000"},
		{Name: "page", In: "query", Kind: openapi.Page, Doc: "next of the page before"},
	}
)

// streamMedia is what frames are called in the description of the API, see package stream.
const streamMedia = "application/x-rota-stream"

// routes is the whole API.
func routes() []route { return slices.Concat(jobRoutes(), nodeRoutes(), systemRoutes()) }

// jobRoutes are the routes about jobs, their steps, and the queue.
func jobRoutes() []route {
	// Operations whose body is a stream, or whose types the handler's signature does not show.
	submission := post("/v1/jobs", "Submit one job, or a list of them, all or none")
	submission.In, submission.AlsoIn = reflect.TypeFor[api.SubmitRequest](), reflect.TypeFor[jobspec.Job]()
	list := poll("/v1/jobs", "List jobs, those that have ended only if asked for", inQuery(openapi.Array, "id", "state"),
		inQuery(openapi.String, "user", "account", "queue", "name", "class"),
		inQuery(openapi.Boolean, "all", "spec", "steps", "delta", "stream"), inQuery(openapi.Array, "fields"), paging)
	list.Out = reflect.TypeFor[api.List[api.Job]]()
	output := get("/v1/jobs/{id}/logs", "Output of one worker of a job", pathID,
		inQuery(openapi.Integer, "worker", "tail", "attempt"), inQuery(openapi.String, "task", "stream"),
		inQuery(openapi.Boolean, "follow"))
	output.Media = "application/octet-stream"
	newStep := post("/v1/jobs/{id}/steps", "Start a step in the allocation of a job; the answer is a stream", pathID)
	newStep.In = reflect.TypeFor[api.StepRequest]()
	steps := get("/v1/jobs/{id}/steps", "The steps of a job that wait or run", pathID)
	steps.Out = reflect.TypeFor[api.StepList]()
	toStep := func(what, summary string, in reflect.Type) openapi.Operation {
		o := post("/v1/jobs/{id}/steps/{step}"+what, summary, pathID, inPath("step", "number of the step"))
		o.In = in
		return o
	}
	finished := poll("/v1/history", "Finished jobs, the last to end first", inQuery(openapi.Array, "id", "state"),
		inQuery(openapi.String, "user", "account", "name"), inQuery(openapi.Instant, "since", "until"),
		inQuery(openapi.Boolean, "steps"), inQuery(openapi.Array, "fields"), paging)
	finished.Out = reflect.TypeFor[api.List[api.Job]]()
	process := post("/v1/jobs/{id}/exec", "Start a process in a running job; the answer is a stream of frames", pathID)
	process.In, process.Media = reflect.TypeFor[api.ExecRequest](), streamMedia
	terminal := post("/v1/jobs/{id}/attach", "Go on with the terminal of a job; the answer is a stream of frames", pathID)
	terminal.In, terminal.Media = reflect.TypeFor[api.AttachRequest](), streamMedia
	return []route{
		// Submission and lists.
		returning(route{Operation: submission, rule: with(forUsers, partDepend), place: onLeader,
			token: trust.ScopeSubmit}, submit),
		{Operation: list, rule: with(seeJobs, partJobs, partDetails), ready: listReady, gather: listGather, handle: listJobs},
		// Changes of jobs.
		taking(route{Operation: post("/v1/jobs/cancel", "Cancel every live job that matches"),
			rule: with(seeJobs, partAct, partJobs), place: onLeader, token: trust.ScopeSubmit}, cancelMany),
		taking(route{Operation: post("/v1/jobs/{id}/cancel", "Stop a job for good", pathID),
			rule: actOnJob, place: onLeader, token: trust.ScopeSubmit, inJob: itsOwn},
			control(model.VerbCancel)),
		taking(route{Operation: post("/v1/jobs/{id}/hold", "Keep a pending job from starting", pathID),
			rule: with(actOnJob, partHold), place: onLeader, token: trust.ScopeSubmit, inJob: itsOwn},
			control(model.VerbHold)),
		taking(route{Operation: post("/v1/jobs/{id}/release", "End a hold", pathID),
			rule: with(actOnJob, partRelease), place: onLeader, token: trust.ScopeSubmit, inJob: itsOwn},
			control(model.VerbRelease)),
		taking(route{Operation: post("/v1/jobs/{id}/requeue", "Stop a job and make it pending again", pathID),
			rule: actOnJob, place: onLeader, token: trust.ScopeSubmit, inJob: itsOwn},
			control(model.VerbRequeue)),
		taking(route{Operation: post("/v1/jobs/{id}/signal", "Send a signal to the processes of a job", pathID),
			rule: actOnJob, place: onLeader, token: trust.ScopeSubmit, inJob: itsOwn}, signalJob),
		taking(route{Operation: post("/v1/jobs/{id}/update", "Change a job's time limit, priority, name or comment", pathID),
			rule: with(actOnJob, partBeyond), place: onLeader, token: trust.ScopeSubmit, inJob: itsOwn}, update),
		taking(route{Operation: post("/v1/jobs/{id}/prune", "Cancel all tasks of an array but the best by a metric", pathID),
			rule: actOnJob, place: onLeader, token: trust.ScopeSubmit}, prune),
		// One job.
		returning(route{Operation: poll("/v1/jobs/{id}", "One job with its specification", pathID),
			rule: with(seeJob, partDetails), past: true, ready: jobReady}, getJob),
		returning(route{Operation: poll("/v1/jobs/{id}/why", "Why a job waits", pathID),
			rule: with(seeJob, partDetails), past: true}, why),
		// Processes, output and steps: the node of the job answers.
		{Operation: process, rule: ofOwner, token: trust.ScopeSubmit, handle: execJob},
		{Operation: terminal, rule: ofOwner, token: trust.ScopeSubmit, handle: attachJob},
		{Operation: output, rule: actOnJob, inJob: itsOwn, handle: logs},
		{Operation: newStep, rule: ofOwner, token: trust.ScopeSubmit, inJob: itsOwn, handle: jobSteps},
		{Operation: steps, rule: actOnJob, inJob: itsOwn, handle: jobSteps},
		{Operation: toStep("/attach", "Go on with the output of a step, by a stream", reflect.TypeFor[api.StepAttach]()),
			rule: ofOwner, token: trust.ScopeSubmit, inJob: itsOwn, handle: jobSteps},
		{Operation: toStep("/signal", "Send a signal to all tasks of a step", reflect.TypeFor[api.StepSignal]()),
			rule: actOnJob, token: trust.ScopeSubmit, inJob: itsOwn, handle: jobSteps},
		// Reports of nodes about a job.
		returning(route{Operation: get("/v1/jobs/{id}/usage", "Usage of an attempt of a job so far, by worker", pathID,
			[]openapi.Param{{Name: "attempt", In: "query", Kind: openapi.Integer,
				Doc: "number of the attempt: the last if not said"}}),
			rule: seeJob, past: true}, getUsage),
		returning(route{Operation: get("/v1/jobs/{id}/series", "Values that a job has reported of a metric, by step", pathID,
			[]openapi.Param{{Name: "metric", In: "query", Kind: openapi.String,
				Doc: "none: the one that its progress block names, or else the first by name"}}),
			rule: actOnJob, place: onLeader, inJob: itsOwn}, getSeries),
		// The queue and the history.
		taking(route{Operation: post("/v1/plan", "Whether a job would start now"), rule: with(forUsers, partDepend),
			token: trust.ScopeSubmit, quiet: true}, plan),
		{Operation: finished, rule: with(seeJobs, partEnded, partDetails), past: true, handle: listHistory},
		returning(route{Operation: poll("/v1/priorities", "Jobs that wait, in the order of the scheduler"),
			rule: with(seeJobs, partJobs)}, listPriorities),
		returning(route{Operation: poll("/v1/shares", "Holdings and quota of each account",
			inQuery(openapi.String, "explain")), rule: with(seeAccounts, partUsage, partAccounts)}, listShares),
	}
}

func nodeRoutes() []route {
	return []route{
		returning(route{Operation: poll("/v1/nodes", "List nodes"), rule: with(seeNodes, partJobs)}, listNodes),
		taking(route{Operation: post("/v1/nodes/{name}/drain", "Give a node nothing new", pathNode),
			rule: forOperators, place: onLeader}, setNode(model.NodeDrained)),
		taking(route{Operation: post("/v1/nodes/{name}/resume", "Take a drained node back", pathNode),
			rule: forOperators, place: onLeader}, setNode(model.NodeUp)),
		taking(route{Operation: post("/v1/nodes/confirm-dead", "Say that nothing runs any more on nodes that are down"),
			rule: forOperators, place: onLeader}, confirmDead),
		returning(route{Operation: get("/v1/nodes/{name}/kept",
			"Checkpoint folders on a node whose jobs or attempts the controllers do not know", pathNode), rule: forOperators},
			listKept),
		taking(route{Operation: post("/v1/nodes/{name}/kept/drop", "Remove such folders", pathNode),
			rule: forAdmins, place: onLeader}, dropKept),
		taking(route{Operation: post("/v1/nodes/{name}/register", "A node registers its inventory", pathNode),
			rule: forItself, place: onLeader, quiet: true}, register),
		returning(route{Operation: get("/v1/nodes/{name}/allocs", "Workers and steps that should exist on a node", pathNode,
			inQuery(openapi.String, "boot_id", "sent", "witnesses"), inQuery(openapi.Duration, "wait"),
			inQuery(openapi.Integer, "after")), rule: forItself, place: onLeader}, allocs),
		returning(route{Operation: get("/v1/nodes/{name}/generation", "The generation of the cluster, for a node to follow",
			pathNode, inQuery(openapi.String, "boot_id")), rule: forItself, place: onLeader}, getGeneration),
		taking(route{Operation: post("/v1/nodes/{name}/generation", "A node follows the generation of the cluster", pathNode),
			rule: forItself, place: onLeader}, acceptGeneration),
		taking(route{Operation: post("/v1/nodes/{name}/report", "A node reports what has changed on it", pathNode),
			rule: forItself, place: onLeader, quiet: true}, report),
		returning(route{Operation: get("/v1/nodes/{name}/checkpoints/{id}",
			"Whether a node may send the folder of a worker to another one", pathNode,
			inPath("id", "the folder: job.attempt.worker"), inQuery(openapi.String, "boot_id", "for")),
			rule: forItself, place: onLeader}, mayCopyCheckpoint),
		taking(route{Operation: post("/v1/nodes/{name}/checkpoints",
			"Which of the folders on a node are not needed any more", pathNode),
			rule: forItself, place: onLeader, quiet: true}, dropCheckpoints),
	}
}

// systemRoutes are the routes about the cluster: its configuration, its members and their keys, its
// records, and the controllers' own traffic.
func systemRoutes() []route {
	document, figures := get("/openapi.json", "This document"), get("/metrics", "Metrics for Prometheus")
	document.Media, figures.Media = "application/json", "text/plain"
	saved := post("/v1/backup", "A backup of the cluster, for root of this controller, by its socket")
	saved.In, saved.Media = reflect.TypeFor[api.BackupRequest](), "application/octet-stream"
	return []route{
		// The whole state.
		{Operation: saved, rule: forAdmins, token: scopeNever, inJob: notInJob, handle: writeBackup},
		returning(route{Operation: poll("/v1/events", "Events, oldest first"),
			rule: with(seeJobs, partEvents, partNodes, partDetails), ready: eventsReady}, listEvents),
		// Configuration, and pauses of the scheduler.
		returning(route{Operation: poll("/v1/config", "The replicated configuration"),
			rule: with(seeAccounts, partAccounts)}, getConfig),
		taking(route{Operation: post("/v1/config", "Put another configuration in force, as a new version"),
			rule: forAdmins, place: onLeader}, setConfig),
		taking(route{Operation: post("/v1/config/rollback", "Put an old version of the configuration in force again"),
			rule: forAdmins, place: onLeader}, rollBackConfig),
		returning(route{Operation: poll("/v1/config/versions", "Versions of the configuration, the one in force first"),
			rule: forOperators}, listConfigVersions),
		returning(route{Operation: poll("/v1/sched", "Pauses and dry run of the scheduler"), rule: forUsers}, getSched),
		taking(route{Operation: post("/v1/sched", "Pause or resume a part of scheduling, or turn the dry run on or off"),
			rule: forOperators, place: onLeader}, steer),
		returning(route{Operation: poll("/v1/sched/displacements", "Displacements that a dry run has recorded"),
			rule: forOperators}, listDisplacements),
		// Members of the cluster: join, renew, revoke, and replace keys.
		returning(route{Operation: poll("/v1/cluster", "The controllers"),
			rule: access.Rule{Roles: access.User | access.Members}}, getCluster),
		returning(route{Operation: post("/v1/controllers/{name}/remove",
			"Take the vote of a controller that is gone for good", inPath("name", "name of the controller")),
			rule: forAdmins, place: onLeader}, removeController),
		taking(route{Operation: post("/v1/join-tokens", "A token that lets one machine join the cluster"),
			rule: forAdmins, place: onLeader}, createJoinToken),
		taking(route{Operation: post("/v1/join", "A machine joins the cluster with a token"), rule: forAnyone}, join),
		taking(route{Operation: post("/v1/certificate", "A member renews its certificate"), rule: forMembers},
			renewCertificate),
		returning(route{Operation: post("/v1/members/{role}/{name}/revoke", "Refuse the certificates that a member has",
			inPath("role", "node or login"), inPath("name", "name of the machine")),
			rule: forAdmins, place: onLeader}, revoke),
		returning(route{Operation: post("/v1/gossip-key/rotate", "Replace the key of the gossip"), rule: forAdmins,
			place: onLeader}, rotateGossipKey),
		returning(route{Operation: get("/v1/authority", "The authorities that members are to trust"), rule: forMembers},
			getAuthority),
		returning(route{Operation: post("/v1/authority/rotate", "Replace the authority that issues certificates"),
			rule: forAdmins, place: onLeader}, replaceAuthority),
		returning(route{Operation: post("/v1/authority/finish",
			"Trust the old authority no more, although machines may have no other certificate"),
			rule: forAdmins, place: onLeader}, finishAuthority),
		// The audit log and API tokens.
		returning(route{Operation: get("/v1/audit", "Requests that changed something, or were refused, the last first",
			inQuery(openapi.String, "user"), inQuery(openapi.Integer, "job", "limit"), inQuery(openapi.Boolean, "denied"),
			inQuery(openapi.Instant, "since", "until")), rule: with(forUsers, partAudit), inJob: notInJob}, listAudit),
		returning(route{Operation: poll("/v1/tokens", "API tokens, without their secrets",
			inQuery(openapi.String, "user")), rule: with(forUsers, partTokens), inJob: notInJob}, listTokens),
		taking(route{Operation: post("/v1/tokens", "Make an API token, whose text is shown this one time"),
			rule: with(forUsers, partTokens), place: onLeader, token: scopeNever}, createToken),
		returning(route{Operation: post("/v1/tokens/{id}/revoke", "Refuse an API token from now on",
			inPath("id", "id of the token")), rule: with(forUsers, partTokens), place: onLeader,
			token: scopeNever}, revokeToken),
		// Health and figures of this controller.
		returning(route{Operation: poll("/v1/check", "The invariants that do not hold"), rule: forUsers}, check),
		returning(route{Operation: get("/v1/healthz", "Whether the process answers"), rule: forAnyone}, healthz),
		returning(route{Operation: get("/v1/readyz", "Whether it can take writes"), rule: forAnyone}, readyz),
		{Operation: figures, rule: with(access.Rule{Roles: access.Local | access.Members | operators}, partFigures),
			handle: getMetrics},
		{Operation: document, rule: forAnyone, handle: getOpenAPI},
		// Between controllers. They have no summary, so that the API's document leaves them out.
		{Operation: get(peers.StatePath, ""), rule: forControllers, handle: internalState},
		{Operation: get(peers.KeyPath, "", inQuery(openapi.String, "authority")), rule: forControllers,
			handle: internalAuthorityKey},
		{Operation: get(peers.AuditPath, "", inQuery(openapi.String, "user"), inQuery(openapi.Integer, "uid", "job", "limit"),
			inQuery(openapi.Boolean, "denied"), inQuery(openapi.Instant, "since", "until")),
			rule: forControllers, handle: internalAudit},
		{Operation: get(peers.RecordsPath, "", inQuery(openapi.Integer, "from", "to")),
			rule: forControllers, handle: internalRecords},
	}
}

// Document describes the API for OpenAPI.
func Document() (*huma.OpenAPI, error) {
	all := routes()
	operations := make([]openapi.Operation, len(all))
	for i := range all {
		operations[i] = all[i].Operation
		operations[i].For = all[i].rule.Roles.String()
	}
	return openapi.Document(operations)
}

// documentText is the description of the API as JSON.
func documentText() ([]byte, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// getOpenAPI answers GET /openapi.json.
func getOpenAPI(x *exchange) (any, error) {
	text, err := x.s.document()
	return json.RawMessage(text), err
}
