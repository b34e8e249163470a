package server

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// getSeries answers GET /v1/jobs/{id}/series. Only the leader gets samples.
func getSeries(x *exchange) (*api.Series, error) {
	j, err := x.findJob()
	if err != nil {
		return nil, err
	}
	p := watched(j.Spec)
	out := &api.Series{Job: j.ID, Goal: p.Goal, Total: p.Total, Metrics: x.s.Samples.Series(j.ID), Points: []api.Point{}}
	out.Metric = cmp.Or(x.query.Get("metric"), p.Metric)
	if out.Metric == "" && len(out.Metrics) > 0 {
		out.Metric = out.Metrics[0]
	}
	if out.Metric != p.Metric {
		out.Goal = ""
	}
	for _, at := range x.s.Samples.Points(j.ID, out.Metric) {
		out.Points = append(out.Points, api.Point(at))
	}
	return out, nil
}

// watched returns which metric of a job matters most, and how: that of its first progress block
// with one, or that by which its array stops tasks. It has no metric if the job names none.
func watched(spec *jobspec.Job) jobspec.Progress {
	var first jobspec.Progress
	for _, g := range spec.Groups {
		for _, t := range g.Tasks {
			switch p := t.Progress; {
			case p == nil:
			case p.Metric != "":
				return *p
			case first == (jobspec.Progress{}):
				first = *p
			}
		}
	}
	if a := spec.Array; a != nil && a.Stop != nil {
		first.Metric, first.Goal = a.Stop.Metric, a.Stop.Goal
	}
	return first
}
