package system

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
)

// auditFilter reads the filter of a request for the audit log.
func auditFilter(x *exchange.Exchange) history.AuditFilter {
	f := history.AuditFilter{User: x.Query.Get("user"), Job: model.JobID(x.Number("job", 0)), Denied: x.Flag("denied"),
		Since: x.Instant("since"), Until: x.Instant("until"), Limit: x.Limit()}
	if x.Query.Has("uid") {
		uid := uint32(x.Number("uid", 0))
		f.UID = &uid
	}
	return f
}

// auditEntries returns what this controller has of the audit log.
func (h *Handlers) auditEntries(x *exchange.Exchange, f history.AuditFilter) ([]history.AuditEntry, error) {
	if err := h.Audit.Store(x.Context()); err != nil {
		return nil, err
	}
	return h.History.Audit(x.Context(), f)
}

// internalAudit answers another controller.
func (h *Handlers) internalAudit(x *exchange.Exchange) (any, error) {
	entries, err := h.auditEntries(x, auditFilter(x))
	if entries == nil {
		entries = []history.AuditEntry{}
	}
	return entries, err
}

// listAudit answers GET /v1/audit: it asks all controllers, and lists the last entry first. Users see their
// own requests.
func (h *Handlers) listAudit(x *exchange.Exchange) (*api.AuditList, error) {
	f := auditFilter(x)
	query := url.Values{}
	for name, values := range x.Query {
		query[name] = values
	}
	query.Set("limit", strconv.Itoa(f.Limit))
	if !x.May(access.PartAudit) {
		uid := x.Caller.User.UID
		f.UID = &uid
		query.Set("uid", strconv.FormatUint(uint64(uid), 10))
	}
	own, err := h.auditEntries(x, f)
	if err != nil {
		return nil, err
	}
	list := &api.AuditList{List: *exchange.NewList[api.AuditEntry]("AuditList", x.View)}
	list.Items = presentAudit(h.Name, own)
	x.Idle(func() { h.askOthers(x, list, query) })
	slices.SortStableFunc(list.Items, func(a, b api.AuditEntry) int { return b.At.Compare(a.At.Time) })
	list.Items = list.Items[:min(len(list.Items), f.Limit)]
	return list, nil
}

// askOthers adds what the other controllers have, all asked at once.
func (h *Handlers) askOthers(x *exchange.Exchange, list *api.AuditList, query url.Values) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	asked := map[string]bool{h.Name: true}
	for _, p := range h.Peers.All() {
		asked[p.Name] = true
		wg.Go(func() {
			var entries []history.AuditEntry
			err := h.Peers.Audit(x.Context(), p, query, &entries)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				h.Log.Debug("cannot read the audit log of another controller", "controller", p.Name, "error", err)
				list.Unreachable = append(list.Unreachable, p.Name)
			}
			list.Items = append(list.Items, presentAudit(p.Name, entries)...)
		})
	}
	wg.Wait()
	for _, m := range h.Replica.Members() {
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
