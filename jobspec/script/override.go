package script

import (
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/jobspec"
)

func itoa(n int) string { return strconv.Itoa(n) }

// scriptOnly are flags that only scripts may have, each with the attribute to use in a job file.
var scriptOnly = map[string]string{
	"ntasks": "launch { nproc = ... }", "ntasks-per-node": "launch { nproc = ... }",
	"ntasks-per-gpu": `launch { type = "per_gpu" }`, "cpus-per-gpu": "resources { cores = ... }",
	"gpus-per-task": "resources { gpus = ... }", "mem-per-gpu": "resources { memory = ... }", "wrap": "command = [...]",
	"no-requeue":       "a check of $ROTA_RESTARTS in the script",
	"kill-on-bad-exit": "on_worker_failure", "mincpus": "resources { cores = ... }", "container-mounts": "mount { }",
}

// Override changes a job from a job file by flags of the command line. The flags have the same
// meaning as for scripts. Flags about a task need a job with one group and one main task. Flags
// that make no sense in a job file are refused. Defaults of the job are filled in again.
func Override(job *jobspec.Job, opts Options) Result {
	result := Result{}
	own := job.Array
	a := newRequest(&result, &opts, job)
	settings := a.commandLineFlags()
	for _, s := range settings {
		if instead, no := scriptOnly[s.spec.Name]; no {
			a.refuseFlag(s, "write "+instead+" in the job file", "is for scripts only")
		}
	}
	settings = slices.DeleteFunc(settings, func(s setting) bool { return scriptOnly[s.spec.Name] != "" })
	a.applyFlags(settings)
	if own != nil && own.Indices == "" && job.Array != own {
		a.add(Problem{Kind: Refused, Code: CodeConflict, Where: commandLine, Flag: "--array",
			Text: "cannot replace the matrix or the file of the job's array", Hint: "change the job file"})
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
	a.overrideTask(settings)
	a.setVariables()
	if !a.list.Has(Mistake) && !a.list.Has(Refused) {
		job.Default()
		a.checkRules()
	}
	if result.Problems = a.sorted(); !result.Problems.Has(Mistake) {
		result.Job = job
	}
	return result
}

// overrideTask changes the main task if a flag concerns it.
func (a *request) overrideTask(settings []setting) {
	about := slices.IndexFunc(settings, func(s setting) bool { return s.spec.Honoured() && isTaskFlag(s.spec.Name) })
	if about < 0 {
		return
	}
	mains := a.job.MainTasks()
	if len(mains) != 1 || len(a.job.Groups) != 1 {
		a.refuseFlag(settings[about], "change the job file", "does not name the task of the job to which it applies")
		return
	}
	task := mains[0]
	a.overrideShape(&a.job.Groups[0], task)
	a.overrideLog(task)
	a.setStopSignal()
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

func isTaskFlag(name string) bool {
	return slices.Contains([]string{"nodes", "cpus-per-task", "mem", "mem-per-cpu", "gpus", "gpus-per-node", "gres",
		"exclusive", "output", "error", "open-mode", "signal", "container-image", "export"}, name)
}

// overrideShape changes the number of workers and their resources.
func (a *request) overrideShape(g *jobspec.Group, t *jobspec.Task) {
	r := &t.Resources
	before := *r
	usual := jobspec.Resources{Cores: r.Cores}
	usual.Default()
	if g.MaxWorkersPerNode == g.UsualPerNode() {
		g.MaxWorkersPerNode = 0 // recomputed below, because the default depends on the flags
	}
	if a.nodeCount.n > 0 {
		if g.Count = a.nodeCount.n; !g.Loose() {
			g.MaxWorkersPerNode = 1
		}
	}
	if a.cpus.n > 0 {
		if r.Cores = a.cpus.n; r.Memory == usual.Memory {
			r.Memory = 0 // recomputed below, because the default depends on the cores
		}
	}
	a.nodeCount = counted{n: g.Count}
	s := shape{nodes: max(g.Count, 1), tasks: 1, cores: max(r.Cores, 1)}
	a.setGPUs(&s)
	a.setMemory(&s)
	a.overrideGPUs(s, g, r)
	if s.memory > 0 {
		r.Memory = s.memory
	}
	if r.Memory != before.Memory { // a half of the memory stays a half
		if before.Shm == before.Memory/2 {
			r.Shm = 0
		}
		if before.Tmp == before.Memory/2 {
			r.Tmp = 0
		}
	}
	a.checkWanted(s.nodes)
	g.Exclusive = g.Exclusive || a.wholeNodes.spec != nil || a.allMemory.spec != nil
}

// overrideGPUs changes the number of GPUs of a worker. Other requirements stay as in the file,
// except a model that a flag names.
func (a *request) overrideGPUs(s shape, g *jobspec.Group, r *jobspec.Resources) {
	switch {
	case g.Elastic != nil && a.gpus.n > 0:
		a.refuseFlag(a.gpus.by, "use --gpus-per-node",
			"%d: an elastic group has no fixed number of workers to divide them among", a.gpus.n)
	case s.gpus > 0:
		r.GPUs = s.gpus
		if r.GPU != nil && r.GPU.Share > 0 { // flags request whole GPUs
			whole := *r.GPU
			whole.Share, whole.MaxMemory = 0, 0
			r.GPU = &whole
		}
		if with := s.resources().GPU; with != nil {
			if r.GPU != nil {
				with.MinMemory = r.GPU.MinMemory
			}
			r.GPU = with
		}
	case a.gpuGres.by.spec != nil: // --gres=none
		r.GPUs, r.GPU = 0, nil
	}
}

func (a *request) overrideLog(t *jobspec.Task) {
	if a.stdout == "" && a.stderr == "" && a.mode == "" {
		return
	}
	l := jobspec.Log{}
	if t.Log != nil {
		l = *t.Log
	}
	if a.stdout != "" {
		l.Stdout = a.logPattern(a.stdout, a.nodeCount.n)
	}
	if a.stderr != "" {
		apart := false
		l.Join, l.Stderr = &apart, a.logPattern(a.stderr, a.nodeCount.n)
	}
	if a.mode != "" {
		l.Mode = a.mode
	}
	t.Log = &l
}
