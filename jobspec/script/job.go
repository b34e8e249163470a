package script

import (
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// fillJob fills in the job from the flags.
func (a *request) fillJob(t *text, s shape) {
	j := a.job
	j.Name = a.jobName()
	if j.Export = a.exports; a.exports == nil {
		j.Export = []string{"*"} // sbatch exports all variables by default
	}
	g := a.group(s)
	task := &g.Tasks[0]
	task.Script = a.scriptText(t)
	a.launch(task, s)
	a.setStopSignal()
	if j.Checkpoint == nil && a.noRequeue.spec == nil {
		j.RequeueExit = jobspec.DefaultCheckpointExitCode
	}
	task.Log = a.logFiles()
	j.Groups = []jobspec.Group{g}
}

// group returns the group of a component; its task runs nothing yet.
func (a *request) group(s shape) jobspec.Group {
	task := jobspec.Task{Name: jobspec.DefaultGroup, Resources: s.resources(), Env: a.env, Image: a.imageDir,
		Mounts: a.mounted}
	g := jobspec.Group{Name: jobspec.DefaultGroup, Count: s.nodes, MaxWorkersPerNode: 1, Exclusive: a.ownsNodes(s)}
	a.warnOfNodeList(s.nodes)
	a.checkWanted(s.nodes)
	g.Tasks = []jobspec.Task{task}
	return g
}

// ownsNodes reports whether the job gets whole nodes. It adds a problem if one resource was
// requested in two ways. It does so too if the job requests no GPUs, because Slurm gives them with
// --exclusive.
func (a *request) ownsNodes(s shape) bool {
	if a.allMemory.spec != nil {
		for _, other := range []*counted{&a.memPerCPU, &a.memPerGPU} {
			if other.n > 0 && other.by.layer == a.allMemory.layer {
				a.conflict(other.by, "keep one of them", "and %s exclude each other", a.allMemory.shown())
			}
		}
	}
	if a.wholeNodes.spec != nil && s.gpus == 0 && a.gpuGres.by.spec == nil {
		a.addFlag(Warning, CodeChanged, a.wholeNodes, "ask for GPUs with --gpus-per-node, or say --gres=none",
			"gives the job all cores and all memory of its nodes, but no GPUs; in Slurm it would get these too")
	}
	return a.wholeNodes.spec != nil || a.allMemory.spec != nil
}

// longestGrace is the longest grace period of a preempted job in a queue without its own limit; a
// longer period would be refused.
const longestGrace = jobspec.Seconds(20 * 60)

// setStopSignal sets the signal before the time limit, the signal at preemption, and whether the
// job can be requeued. Without --no-requeue, a script requests a requeue by exit code 85.
func (a *request) setStopSignal() {
	j := a.job
	preemption, checkpoint := jobspec.Preemption{}, jobspec.Checkpoint{}
	if j.Preemption != nil {
		preemption = *j.Preemption
	}
	if j.Checkpoint != nil {
		checkpoint = *j.Checkpoint
	}
	if a.early.Name != "" {
		preemption.Signal, preemption.GracePeriod = a.early.Name, min(a.early.Ahead, longestGrace)
		if a.early.Ahead > longestGrace {
			a.warnChanged(a.earlyFlag, "%v is the time before the limit: when the job is preempted, it has %v to save",
				a.early.Ahead,
				longestGrace)
		}
		preemption.SignalTo = jobspec.SignalPrograms
		if a.early.Batch {
			preemption.SignalTo = jobspec.SignalScript
		}
		checkpoint.BeforeLimit = a.early.Ahead
		if j.RequeueExit != 0 {
			checkpoint.ExitCode, j.RequeueExit = int(j.RequeueExit), 0
		}
		j.Preemption, j.Checkpoint = &preemption, &checkpoint
	}
	if a.noRequeue.spec != nil {
		preemption.Requeue = new(bool)
		j.Preemption = &preemption
	}
}

// withVariable adds a variable unless the list has it.
func withVariable(env map[string]string, name, value string) map[string]string {
	if _, given := env[name]; given {
		return env
	}
	out := map[string]string{name: value}
	maps.Copy(out, env)
	return out
}

// warnOfNodeList warns when --nodelist has more or fewer nodes than the job needs.
func (a *request) warnOfNodeList(count int) {
	if a.listed.spec == nil {
		return
	}
	if names, ok := a.hosts(a.listed); ok && len(names) != count {
		a.warnChanged(a.listed,
			"%s: the job runs on %d of these %d nodes; Slurm would take all of them, and more if they are too few",
			cutShort(a.listed.value), count, len(names))
	}
}

// jobName returns the name in the flags, or the file name of the script with invalid characters
// replaced.
func (a *request) jobName() string {
	given := a.name
	if given == "" {
		given = path.Base(a.opts.Name)
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, given)
	name = strings.Trim(name[:min(len(name), 63)], "._-")
	if name == "" {
		name = "job"
	}
	if a.name != "" && name != a.name {
		a.addLine(Warning, CodeChanged, 0, "",
			"the job is called %s: a name has letters, digits, '.', '_' and '-', at most 63", name)
	}
	return name
}

// logFiles returns the paths of the output files. As in Slurm, the default is slurm-ID.out in the
// working directory.
func (a *request) logFiles() *jobspec.Log {
	l := &jobspec.Log{Mode: a.mode}
	usual := "slurm-%j.out"
	if a.job.Array != nil {
		usual = "slurm-%A_%a.out"
	}
	if a.stdout == "" {
		a.stdout = usual
	}
	l.Stdout = a.logPattern(a.stdout, 1)
	if a.stderr != "" && a.stderr != a.stdout {
		apart := false
		l.Join, l.Stderr = &apart, a.logPattern(a.stderr, 1)
	}
	return l
}

// logPattern returns the path pattern of one stream. Several workers cannot write the same file.
func (a *request) logPattern(text string, writers int) string {
	if text == "/dev/null" {
		a.addLine(Warning, CodeChanged, 0, "", "the node keeps output to /dev/null: rota logs shows it")
		return ""
	}
	if plain, found := strings.CutPrefix(text, `\\`); found {
		return strings.ReplaceAll(plain, "%", "%%")
	}
	text = strings.NewReplacer("%%", "%%", "%J", "%j").Replace(text)
	if writers < 2 || ofWorker.MatchString(strings.ReplaceAll(text, "%%", "")) {
		return text
	}
	ext := path.Ext(text)
	if strings.ContainsAny(ext, "%/") {
		ext = ""
	}
	each := strings.TrimSuffix(text, ext) + "-%n" + ext
	a.addLine(Warning, CodeChanged, 0, "", "each of the %d workers writes its own file, %s", writers, each)
	return each
}

// ofWorker finds a letter in a pattern (without %%) whose value differs between the workers of a
// job.
var ofWorker = regexp.MustCompile(`%[0-9]*[nNt]`)
