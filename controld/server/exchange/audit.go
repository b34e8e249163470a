package exchange

import (
	"cmp"
	"net"
	"net/http"

	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// maxOrigin bounds what is kept of the place that a request came from, in bytes.
const maxOrigin = 200

// Subject is what the audit log says of a request besides its caller, its route and its result.
type Subject struct {
	Jobs    ranges.Ranges
	Account string
	Object  string // node, controller or API token
	hidden  bool   // it is refused as if there were no such job
	relayed bool   // another controller has decided, and has it in its log
}

// AddJobs adds jobs.
func (a *Subject) AddJobs(ids []model.JobID) {
	more := make(ranges.Ranges, len(ids))
	for i, id := range ids {
		more[i] = ranges.Range{First: int(id), Last: int(id)}
	}
	a.Jobs = a.Jobs.With(more)
}

// Record enters the request into the audit log if it belongs there: it changed something, or it was
// refused to its caller.
func (x *Exchange) Record(err error) {
	if x.recorded {
		return
	}
	x.recorded = true
	e := history.AuditEntry{At: replica.WallNow(), UID: history.UIDStranger, Origin: x.origin(), Method: x.Route.Method,
		Route: x.Route.Path, Jobs: x.About.Jobs, Account: x.About.Account,
		Object: cmp.Or(x.About.Object, x.Request.PathValue("name")),
		Status: http.StatusOK, Times: 1}
	if err != nil {
		p := problem.Of(err)
		e.Status, e.Code = p.Status, p.Code
	}
	denied := e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || x.About.hidden
	acts := x.Route.Method != http.MethodGet && !x.Route.Quiet
	if x.About.relayed || !acts && !denied {
		return
	}
	if c := x.Caller; c != nil {
		e.Token = c.Token
		e.UID = history.UIDMachine
		if !c.Machine {
			e.UID, e.User = int64(c.User.UID), c.User.User
		}
	}
	x.s.Audit.Add(&e)
}

// origin returns where the request came from: the machine in its certificate or key, a socket of
// this machine, or the address of its connection.
func (x *Exchange) origin() string {
	from := x.Request.RemoteAddr
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if addr, ok := x.Request.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		from = "socket of " + x.s.Name
	}
	if c := x.Caller; c != nil {
		switch {
		case c.Origin != "":
			from = c.Origin
		case c.From != "":
			from = c.From
		}
	}
	return from[:min(len(from), maxOrigin)]
}
