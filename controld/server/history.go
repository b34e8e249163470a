package server

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/present"
)

// listHistory answers GET /v1/history, the last to end first.
func listHistory(x *exchange) (any, error) {
	fields, err := fieldsOf(splitAll(x.query["fields"]))
	if err != nil {
		return nil, err
	}
	list, err := endedJobs(x)
	if err != nil || fields == nil {
		return list, err
	}
	part := newList[json.RawMessage]("JobList", x.view)
	part.Next = list.Next
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
func endedJobs(x *exchange) (*api.List[api.Job], error) {
	f, err := x.jobFilter()
	if err != nil {
		return nil, err
	}
	if !x.may(partEnded) && f.user == "" && f.account == "" {
		f.user = x.caller.User.User // a coordinator names the account
	}
	limit, steps := x.limit(), x.flag("steps")
	jobs, err := x.finished(history.Filter{User: f.user, Account: f.account, Name: f.name, States: f.states,
		Before: x.number("page", 0), Limit: limit + 1, IDs: f.named, Since: x.instant("since"), Until: x.instant("until")})
	if err != nil {
		return nil, err
	}
	list := newList[api.Job]("JobList", x.view)
	if len(jobs) > limit {
		jobs = jobs[:limit]
		list.Next = strconv.FormatInt(jobs[limit-1].Seq, 10)
	}
	for _, j := range jobs {
		if !x.mayOn(partEnded, j) {
			continue
		}
		out := present.Job(nil, j, j.Reason, x.s.Samples.Of(j.ID), j.Ended.Wall)
		if steps {
			present.AddSteps(&out, j)
		}
		x.hideOthers(&out)
		if !x.mayOn(partDetails, j) {
			present.Redact(&out, j.Reason)
		}
		list.Items = append(list.Items, out)
	}
	return list, nil
}

// finished returns jobs of the history, and those that have ended since its last write.
func (x *exchange) finished(q history.Filter) ([]*model.Job, error) {
	stored := x.s.History.Last()
	old, err := x.s.History.Query(x.ctx(), q)
	if err != nil {
		return nil, err
	}
	f := jobFilter{user: q.User, account: q.Account, name: q.Name, states: q.States, all: true}
	var recent []*model.Job
	for _, j := range x.view.Finished(stored) {
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
