package exchange

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// RefusingNodes are the nodes that said that they follow another generation than this controller has.
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

// RefusingNodes are the nodes that have refused this controller lately, by name.
func (x *Exchange) RefusingNodes() []api.RefusingNode { return x.s.refusing.list() }

// checkGeneration refuses a machine that follows a later generation of the cluster than this
// controller has, or another one with the same number. Either this controller was left behind, or
// another one recovered too. A request of a machine that may follow this generation goes on.
func (x *Exchange) checkGeneration() error {
	text := x.Request.Header.Get(api.HeaderGeneration)
	own := x.s.Replica.View().Recovery().Generation
	if text == "" && own.Number == 0 {
		return nil
	}
	theirs, err := generation.ParseGeneration(text)
	if err != nil {
		return problem.Invalid("%s: %v", api.HeaderGeneration, err)
	}
	fromController := x.Caller != nil && pki.Role(x.Caller.Role) == pki.Controller
	switch {
	case theirs == own, own.Outranks(theirs) && (!fromController || x.Route.Path != peers.RecordsPath),
		x.Route.Path == peers.StatePath:
		return nil
	case own.Outranks(theirs):
		return fmt.Errorf("controller %s has a log of generation %s, but this controller has one of generation %s: %w",
			x.Caller.From, theirs, own,
			generation.ErrGeneration)
	}
	if x.Caller != nil && pki.Role(x.Caller.Role) == pki.Node {
		if x.s.refusing.note(x.Caller.From, theirs) {
			x.s.Log.Error("a node refuses this controller, because it follows another generation of the cluster with other "+
				"controllers", "node", x.Caller.From, "follows", theirs.String(), "ours", own.String(), "do", leftBehind)
		}
		if err := x.s.noteGeneration(theirs.Number); err != nil {
			x.s.Log.Warn("cannot record the generation that nodes follow", "error", err)
		}
	}
	return &api.Problem{Status: http.StatusMisdirectedRequest, Code: api.CodeGeneration, Detail: fmt.Sprintf(
		"controller %s belongs to generation %s of the cluster, but %s follows generation %s: a recovery or a restore has "+
			"replaced this controller", x.s.Name, own, x.Request.PathValue("name"), theirs), Hint: leftBehind}
}

// leftBehind says what to do with a controller of another generation than the nodes follow.
const leftBehind = "decide which cluster is to continue. To keep the other one, stop this controller, move its data " +
	"directory away and join again. To keep this one, stop the other cluster and run rota-controld recover here again"

func (s *Service) noteGeneration(number int64) error {
	if s.NoteGeneration == nil {
		return nil
	}
	return s.NoteGeneration(number)
}

// checkFollowed refuses a change of jobs while a majority of the nodes follows another generation:
// it would be acknowledged by a cluster that runs nothing.
func (x *Exchange) checkFollowed(c fsm.Command) error {
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
		"%d of %d nodes follow another generation of the cluster than controller %s, which has %s: the cluster continued "+
			"with other controllers", lost, len(v.Nodes()), x.s.Name, v.Recovery().Generation), Hint: leftBehind}
}
