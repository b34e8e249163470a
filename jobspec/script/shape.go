package script

import (
	"fmt"
	"math"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// shape is the number of workers and the resources of each.
type shape struct {
	nodes   int // number of workers, each on its own node
	tasks   int // most tasks of one worker
	total   int // tasks of all workers; below nodes times tasks if they do not divide evenly
	cores   int
	gpus    int
	memory  jobspec.Bytes // 0 for the default, which depends on the cores
	model   string
	perTask int // GPUs for each task; 0 if GPUs are requested in another way
}

// allTasks returns the number of tasks on all workers.
func (s shape) allTasks() int { return s.nodes * s.tasks }

// tasksPerNode lists the numbers of tasks on the nodes in Slurm's form: 2(x3),1.
func (s shape) tasksPerNode() string {
	full := s.nodes - (s.allTasks() - s.total)
	few := s.tasks - 1
	return repeated(s.tasks, full) + "," + repeated(few, s.nodes-full)
}

func repeated(tasks, nodes int) string {
	if nodes == 1 {
		return itoa(tasks)
	}
	return fmt.Sprintf("%d(x%d)", tasks, nodes)
}

// shape computes the numbers as sbatch does, as far as possible without knowing the nodes.
func (a *request) shape() shape {
	s := shape{nodes: max(a.nodeCount.n, 1)}
	if a.ntasks.n > 1 && a.nodeCount.n == 0 && a.perNode.n == 0 {
		a.result.Tasks, s.nodes = a.ntasks.n, min(max(a.opts.Nodes, 1), a.ntasks.n)
	}
	if node := max(a.gpusPerNode.n, a.gpuGres.n); a.nodeCount.n == 0 && node > 0 && a.gpus.n > 0 && a.gpus.n%node == 0 {
		s.nodes = max(a.gpus.n/node, 1)
	}
	a.checkGPUs()
	a.setTasks(&s)
	if s.total == 0 {
		s.total = s.allTasks()
	}
	a.setGPUs(&s)
	a.setCores(&s)
	a.setMemory(&s)
	return s
}

// strongest returns the flag that overrides the others, of several flags for the same amount. Two
// flags from one place exclude each other.
func (a *request) strongest(candidates ...*counted) *counted {
	var best *counted
	for _, c := range candidates {
		switch {
		case c.n == 0:
		case best == nil || c.by.layer > best.by.layer:
			best = c
		case c.by.layer == best.by.layer:
			a.conflict(c.by, "keep one of them", "and %s exclude each other", best.by.shown())
		}
	}
	if best == nil {
		best = &counted{}
	}
	return best
}

// setTasks sets the number of workers and of their tasks.
func (a *request) setTasks(s *shape) {
	total, each := a.ntasks.n, a.perNode.n
	if total == 0 && a.perGPU.n > 0 && a.gpus.n > 0 {
		total = a.perGPU.n * a.gpus.n
	}
	switch {
	case total == 0 && each == 0 && a.perGPU.n > 0:
		s.tasks = a.perGPU.n * max(a.gpusPerNode.n, a.gpuGres.n, 1)
	case total == 0 && each == 0 && a.gpus.n > 0 && a.gpusPerTask.n > 0:
		a.divideTasks(s, a.gpus.n/a.gpusPerTask.n, a.gpus)
	case total == 0:
		s.tasks = max(each, 1)
	case a.nodeCount.n == 0 && each > 0:
		s.nodes = (total + each - 1) / each
		a.divideTasks(s, total, a.ntasks)
	case total < s.nodes:
		a.warnChanged(a.ntasks.by, "%d: there are fewer tasks than the %d nodes, so the job gets a node for each task",
			total, s.nodes)
		s.nodes, s.tasks = total, 1
	default:
		a.divideTasks(s, total, a.ntasks)
	}
	if each > 0 && s.tasks > each {
		a.conflict(a.perNode.by, "", "%d: with %d tasks on %d nodes, some nodes would have more tasks", each,
			total, s.nodes)
	}
}

// divideTasks divides tasks among the workers.
func (a *request) divideTasks(s *shape, total int, by counted) {
	s.tasks = max((total+s.nodes-1)/s.nodes, 1)
	if s.total = total; s.tasks*s.nodes != total && total > 0 {
		a.warnChanged(by.by, "%d: each of the %d nodes gets room for %d tasks", total, s.nodes, s.tasks)
	}
}

// checkGPUs refuses numbers of GPUs, tasks and nodes that contradict each other. Slurm refuses the same.
func (a *request) checkGPUs() {
	all, each := a.gpus.n, a.gpusPerTask.n
	switch {
	case each > 0 && all == 0 && a.ntasks.n == 0 && a.perNode.n == 0:
		a.conflict(a.gpusPerTask.by, "add --ntasks=N", "%d: without --ntasks or --gpus the number of tasks is unknown", each)
	case each > 0 && all%each != 0:
		a.conflict(a.gpus.by, fmt.Sprintf("write --gpus=%d", (all/each+1)*each),
			"%d: tasks of %d GPUs each (--gpus-per-task) cannot share out %d GPUs", all, each, all)
	case each > 0 && all > 0 && a.ntasks.n > 0 && all/each != a.ntasks.n:
		a.conflict(a.gpus.by, fmt.Sprintf("write --gpus=%d or --ntasks=%d", each*a.ntasks.n, all/each),
			"%d: %d tasks of %d GPUs each need %d", all, a.ntasks.n, each, each*a.ntasks.n)
	}
}

func (a *request) setGPUs(s *shape) {
	model := a.namedModel()
	w := a.strongest(&a.gpusPerNode, &a.gpuGres)
	if w.n > 0 && a.gpus.by.layer > w.by.layer || w.n > 0 && a.gpusPerTask.by.layer > w.by.layer {
		w = &counted{}
	}
	switch {
	case w.n > 0:
		s.gpus, s.model, s.perTask = w.n, w.model, a.gpusPerTask.n
		if a.gpus.n > 0 && a.gpus.by.layer == w.by.layer && a.gpus.n != w.n*s.nodes {
			a.conflict(a.gpus.by, "leave one of them out", "%d: with %s, %d nodes would have %d", a.gpus.n,
				w.by.shown(), s.nodes, w.n*s.nodes)
		}
		if a.gpusPerTask.n > 0 && a.gpusPerTask.n*s.tasks > w.n {
			a.conflict(a.gpusPerTask.by, "leave one of them out",
				"%d: %d tasks need more than the %d of %s", a.gpusPerTask.n, s.tasks, w.n, w.by.shown())
		}
	case a.gpusPerTask.n > 0:
		s.gpus, s.model, s.perTask = a.gpusPerTask.n*s.tasks, a.gpusPerTask.model, a.gpusPerTask.n
	case a.gpus.n > 0:
		s.gpus, s.model = (a.gpus.n+s.nodes-1)/s.nodes, a.gpus.model
		if s.gpus*s.nodes != a.gpus.n {
			a.refuseFlag(a.gpus.by, "use --gpus-per-node", "%d: the GPUs cannot be divided evenly among %d nodes", a.gpus.n,
				s.nodes)
		}
	}
	if s.model == "" && model != nil {
		s.model = model.model
	}
}

// namedModel returns the strongest flag that names a GPU model, or nil. A stronger flag that only
// counts GPUs does not change the model. Two different models from one place are a mistake.
func (a *request) namedModel() (first *counted) {
	for _, c := range []*counted{&a.gpus, &a.gpusPerNode, &a.gpusPerTask, &a.gpuGres} {
		switch {
		case c.n == 0 || c.model == "":
		case first == nil || c.by.layer > first.by.layer:
			first = c
		case c.by.layer < first.by.layer:
		case !strings.EqualFold(c.model, first.model):
			a.conflict(c.by, "ask for one model", "asks for %s, and %s for %s", c.model, first.by.shown(),
				first.model)
		}
	}
	return first
}

func (a *request) setCores(s *shape) {
	w := a.strongest(&a.cpus, &a.cpusPerGPU)
	switch {
	case w == &a.cpusPerGPU && s.gpus == 0:
		a.conflict(w.by, "ask for GPUs, or use --cpus-per-task", "%d: the job has no GPUs", w.n)
	case w == &a.cpusPerGPU:
		s.cores = w.n * s.gpus
	default:
		s.cores = s.tasks * max(w.n, 1)
	}
	s.cores = max(s.cores, a.minCPUs.n, 1)
}

func (a *request) setMemory(s *shape) {
	switch w := a.strongest(&a.mem, &a.memPerCPU, &a.memPerGPU); w {
	case &a.mem:
		s.memory = jobspec.Bytes(w.n)
	case &a.memPerCPU:
		s.memory = multiply(w.n, s.cores)
	case &a.memPerGPU:
		if s.gpus == 0 {
			a.conflict(w.by, "ask for GPUs, or use --mem",
				"is an amount for each GPU, but the job has no GPUs")
		}
		s.memory = multiply(w.n, s.gpus)
	}
}

// multiply returns the product, capped at the largest int.
func multiply(bytes, n int) jobspec.Bytes {
	if n > 0 && bytes > math.MaxInt64/n {
		return math.MaxInt64
	}
	return jobspec.Bytes(bytes * n)
}

// resources returns the resources of one worker.
func (s shape) resources() jobspec.Resources {
	r := jobspec.Resources{Cores: s.cores, Memory: s.memory, GPUs: s.gpus}
	if s.model != "" && s.gpus > 0 {
		r.GPU = &jobspec.GPU{Model: "*" + strings.NewReplacer("_", "?", "-", "?").Replace(s.model) + "*"}
	}
	return r
}
