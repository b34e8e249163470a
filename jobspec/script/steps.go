package script

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/shell"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// launch sets how the task's program starts, and for how many tasks each worker has room. As in
// Slurm, a batch script runs once. Variables carry its requests for steps; srun reads them.
func (a *request) launch(task *jobspec.Task, s shape) {
	task.Launch = &jobspec.Launch{Type: jobspec.LaunchSteps, Nproc: s.tasks}
	set := func(name, value string) { task.Env = withVariable(task.Env, name, value) }
	// As in Slurm, a variable with an amount says that it was asked for. Lightning starts ranks by
	// itself, or refuses to, depending on these.
	if a.ntasks.n > 0 || a.perNode.n > 0 || a.perGPU.n > 0 {
		set("SLURM_NTASKS", itoa(s.total))
		set("SLURM_NPROCS", itoa(s.total))
	}
	if a.perNode.n > 0 {
		set("SLURM_NTASKS_PER_NODE", itoa(a.perNode.n))
	}
	if a.cpus.n > 0 {
		set("SLURM_CPUS_PER_TASK", itoa(a.cpus.n))
	}
	if s.total < s.allTasks() {
		set("SLURM_TASKS_PER_NODE", s.tasksPerNode())
	}
	switch {
	case a.seeAll && s.perTask > 0:
		set("SLURM_GPUS_PER_TASK", "") // clears the variable that requested them
	case a.seeAll:
	case s.perTask > 0:
		set("SLURM_GPUS_PER_TASK", itoa(s.perTask))
	case a.perGPU.n == 1:
		set("SLURM_GPUS_PER_TASK", "1")
	case a.perGPU.n > 1:
		a.warnChanged(a.perGPU.by, "%d: each task sees all %d GPUs of its node, and can choose by $SLURM_LOCALID", a.perGPU.n,
			s.gpus)
	}
	switch {
	case a.goOn:
		set("SLURM_KILL_BAD_EXIT", "0")
	case a.applied["kill-on-bad-exit"].spec != nil:
		set("SLURM_KILL_BAD_EXIT", "1")
	}
	if a.mode != "" {
		set("SLURM_OPEN_MODE", a.mode[:1])
	}
	if a.distribution != "" {
		set("SLURM_DISTRIBUTION", a.distribution)
	}
	if a.applied["overlap"].spec != nil {
		set("SLURM_OVERLAP", "1")
	}
	if a.imageDir != "" {
		set(slurm.ImageVariable, a.imageDir)
	}
}

// The orders in which tasks are dealt to nodes.
const cyclic = "cyclic"

// distribute parses --distribution.
func (a *request) distribute(s setting) {
	kind, _, _ := strings.Cut(s.value, ":")
	kind, _, _ = strings.Cut(kind, ",")
	switch strings.ToLower(kind) {
	case "block", "*":
		a.distribution = "block"
	case cyclic:
		a.distribution = cyclic
	default:
		a.refuseFlag(s, "write block or cyclic", "%q", cutShort(s.value))
	}
}

// useStepImages runs the whole script in the image of its steps.
func (a *request) useStepImages(t *text) {
	if t.shell == nil {
		return
	}
	for _, c := range t.shell.Commands {
		if c.Name() != "srun" {
			continue
		}
		used := false
		for _, name := range []string{"container-image", "container-mounts"} {
			if value, given := valueOf(c, name); given && a.useOfStep(c.Line, name, value) {
				used = used || name == "container-image"
			}
		}
		if used {
			a.addLine(Warning, CodeChanged, c.Line, "", "the whole script runs in the image, not only the step")
		}
	}
}

// valueOf returns the value of an srun flag, ignoring the flags of the program that srun starts.
func valueOf(c shell.Command, flag string) (value string, given bool) {
	var words []string
	for _, w := range c.Words[1:] {
		words = append(words, strings.Trim(w.Raw, `"'`))
	}
	g := &getopt{specs: SrunTable(), each: func(_ string, spec *Spec, text string, _ bool) {
		if spec.Name == flag {
			value, given = strings.Trim(text, `"'`), true
		}
	}, bad: func(string, string, string, string) {}} // srun itself reports mistakes
	g.read(words)
	return value, given
}

// useOfStep gives the whole job a flag of one of its steps. It returns false if no step has the
// flag.
func (a *request) useOfStep(line int, name, value string) bool {
	spec := find(name)
	s := setting{spec: spec, given: "--" + name, value: value, has: true, line: line}
	switch {
	case strings.Contains(value, "$"):
		a.refuseFlag(s, "write the path itself", "%q: the value of a variable is unknown before the job runs", value)
		return false
	case name == "container-image" && a.imageDir != "" && a.imageDir != value:
		a.refuseFlag(s, "use one image", "%q: a job has a single image, and this job already has %s", value, a.imageDir)
		return false
	}
	kept := slices.Clone(a.mounted)
	spec.read(a, s)
	if name == "container-mounts" {
		for _, m := range kept {
			if !slices.ContainsFunc(a.mounted, func(o jobspec.Mount) bool { return o.Target == m.Target }) {
				a.mounted = append(a.mounted, m)
			}
		}
	}
	return true
}
