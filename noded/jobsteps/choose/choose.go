// Package choose decides which nodes, cores and GPUs of its job a step gets. It is pure.
package choose

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// NodePart is what a job has on one of its nodes, for its steps.
type NodePart struct {
	Node   string
	Cores  int
	Memory jobspec.Bytes
	GPUs   int
}

// Allocation is what a job has for its steps, or one group of several that start together.
type Allocation struct {
	First        int        // number of the first place among those of the job
	Places       []NodePart // of every worker, in their order; none if the group runs no steps
	TasksPerNode int
	CoresPerTask int
}

// Share is what a step has on one node of its job.
type Share struct {
	Place  int           `json:"place"` // index in the job's places
	Tasks  []int         `json:"tasks"` // their numbers in the step
	Cores  []int         `json:"cores"` // counted from 0 among the job's cores there
	GPUs   []int         `json:"gpus,omitempty"`
	Memory jobspec.Bytes `json:"memory,omitempty"` // 0: no limit but the job's
}

// Refusal is why a step can never start, in the words of Slurm.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// Why steps are refused.
const (
	TooManyTasks  Refusal = "More processors requested than permitted"
	NoSuchNodes   Refusal = "Requested node configuration is not available"
	TooMuchMemory Refusal = "Memory required by task is not available"
	TooManyGPUs   Refusal = "Invalid generic resource (gres) specification"
	Busy          Refusal = "Requested nodes are busy"
)

// choose decides which nodes, cores and GPUs of its job a step gets, of those that others do not
// hold. The error is a [Refusal]: [Busy] if it can start later, any other if it never can.
func choose(req *api.StepRequest, job Allocation, held []Share) ([]Share, error) {
	c, err := newChoice(req, job)
	if err != nil {
		return nil, err
	}
	empty := make([]room, len(job.Places))
	for i, p := range job.Places {
		empty[i] = newRoom(p)
	}
	shares, err := c.layOut(empty)
	if err != nil || req.Overlap {
		return shares, err
	}
	free := make([]room, len(job.Places))
	for i, p := range job.Places {
		free[i] = newRoom(p)
	}
	for _, h := range held {
		free[h.Place].take(h)
	}
	if shares, err = c.layOut(free); err != nil {
		return nil, Busy
	}
	return shares, nil
}

// All is [choose] for all parts of a step, in the groups of its job. It also returns how many
// nodes each part has. The tasks of a part are numbered behind those of the parts before it.
func All(req *api.StepRequest, groups []Allocation, held []Share) (all []Share, parts []int, err error) {
	var busy error
	tasks := 0
	for _, r := range PartsOf(req) {
		group, err := groupOf(r.Group, groups)
		if err != nil {
			return nil, nil, err
		}
		shares, err := choose(&r, *group, group.own(held))
		if errors.Is(err, Busy) {
			busy = err
			continue
		}
		if err == nil {
			err = programsCover(&r, Tasks(shares))
		}
		if err != nil {
			return nil, nil, err
		}
		for i := range shares {
			shares[i].Place += group.First
			for k := range shares[i].Tasks {
				shares[i].Tasks[k] += tasks
			}
		}
		all, parts, tasks = append(all, shares...), append(parts, len(shares)), tasks+Tasks(shares)
	}
	if busy != nil {
		return nil, nil, busy
	}
	return all, parts, nil
}

// PartsOf returns the parts of a step, each as a request of its own.
func PartsOf(req *api.StepRequest) []api.StepRequest {
	one := *req
	one.More = nil
	list := []api.StepRequest{one}
	for _, r := range req.More {
		if r.Overlap = req.Overlap; r.Env == nil {
			r.Env = req.Env
		}
		list = append(list, r)
	}
	return list
}

// groupOf returns what a group of the job has for steps.
func groupOf(n int, groups []Allocation) (*Allocation, error) {
	switch {
	case n < 0 || n >= len(groups):
		return nil, fmt.Errorf("Attempt to run a job step with het group value of %d, but the job allocation has maximum "+
			"value of %d", n, len(groups)-1)
	case len(groups[n].Places) == 0:
		return nil, fmt.Errorf("group %d of the job runs no steps: its launch type is not steps", n)
	}
	return &groups[n], nil
}

// own returns which of the shares that are held are in a group, counted from its first place.
func (a *Allocation) own(held []Share) []Share {
	var own []Share
	for _, h := range held {
		if h.Place -= a.First; h.Place >= 0 && h.Place < len(a.Places) {
			own = append(own, h)
		}
	}
	return own
}

// room is what is free of a place.
type room struct {
	NodePart
	cores, gpus []int
	memory      jobspec.Bytes
}

func newRoom(p NodePart) room {
	return room{p, count(p.Cores), count(p.GPUs), p.Memory}
}

func count(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func (r *room) take(s Share) {
	without := func(list, taken []int) []int {
		return slices.DeleteFunc(list, func(n int) bool { return slices.Contains(taken, n) })
	}
	r.cores, r.gpus, r.memory = without(r.cores, s.Cores), without(r.gpus, s.GPUs), r.memory-s.Memory
}

// choice is a request with what it leaves open filled in.
type choice struct {
	*api.StepRequest
	candidates   []int // places, in order
	must         int   // the first candidates that it must have
	nodes, tasks int
	core         int // cores of a task
	perNode      int // tasks on a node at most
}

func newChoice(req *api.StepRequest, job Allocation) (choice, error) {
	c := choice{StepRequest: req}
	c.candidates = c.candidatesOf(job)
	if c.candidates == nil {
		return c, NoSuchNodes
	}
	all := len(c.candidates)
	c.nodes, c.tasks = req.Nodes, req.Tasks
	if c.nodes == 0 {
		switch {
		case c.must > 0:
			c.nodes = c.must
		case req.Tasks > 0 && req.TasksPerNode > 0:
			c.nodes = min(all, (req.Tasks+req.TasksPerNode-1)/req.TasksPerNode)
		default:
			c.nodes = all
		}
	}
	if c.tasks == 0 {
		c.tasks = c.nodes * cmp.Or(req.TasksPerNode, job.TasksPerNode, 1)
	}
	c.nodes = min(c.nodes, c.tasks)
	if c.nodes > all || c.must > c.nodes {
		return c, NoSuchNodes
	}
	c.perNode = cmp.Or(req.TasksPerNode, c.tasks)
	if c.core = req.CoresPerTask; c.core == 0 {
		c.core = c.usualCores(job)
	}
	if req.CoresPerGPU > 0 {
		c.core = max(1, req.CoresPerGPU*req.GPUsPerTask)
	}
	return c, nil
}

// candidatesOf lists the places that the step may have, those that it must have first. It is nil if
// one that it names is none of the job's.
func (c *choice) candidatesOf(job Allocation) []int {
	var list []int
	for i, p := range job.Places {
		if i >= c.Relative && !slices.Contains(c.Exclude, p.Node) {
			list = append(list, i)
		}
	}
	for _, name := range c.NodeList {
		named := func(i int) bool { return job.Places[i].Node == name }
		if !slices.ContainsFunc(list, named) {
			return nil
		}
	}
	named := func(i int) bool { return slices.Contains(c.NodeList, job.Places[i].Node) }
	slices.SortStableFunc(list, func(a, b int) int {
		switch {
		case named(a) == named(b):
			return 0
		case named(a):
			return -1
		}
		return 1
	})
	for _, i := range list {
		if named(i) {
			c.must++
		}
	}
	return list
}

// usualCores returns how many cores a task gets if its step does not say. That is as many as a task
// of the job has, or fewer if the step has more tasks than the job.
func (c *choice) usualCores(job Allocation) int {
	most := 0
	for _, i := range c.candidates {
		most = max(most, job.Places[i].Cores)
	}
	onNode := min(c.perNode, (c.tasks+c.nodes-1)/c.nodes)
	return max(1, min(cmp.Or(job.CoresPerTask, 1), most/onNode))
}

// layOut deals the tasks out to nodes with free room.
func (c *choice) layOut(free []room) ([]Share, error) {
	var why error
	var could []int // places with room for a task
	for at, i := range c.candidates {
		err := c.fits(&free[i])
		if err == nil {
			could = append(could, i)
			continue
		}
		if why == nil {
			why = err
		}
		if at < c.must {
			return nil, err
		}
	}
	if len(could) < c.nodes {
		return nil, cmp.Or(why, error(NoSuchNodes))
	}
	chosen := slices.Clone(could[:c.nodes])
	if c.capacity(free, chosen) < c.tasks { // those with most room, beside those that it must have
		rest := could[c.must:]
		slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(c.most(&free[b]), c.most(&free[a])) })
		chosen = slices.Clone(could[:c.nodes])
		if c.capacity(free, chosen) < c.tasks {
			return nil, TooManyTasks
		}
	}
	slices.Sort(chosen)
	return c.shares(free, chosen)
}

// fits returns why no task of the step has room in a place.
func (c *choice) fits(r *room) error {
	switch {
	case !c.exact() && len(r.cores) < r.Cores, len(r.cores) < c.core && !(c.Overcommit && len(r.cores) > 0):
		return TooManyTasks
	case c.memory(c.core) > r.memory:
		return TooMuchMemory
	case c.GPUsPerNode > len(r.gpus), c.GPUsPerTask > len(r.gpus), c.takesAllGPUs() && len(r.gpus) < r.GPUs:
		return TooManyGPUs
	}
	return nil
}

// exact reports whether the step gets no more cores than its tasks or its GPUs need.
func (c *choice) exact() bool { return c.Exact || c.CoresPerGPU > 0 }

// takesAllGPUs reports whether the step gets all GPUs of its nodes: it does not say how many.
func (c *choice) takesAllGPUs() bool { return c.GPUs == 0 && c.GPUsPerNode == 0 && c.GPUsPerTask == 0 }

// memory returns what the step takes on a node on which it has cores.
func (c *choice) memory(cores int) jobspec.Bytes {
	return cmp.Or(c.Memory, c.MemoryPerCore*jobspec.Bytes(cores))
}

// most returns how many tasks of the step have room in a place.
func (c *choice) most(r *room) int {
	n := min(len(r.cores)/c.core, c.perNode)
	if c.Overcommit {
		n = c.perNode
	}
	if c.GPUsPerTask > 0 {
		n = min(n, len(r.gpus)/c.GPUsPerTask)
	}
	if c.Memory == 0 && c.MemoryPerCore > 0 {
		n = min(n, int(r.memory/(c.MemoryPerCore*jobspec.Bytes(c.core))))
	}
	return n
}

func (c *choice) capacity(free []room, places []int) int {
	n := 0
	for _, i := range places {
		n += c.most(&free[i])
	}
	return n
}

// shares gives the tasks, which have room, to places: one to each in turn, until all are dealt out.
// Numbers follow the nodes, or with Cyclic the turns.
func (c *choice) shares(free []room, places []int) ([]Share, error) {
	counts := make([]int, len(places))
	var order []int // the place of each task
	for len(order) < c.tasks {
		for k, i := range places {
			if counts[k] < c.most(&free[i]) && len(order) < c.tasks {
				counts[k]++
				order = append(order, k)
			}
		}
	}
	if !c.Cyclic {
		slices.Sort(order)
	}
	list := make([]Share, len(places))
	for n, k := range order {
		list[k].Tasks = append(list[k].Tasks, n)
	}
	gpus := c.gpus(free, places, counts)
	if gpus == nil {
		return nil, TooManyGPUs
	}
	for k, i := range places {
		r, s := &free[i], &list[k]
		cores := len(r.cores)
		switch {
		case c.CoresPerGPU > 0:
			if cores = c.CoresPerGPU * gpus[k]; cores > len(r.cores) || cores < counts[k] && !c.Overcommit || cores == 0 {
				return nil, TooManyTasks
			}
		case c.exact():
			cores = min(counts[k]*c.core, cores) // fewer where they are overcommitted
		}
		s.Place, s.Cores, s.GPUs = i, slices.Clone(r.cores[:cores]), slices.Clone(r.gpus[:gpus[k]])
		if s.Memory = c.memory(cores); s.Memory > r.memory {
			return nil, TooMuchMemory
		}
	}
	return list, nil
}

// gpus returns how many GPUs the step gets in each place, nil if there are too few.
func (c *choice) gpus(free []room, places, tasks []int) []int {
	out := make([]int, len(places))
	for k, i := range places {
		switch {
		case c.GPUsPerTask > 0:
			out[k] = c.GPUsPerTask * tasks[k]
		case c.GPUsPerNode > 0:
			out[k] = c.GPUsPerNode
		case c.takesAllGPUs():
			out[k] = len(free[i].gpus)
		}
	}
	if c.GPUsPerTask > 0 || c.GPUsPerNode > 0 || c.GPUs <= 0 {
		return out
	}
	for left := c.GPUs; left > 0; { // a number for all nodes is dealt out in turn
		before := left
		for k, i := range places {
			if left > 0 && out[k] < len(free[i].gpus) {
				out[k]++
				left--
			}
		}
		if left == before {
			return nil
		}
	}
	return out
}

// programsCover refuses tasks without a program.
func programsCover(req *api.StepRequest, tasks int) error {
	named := map[int]bool{}
	for _, p := range req.Programs {
		if len(p.Tasks) == 0 {
			return nil
		}
		for _, n := range p.Tasks {
			named[n] = true
		}
	}
	for n := range tasks {
		if !named[n] {
			return fmt.Errorf("task %d has no program", n)
		}
	}
	return nil
}

// Tasks returns how many tasks shares have together.
func Tasks(shares []Share) int {
	n := 0
	for _, s := range shares {
		n += len(s.Tasks)
	}
	return n
}
