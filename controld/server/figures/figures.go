// Package figures answers GET /metrics: the figures of the state, for Prometheus.
package figures

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
)

// Handlers answers GET /metrics.
type Handlers struct {
	all             http.Handler
	withoutAccounts http.Handler // leaves metrics out that name accounts or users
}

// New returns the handlers, and registers the metrics of the state.
func New(registry *prometheus.Registry, r *replica.Replica) *Handlers {
	registry.MustRegister(&stateCollector{replica: r})
	return &Handlers{
		all:             promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		withoutAccounts: promhttp.HandlerFor(prometheus.GathererFunc(anonymous(registry)), promhttp.HandlerOpts{}),
	}
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

// stateCollector counts what the state has when it is asked for.
type stateCollector struct {
	replica *replica.Replica
	shares  shareFigures
}

var (
	descJobs   = prometheus.NewDesc("rota_jobs", "Jobs in the state, by state.", []string{"state"}, nil)
	descNodes  = prometheus.NewDesc("rota_nodes", "Nodes, by state.", []string{"state"}, nil)
	descGPUs   = prometheus.NewDesc("rota_gpus", "Number of GPUs, by whether a job holds them.", []string{"held"}, nil)
	descIndex  = prometheus.NewDesc("rota_index", "Index of the last command applied here.", nil, nil)
	descPaused = prometheus.NewDesc("rota_sched_paused", "1 while an operator has paused this part of scheduling, or "+
		"has turned on a dry run.", []string{"what"}, nil)
	descBytes = prometheus.NewDesc("rota_spec_bytes", "Bytes of the specifications of all jobs in the state.", nil, nil)
	descMost  = prometheus.NewDesc("rota_spec_bytes_max", "Limit on the bytes of the specifications of all jobs.", nil,
		nil)
	descWould  = prometheus.NewDesc("rota_sched_would_preempt", "Displacements that a dry run has recorded.", nil, nil)
	descLeader = prometheus.NewDesc("rota_leader", "1 on the leading controller, 0 on others.", nil, nil)
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

// getMetrics answers GET /metrics. The figures of accounts are for callers that may know accounts.
func (h *Handlers) getMetrics(x *exchange.Exchange) (any, error) {
	if !x.May(access.PartFigures) {
		x.AskIdentity() // the route asks for none on this machine, but an operator may have one
	}
	x.Sent = true
	if x.May(access.PartFigures) {
		h.all.ServeHTTP(x.Writer, x.Request)
	} else {
		h.withoutAccounts.ServeHTTP(x.Writer, x.Request)
	}
	return nil, nil
}
