package controld

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// listEvents answers GET /v1/events, oldest first.
func listEvents(x *exchange) (any, error) {
	list := newList[api.Event]("EventList", x.view)
	events := x.view.Events(x.after)
	for i := range events {
		if len(list.Items) >= maxEvents && events[i].Index != events[i-1].Index {
			list.Index = events[i-1].Index // go on from here
			break
		}
		list.Items = append(list.Items, presentEvent(&events[i]))
	}
	return list, nil
}

func eventsReady(x *exchange) func(*cluster.View) bool {
	return func(v *cluster.View) bool { return len(v.Events(x.after)) > 0 }
}

// getConfig answers GET /v1/config.
func getConfig(x *exchange) (any, error) { return x.view.Config(), nil }

// getCluster answers GET /v1/cluster.
func getCluster(x *exchange) (any, error) {
	d := x.d
	cfg := x.view.Config()
	leader, _ := d.replica.Leader()
	out := api.Cluster{Name: cfg.ClusterName, Leader: leader.Name, Term: d.replica.Term(), Index: x.view.Index(), Version: cfg.Version,
		Policy:      cmp.Or(cfg.Policy.Name, "standard"),
		Controllers: []api.Controller{{Name: d.cfg.Name, HTTP: d.addrs.HTTP, Raft: d.addrs.Raft}}}
	for _, p := range d.controllers() {
		out.Controllers = append(out.Controllers, api.Controller{Name: p.Name, HTTP: p.HTTP, Raft: p.Raft})
	}
	for _, m := range d.replica.Members() {
		i := slices.IndexFunc(out.Controllers, func(c api.Controller) bool { return c.Name == m.Name })
		if i < 0 { // a voter that gossip does not know is down
			i = len(out.Controllers)
			out.Controllers = append(out.Controllers, api.Controller{Name: m.Name, Raft: m.Addr})
		}
		out.Controllers[i].Voter = true
		out.Controllers[i].Leader = m.Name == leader.Name
	}
	slices.SortFunc(out.Controllers, func(a, b api.Controller) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// check answers GET /v1/check: every invariant on the live state of this controller.
func check(x *exchange) (any, error) {
	index, err := x.d.machine.check()
	out := api.Check{OK: err == nil, Index: index, Violations: []string{}}
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
func healthz(*exchange) (any, error) { return health{"ok"}, nil }

// readyz answers with an error while there is no leader to write to.
func readyz(x *exchange) (any, error) {
	if _, ok := x.d.stale(); ok {
		return nil, noLeader("there is no leader now")
	}
	if x.d.replica.IsLeader() && !x.d.leading.Load() {
		return nil, noLeader("this controller is about to lead")
	}
	return health{"ready"}, nil
}

// getMetrics answers GET /metrics.
func getMetrics(x *exchange) (any, error) {
	x.sent = true
	x.d.metrics.handler.ServeHTTP(x.w, x.r)
	return nil, nil
}

// getOpenAPI answers GET /openapi.json.
func getOpenAPI(x *exchange) (any, error) {
	doc, err := document(x.d.routes())
	if err != nil {
		return nil, err
	}
	return json.RawMessage(doc), nil
}

// internalState answers another controller.
func internalState(x *exchange) (any, error) {
	return replicaState{Name: x.d.cfg.Name, HasState: x.d.replica.HasState(), Records: x.d.records.Last(),
		Knows: x.d.cfg.latestVersion(), Voters: x.d.replica.Members()}, nil
}

// internalRecords answers another controller that missed finished jobs.
func internalRecords(x *exchange) (any, error) {
	from, err1 := x.number("from", 1)
	to, err2 := x.number("to", 0)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	jobs, err := x.d.records.Range(x.ctx(), from, to, recordBatch)
	if err != nil {
		return nil, &api.Problem{Status: http.StatusInternalServerError, Code: api.CodeInternal, Detail: "read the history: " + err.Error()}
	}
	if jobs == nil {
		jobs = []*cluster.Job{}
	}
	return jobs, nil
}
