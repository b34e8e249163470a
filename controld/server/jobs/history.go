package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
)

// listHistory answers GET /v1/history, the last to end first.
func (h *Handlers) listHistory(x *exchange.Exchange) (any, error) {
	fields, err := fieldsOf(splitAll(x.Query["fields"]))
	if err != nil {
		return nil, err
	}
	list, err := h.endedJobs(x)
	if err != nil || fields == nil {
		return list, err
	}
	part := exchange.NewList[json.RawMessage]("JobList", x.View)
	part.Next, part.Warnings = list.Next, list.Warnings
	w := rowWriter{fields: fields}
	for i := range list.Items {
		row, err := w.row(&list.Items[i])
		if err != nil {
			return nil, err
		}
		part.Items = append(part.Items, bytes.Clone(row))
	}
	return part, nil
}

// endedJobs returns a page of jobs that have ended.
func (h *Handlers) endedJobs(x *exchange.Exchange) (*api.List[api.Job], error) {
	f, err := h.jobFilter(x)
	if err != nil {
		return nil, err
	}
	if !x.May(access.PartEnded) && f.user == "" && f.account == "" {
		f.user = x.Caller.User.User // a coordinator names the account
	}
	limit, steps := x.Limit(), x.Flag("steps")
	q := history.Filter{User: f.user, Account: f.account, Name: f.name, States: f.states,
		Before: x.Number("page", 0), Limit: limit + 1, IDs: f.named, Since: x.Instant("since"), Until: x.Instant("until")}
	jobs, err := h.finished(x, q)
	if err != nil {
		return nil, err
	}
	list := exchange.NewList[api.Job]("JobList", x.View)
	list.Warnings = h.notKept(x, q, len(jobs))
	if len(jobs) > limit {
		jobs = jobs[:limit]
		list.Next = strconv.FormatInt(jobs[limit-1].Seq, 10)
	}
	for _, j := range jobs {
		if !x.MayOn(access.PartEnded, j) {
			continue
		}
		out := present.Job(nil, j, j.Reason, h.Samples.Of(j.ID), j.Ended.Wall)
		if steps {
			present.AddSteps(&out, j)
		}
		hideOthers(x, &out)
		if !x.MayOn(access.PartDetails, j) {
			present.Redact(&out, j.Reason)
		}
		list.Items = append(list.Items, out)
	}
	return list, nil
}

// notKept says which jobs that were asked for cannot be found because the history does not have them.
// Of jobs that were named and found nothing is said.
func (h *Handlers) notKept(x *exchange.Exchange, q history.Filter, found int) (warnings []string) {
	if len(q.IDs) > 0 && found > 0 {
		return nil
	}
	if kept := h.History.KeptSince(); q.Since < kept {
		warnings = append(warnings, fmt.Sprintf("jobs that ended before %s are no longer kept (history { keep = %q })",
			time.UnixMilli(int64(kept)).UTC().Format(time.RFC3339), x.View.Config().HistoryKeep))
	}
	if absent, until := h.History.Absent(), h.History.AbsentUntil(); absent > 0 && (until == 0 || q.Since < until) {
		text := fmt.Sprintf("%d jobs are missing from the history of controller %s", absent, h.Name)
		if until != 0 {
			text += " among the jobs that ended before " + time.UnixMilli(int64(until)).UTC().Format(time.RFC3339)
		}
		warnings = append(warnings, text)
	}
	return warnings
}

// finished returns jobs of the history, and those that have ended since its last write.
func (h *Handlers) finished(x *exchange.Exchange, q history.Filter) ([]*model.Job, error) {
	stored := h.History.Last()
	old, err := h.History.Query(x.Context(), q)
	if err != nil {
		return nil, err
	}
	f := jobFilter{user: q.User, account: q.Account, name: q.Name, states: q.States, all: true}
	var recent []*model.Job
	for _, j := range x.View.Finished(stored) {
		after := q.Since == 0 || j.Ended.Wall >= q.Since
		until := q.Until == 0 || j.Ended.Wall < q.Until
		if after && until && (q.Before == 0 || j.Seq < q.Before) && (len(q.IDs) == 0 || q.IDs.Has(int(j.ID))) &&
			f.selects(j) {
			recent = append(recent, j)
		}
	}
	return mergeBySeq(recent, old, q.Limit), nil
}

// mergeBySeq joins two lists without duplicates, the newest job first.
func mergeBySeq(a, b []*model.Job, limit int) []*model.Job {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b *model.Job) int { return int(b.Seq - a.Seq) })
	all = slices.CompactFunc(all, func(a, b *model.Job) bool { return a.Seq == b.Seq })
	return all[:min(len(all), limit)]
}
