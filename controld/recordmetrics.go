package controld

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/history"
)

// recordMetrics exports the state of this controller's history.
func recordMetrics(s *history.Store) []prometheus.Collector {
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		gauge("rota_history_last", "Number up to which this controller has stored every ended job, but for gaps.", s.Last),
		gauge("rota_history_missing", "Ended jobs that are missing from the history of this controller.", s.Absent),
		gauge("rota_history_aside", "Ended jobs that the log does not know, because it went back to before they ended.",
			s.SetAside),
		gauge("rota_history_kept_since_seconds", "Unix time before which ended jobs are not kept; 0: all are kept.",
			func() int64 { return int64(s.KeptSince()) / 1000 }),
		gauge("rota_history_check", "What the last check of the whole history found: 0 none yet, 1 sound, 2 damaged.",
			func() int64 { return int64(s.CheckState()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_history_bad_rows_total",
			Help: "Rows of the history that answers left out, because they cannot be read."},
			func() float64 { return float64(s.BadRows()) }),
	}
}
