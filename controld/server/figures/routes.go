package figures

import (
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
)

// Routes are the routes about metrics.
func (h *Handlers) Routes() []exchange.Route {
	figures := exchange.Get("/metrics", "Metrics for Prometheus")
	figures.Media = "text/plain"
	return []exchange.Route{
		{Operation: figures, Rule: access.SeeFigures.With(access.PartFigures),
			Handle: h.getMetrics},
	}
}
