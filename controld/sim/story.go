package sim

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Story is the data that plots show.
type Story struct {
	Capacity  model.Vector                `json:"capacity"`
	Nodes     int                         `json:"nodes"`
	NodeGPUs  int                         `json:"node_gpus"` // of the node with most
	Accounts  []string                    `json:"accounts"`
	Samples   []Sample                    `json:"samples"`   // by time
	Spans     []Span                      `json:"spans"`     // by their end, unended ones last
	Slowdowns map[jobspec.Class][]float64 `json:"slowdowns"` // of all jobs that have ended

	step    int // instants between samples
	skipped int
}

// Sample is the state of the cluster after an instant.
type Sample struct {
	At        int64        `json:"at"` // ms of the trace's time
	Held      model.Vector `json:"held"`
	Waiting   int          `json:"waiting"`
	Running   int          `json:"running"` // suspended ones not
	Suspended int          `json:"suspended,omitempty"`
	GPUs      []int64      `json:"gpus"`            // thousandths held by each of Accounts that had arrived by then
	Cores     []int64      `json:"cores,omitempty"` // the same for a cluster without GPUs
}

// Span is how long one attempt of a job held its room. A job that was suspended has several. Jobs
// that have not ended by then end with the run.
type Span struct {
	ID      string        `json:"id"`
	Class   jobspec.Class `json:"class"`
	Start   int64         `json:"start"` // ms of the trace's time
	End     int64         `json:"end"`
	GPUs    int64         `json:"gpus"` // thousandths
	Node    int           `json:"node"` // of its first worker, by position
	Stopped bool          `json:"stopped,omitempty"`
	Rows    []Row         `json:"rows"` // all that it held
}

// Row is a number of GPUs of one node that lie side by side.
type Row struct {
	Node int `json:"node"`
	GPU  int `json:"gpu"`  // the first of them
	GPUs int `json:"gpus"` // 0: a worker without GPUs
}

// rowsOf lists the holdings of an attempt on each node.
func (e *engine) rowsOf(r *run) []Row {
	var rows []Row
	for _, p := range r.places {
		node := int(e.position[p.Node])
		if len(p.GPUs) == 0 {
			rows = append(rows, Row{Node: node})
		}
		for _, g := range p.GPUs {
			if n := len(rows); n > 0 && rows[n-1].Node == node && rows[n-1].GPU+rows[n-1].GPUs == g && rows[n-1].GPUs > 0 {
				rows[n-1].GPUs++
				continue
			}
			rows = append(rows, Row{node, g, 1})
		}
	}
	return rows
}

// maxSamples bounds the samples. Beyond it every second one is dropped.
const maxSamples = 4096

// sample records the state of the cluster, often enough for a curve.
func (s *Story) sample(e *engine) {
	if s == nil {
		return
	}
	if s.skipped++; s.skipped < s.step {
		return
	}
	s.skipped = 0
	if len(s.Samples) >= maxSamples {
		kept := s.Samples[:0]
		for i := 0; i < len(s.Samples); i += 2 {
			kept = append(kept, s.Samples[i])
		}
		s.Samples, s.step = kept, s.step*2
	}
	s.addSample(e)
}

// addSample adds a sample of the present.
func (s *Story) addSample(e *engine) {
	at := Sample{At: e.ms(e.now), Held: e.totals.held, Waiting: e.pending, Running: e.running - e.suspended,
		Suspended: e.suspended}
	for i := range e.totals.accounts {
		at.GPUs = append(at.GPUs, e.totals.accounts[i].held)
		if s.Capacity.GPUs == 0 {
			at.Cores = append(at.Cores, e.totals.accounts[i].cores)
		}
	}
	s.Samples = append(s.Samples, at)
}

// span adds for how long an attempt has held its room until now, if it holds any.
func (s *Story) span(e *engine, r *run) {
	if s == nil || len(r.workers) == 0 || r.holds == 0 {
		return
	}
	s.Spans = append(s.Spans, Span{
		ID: r.job.ID, Class: r.job.Class, Start: e.ms(r.holds), End: e.ms(e.now), GPUs: r.held.GPUs,
		Node: int(r.workers[0].node), Stopped: r.stopped > 0,
		Rows: e.rowsOf(r),
	})
}

// tellStory completes the data for plots.
func (e *engine) tellStory() {
	s := e.totals.story
	if s == nil {
		return
	}
	for i := range e.nodes {
		s.Nodes, s.NodeGPUs = i+1, max(s.NodeGPUs, len(e.nodes[i].GPUs))
	}
	if s.skipped > 0 || len(s.Samples) == 0 || s.Samples[len(s.Samples)-1].At < e.ms(e.now) {
		s.addSample(e) // the end of the run
	}
	for i := range e.totals.accounts {
		s.Accounts = append(s.Accounts, e.totals.accounts[i].name)
	}
	s.Slowdowns = map[jobspec.Class][]float64{}
	for i := range e.runs {
		switch v := &e.runs[i]; {
		case v.cancelled:
		case v.ended > 0:
			s.Slowdowns[v.job.Class] = append(s.Slowdowns[v.job.Class], v.slowdown())
		case v.live:
			s.span(e, v)
		}
	}
}
