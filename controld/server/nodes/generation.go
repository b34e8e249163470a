package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// awaitGeneration waits until the cluster's generation holds.
func (h *Handlers) awaitGeneration(x *exchange.Exchange) error {
	if !h.Replica.View().Recovery().Holds() {
		return nil
	}
	end, cancel := context.WithTimeout(x.Alive(), maxUnsettled)
	defer cancel()
	_, held, err := h.Replica.Until(x.Context(), func(v *state.View) bool {
		return !v.Recovery().Holds() || !h.Replica.Leading()
	}, end.Done())
	if err == nil && !held {
		err = generation.ErrUnsettled
	}
	return err
}

// maxUnsettled is how long a node's question waits for the generation to hold.
const maxUnsettled = 5 * time.Second

// getGeneration answers GET /v1/nodes/{name}/generation. Only a leader that its quorum confirms may
// be followed.
func (h *Handlers) getGeneration(x *exchange.Exchange) (*api.Generation, error) {
	if err := h.Replica.Verify(x.Context()); err != nil {
		return nil, err
	}
	return h.generationFor(x, x.Request.PathValue("name")), nil
}

func (h *Handlers) generationFor(x *exchange.Exchange, node string) *api.Generation {
	r := h.Replica.View().Recovery()
	return &api.Generation{Generation: r.Generation.String(), Accepted: r.Accepts(node), Settled: !r.Holds()}
}

// acceptGeneration answers POST /v1/nodes/{name}/generation.
func (h *Handlers) acceptGeneration(x *exchange.Exchange, req *api.AcceptGeneration) (*api.Generation, error) {
	n, err := h.nodeOf(x, req.BootID)
	if err != nil {
		return nil, err
	}
	g, err := generation.ParseGeneration(req.Generation)
	if err != nil {
		return nil, problem.Invalid("%v", err)
	}
	x.View = h.Replica.View()
	c := fsm.AcceptGeneration{Node: n.Name, BootID: req.BootID, Generation: g}
	if err := summarise(x.View, req, &c); err != nil {
		return nil, err
	}
	if _, err := x.Propose(c); err != nil {
		return nil, err
	}
	h.Log.Info("a node now follows this generation of the cluster", "node", n.Name, "generation", g.String(),
		"ran", len(c.Ran), "missing", len(c.Missing), "unknown", c.Unknown)
	return h.generationFor(x, n.Name), nil
}

// summarise fills a command with the jobs and attempts that a node knows and the state does not.
func summarise(v *state.View, req *api.AcceptGeneration, c *fsm.AcceptGeneration) error {
	highest, unknown := map[model.JobID]int{}, map[model.JobID]bool{}
	for _, text := range req.Known {
		job, attempt, _, ok := parseFolder(text)
		if !ok || job < 1 || attempt < 1 {
			return problem.Invalid("%q is not a worker: write job.attempt.worker", text)
		}
		c.LastJob = max(c.LastJob, job)
		j := v.Job(job)
		parent, task := v.ParentOf(job)
		switch {
		case j == nil && parent != nil && !parent.State.Final() && parent.Children.Waiting.Has(task),
			j != nil && !j.State.Final() && attempt > j.Attempt:
			highest[job] = max(highest[job], attempt)
		case j == nil && (job > v.LastJob() || v.Recovery().Newer(job)):
			unknown[job] = true
		}
	}
	for job, attempt := range highest {
		c.Ran = append(c.Ran, generation.RanAttempt{Job: job, Attempt: attempt})
	}
	slices.SortFunc(c.Ran, func(a, b generation.RanAttempt) int { return cmp.Compare(a.Job, b.Job) })
	c.Unknown = len(unknown)
	live := map[string]bool{}
	for _, text := range req.Live {
		live[text] = true
	}
	for _, w := range v.Desired(c.Node) {
		a := w.Job.Live()
		if x := &a.Workers[w.Worker]; x.State != model.WorkerAssigned && !x.State.Final() &&
			!live[fmt.Sprintf("%d.%d.%d", w.Job.ID, a.N, w.Worker)] {
			c.Missing = append(c.Missing, fsm.MissingWorker{Job: w.Job.ID, Attempt: a.N, Worker: w.Worker})
		}
	}
	return nil
}
