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
		gauge("rota_history_last", "Number of the last ended job up to which this controller has stored all, apart from "+
			"gaps.", s.Last),
		gauge("rota_history_missing", "Ended jobs that are missing from the history of this controller.", s.Absent),
		gauge("rota_history_aside", "Ended jobs in the history that the log lacks, because the log was set back to an "+
			"earlier time.",
			s.SetAside),
		gauge("rota_history_kept_since_seconds", "Unix time before which ended jobs are not kept; 0: all are kept.",
			func() int64 { return int64(s.KeptSince()) / 1000 }),
		gauge("rota_history_check", "Result of the last check of the whole history: 0 no check yet, 1 sound, 2 damaged.",
			func() int64 { return int64(s.CheckState()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_history_bad_rows_total",
			Help: "Unreadable rows of the history, which answers leave out."},
			func() float64 { return float64(s.BadRows()) }),
	}
}
