package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// refusingNodes are the nodes that said that they follow another generation than this controller has.
type refusingNodes struct {
	mu    sync.Mutex
	nodes map[string]followed
}

type followed struct {
	generation generation.Generation
	at         time.Time
}

// refusedFor is how long a refusal counts: nodes ask again every few seconds.
const refusedFor = time.Minute

func (r *refusingNodes) note(node string, g generation.Generation) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[string]followed{}
	}
	first = r.nodes[node].generation != g
	r.nodes[node] = followed{g, time.Now()}
	return first
}

// list returns the nodes that have refused lately, by name.
func (r *refusingNodes) list() []api.RefusingNode {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []api.RefusingNode
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if time.Since(r.nodes[name].at) < refusedFor {
			out = append(out, api.RefusingNode{Node: name, Generation: r.nodes[name].generation.String()})
		}
	}
	return out
}

// checkGeneration refuses a machine that follows a later generation of the cluster than this
// controller has, or another one with the same number. Either this controller was left behind, or
// another one recovered too. A request of a machine that may follow this generation goes on.
func (x *exchange) checkGeneration() error {
	text := x.r.Header.Get(api.HeaderGeneration)
	own := x.s.Replica.View().Recovery().Generation
	if text == "" && own.Number == 0 {
		return nil
	}
	theirs, err := generation.ParseGeneration(text)
	if err != nil {
		return problem.Invalid("%s: %v", api.HeaderGeneration, err)
	}
	fromController := x.caller != nil && pki.Role(x.caller.Role) == pki.Controller
	switch {
	case theirs == own, own.Outranks(theirs) && (!fromController || x.rt.Path != peers.RecordsPath),
		x.rt.Path == peers.StatePath:
		return nil
	case own.Outranks(theirs):
		return fmt.Errorf("controller %s has the log of generation %s, and this one of %s: %w", x.caller.From, theirs, own,
			generation.ErrGeneration)
	}
	if x.caller != nil && pki.Role(x.caller.Role) == pki.Node {
		if x.s.refusing.note(x.caller.From, theirs) {
			x.s.Log.Error("a node refuses this controller: it follows another generation of the cluster, which went on "+
				"elsewhere", "node", x.caller.From, "follows", theirs.String(), "ours", own.String(), "do", leftBehind)
		}
		if err := x.s.noteGeneration(theirs.Number); err != nil {
			x.s.Log.Warn("the generation that nodes follow is not noted", "error", err)
		}
	}
	return &api.Problem{Status: http.StatusMisdirectedRequest, Code: api.CodeGeneration, Detail: fmt.Sprintf(
		"controller %s is of generation %s of the cluster, and %s follows generation %s: it was left behind by a "+
			"recovery or a restore elsewhere", x.s.Name, own, x.r.PathValue("name"), theirs), Hint: leftBehind}
}

// leftBehind says what to do with a controller of another generation than the nodes follow.
const leftBehind = "decide which cluster goes on. The other one: stop this controller, move its data directory away " +
	"and join again. This one: stop the other cluster and run rota-controld recover here again"

func (s *Server) noteGeneration(number int64) error {
	if s.NoteGeneration == nil {
		return nil
	}
	return s.NoteGeneration(number)
}

// checkFollowed refuses a change of jobs while a majority of the nodes follows another generation:
// it would be acknowledged by a cluster that runs nothing.
func (x *exchange) checkFollowed(c fsm.Command) error {
	switch c.(type) {
	case fsm.SubmitJobs, fsm.ControlJobs, fsm.UpdateJobs:
	default:
		return nil
	}
	v := x.s.Replica.View()
	lost := 0
	refusing := x.s.refusing.list()
	for _, n := range refusing {
		if known, _ := v.Node(n.Node); known != nil {
			lost++
		}
	}
	if lost == 0 || lost < generation.Majority(len(v.Nodes())) {
		return nil
	}
	return &api.Problem{Status: http.StatusMisdirectedRequest, Code: api.CodeGeneration, Detail: fmt.Sprintf(
		"%d of %d nodes follow another generation of the cluster than controller %s, which has %s: the cluster went on "+
			"elsewhere", lost, len(v.Nodes()), x.s.Name, v.Recovery().Generation), Hint: leftBehind}
}

// maxUnsettled is how long a node's question waits for the generation to hold.
const maxUnsettled = 5 * time.Second

// awaitGeneration waits until the cluster's generation holds.
func (x *exchange) awaitGeneration() error {
	if !x.s.Replica.View().Recovery().Holds() {
		return nil
	}
	end, cancel := context.WithTimeout(x.s.alive, maxUnsettled)
	defer cancel()
	_, held, err := x.s.Replica.Until(x.ctx(), func(v *state.View) bool {
		return !v.Recovery().Holds() || !x.s.Replica.Leading()
	}, end.Done())
	if err == nil && !held {
		err = generation.ErrUnsettled
	}
	return err
}

// getGeneration answers GET /v1/nodes/{name}/generation. Only a leader that its quorum confirms may
// be followed.
func getGeneration(x *exchange) (*api.Generation, error) {
	if err := x.s.Replica.Verify(x.ctx()); err != nil {
		return nil, err
	}
	return x.generationFor(x.r.PathValue("name")), nil
}

func (x *exchange) generationFor(node string) *api.Generation {
	r := x.s.Replica.View().Recovery()
	return &api.Generation{Generation: r.Generation.String(), Accepted: r.Accepts(node), Settled: !r.Holds()}
}

// acceptGeneration answers POST /v1/nodes/{name}/generation.
func acceptGeneration(x *exchange, req *api.AcceptGeneration) (*api.Generation, error) {
	n, err := x.nodeOf(req.BootID)
	if err != nil {
		return nil, err
	}
	g, err := generation.ParseGeneration(req.Generation)
	if err != nil {
		return nil, problem.Invalid("%v", err)
	}
	x.view = x.s.Replica.View()
	c := fsm.AcceptGeneration{Node: n.Name, BootID: req.BootID, Generation: g}
	if err := summarise(x.view, req, &c); err != nil {
		return nil, err
	}
	if _, err := x.propose(c); err != nil {
		return nil, err
	}
	x.s.Log.Info("node follows this generation of the cluster", "node", n.Name, "generation", g.String(),
		"ran", len(c.Ran), "missing", len(c.Missing), "unknown", c.Unknown)
	return x.generationFor(n.Name), nil
}

// summarise fills a command with the jobs and attempts that a node knows and the state does not.
func summarise(v *state.View, req *api.AcceptGeneration, c *fsm.AcceptGeneration) error {
	highest, unknown := map[model.JobID]int{}, map[model.JobID]bool{}
	for _, text := range req.Known {
		job, attempt, _, ok := parseFolder(text)
		if !ok || job < 1 || attempt < 1 {
			return problem.Invalid("%q names no worker: write job.attempt.worker", text)
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

// presentGeneration is how the generation began, nil for generation 0.
func (x *exchange) presentGeneration() *api.GenerationState {
	r := x.view.Recovery()
	if r.Generation.Number == 0 {
		return nil
	}
	out := &api.GenerationState{Generation: r.Generation.String(), Means: r.Means, Controller: r.Controller,
		Raised: api.At(r.Raised.Wall), Settled: !r.Holds(), Unknown: r.Unknown,
		Need: generation.Majority(len(x.view.Nodes())),
		Held: len(r.Ran)}
	if len(x.view.Nodes()) == 0 {
		out.Need = 0
	}
	for _, n := range x.view.Nodes() {
		if r.Accepts(n.Name) {
			out.Accepted++
		} else {
			out.Missing = append(out.Missing, n.Name)
		}
	}
	if left := r.OldJobsAt - x.s.Replica.Now(x.view); left > 0 {
		out.OldJobsIn = int64(left+999) / 1000
	}
	return out
}
