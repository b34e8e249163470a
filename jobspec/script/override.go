package script

import (
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/jobspec"
)

func itoa(n int) string { return strconv.Itoa(n) }

// only for scripts: what a job file says in words of its own.
var scriptOnly = map[string]string{
	"ntasks": "launch { nproc = ... }", "ntasks-per-node": "launch { nproc = ... }", "ntasks-per-gpu": `launch { type = "per_gpu" }`, "cpus-per-gpu": "resources { cores = ... }",
	"gpus-per-task": "resources { gpus = ... }", "mem-per-gpu": "resources { memory = ... }", "wrap": "command = [...]", "no-requeue": "a line in the script that looks at $ROTA_RESTARTS",
	"kill-on-bad-exit": "on_worker_failure", "mincpus": "resources { cores = ... }", "container-mounts": "mount { }",
}

// Override puts flags over what a job file says. The flags have the meaning that they have for scripts, where they have one for a job of one group
// and one main task; others are refused by name. The job has its defaults filled in anew.
func Override(job *jobspec.Job, opts Options) Result {
	result := Result{}
	own := job.Array
	a := newAsked(&result, &opts, job)
	settings := a.commandLine()
	for _, s := range settings {
		if instead, no := scriptOnly[s.spec.Name]; no {
			a.refuse(s, "write "+instead+" in the job file", "is for scripts")
		}
	}
	settings = slices.DeleteFunc(settings, func(s setting) bool { return scriptOnly[s.spec.Name] != "" })
	a.take(settings)
	if own != nil && own.Indices == "" && job.Array != own {
		a.add(Problem{Kind: Refused, Code: CodeConflict, Where: "command line", Flag: "--array", Text: "cannot stand for the matrix or the file of the job's array", Hint: "change the job file"})
		job.Array = own
	} else if own != nil && job.Array != nil && job.Array != own {
		merged := *own
		if merged.Indices = job.Array.Indices; job.Array.MaxParallel > 0 {
			merged.MaxParallel = job.Array.MaxParallel
		}
		job.Array = &merged
	}
	if a.name != "" {
		job.Name = a.name
	}
	if a.exports != nil {
		job.Export = a.exports
	}
	a.overTask(settings)
	if !a.list.Has(Mistake) && !a.list.Has(Refused) {
		job.Default()
		a.check()
	}
	if result.Problems = a.sorted(); !result.Problems.Has(Mistake) {
		result.Job = job
	}
	return result
}

// overTask changes the one task that flags can be about.
func (a *asked) overTask(settings []setting) {
	about := slices.IndexFunc(settings, func(s setting) bool { return s.spec.Honoured() && ofTask(s.spec.Name) })
	if about < 0 {
		return
	}
	mains := 0
	var task *jobspec.Task
	for i := range a.job.Groups {
		for k := range a.job.Groups[i].Tasks {
			if t := &a.job.Groups[i].Tasks[k]; t.Lifecycle == nil {
				mains++
				task = t
			}
		}
	}
	if mains != 1 || len(a.job.Groups) != 1 {
		a.refuse(settings[about], "change the job file", "does not say which of the job's tasks it is about")
		return
	}
	a.overShape(&a.job.Groups[0], task)
	a.overLog(task)
	a.stopping(task)
	if a.imageDir != "" {
		task.Image = a.imageDir
	}
	for name, value := range a.env {
		if task.Env == nil {
			task.Env = map[string]string{}
		}
		task.Env[name] = value
	}
}

func ofTask(name string) bool {
	return slices.Contains([]string{"nodes", "cpus-per-task", "mem", "mem-per-cpu", "gpus", "gpus-per-node", "gres", "exclusive", "output", "error", "open-mode", "signal", "container-image", "export"}, name)
}

// overShape changes what the workers are.
func (a *asked) overShape(g *jobspec.Group, t *jobspec.Task) {
	r := &t.Resources
	before := *r
	usual := jobspec.Resources{Cores: r.Cores}
	usual.Default()
	if a.nodeCount.n > 0 {
		g.Count = a.nodeCount.n
	}
	if a.cpus.n > 0 {
		if r.Cores = a.cpus.n; r.Memory == usual.Memory {
			r.Memory = 0 // it follows the cores
		}
	}
	a.nodeCount = counted{n: g.Count}
	s := shape{nodes: max(g.Count, 1), tasks: 1, cores: max(r.Cores, 1)}
	a.gpusOf(&s)
	a.memoryOf(&s)
	a.overGPUs(s, g, r)
	if s.memory > 0 {
		r.Memory = s.memory
	}
	if r.Memory != before.Memory { // what is half of the memory stays half of it
		if before.Shm == before.Memory/2 {
			r.Shm = 0
		}
		if before.Tmp == before.Memory/2 {
			r.Tmp = 0
		}
	}
	g.Exclusive = g.Exclusive || a.wholeNodes.spec != nil
}

// overGPUs changes how many GPUs a worker has. What they must be stays as the file says, but for a model that a flag names.
func (a *asked) overGPUs(s shape, g *jobspec.Group, r *jobspec.Resources) {
	switch {
	case g.Elastic != nil && a.gpus.n > 0:
		a.refuse(a.gpus.by, "use --gpus-per-node", "%d: an elastic group has no fixed number of workers to divide them among", a.gpus.n)
	case s.gpus > 0:
		r.GPUs = s.gpus
		if with := s.resources(a).GPU; with != nil {
			if r.GPU != nil {
				with.MinMemory = r.GPU.MinMemory
			}
			r.GPU = with
		}
	case a.gpuGres.by.spec != nil: // --gres=none
		r.GPUs, r.GPU = 0, nil
	}
}

func (a *asked) overLog(t *jobspec.Task) {
	if a.stdout == "" && a.stderr == "" && a.mode == "" {
		return
	}
	l := jobspec.Log{}
	if t.Log != nil {
		l = *t.Log
	}
	if a.stdout != "" {
		l.Stdout = a.pattern(a.stdout, a.nodeCount.n)
	}
	if a.stderr != "" {
		apart := false
		l.Join, l.Stderr = &apart, a.pattern(a.stderr, a.nodeCount.n)
	}
	if a.mode != "" {
		l.Mode = a.mode
	}
	t.Log = &l
}
