package server

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// The controller that decides on a request enters it into its own audit log. Changes are decided by
// the leader, refusals by any controller. Entries are stored once a second, so that no request
// waits for another fsync. GET /v1/audit asks all controllers.

// auditEvery is how often entries are stored. A controller that crashes loses those since.
const auditEvery = time.Second

// maxPending is how many entries wait at most while the disk does not take them.
const maxPending = 100_000

// maxOrigin bounds what is kept of the place that a request came from, in bytes.
const maxOrigin = 200

// subject is what the audit log says of a request besides its caller, its route and its result.
type subject struct {
	jobs    ranges.Ranges
	account string
	object  string // node, controller or API token
	hidden  bool   // it is refused as if there were no such job
	relayed bool   // another controller has decided, and has it in its log
}

// ofJobs adds jobs.
func (a *subject) ofJobs(ids []model.JobID) {
	more := make(ranges.Ranges, len(ids))
	for i, id := range ids {
		more[i] = ranges.Range{First: int(id), Last: int(id)}
	}
	a.jobs = a.jobs.With(more)
}

// maxApart is how many entries of its own a caller gets in a second. Further requests share an entry
// for each kind, so that one caller cannot push the entries of others out.
const maxApart = 100

// auditLog has the entries that are not stored yet.
type auditLog struct {
	mu      sync.Mutex
	pending []history.AuditEntry
	shared  map[requestKind]int // where the entry that requests of a kind share is in pending
	apart   map[int64]int       // entries by UID
	lost    int                 // entries that found no room
}

// requestKind is what requests that share an entry have in common.
type requestKind struct {
	uid           int64
	method, route string
	status        int
	code          string
}

// add adds an entry. Of one second, refusals of one kind share an entry, and so do the requests of a
// caller beyond maxApart. Callers choose jobs, objects and where they come from, so these keep no
// requests apart.
func (l *auditLog) add(e *history.AuditEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := requestKind{e.UID, e.Method, e.Route, e.Status, e.Code}
	shares := e.Status >= http.StatusBadRequest || l.apart[e.UID] >= maxApart
	if at, again := l.shared[kind]; shares && again {
		l.pending[at].Merge(e)
		return
	}
	if len(l.pending) >= maxPending {
		l.lost++
		return
	}
	if l.shared == nil {
		l.shared, l.apart = map[requestKind]int{}, map[int64]int{}
	}
	if shares {
		l.shared[kind] = len(l.pending)
	}
	l.apart[e.UID]++
	l.pending = append(l.pending, *e)
}

// take returns the entries that are not stored yet, and how many found no room.
func (l *auditLog) take() (entries []history.AuditEntry, lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, lost = l.pending, l.lost
	l.pending, l.shared, l.apart, l.lost = nil, nil, nil, 0
	return entries, lost
}

// putBack puts entries that could not be stored before those that have come since.
func (l *auditLog) putBack(entries []history.AuditEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.shared = append(entries, l.pending...), nil
}

// RunAudit stores the audit log once a second until ctx ends.
func (s *Server) RunAudit(ctx context.Context) error {
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.StoreAudit(ctx); err != nil && ctx.Err() == nil {
			s.Log.Error("entries of the audit log not stored yet", "error", err)
		}
	}
}

// StoreAudit stores the entries of the audit log that are not stored yet.
func (s *Server) StoreAudit(ctx context.Context) error {
	entries, lost := s.audit.take()
	if lost > 0 {
		s.Log.Error("the audit log misses requests: the disk did not take them in time", "requests", lost)
	}
	if len(entries) == 0 {
		return nil
	}
	before := replica.WallNow() - model.UnixMS(s.AuditFor.Milliseconds())
	err := s.History.AppendAudit(ctx, entries, before, s.AuditMost)
	if err != nil {
		s.audit.putBack(entries)
	}
	return err
}

// record enters the request into the audit log if it belongs there: it changed something, or it was
// refused to its caller.
func (x *exchange) record(err error) {
	if x.recorded {
		return
	}
	x.recorded = true
	e := history.AuditEntry{At: replica.WallNow(), UID: history.UIDStranger, Origin: x.origin(), Method: x.rt.Method,
		Route: x.rt.Path, Jobs: x.about.jobs, Account: x.about.account,
		Object: cmp.Or(x.about.object, x.r.PathValue("name")),
		Status: http.StatusOK, Times: 1}
	if err != nil {
		p := problem.Of(err)
		e.Status, e.Code = p.Status, p.Code
	}
	denied := e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden || x.about.hidden
	acts := x.rt.Method != http.MethodGet && !x.rt.quiet
	if x.about.relayed || !acts && !denied {
		return
	}
	if c := x.caller; c != nil {
		e.Token = c.Token
		e.UID = history.UIDMachine
		if !c.Machine {
			e.UID, e.User = int64(c.User.UID), c.User.User
		}
	}
	x.s.audit.add(&e)
}

// origin returns where the request came from: the machine in its certificate or key, a socket of
// this machine, or the address of its connection.
func (x *exchange) origin() string {
	from := x.r.RemoteAddr
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	if addr, ok := x.r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		from = "socket of " + x.s.Name
	}
	if c := x.caller; c != nil {
		switch {
		case c.Origin != "":
			from = c.Origin
		case c.From != "":
			from = c.From
		}
	}
	return from[:min(len(from), maxOrigin)]
}

// auditFilter reads the filter of a request for the audit log.
func (x *exchange) auditFilter() history.AuditFilter {
	f := history.AuditFilter{User: x.query.Get("user"), Job: model.JobID(x.number("job", 0)), Denied: x.flag("denied"),
		Since: x.instant("since"), Until: x.instant("until"), Limit: x.limit()}
	if x.query.Has("uid") {
		uid := uint32(x.number("uid", 0))
		f.UID = &uid
	}
	return f
}

// auditEntries returns what this controller has of the audit log.
func (x *exchange) auditEntries(f history.AuditFilter) ([]history.AuditEntry, error) {
	if err := x.s.StoreAudit(x.ctx()); err != nil {
		return nil, err
	}
	return x.s.History.Audit(x.ctx(), f)
}

// internalAudit answers another controller.
func internalAudit(x *exchange) (any, error) {
	entries, err := x.auditEntries(x.auditFilter())
	if entries == nil {
		entries = []history.AuditEntry{}
	}
	return entries, err
}

// listAudit answers GET /v1/audit with what all controllers have, the last first. Users see their
// own requests.
func listAudit(x *exchange) (*api.AuditList, error) {
	f := x.auditFilter()
	query := url.Values{}
	for name, values := range x.query {
		query[name] = values
	}
	query.Set("limit", strconv.Itoa(f.Limit))
	if !x.may(partAudit) {
		uid := x.caller.User.UID
		f.UID = &uid
		query.Set("uid", strconv.FormatUint(uint64(uid), 10))
	}
	own, err := x.auditEntries(f)
	if err != nil {
		return nil, err
	}
	list := &api.AuditList{List: *newList[api.AuditEntry]("AuditList", x.view)}
	list.Items = presentAudit(x.s.Name, own)
	x.idle(func() { x.askOthers(list, query) })
	slices.SortStableFunc(list.Items, func(a, b api.AuditEntry) int { return b.At.Compare(a.At.Time) })
	list.Items = list.Items[:min(len(list.Items), f.Limit)]
	return list, nil
}

// askOthers adds what the other controllers have, all asked at once.
func (x *exchange) askOthers(list *api.AuditList, query url.Values) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	asked := map[string]bool{x.s.Name: true}
	for _, p := range x.s.Peers.All() {
		asked[p.Name] = true
		wg.Go(func() {
			var entries []history.AuditEntry
			err := x.s.Peers.Audit(x.ctx(), p, query, &entries)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				x.s.Log.Debug("another controller's audit log is missing", "controller", p.Name, "error", err)
				list.Unreachable = append(list.Unreachable, p.Name)
			}
			list.Items = append(list.Items, presentAudit(p.Name, entries)...)
		})
	}
	wg.Wait()
	for _, m := range x.s.Replica.Members() {
		if !asked[m.Name] {
			list.Unreachable = append(list.Unreachable, m.Name)
		}
	}
	slices.Sort(list.Unreachable)
}

func presentAudit(controller string, entries []history.AuditEntry) []api.AuditEntry {
	items := make([]api.AuditEntry, len(entries))
	for i := range entries {
		e := &entries[i]
		items[i] = api.AuditEntry{At: api.At(e.At), Controller: controller, User: e.User,
			UID: max(e.UID, history.UIDStranger), Token: e.Token, From: e.Origin, Action: e.Method + " " + e.Route,
			Jobs: e.Jobs.String(), Account: e.Account, Object: e.Object,
			Status: e.Status, Code: cmp.Or(e.Code, "ok"), Times: e.Times}
	}
	return items
}
