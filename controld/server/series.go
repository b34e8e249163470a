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

// watched returns which metric of a job matters most, and how: that of the first group that names
// one.
func watched(spec *jobspec.Job) jobspec.Progress {
	var first jobspec.Progress
	for g := range spec.Groups {
		switch p := spec.Watched(g); {
		case p.Metric != "":
			return p
		case first == (jobspec.Progress{}):
			first = p
		}
	}
	return first
}
