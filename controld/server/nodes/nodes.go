// Package nodes answers requests about nodes, and requests of their daemons. A daemon registers its node,
// asks which workers should exist there, reports, follows a generation of the cluster, and asks about
// checkpoint folders.
package nodes

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// Config is what the handlers work with.
type Config struct {
	Replica  *replica.Replica
	History  *history.Store
	Contacts *telemetry.Contacts
	Touch    *telemetry.Touch
	Samples  *telemetry.Samples
	Arrays   *earlystop.Arrays
	Log      *slog.Logger
}

// Handlers answers requests about nodes, and of nodes.
type Handlers struct {
	Config
	refusedRows prometheus.Counter // of reports
}

// New returns the handlers, and registers their metrics.
func New(cfg Config, registry *prometheus.Registry) *Handlers {
	rows := prometheus.NewCounter(prometheus.CounterOpts{Name: "rota_refused_report_rows_total",
		Help: "Rows of nodes' reports that were corrected or ignored, because they are impossible."})
	registry.MustRegister(rows)
	return &Handlers{Config: cfg, refusedRows: rows}
}
