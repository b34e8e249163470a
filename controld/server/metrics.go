package server

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// metrics are those of requests, and what GET /metrics shows.
type metrics struct {
	all             http.Handler
	withoutAccounts http.Handler // leaves metrics out that name accounts or users

	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec

	refusedRows prometheus.Counter // of nodes' reports
}

func newMetrics(registry *prometheus.Registry, r *replica.Replica) metrics {
	m := metrics{
		all:             promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		withoutAccounts: promhttp.HandlerFor(prometheus.GathererFunc(anonymous(registry)), promhttp.HandlerOpts{}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_http_requests_total",
			Help: "Requests answered, by route and code of the problem."}, []string{"route", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rota_http_request_seconds",
			Help: "Time to answer, long polls included.", Buckets: replica.Buckets()}, []string{"route"}),
		refusedRows: prometheus.NewCounter(prometheus.CounterOpts{Name: "rota_refused_report_rows_total",
			Help: "Rows of reports of nodes that were not taken as they were, because they cannot be true."}),
	}
	registry.MustRegister(m.requests, m.latency, m.refusedRows, &stateCollector{replica: r})
	return m
}

// anonymous gathers the metrics of a registry that name no account and no user.
func anonymous(registry prometheus.Gatherer) func() ([]*dto.MetricFamily, error) {
	return func() ([]*dto.MetricFamily, error) {
		families, err := registry.Gather()
		named := func(l *dto.LabelPair) bool { return l.GetName() == "account" || l.GetName() == "user" }
		return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
			return len(f.Metric) > 0 && slices.ContainsFunc(f.Metric[0].Label, named)
		}), err
	}
}

func (m *metrics) served(route string, err error, took time.Duration) {
	code := "ok"
	if err != nil {
		code = problem.Of(err).Code
	}
	m.requests.WithLabelValues(route, code).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

// stateCollector counts what the state has when it is asked for.
type stateCollector struct {
	replica *replica.Replica
	shares  shareFigures
}

var (
	descJobs   = prometheus.NewDesc("rota_jobs", "Jobs in the state, by state.", []string{"state"}, nil)
	descNodes  = prometheus.NewDesc("rota_nodes", "Nodes, by state.", []string{"state"}, nil)
	descGPUs   = prometheus.NewDesc("rota_gpus", "GPUs, held by a job or not.", []string{"held"}, nil)
	descIndex  = prometheus.NewDesc("rota_index", "Index of the last command applied here.", nil, nil)
	descPaused = prometheus.NewDesc("rota_sched_paused", "1 while an operator has paused a part of scheduling, or has a "+
		"dry run on.", []string{"what"}, nil)
	descBytes  = prometheus.NewDesc("rota_spec_bytes", "Bytes of the specifications of all jobs in the state.", nil, nil)
	descMost   = prometheus.NewDesc("rota_spec_bytes_max", "Bytes that they may have.", nil, nil)
	descWould  = prometheus.NewDesc("rota_sched_would_preempt", "Displacements that a dry run has recorded.", nil, nil)
	descLeader = prometheus.NewDesc("rota_leader", "1 on the controller that leads.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobs, descNodes, descGPUs, descIndex, descLeader, descPaused, descWould,
		descBytes, descMost,
		descShare} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	v := c.replica.View()
	now := c.replica.Now(v)
	jobs := map[model.JobState]int{}
	for j := range v.Jobs() {
		jobs[j.ShownState(now)]++
	}
	for code, name := range present.StateNames {
		gauge(descJobs, jobs[code], name)
	}
	nodes := map[string]int{}
	gpus := map[bool]int{}
	for i, n := range v.Nodes() {
		p := present.Node(v, n, i)
		nodes[p.State]++
		gpus[true] += p.GPUsUsed
		gpus[false] += len(n.GPUs) - p.GPUsUsed
	}
	for state, n := range nodes {
		gauge(descNodes, n, state)
	}
	for held, n := range gpus {
		gauge(descGPUs, n, strconv.FormatBool(held))
	}
	gauge(descIndex, int(v.Index()))
	gauge(descBytes, int(v.SpecBytes()))
	gauge(descMost, int(cmp.Or(v.Config().MaxAllSpecBytes, cluster.DefaultMaxAllSpecBytes)))
	for _, what := range steering.Switches {
		on := 0
		if v.Steering().Setting(what) != nil {
			on = 1
		}
		gauge(descPaused, on, string(what))
	}
	gauge(descWould, len(v.Displacements()))
	c.shares.collect(ch, v, now)
	leads := 0
	if c.replica.Leading() {
		leads = 1
	}
	gauge(descLeader, leads)
}
