package model

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Part is one group's share of a gang of several groups.
type Part struct {
	Group   int     `json:"group"` // index in Spec.Groups
	Workers int     `json:"workers"`
	PerNode int     `json:"per_node"`
	Request Request `json:"request"`
}

// GangScopeJob makes all groups of a job one gang.
const GangScopeJob = "job"

// OneGang reports whether a job's groups start together, as parts of one gang.
func OneGang(spec *jobspec.Job) bool { return len(spec.Groups) > 1 && spec.GangScope == GangScopeJob }

// LayOut computes the resources of a job's group, or of the parts of its gang.
func (j *Job) LayOut() {
	g := j.GroupSpec()
	j.Workers, j.Request, j.Parts = g.Fewest(), GroupRequest(g), nil
	if !OneGang(j.Spec) {
		return
	}
	j.Workers = 0
	for i := range j.Spec.Groups {
		g := &j.Spec.Groups[i]
		part := Part{Group: i, Workers: g.Fewest(), PerNode: max(1, g.MaxWorkersPerNode), Request: GroupRequest(g)}
		j.Parts = append(j.Parts, part)
		j.Workers += part.Workers
	}
	j.Request = j.Parts[0].Request
}

// GroupRequest returns the resources that each worker of a group needs on its node. Main tasks,
// sidecars and what starts after the main tasks run at the same time, so their requests add up.
// Tasks before or after the main tasks run alone, beside the sidecars of that time. The request is
// the maximum over these moments, separately for each resource.
func GroupRequest(g *jobspec.Group) Request {
	var before, during Request // early sidecars; everything that runs with the main tasks
	for i := range g.Tasks {
		r := RequestOf(g.Tasks[i].Resources)
		switch hook, sidecar := lifecycle(&g.Tasks[i]); {
		case hook == "prestart" && sidecar:
			before, during = before.Plus(r), during.Plus(r)
		case sidecar || hook == "" || hook == "poststart":
			during = during.Plus(r)
		}
	}
	most := during
	for i := range g.Tasks {
		r := RequestOf(g.Tasks[i].Resources)
		switch hook, sidecar := lifecycle(&g.Tasks[i]); {
		case sidecar:
		case hook == "prestart":
			most = most.most(before.Plus(r))
		case hook == "poststop":
			most = most.most(r)
		}
	}
	most.Exclusive = g.Exclusive
	return most
}

func lifecycle(t *jobspec.Task) (hook string, sidecar bool) {
	if t.Lifecycle == nil {
		return "", false
	}
	return t.Lifecycle.Hook, t.Lifecycle.Sidecar
}

// Plus adds the amounts of two requests.
func (r Request) Plus(o Request) Request {
	return Request{Active: r.Active.Plus(o.Active), Resident: r.Resident.Plus(o.Resident), Exclusive: r.Exclusive}
}

// Minus subtracts the amounts of o.
func (r Request) Minus(o Request) Request {
	return Request{Active: r.Active.Minus(o.Active), Resident: r.Resident.Minus(o.Resident), Exclusive: r.Exclusive}
}

// Times returns the request of n workers on one node.
func (r Request) Times(n int) Request {
	return Request{Active: r.Active.Times(int64(n)), Resident: r.Resident.Times(int64(n)), Exclusive: r.Exclusive}
}

// Positive returns the resources of a request, with zero where it is negative.
func (r Request) Positive() Request {
	return Request{Active: r.Active.Positive(), Resident: r.Resident.Positive()}
}

// most returns the greater amount of each resource.
func (r Request) most(o Request) Request {
	return Request{Active: r.Active.Most(o.Active), Resident: r.Resident.Most(o.Resident), Exclusive: r.Exclusive}
}

// Most returns the greater amount of each resource.
func (v Vector) Most(o Vector) Vector {
	return Vector{Cores: max(v.Cores, o.Cores), Memory: max(v.Memory, o.Memory), GPUs: max(v.GPUs, o.GPUs)}
}

// RequestOf returns the resources of one worker of an attempt, by its number in the attempt.
func (j *Job) RequestOf(worker int) Request {
	if len(j.Parts) == 0 {
		return j.Request
	}
	part, _ := j.PartOf(worker)
	return j.Parts[part].Request
}

// PartOf returns a worker's part of the gang, and its number there: 0 and worker if there is only
// one group.
func (j *Job) PartOf(worker int) (part, number int) {
	for i := range j.Parts {
		if worker < j.Parts[i].Workers || i == len(j.Parts)-1 {
			return i, worker
		}
		worker -= j.Parts[i].Workers
	}
	return 0, worker
}

// GroupOf returns the index in Spec.Groups of a worker's group.
func (j *Job) GroupOf(worker int) int {
	if len(j.Parts) == 0 {
		return j.GroupIndex()
	}
	part, _ := j.PartOf(worker)
	return j.Parts[part].Group
}

// Total returns the resources of all workers of a job together.
func (j *Job) Total() Vector {
	if len(j.Parts) == 0 {
		return j.Request.Active.Times(int64(j.Workers))
	}
	var sum Vector
	for _, p := range j.Parts {
		sum = sum.Plus(p.Request.Active.Times(int64(p.Workers)))
	}
	return sum
}

// Times multiplies every amount by n.
func (v Vector) Times(n int64) Vector {
	return Vector{Cores: v.Cores * n, Memory: v.Memory * jobspec.Bytes(n), GPUs: v.GPUs * n}
}

// Charged returns the amount charged for a worker while it holds its resources. That is its
// request, or the whole node if its workers have the node to themselves. In the second case, one
// worker of the node is charged until the last has left.
func (j *Job) Charged(a *Attempt, worker int) Vector {
	w := &a.Workers[worker]
	if w.Whole == (Vector{}) {
		return a.shared(j.RequestOf(worker)).Active
	}
	for i := range a.Workers {
		o := &a.Workers[i]
		if i != worker && o.Node == w.Node && o.Ended == 0 && (w.Ended != 0 || i < worker) {
			return Vector{}
		}
	}
	return w.Whole
}

// Granted returns a worker's holdings on its node. That is its request; workers that have a node to
// themselves divide its cores and memory. They divide them evenly, and the first workers get the
// remaining cores. GPUs are always those requested.
func (j *Job) Granted(a *Attempt, worker int) Request {
	r, w := j.RequestOf(worker), &a.Workers[worker]
	if w.Whole == (Vector{}) {
		return r
	}
	before, all := int64(0), int64(0) // number of workers on the node before this one, and in all
	for i := range a.Workers {
		if a.Workers[i].Node != w.Node {
			continue
		}
		if all++; i < worker {
			before++
		}
	}
	cores := w.Whole.Cores / all
	if before < w.Whole.Cores%all {
		cores++
	}
	r.Active.Cores, r.Active.Memory = max(cores, r.Active.Cores), max(w.Whole.Memory/jobspec.Bytes(all), r.Active.Memory)
	r.Resident.Memory = r.Active.Memory
	return r
}

// placing is derived from a job's spec: rules for where it may run. Jobs made from one another
// share it; it never changes.
type placing struct {
	group   int
	workers int
	within  string  // nodes of its queue, as conditions; "" all
	shapes  []Shape // shapes of all parts, without Parts; one shape if the job has one group
	parts   string  // of Shape
}

// newPlacing derives the placing of a job.
func newPlacing(j *Job, within string) *placing {
	p := &placing{group: j.GroupIndex(), workers: j.Workers, within: within}
	if len(j.Parts) == 0 {
		p.shapes = []Shape{shapeIn(j.Spec, j.GroupSpec(), j.Workers, PerNode(j), j.Request).inside(within)}
		return p
	}
	for _, part := range j.Parts {
		p.shapes = append(p.shapes, shapeIn(j.Spec, &j.Spec.Groups[part.Group], part.Workers, part.PerNode,
			part.Request).inside(within))
	}
	text, err := json.Marshal(p.shapes[1:])
	if err != nil {
		panic("model: a shape has no JSON: " + err.Error())
	}
	p.parts = string(text)
	return p
}

func shapeIn(spec *jobspec.Job, g *jobspec.Group, workers, perNode int, r Request) Shape {
	return Shape{Request: r, Workers: workers, PerNode: perNode, Constraints: WhereOf(spec, g),
		Affinities: PreferOf(spec, g)}
}

// inside returns the shape with further conditions on nodes, one a line; "" for none.
func (s Shape) inside(within string) Shape {
	if within == "" {
		return s
	}
	lines := strings.Split(within, "\n")
	if s.Constraints != "" {
		lines = append(lines, strings.Split(s.Constraints, "\n")...)
	}
	slices.Sort(lines)
	s.Constraints = strings.Join(slices.Compact(lines), "\n")
	return s
}

// Within returns the nodes of its queue that a job is placed by, as conditions; "" for all.
func (j *Job) Within() string {
	if j.placing == nil {
		return ""
	}
	return j.placing.within
}

// SettlePlacing derives the placing of a job from its spec and from the nodes of its queue, unless
// it is known. It copies the placing from an earlier version of the job; prior is nil for a new
// job. Most jobs have no rules.
func (j *Job) SettlePlacing(was *Job, within string) {
	switch {
	case within == "" && was != nil && was.placing == nil && was.Spec == j.Spec &&
		was.GroupIndex() == j.GroupIndex() && len(j.Parts) == 0:
		j.placing = nil
	case j.placing != nil && j.placing.group == j.GroupIndex() && j.placing.workers == j.Workers &&
		j.placing.within == within:
	case within == "" && len(j.Parts) == 0 && WhereOf(j.Spec, j.GroupSpec()) == "" &&
		PreferOf(j.Spec, j.GroupSpec()) == "":
		j.placing = nil
	default:
		j.placing = newPlacing(j, within)
	}
}

// ShapeOf returns the properties of a job that matter for placing it.
func ShapeOf(j *Job) Shape {
	if j.placing == nil {
		return Shape{Request: j.Request, Workers: j.Workers, PerNode: PerNode(j)}
	}
	s := j.placing.shapes[0]
	s.Parts = j.placing.parts
	return s
}

// MoreParts returns the shapes of a gang's parts after the first; nil if it has one group. The
// caller must not change it.
func MoreParts(j *Job) []Shape {
	if j.placing == nil {
		return nil
	}
	return j.placing.shapes[1:]
}

// ShapesOf returns the shapes of a job that is not submitted yet: one for each group that is placed
// separately. within is the nodes of its queue, as conditions; "" for all.
func ShapesOf(spec *jobspec.Job, within string) []Shape {
	draft := &Job{Spec: spec}
	draft.LayOut()
	if len(draft.Parts) > 0 {
		draft.placing = newPlacing(draft, within)
		return []Shape{ShapeOf(draft)}
	}
	var all []Shape
	for i := range spec.Groups {
		g := &spec.Groups[i]
		all = append(all, shapeIn(spec, g, g.Fewest(), max(1, g.MaxWorkersPerNode), GroupRequest(g)).inside(within))
	}
	return all
}

// Total returns the number of workers of all parts.
func (s Shape) Total() int {
	n := 0
	for part := range s.Each {
		n += part.Workers
	}
	return n
}

// Each yields the shape of every part, without Parts.
func (s Shape) Each(yield func(Shape) bool) {
	parts := s.Parts
	s.Parts = ""
	if !yield(s) || parts == "" {
		return
	}
	var more []Shape
	if err := json.Unmarshal([]byte(parts), &more); err != nil {
		panic("model: parts of a shape cannot be read: " + err.Error())
	}
	for _, part := range more {
		if !yield(part) {
			return
		}
	}
}
