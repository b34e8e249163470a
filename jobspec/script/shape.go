package script

import (
	"math"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// shape is how many workers there are, and what each of them is.
type shape struct {
	nodes   int // workers, each on a node of its own
	tasks   int // of each worker
	cores   int
	gpus    int
	memory  jobspec.Bytes // 0: as much as the cores get by themselves
	model   string
	perTask int // GPUs that each task asked for, 0 when they were asked for otherwise
}

// all is the number of tasks on all workers.
func (s shape) all() int { return s.nodes * s.tasks }

// shape works the numbers out as sbatch does, as far as that can be without the nodes at hand.
func (a *asked) shape() shape {
	s := shape{nodes: max(a.nodeCount.n, 1)}
	a.tasks(&s)
	a.gpusOf(&s)
	a.coresOf(&s)
	a.memoryOf(&s)
	return s
}

// winner picks, of flags that say the same thing in several ways, the one that was written in the strongest place. Two in one place exclude
// each other.
func (a *asked) winner(candidates ...*counted) *counted {
	var best *counted
	for _, c := range candidates {
		switch {
		case c.n == 0:
		case best == nil || c.by.layer > best.by.layer:
			best = c
		case c.by.layer == best.by.layer:
			a.about(Mistake, CodeConflict, c.by, "keep one of them", "and %s exclude each other", best.by.shown())
		}
	}
	if best == nil {
		best = &counted{}
	}
	return best
}

// tasks finds the number of workers and of their tasks.
func (a *asked) tasks(s *shape) {
	total, each := a.ntasks.n, a.perNode.n
	if total == 0 && a.perGPU.n > 0 && a.gpus.n > 0 {
		total = a.perGPU.n * a.gpus.n
	}
	switch {
	case total == 0 && each == 0 && a.perGPU.n > 0:
		s.tasks = a.perGPU.n * max(a.gpusPerNode.n, a.gpuGres.n, 1)
	case total == 0 && each == 0 && a.gpus.n > 0 && a.gpusPerTask.n > 0:
		a.spread(s, a.gpus.n/a.gpusPerTask.n, a.gpus)
	case total == 0:
		s.tasks = max(each, 1)
	case a.nodeCount.n == 0 && each > 0:
		s.nodes = (total + each - 1) / each
		a.spread(s, total, a.ntasks)
	case total < s.nodes:
		a.warn(a.ntasks.by, "%d: so many tasks cannot be on %d nodes, so the job gets %d", total, s.nodes, total)
		s.nodes, s.tasks = total, 1
	default:
		a.spread(s, total, a.ntasks)
		if a.nodeCount.n == 0 && total > 1 && a.ntasks.n > 0 {
			a.warn(a.ntasks.by, "%d: all tasks are put on one node; --nodes puts them on several", total)
		}
	}
	if each > 0 && s.tasks > each {
		a.about(Mistake, CodeConflict, a.perNode.by, "", "%d: %d tasks on %d nodes are more", each, total, s.nodes)
	}
}

// spread divides tasks among the workers.
func (a *asked) spread(s *shape, total int, by counted) {
	s.tasks = max((total+s.nodes-1)/s.nodes, 1)
	if s.tasks*s.nodes != total && total > 0 {
		a.refuse(by.by, "make the number of tasks a multiple of the number of nodes", "%d: the tasks cannot be divided evenly among %d nodes", total, s.nodes)
	}
}

func (a *asked) gpusOf(s *shape) {
	model := a.sameModel()
	w := a.winner(&a.gpusPerNode, &a.gpuGres)
	if w.n > 0 && a.gpus.by.layer > w.by.layer || w.n > 0 && a.gpusPerTask.by.layer > w.by.layer {
		w = &counted{}
	}
	switch {
	case w.n > 0:
		s.gpus, s.model, s.perTask = w.n, w.model, a.gpusPerTask.n
		if a.gpus.n > 0 && a.gpus.by.layer == w.by.layer && a.gpus.n != w.n*s.nodes {
			a.about(Mistake, CodeConflict, a.gpus.by, "leave one of them out", "%d: %s gives %d nodes %d", a.gpus.n, w.by.shown(), s.nodes, w.n*s.nodes)
		}
		if a.gpusPerTask.n > 0 && a.gpusPerTask.n*s.tasks > w.n {
			a.about(Mistake, CodeConflict, a.gpusPerTask.by, "leave one of them out", "%d: %d tasks need more than the %d of %s", a.gpusPerTask.n, s.tasks, w.n, w.by.shown())
		}
	case a.gpusPerTask.n > 0:
		s.gpus, s.model, s.perTask = a.gpusPerTask.n*s.tasks, a.gpusPerTask.model, a.gpusPerTask.n
	case a.gpus.n > 0:
		s.gpus, s.model = (a.gpus.n+s.nodes-1)/s.nodes, a.gpus.model
		if s.gpus*s.nodes != a.gpus.n {
			a.refuse(a.gpus.by, "use --gpus-per-node", "%d: the GPUs cannot be divided evenly among %d nodes", a.gpus.n, s.nodes)
		}
	}
	if s.model == "" && model != nil {
		s.model = model.model
	}
}

// sameModel refuses flags of one place that ask for GPUs of several models. It returns the one that names a model in the strongest place: another
// flag that only counts GPUs does not take the model away.
func (a *asked) sameModel() (first *counted) {
	for _, c := range []*counted{&a.gpus, &a.gpusPerNode, &a.gpusPerTask, &a.gpuGres} {
		switch {
		case c.n == 0 || c.model == "":
		case first == nil || c.by.layer > first.by.layer:
			first = c
		case c.by.layer < first.by.layer:
		case !strings.EqualFold(c.model, first.model):
			a.about(Mistake, CodeConflict, c.by, "ask for one model", "asks for %s, and %s for %s", c.model, first.by.shown(), first.model)
		}
	}
	return first
}

func (a *asked) coresOf(s *shape) {
	w := a.winner(&a.cpus, &a.cpusPerGPU)
	switch {
	case w == &a.cpusPerGPU && s.gpus == 0:
		a.about(Mistake, CodeConflict, w.by, "ask for GPUs, or use --cpus-per-task", "%d: the job has no GPUs", w.n)
	case w == &a.cpusPerGPU:
		s.cores = w.n * s.gpus
	default:
		s.cores = s.tasks * max(w.n, 1)
	}
	s.cores = max(s.cores, a.minCPUs.n, 1)
}

func (a *asked) memoryOf(s *shape) {
	mem, cpu, gpu := counted{by: a.mem.by}, counted{by: a.memPerCPU.by}, counted{by: a.memPerGPU.by}
	for _, m := range []struct {
		c *counted
		n jobspec.Bytes
	}{{&mem, a.mem.n}, {&cpu, a.memPerCPU.n}, {&gpu, a.memPerGPU.n}} {
		if m.n > 0 {
			m.c.n = 1
		}
	}
	switch w := a.winner(&mem, &cpu, &gpu); w {
	case &mem:
		s.memory = a.mem.n
	case &cpu:
		s.memory = times(a.memPerCPU.n, s.cores)
	case &gpu:
		if s.gpus == 0 {
			a.about(Mistake, CodeConflict, w.by, "ask for GPUs, or use --mem", "says how much each GPU brings, and the job has none")
		}
		s.memory = times(a.memPerGPU.n, s.gpus)
	}
}

// times multiplies without running over: what is too much stays too much.
func times(b jobspec.Bytes, n int) jobspec.Bytes {
	if n > 0 && b > math.MaxInt64/jobspec.Bytes(n) {
		return math.MaxInt64
	}
	return b * jobspec.Bytes(n)
}

// resources of one worker.
func (s shape) resources(a *asked) jobspec.Resources {
	r := jobspec.Resources{Cores: s.cores, Memory: s.memory, GPUs: s.gpus}
	if s.model != "" && s.gpus > 0 {
		r.GPU = &jobspec.GPU{Model: "*" + strings.NewReplacer("_", "?", "-", "?").Replace(s.model) + "*"}
	}
	return r
}
