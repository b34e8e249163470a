package server

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// listEvents answers GET /v1/events, oldest first.
func listEvents(x *exchange) (*api.List[api.Event], error) {
	list := newList[api.Event]("EventList", x.view)
	events := x.view.Events(x.after)
	for i := range events {
		if len(list.Items) >= maxEvents && events[i].Index != events[i-1].Index {
			list.Index = events[i-1].Index // go on from here
			break
		}
		if e := present.Event(&events[i]); x.maySeeEvent(&e) {
			list.Items = append(list.Items, e)
		}
	}
	return list, nil
}

// maySeeEvent reports whether the caller may see an event. It takes the id of a hidden job out of
// an event that was for it, or that it had a part in.
func (x *exchange) maySeeEvent(e *api.Event) bool {
	if e.For != 0 && !x.maySeeEventOf(e.For) {
		e.For, e.ForUser, e.ForAccount = 0, "", ""
	}
	if e.With != 0 && !x.maySeeEventOf(e.With) {
		e.With = 0
	}
	if e.Type == string(model.EventEnded) && e.Text != "" && !x.maySee(partDetails, e.Job) {
		e.Text = "" // as present.Redact has it
	}
	switch {
	case e.Job == 0:
		return x.may(partNodes)
	case e.Type == string(model.EventClass): // as present.Redact has it
		return x.maySeeEventOf(e.Job) && x.maySee(partDetails, e.Job)
	}
	return x.maySeeEventOf(e.Job)
}

// maySeeEventOf reports whether the caller may see events of a job.
func (x *exchange) maySeeEventOf(id model.JobID) bool { return x.maySee(partEvents, id) }

// maySee reports whether the caller may use a part of the route for a job with an id. Of a job that
// has left the state the owner is not asked.
func (x *exchange) maySee(p *access.Part, id model.JobID) bool {
	if x.may(p) {
		return true
	}
	j := x.view.Job(id)
	return j != nil && x.mayOn(p, j)
}

func eventsReady(x *exchange) func(*state.View) bool {
	return func(v *state.View) bool { return len(v.Events(x.after)) > 0 }
}

// getConfig answers GET /v1/config.
func getConfig(x *exchange) (*cluster.Config, error) {
	cfg := x.view.Config()
	if x.may(partAccounts) {
		return cfg, nil
	}
	own, out := x.ownAccounts(), *cfg
	out.Accounts = maps.Clone(cfg.Accounts)
	maps.DeleteFunc(out.Accounts, func(name string, _ cluster.Account) bool {
		return !own[name] && !x.mayOnAccount(partAccounts, name)
	})
	return &out, nil
}

// check answers GET /v1/check: every invariant on the live state of this controller, and that
// state's digest.
func check(x *exchange) (*api.Check, error) {
	v, err := x.s.Replica.Check()
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
func healthz(*exchange) (*health, error) { return &health{"ok"}, nil }

// readyz answers with an error while there is no leader to write to.
func readyz(x *exchange) (*health, error) {
	if _, ok := x.s.stale(); ok {
		return nil, problem.NoLeader("there is no leader now")
	}
	if x.s.Replica.IsLeader() && !x.s.Replica.Leading() {
		return nil, problem.NoLeader("this controller is about to lead")
	}
	return &health{"ready"}, nil
}

// getMetrics answers GET /metrics. The figures of accounts are for callers that may know accounts.
func getMetrics(x *exchange) (any, error) {
	if !x.may(partFigures) && x.caller == nil {
		// The route asks for no identity on this machine, but an operator may have one.
		if caller, err := x.s.callerOf(x.r); err == nil {
			x.caller, x.roles = &caller, x.roles|x.s.rolesOf(&caller, x.config())
		}
	}
	x.sent = true
	if x.may(partFigures) {
		x.s.metrics.all.ServeHTTP(x.w, x.r)
	} else {
		x.s.metrics.withoutAccounts.ServeHTTP(x.w, x.r)
	}
	return nil, nil
}

// internalState answers another controller.
func internalState(x *exchange) (any, error) {
	key, issuer := x.s.AuthorityState()
	return peers.State{AuthorityKey: key, Issuer: issuer, Name: x.s.Name, HTTP: x.s.HTTP, Raft: x.s.Raft,
		Gossip:   x.s.Gossip,
		HasState: x.s.Replica.HasState(), Log: x.s.Replica.Self().Log, Applied: x.s.Replica.Applied(),
		Records: x.s.History.Last(), Knows: x.s.Knows,
		Generation: x.s.Replica.View().Recovery().Generation.String(), Voters: x.s.Replica.Members()}, nil
}

// recordBatch is how many finished jobs another controller gets at a time.
const recordBatch = 1000

// internalRecords answers another controller that missed finished jobs.
func internalRecords(x *exchange) (any, error) {
	jobs, err := x.s.History.Range(x.ctx(), x.number("from", 1), x.number("to", 0), recordBatch)
	if err != nil {
		return nil, &api.Problem{Status: http.StatusInternalServerError, Code: api.CodeInternal,
			Detail: "read the history: " + err.Error()}
	}
	if jobs == nil {
		jobs = []*model.Job{}
	}
	return jobs, nil
}
