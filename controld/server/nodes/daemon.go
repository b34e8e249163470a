package nodes

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/telemetry"
)

// listNodes answers GET /v1/nodes.
func (h *Handlers) listNodes(x *exchange.Exchange) (*api.NodeList, error) {
	list := &api.NodeList{List: *exchange.NewList[api.Node]("NodeList", x.View), Shares: present.Shares(x.View)}
	for i, n := range x.View.Nodes() {
		out := presentNode(x, n, i)
		if seen := h.Contacts.Seen(n.Name); !seen.IsZero() {
			out.LastSeen = api.At(model.UnixMS(seen.UnixMilli()))
		}
		list.Items = append(list.Items, out)
	}
	return list, nil
}

// presentNode is a node as the caller may see it.
func presentNode(x *exchange.Exchange, n *model.Node, position int) api.Node {
	out := present.Node(x.View, n, position)
	hidden := func(id model.JobID) bool {
		j := x.View.Job(id)
		return j != nil && !x.MayOn(access.PartJobs, j)
	}
	out.Jobs = slices.DeleteFunc(out.Jobs, hidden)
	for i := range out.GPUs {
		if hidden(out.GPUs[i].Job) {
			out.GPUs[i].Job = 0
		}
		out.GPUs[i].Jobs = slices.DeleteFunc(out.GPUs[i].Jobs, hidden)
	}
	for i := range out.Suspended {
		if hidden(out.Suspended[i].Job) {
			out.Suspended[i].Job = 0
		}
	}
	return out
}

// register answers POST /v1/nodes/{name}/register. A registration that the log has already is not
// proposed again.
func (h *Handlers) register(x *exchange.Exchange, req *api.RegisterRequest) (*api.RegisterResponse, error) {
	name := x.Request.PathValue("name")
	switch {
	case !member.ValidName(name):
		return nil, problem.Invalid("%q is not a node's name: it has 1 to 63 letters, digits, '-', '_' or '.'", name)
	case req.Node.Name != name:
		return nil, problem.Invalid("the path names node %q and the body node %q", name, req.Node.Name)
	}
	known, at := x.View.Node(name)
	if known != nil && known.BootID != req.Node.BootID && !req.Node.RebootOf(known) && x.View.RunsWorkers(at) {
		return nil, h.otherMachine(x, known) // it is not the node: that has not been heard of
	}
	h.noteContact(x, name)
	if known == nil || known.State == model.NodeDown || !sameInventory(*known, req.Node) {
		if _, err := x.Propose(fsm.RegisterNode{Node: req.Node}); err != nil {
			return nil, err
		}
		h.Log.Info("node registered", "node", name, "boot", req.Node.BootID, "gpus", len(req.Node.GPUs))
	}
	return &api.RegisterResponse{ClusterName: x.View.Config().ClusterName}, nil
}

// otherMachine refuses a machine under the name of a node that another machine has, which may still run
// the node's jobs.
func (h *Handlers) otherMachine(x *exchange.Exchange, n *model.Node) error {
	h.Log.Warn("a machine asks for the name of another machine that may still run jobs", "node", n.Name, "boot", n.BootID)
	until := "the other machine is up"
	if n.State == model.NodeDown {
		left := time.Duration(x.View.LostAt(n)-h.Replica.Now(x.View)) * time.Millisecond
		until = fmt.Sprintf("the other machine is down, but its lease may last another %v", max(0, left).Round(time.Second))
	}
	return problem.WrongState("the name of node %q is used by boot %s of what may be another machine, whose jobs may "+
		"still run: %s. This machine can take the name once these jobs have ended. If it is a clone, it needs a name of "+
		"its own: remove its data directory and join it with another --name", n.Name, n.BootID, until)
}

// sameInventory compares the inventories of two nodes; their other fields belong to the state.
func sameInventory(a, b model.Node) bool {
	for _, n := range []*model.Node{&a, &b} {
		n.State, n.Reason, n.Since = "", "", model.Stamp{}
		if len(n.Labels) == 0 {
			n.Labels = nil
		}
		if len(n.GPUs) == 0 {
			n.GPUs = nil
		}
		if len(n.SharedPath) == 0 {
			n.SharedPath = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// noteContact notes that a node spoke to the leader.
func (h *Handlers) noteContact(x *exchange.Exchange, name string) {
	n, _ := h.Replica.View().Node(name)
	h.Contacts.Heard(name, time.Now(), n != nil && n.State == model.NodeDown)
}

// setNode answers POST /v1/nodes/{name}/drain and resume.
func setNode(to model.NodeState) func(*exchange.Exchange, *api.NodeRequest) (*api.Node, error) {
	return func(x *exchange.Exchange, req *api.NodeRequest) (*api.Node, error) {
		name := x.Request.PathValue("name")
		n, _ := x.View.Node(name)
		switch {
		case n == nil:
			return nil, problem.NotFound("unknown node %q", name)
		case to == model.NodeDrained && req.Reason == "":
			return nil, problem.Invalid("reason is missing: say why the node is drained")
		case len(req.Reason) > exchange.MaxReason:
			return nil, problem.Invalid("the reason has %d bytes, at most %d are allowed", len(req.Reason), exchange.MaxReason)
		case to == model.NodeUp && n.State == model.NodeDown:
			return nil, problem.WrongState("node %s is down: %s. It is up again once its daemon reports", name, n.Reason)
		}
		if _, err := x.Propose(fsm.SetNodeState{Node: name, State: to, Reason: req.Reason}); err != nil {
			return nil, err
		}
		n, at := x.View.Node(name)
		out := presentNode(x, n, at)
		return &out, nil
	}
}

// nodeOf returns the node that makes the request. It refuses a node that has to register first.
func (h *Handlers) nodeOf(x *exchange.Exchange, bootID string) (*model.Node, error) {
	name := x.Request.PathValue("name")
	n, _ := h.Replica.View().Node(name)
	if n == nil {
		return nil, problem.NotFound("node %q is not registered", name)
	}
	if n.BootID != bootID {
		return nil, &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
			Detail: fmt.Sprintf("node %q is registered with boot %q, but this is boot %q: register first", name, n.BootID,
				bootID)}
	}
	h.noteContact(x, name)
	return n, nil
}

// nodeThatFollows returns the node that makes the request. It refuses one that has not accepted this
// cluster's generation and reported its attempts, or whose generation does not hold yet.
func (h *Handlers) nodeThatFollows(x *exchange.Exchange, bootID string) (*model.Node, error) {
	r := h.Replica.View().Recovery()
	if name := x.Request.PathValue("name"); !r.Accepts(name) {
		return nil, fmt.Errorf("node %s has not accepted generation %s: %w", name, r.Generation, generation.ErrGeneration)
	}
	return h.nodeOf(x, bootID)
}

// allocs answers GET /v1/nodes/{name}/allocs: what should exist on the node. The answer renews the
// leases of what it lists, so the leader first verifies that it still leads.
func (h *Handlers) allocs(x *exchange.Exchange) (*api.NodeAllocs, error) {
	n, err := h.nodeThatFollows(x, x.Query.Get("boot_id"))
	if err != nil {
		return nil, err
	}
	h.Touch.Heard(n.Name, x.Query.Get("sent"), x.Query.Get("witnesses"), clock.Boot().Milliseconds(),
		h.Replica.View().Chosen())
	if err := h.awaitGeneration(x); err != nil {
		return nil, err
	}
	if err := h.awaitUp(x, n.Name); err != nil {
		return nil, err
	}
	if err := h.awaitNode(x, n.Name); err != nil {
		return nil, err
	}
	sent := clock.Boot().Milliseconds()
	if err := h.Replica.Verify(x.Context()); err != nil {
		return nil, err
	}
	if n, err = h.nodeOf(x, n.BootID); err != nil { // it may have registered again while this waited
		return nil, err
	}
	v := h.Replica.View()
	x.View = v
	if v.Recovery().Holds() { // no lease is renewed: another generation of this number may hold instead
		return nil, generation.ErrUnsettled
	}
	out := &api.NodeAllocs{Index: v.Index(), Generation: v.Recovery().Generation.String(), Now: h.Replica.Now(v),
		LeaseMS: v.Config().LeaseMS, Allocs: []api.Alloc{}, Sent: h.Touch.Sent(sent)}
	if w := present.Witnesses(v); w.Key() != x.Query.Get("witnesses") {
		out.Witnesses = w
	}
	for _, w := range v.Desired(n.Name) {
		out.Allocs = append(out.Allocs, present.Alloc(v, w))
	}
	return out, nil
}

// maxUp is how long a node that was down waits for the log to have it up again.
const maxUp = 5 * time.Second

// awaitUp waits until the log has a node as up that was down and has just been heard of. Before
// that no lease may be renewed: the next leader would count it from when the node went down.
func (h *Handlers) awaitUp(x *exchange.Exchange, name string) error {
	end, cancel := context.WithTimeout(x.Alive(), maxUp)
	defer cancel()
	_, up, err := h.Replica.Until(x.Context(), func(v *state.View) bool {
		n, _ := v.Node(name)
		return n == nil || n.State != model.NodeDown || !h.Replica.Leading()
	}, end.Done())
	if err == nil && !up {
		err = problem.NoLeader(fmt.Sprintf("node %q is down in the log, and cannot be recorded as up", name))
	}
	return err
}

// awaitNode waits for news of a node. It waits at most as long as the leader allows a silent node.
// It also waits at most a quarter of the time after which a witness reports no leader. Round trips
// must follow within half of that time.
func (h *Handlers) awaitNode(x *exchange.Exchange, name string) error {
	after, wait := uint64(x.Number("after", 0)), x.Duration("wait")
	alive := time.Duration(x.View.Config().NodeDownMS) * time.Millisecond / 2
	if silence := x.View.Chosen().Silence(); silence > 0 {
		alive = min(alive, time.Duration(silence)*time.Millisecond/4)
	}
	end, cancel := context.WithTimeout(x.Alive(), min(wait, alive))
	defer cancel()
	_, _, err := h.Replica.Until(x.Context(), func(v *state.View) bool {
		return v.NodeModified(name) > after || !h.Replica.Leading()
	}, end.Done())
	return err
}

// maxReports is how many reports or samples a node may send at once.
const maxReports = 20_000

// report answers POST /v1/nodes/{name}/report. Samples stay in memory; what changed goes into the
// log.
func (h *Handlers) report(x *exchange.Exchange, req *api.ReportRequest) (*api.ReportResponse, error) {
	if max(len(req.Workers), len(req.Samples), len(req.Steps)) > maxReports {
		return nil, problem.Invalid("%d reports, %d samples and %d steps, at most %d each are allowed", len(req.Workers),
			len(req.Samples), len(req.Steps), maxReports)
	}
	n, err := h.nodeThatFollows(x, req.BootID)
	if err != nil {
		return nil, err
	}
	ended := func(id model.JobID) bool {
		j := x.View.Job(id)
		return j == nil || j.State.Final()
	}
	for i := range req.Samples {
		s := &req.Samples[i]
		if j := x.View.Job(s.Job); j != nil && j.Attempt == s.Attempt {
			h.Samples.Put(s.Job, telemetry.AttemptProgress{Attempt: s.Attempt, Step: s.Step, Saved: s.Saved, Metrics: s.Metrics,
				Problem: s.Problem},
				j.Spec.MainProgress().Metric, ended)
			h.Arrays.Report(j, s)
		}
	}
	resp := &api.ReportResponse{}
	if len(req.Workers)+len(req.Steps) > 0 {
		refused, err := exchange.ProposeFor[fsm.RefusedRows](x, fsm.NodeReport{Node: n.Name, BootID: req.BootID,
			Workers: req.Workers,
			Steps:   req.Steps})
		if err != nil {
			return nil, err
		}
		for _, err := range refused {
			resp.Refused = append(resp.Refused, err.Error())
		}
		if len(refused) > 0 {
			h.refusedRows.Add(float64(len(refused)))
			h.Log.Warn("ignoring impossible rows of a node's report", "node", n.Name, "rows", len(refused), "first", refused[0])
		}
	}
	resp.Index = x.View.Index()
	return resp, nil
}
