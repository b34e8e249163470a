package rules

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// task checks one task. only reports whether the task is the only task of its group.
func (c *checker) task(where string, t *jobspec.Task, only bool) {
	c.name(where+".name", t.Name)
	c.image(where+".image", t.Image)
	c.nameIfSet(where+".user", t.User)
	if t.Leader != nil && !*t.Leader && t.Lifecycle == nil && only {
		c.add(jobspec.CodeConflict, where+".leader", "leave leader out", "the only task of a group must be its leader")
	}
	c.signal(where+".kill_signal", t.KillSignal)
	c.duration(where+".kill_timeout", t.KillTimeout)
	c.env(where+".env", t.Env, jobspec.ValidVariable)
	c.mounts(where+".mounts", t.Mounts)
	c.log(c.partPath(where, ".log"), t.Log)
	c.progress(where+".progress", t.Progress)
	c.launch(c.partPath(where, ".launch"), t)
	c.resources(c.partPath(where, ".resources"), &t.Resources)
	c.lifecycle(where+".lifecycle", t.Lifecycle)
	c.secrets(where+".secrets", t)
	c.ulimits(where+".ulimits", t.Ulimits)
	c.terminal(where+".terminal", t, only)
}

func (c *checker) image(where, image string) {
	if image == "" {
		return
	}
	c.plainText(where, image)
	if !path.IsAbs(image) {
		c.add(jobspec.CodeUnsupported, where,
			"give the absolute path of a directory with a root file system, or leave image out to run on the host's",
			"%q: image references are not supported yet", image)
	}
}

// taskProgram checks the program of a task. If the group runs steps, a task with launch type steps
// has no program of its own.
func (c *checker) taskProgram(where string, t *jobspec.Task, steps bool) {
	holds := steps && t.Launch != nil && t.Launch.Type == jobspec.LaunchSteps
	switch {
	case holds && len(t.Command) == 0 && t.Script == "":
	case holds:
		c.add(jobspec.CodeProgram, where, "remove command and script, or launch",
			"the program of task %q would never run: with launch type steps the workers of a later group run only steps", t.Name)
	case len(t.Command) == 0 && t.Script == "":
		c.add(jobspec.CodeProgram, where, `add command = ["program", "argument"] or script`, "task %q has nothing to run",
			t.Name)
	case len(t.Command) > 0 && t.Script != "":
		c.add(jobspec.CodeProgram, where+".script", "keep one of them", "task %q has a command and a script", t.Name)
	case len(t.Command) > 0 && t.Command[0] == "":
		c.add(jobspec.CodeProgram, where+".command", "name the program first",
			"the command of task %q starts with an empty word", t.Name)
	}
	c.atMost(where+".command", len(t.Command), jobspec.MaxArguments, "words")
	for i, word := range t.Command {
		c.atMost(c.elementPath(where+".command", i), len(word), jobspec.MaxCommandBytes, "bytes")
		c.plainText(c.elementPath(where+".command", i), word)
	}
	c.atMost(where+".script", len(t.Script), jobspec.MaxScriptBytes, "bytes")
	c.plainText(where+".script", t.Script)
}

func (c *checker) mounts(where string, mounts []jobspec.Mount) {
	c.atMost(where, len(mounts), jobspec.MaxMounts, "mounts")
	taken := map[string]bool{}
	for i := range mounts {
		m, here := &mounts[i], at(where, i)
		c.mount(here, m)
		target := path.Clean(m.Target)
		if taken[target] {
			c.add(jobspec.CodeDuplicate, here+".target", "mount only one source there", "%q is the target of two mounts",
				m.Target)
		}
		taken[target] = true
		for k := range mounts {
			if outer := path.Clean(mounts[k].Target); mounts[k].Type != "tmpfs" && target != outer && outer != "/" &&
				within(target, outer) {
				c.add(jobspec.CodePath, here+".target", "choose a directory outside of it",
					"%q would have to be created inside %q, which is another mount", target, outer)
				break
			}
		}
	}
}

func (c *checker) mount(where string, m *jobspec.Mount) {
	if m.Type == "volume" {
		c.add(jobspec.CodeUnsupported, where+".type", `use type "bind" or "tmpfs"`, "volumes are not supported yet")
	} else {
		c.choice(where+".type", m.Type, "bind", "tmpfs")
	}
	switch {
	case m.Type == "tmpfs" && m.Source != "":
		c.add(jobspec.CodeConflict, where+".source", "leave source out", "a tmpfs has no source")
	case m.Type != "tmpfs" && m.Source == "":
		c.add(jobspec.CodeRequired, where, "add source", "the mount has no source")
	}
	if m.Type == "tmpfs" && m.ReadOnly {
		c.add(jobspec.CodeConflict, where+".read_only", "leave read_only out",
			"a read-only tmpfs is useless, because a tmpfs starts empty")
	}
	c.straightPath(where+".source", m.Source)
	switch {
	case m.Target == "":
		c.add(jobspec.CodeRequired, where, "add target", "the mount has no target")
	case reservedTarget(path.Clean(m.Target)):
		c.add(jobspec.CodePath, where+".target", "choose another directory", "%q cannot be a mount target", m.Target)
	default:
		c.straightPath(where+".target", m.Target)
	}
	if len(m.Options) > 0 {
		c.add(jobspec.CodeUnsupported, where+".options", "only read_only is", "mount options are not supported yet")
	}
}

// straightPath refuses a path that is not absolute, or has "." or "..". A slash at its end is
// allowed.
func (c *checker) straightPath(where, p string) {
	c.absolute(where, p)
	if clean := path.Clean(p); path.IsAbs(p) && p != clean && strings.TrimRight(p, "/") != clean {
		c.add(jobspec.CodePath, where, fmt.Sprintf("write %q", clean), "%q is not a clean path: it has .., . or a double "+
			"slash", p)
	}
}

func reservedTarget(target string) bool {
	return target == "/" || within(target, jobspec.ReservedTargets()...)
}

// reservedSecret reports whether a path lies outside of the directory of secrets, or deeper than
// one level in it. That directory is in memory, so that secrets never reach a disk.
func reservedSecret(file string) bool {
	return file != path.Clean(file) || path.Dir(file)+"/" != jobspec.SecretsDir
}

func within(target string, dirs ...string) bool {
	for _, taken := range dirs {
		if target == taken || strings.HasPrefix(target, taken+"/") {
			return true
		}
	}
	return false
}

func (c *checker) log(where string, l *jobspec.Log) {
	if l == nil {
		return
	}
	c.pathPattern(where+".stdout", l.Stdout)
	c.pathPattern(where+".stderr", l.Stderr)
	if l.Join != nil && *l.Join && l.Stderr != "" {
		c.add(jobspec.CodeConflict, where+".stderr", "leave stderr out, or set join = false",
			"stderr has its own path, but is joined to stdout")
	}
	c.choice(where+".mode", l.Mode, "append", "truncate")
	c.size(where+".max_size", l.MaxSize, 4*jobspec.KiB)
	if l.Keep != nil {
		c.between(where+".keep", *l.Keep, 0, 100)
	}
}

// pathPattern checks the % letters of a log path, which are Slurm's. A number between % and the
// letter pads with zeros.
func (c *checker) pathPattern(where, pattern string) {
	c.plainText(where, pattern)
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return
		}
		letter := strings.TrimLeft(after, "0123456789")
		digits := len(after) - len(letter)
		if letter == "" || digits > 2 || !strings.Contains("%jxunNrtAas", letter[:1]) {
			c.add(jobspec.CodeText, where,
				"use %j (job), %x (name), %u (user), %n (worker), %N (host), %r (restarts), %t (task) or %%",
				"%q has an unknown %% letter", pattern)
			return
		}
		rest = letter[1:]
	}
}

func (c *checker) progress(where string, p *jobspec.Progress) {
	if p == nil {
		return
	}
	c.plainText(where+".file", p.File)
	if p.File != "" && p.Pattern != "" {
		c.add(jobspec.CodeProgress, where+".pattern", "keep one of them",
			"progress is read from a file and from the output at once")
	}
	c.progressPattern(where+".pattern", p)
	c.choice(where+".goal", p.Goal, "min", "max")
	c.atMost(where+".metric", len(p.Metric), 63, "bytes")
	if p.Total < 0 {
		c.add(jobspec.CodeRange, where+".total", "", "%d is out of range: 1 or more", p.Total)
	}
}

func (c *checker) progressPattern(where string, p *jobspec.Progress) {
	if p.Pattern == "" {
		return
	}
	pattern, err := jobspec.CompileProgress(p.Pattern)
	c.addAt(where, err)
	if err == nil && p.Metric != "" && !pattern.Has(p.Metric) {
		c.add(jobspec.CodeProgress, where, fmt.Sprintf(`write (?P<%s>\S+) where it is printed`, p.Metric),
			"the pattern has no group with the metric's name, %s", p.Metric)
	}
}

func (c *checker) launch(where string, t *jobspec.Task) {
	l := t.Launch
	if l == nil {
		return
	}
	if l.Type == "mpi" {
		c.add(jobspec.CodeUnsupported, where+".type", `start it on one worker: command = ["mpirun", "-n", 4, "./program"]`,
			"launch type mpi is not supported yet")
	} else {
		c.choice(where+".type", l.Type, jobspec.LaunchTypes...)
	}
	c.between(where+".nproc", l.Nproc, 0, jobspec.MaxProcesses)
	c.launchProcesses(where, t)
	c.between(where+".max_restarts", l.MaxRestarts, 0, 1_000_000)
	if l.Port != 0 {
		c.between(where+".port", l.Port, 1024, 65535)
	}
	c.choice(where+".rdzv", l.Rdzv, "static", "c10d")
	if l.Type != "torchrun" && (l.MaxRestarts != 0 || l.Rdzv != "") {
		c.add(jobspec.CodeConflict, where, `set type = "torchrun", or leave them out`,
			"max_restarts and rdzv belong to launch type torchrun")
	}
}

// maxTerminal bounds the rows and columns of a terminal.
const maxTerminal = 65535

// terminal checks the terminal of a task. A worker has at most one terminal.
func (c *checker) terminal(where string, t *jobspec.Task, only bool) {
	if t.Terminal == nil {
		return
	}
	c.between(where+".rows", t.Terminal.Rows, 0, maxTerminal)
	c.between(where+".columns", t.Terminal.Columns, 0, maxTerminal)
	c.duration(where+".hang_up", t.Terminal.HangUp)
	l := t.Launch
	switch {
	case !only:
		c.add(jobspec.CodeConflict, where, "keep one task", "a group whose task has a terminal has no other tasks")
	case l != nil && l.Type != "" && l.Type != "single" && l.Type != jobspec.LaunchSteps:
		c.add(jobspec.CodeConflict, where, `leave launch out`, "a task with a terminal is one process, and launch type %s "+
			"starts several", l.Type)
	case t.Progress != nil && t.Progress.Pattern != "":
		c.add(jobspec.CodeConflict, where, "write progress to a file", "the output of a terminal is not searched for "+
			"progress")
	}
}

// launchProcesses checks nproc against the launch type and the GPUs.
func (c *checker) launchProcesses(where string, t *jobspec.Task) {
	l := t.Launch
	switch {
	case l.Nproc != 0 && l.NprocGPU:
		c.add(jobspec.CodeConflict, where+".nproc", "keep one of them", "nproc = %d contradicts one process per GPU", l.Nproc)
	case l.Type == "per_gpu" && l.Nproc != 0:
		c.add(jobspec.CodeConflict, where+".nproc", `leave nproc out, or use type = "slurm"`,
			"launch type per_gpu starts one process per GPU")
	case (l.Type == "single" || l.Type == "") && (l.Nproc > 1 || l.NprocGPU):
		c.add(jobspec.CodeConflict, where+".nproc", `use type = "slurm", "per_gpu" or "torchrun"`,
			"launch type single starts one process")
	case (l.NprocGPU || l.Type == "per_gpu") && t.Resources.GPUs == 0:
		c.add(jobspec.CodeNoGPUs, where, "ask for GPUs in resources: gpus = 1",
			"the task asks for one process per GPU, but has no GPUs")
	}
}

func (c *checker) resources(where string, r *jobspec.Resources) {
	if r.Cores != 0 {
		c.between(where+".cores", r.Cores, 1, c.maxCores())
	}
	least := jobspec.MinMemory
	if c.scheduling {
		least = 1
	}
	c.size(where+".memory", r.Memory, least)
	c.between(where+".gpus", r.GPUs, 0, jobspec.MaxGPUs)
	c.gpu(where+".gpu", r)
	if _, err := strconv.Atoi(r.RDMA); err == nil {
		c.add(jobspec.CodeUnsupported, where+".rdma", `write "all"`, "a number of RDMA devices is not supported yet")
	} else {
		c.choice(where+".rdma", r.RDMA, "none", "all")
	}
	memory := r.Memory
	if memory == 0 {
		memory = jobspec.Bytes(max(r.Cores, 1)) * jobspec.DefaultMemoryPerCore
	}
	for _, part := range []struct {
		name string
		size jobspec.Bytes
	}{{"shm", r.Shm}, {"tmp", r.Tmp}} {
		c.size(where+"."+part.name, part.size, 1)
		if part.size > memory && memory > 0 {
			c.add(jobspec.CodeConflict, where+"."+part.name, "request more memory: files there count as memory",
				"%s (%v) is larger than memory (%v)", part.name, part.size, memory)
		}
	}
}

// maxCores returns the most cores that a worker may request.
func (c *checker) maxCores() int {
	if c.scheduling {
		return jobspec.MaxNodeCores
	}
	return jobspec.MaxCores
}

func (c *checker) gpu(where string, r *jobspec.Resources) {
	g := r.GPU
	if g == nil {
		return
	}
	if r.GPUs == 0 && !c.scheduling {
		c.add(jobspec.CodeNoGPUs, where, "write count = 1", "the gpu block has conditions, but count is 0")
	}
	c.choice(where+".vendor", g.Vendor, "nvidia")
	c.atMost(where+".model", len(g.Model), 128, "bytes")
	c.plainText(where+".model", g.Model)
	c.size(where+".min_memory", g.MinMemory, 1)
	if !c.scheduling { // simulated jobs use no memory
		c.gpuShare(where, r)
	}
}

// gpuShare checks a request for a part of a GPU.
func (c *checker) gpuShare(where string, r *jobspec.Resources) {
	g := r.GPU
	switch {
	case g.Share == 0 && g.MaxMemory != 0:
		c.add(jobspec.CodeConflict, where+".max_memory", "leave max_memory out, or write share = 0.5",
			"max_memory is only for parts of GPUs: a job with a whole GPU has all of its memory")
		return
	case g.Share == 0:
		return
	case g.Share < 0 || g.Share >= jobspec.WholeGPU:
		c.add(jobspec.CodeRange, where+".share", "write 0.001 to 0.999, or leave share out for whole GPUs",
			"%d thousandths are not a part of a GPU", g.Share)
		return
	case r.GPUs != 1:
		c.add(jobspec.CodeConflict, where+".share", "write count = 1, or leave share out",
			"a share is a part of one GPU, not of %d: several GPUs of a worker are always whole", r.GPUs)
	}
	switch {
	case *g == jobspec.GPU{Share: g.Share, MaxMemory: jobspec.PartOfMemory}: // gpus = 0.5
	case g.MaxMemory == 0 || g.MaxMemory == jobspec.PartOfMemory:
		c.add(jobspec.CodeRequired, where+".max_memory", fmt.Sprintf(`write max_memory = "10GiB", the most GPU memory that `+
			`the job uses, or gpus = %v without a block for an equal part of the memory`, g.ShareText()),
			"a job with a part of a GPU must declare its GPU memory, because jobs share a GPU by memory")
	default:
		c.size(where+".max_memory", g.MaxMemory, jobspec.MiB)
	}
}

// shares checks that a task with a part of a GPU is the only task of its group with GPUs. It also
// refuses job properties that exclude such a task.
func (c *checker) shares(where string, g *jobspec.Group, j *jobspec.Job) {
	with, share := 0, -1
	for i := range g.Tasks {
		if r := &g.Tasks[i].Resources; r.GPUs > 0 {
			if with++; r.GPU != nil && r.GPU.Share > 0 {
				share = i
			}
		}
	}
	if share < 0 {
		return
	}
	at := c.elementPath(where+".tasks", share) + ".resources.gpu.share"
	if with > 1 {
		c.add(jobspec.CodeUnsupported, at, "give GPUs to only one task of the group, or leave share out",
			"if a task has a part of a GPU, no other task of the worker can have GPUs yet")
	}
	if g.Exclusive {
		c.add(jobspec.CodeConflict, at, "leave out share or exclusive",
			"a job with whole nodes cannot have a part of a GPU")
	}
	if p := j.Preemption; p != nil && p.Mode == jobspec.PreemptSuspend {
		c.add(jobspec.CodeUnsupported, at, "leave out share or mode",
			"suspending a job with a part of a GPU is not supported yet")
	}
}

// sortedKeys returns the keys of a map sorted, so that problems have a fixed order.
func sortedKeys(m map[string]string) []string {
	if len(m) == 0 { // the usual case
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}
