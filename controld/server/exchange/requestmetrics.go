package exchange

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// requestMetrics are the metrics of requests.
type requestMetrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newRequestMetrics(registry *prometheus.Registry) requestMetrics {
	m := requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_http_requests_total",
			Help: "Requests answered, by route and code of the problem."}, []string{"route", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rota_http_request_seconds",
			Help: "Time to answer, long polls included.", Buckets: replica.Buckets()}, []string{"route"}),
	}
	registry.MustRegister(m.requests, m.latency)
	return m
}

func (m *requestMetrics) served(route string, err error, took time.Duration) {
	code := "ok"
	if err != nil {
		code = problem.Of(err).Code
	}
	m.requests.WithLabelValues(route, code).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}
