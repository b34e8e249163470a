package controld

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rota-hpc/rota/controld/cluster"
)

// metrics is what GET /metrics shows. Counts of jobs and nodes are taken from the view when they are asked for.
type metrics struct {
	handler   http.Handler
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	proposals *prometheus.HistogramVec
	cycles    prometheus.Histogram
	actions   *prometheus.CounterVec
}

func newMetrics(d *daemon) *metrics {
	r := prometheus.NewRegistry()
	fine := prometheus.ExponentialBuckets(0.0001, 2, 18) // 0.1 ms to 13 s
	m := &metrics{
		handler: promhttp.HandlerFor(r, promhttp.HandlerOpts{}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_http_requests_total",
			Help: "Requests answered, by route and code of the problem."}, []string{"route", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rota_http_request_seconds",
			Help: "Time to answer, long polls included.", Buckets: fine}, []string{"route"}),
		proposals: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rota_propose_seconds",
			Help: "Time until a command was replicated and applied.", Buckets: fine}, []string{"kind"}),
		cycles: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rota_cycle_seconds",
			Help: "Time of a scheduling cycle.", Buckets: fine}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_actions_total",
			Help: "Scheduling decisions committed, and those refused because they no longer held."}, []string{"result"}),
	}
	// What is live says what the state takes; the heap's size depends on how much garbage there happens to be.
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	r.MustRegister(m.requests, m.latency, m.proposals, m.cycles, m.actions, &stateCollector{d},
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) served(route string, err error, took time.Duration) {
	code := "ok"
	if err != nil {
		code = problemOf(err).Code
	}
	m.requests.WithLabelValues(route, code).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) proposed(kind cluster.Kind, took time.Duration) {
	m.proposals.WithLabelValues(string(kind)).Observe(took.Seconds())
}

func (m *metrics) cycled(took time.Duration) { m.cycles.Observe(took.Seconds()) }

func (m *metrics) planned(done, refused int) {
	m.actions.WithLabelValues("done").Add(float64(done))
	m.actions.WithLabelValues("refused").Add(float64(refused))
}

// stateCollector counts what the view holds.
type stateCollector struct{ d *daemon }

var (
	descJobs   = prometheus.NewDesc("rota_jobs", "Jobs in the state, by state.", []string{"state"}, nil)
	descNodes  = prometheus.NewDesc("rota_nodes", "Nodes, by state.", []string{"state"}, nil)
	descGPUs   = prometheus.NewDesc("rota_gpus", "GPUs, held by a job or not.", []string{"held"}, nil)
	descIndex  = prometheus.NewDesc("rota_index", "Index of the last command applied here.", nil, nil)
	descLeader = prometheus.NewDesc("rota_leader", "1 on the controller that leads.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descJobs, descNodes, descGPUs, descIndex, descLeader} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	v := c.d.machine.view.Load()
	jobs := map[cluster.JobState]int{}
	for j := range v.Jobs() {
		jobs[j.State]++
	}
	for code, name := range stateNames {
		gauge(descJobs, jobs[code], name)
	}
	nodes := map[string]int{}
	gpus := map[bool]int{}
	for i, n := range v.Nodes() {
		p := presentNode(v, n, i)
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
	leads := 0
	if c.d.leading.Load() {
		leads = 1
	}
	gauge(descLeader, leads)
}
