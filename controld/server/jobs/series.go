package jobs

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/server/exchange"
)

// getSeries answers GET /v1/jobs/{id}/series. Only the leader gets samples.
func (h *Handlers) getSeries(x *exchange.Exchange) (*api.Series, error) {
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	p := j.Spec.MainProgress()
	out := &api.Series{Job: j.ID, Goal: p.Goal, Total: p.Total, Metrics: h.Samples.Series(j.ID), Points: []api.Point{}}
	out.Metric = cmp.Or(x.Query.Get("metric"), p.Metric)
	if out.Metric == "" && len(out.Metrics) > 0 {
		out.Metric = out.Metrics[0]
	}
	if out.Metric != p.Metric {
		out.Goal = ""
	}
	for _, at := range h.Samples.Points(j.ID, out.Metric) {
		out.Points = append(out.Points, api.Point(at))
	}
	return out, nil
}
