// Package script turns a batch script with Slurm's directives into a job: #SBATCH and #ROTA lines, the flags of a command line that looks like
// sbatch's, and the variables SBATCH_*. It is pure: scripts, variables and the time come in as arguments.
//
// Whatever a flag asks for is either done, or told: there is no flag that is passed over in silence. A [Problem] says whether something is
// not understood (a mistake), would not be done (refused), or is left out or done otherwise with no harm (a warning).
//
// Rota has no batch step that starts steps on other nodes. Every worker of a job runs the same program. A script that starts nothing with
// srun runs once, as in Slurm. One that prepares its environment and then starts one step on all its tasks is run by every rank, with the
// command in the place of srun. Anything else is refused, with its line.
package script

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Options is what a script's meaning depends on beside its text.
type Options struct {
	Name   string                      // of the script; the job is called so when nobody says otherwise
	Args   []string                    // for the script, as $1 and so on
	Dir    string                      // the directory of submission, for --chdir; "": only absolute paths are taken
	Flags  []Flag                      // of the command line, which win over everything
	Getenv func(string) (string, bool) // for SBATCH_*, which win over directives; nil: there are none
	Clock  Clock                       // for --begin and --deadline
}

// Flag is one flag of the command line.
type Flag struct {
	Name  string // without hyphens
	Value string
	Has   bool // a value was written
}

// Result is what a script says.
type Result struct {
	Job      *jobspec.Job // with its defaults; nil if there is a mistake
	Problems Problems     // in the order of the script

	Wait, Parsable, TestOnly bool

	// BeginsAhead and DeadlineAhead are set when the job's begin or deadline were told from now, as in now+1hour.
	BeginsAhead, DeadlineAhead jobspec.Seconds
}

// The places where flags come from, the weakest first.
const (
	fromSlurm = iota + 1
	fromRota
	fromVariable
	fromCommand
)

// Wrap is the script that stands for a command, as sbatch --wrap makes it.
func Wrap(command string) []byte { return []byte("#!/bin/sh\n" + command + "\n") }

// Read reads a script.
func Read(src []byte, opts Options) Result {
	result := Result{}
	a := newAsked(&result, &opts, &jobspec.Job{})
	t := readText(src, a.notes)
	if t == nil {
		result.Problems = a.list
		return result
	}
	a.take(append(a.directives(t), a.outside()...))
	s := a.shape()
	p := a.follow(t, s)
	a.fill(t, s, p)
	if !a.list.Has(Mistake) {
		a.check()
	}
	result.Problems = a.sorted()
	if !result.Problems.Has(Mistake) {
		a.job.Default()
		result.Job = a.job
	}
	return result
}

func newAsked(result *Result, opts *Options, job *jobspec.Job) *asked {
	return &asked{notes: &notes{}, opts: opts, result: result, job: job, said: map[string]setting{}}
}

// maxFlags bounds how many flags a script has.
const maxFlags = 1000

// directives are the flags of the script itself.
func (a *asked) directives(t *text) []setting {
	var list []setting
	for _, d := range t.flags {
		if len(a.list) == maxProblems {
			break
		}
		if len(list)+len(d.words) > maxFlags {
			a.at(Mistake, CodeWords, d.line, "", "there are more than %d flags", maxFlags)
			break
		}
		layer := fromSlurm
		if d.own {
			layer = fromRota
		}
		g := &getopt{specs: table, each: func(given string, spec *Spec, value string, has bool) {
			list = append(list, setting{spec: spec, given: given, value: value, has: has, line: d.line, layer: layer})
		}, bad: func(code, given, hint, text string) {
			a.add(Problem{Kind: Mistake, Code: code, Line: d.line, Flag: given, Text: text, Hint: hint})
		}}
		switch rest := g.read(d.words); {
		case len(rest) > 0 && rest[0] == ":":
			a.at(Refused, CodeHetJob, d.line, "write a job file: one group for each component, and gang_scope = \"job\"", "the components of a heterogeneous job cannot be said in a script")
		case len(rest) > 0:
			a.at(Mistake, CodeWords, d.line, "flags begin with -, and their values follow at once", "%q is no flag", excerpt(rest[0]))
		}
	}
	return list
}

// outside are the flags that are not in the script.
func (a *asked) outside() []setting {
	var list []setting
	for i := range table {
		spec := &table[i]
		if spec.Env == "" || a.opts.Getenv == nil {
			continue
		}
		if value, set := a.opts.Getenv(spec.Env); set && (value != "" || spec.Takes != Value) {
			if spec.Takes == Nothing || value == "1" && spec.Takes == Perhaps {
				value = ""
			}
			list = append(list, setting{spec: spec, given: "--" + spec.Name, value: value, has: value != "", where: spec.Env, layer: fromVariable})
		}
	}
	return append(list, a.commandLine()...)
}

func (a *asked) commandLine() []setting {
	var list []setting
	for _, f := range a.opts.Flags {
		i := slices.IndexFunc(table, func(s Spec) bool { return slices.Contains(s.names(), f.Name) })
		if i < 0 {
			a.add(Problem{Kind: Mistake, Code: CodeUnknown, Where: "command line", Flag: "--" + f.Name, Text: "is not a flag that is known here"})
			continue
		}
		list = append(list, setting{spec: &table[i], given: "--" + f.Name, value: f.Value, has: f.Has, where: "command line", layer: fromCommand})
	}
	return list
}

// take carries the flags out, the weakest first. Of one flag only the last in the strongest place counts.
func (a *asked) take(all []setting) {
	slices.SortStableFunc(all, func(x, y setting) int { return x.layer - y.layer })
	last := map[*Spec]int{}
	for i, s := range all {
		last[s.spec] = i
	}
	for i, s := range all {
		if last[s.spec] != i {
			continue
		}
		a.said[s.spec.Name] = s
		switch s.spec.kind {
		case Warning:
			a.about(Warning, CodeIgnored, s, "", "is left out: %s", s.spec.instead)
		case Refused:
			a.about(Refused, CodeNotHere, s, s.spec.instead, "is not supported")
		default:
			s.spec.read(a, s)
		}
	}
}

// check asks the rules of all jobs.
func (a *asked) check() {
	problems := a.job.Validate()
	if a.opts.Clock.Civil != nil {
		problems = append(problems, a.job.ValidateAt(a.opts.Clock.Now)...)
	}
	for _, p := range problems {
		place, by, found := a.blame(p.Path)
		text := p.Text
		if place != "" && (!found || p.Code == jobspec.CodeRange) { // a bare number does not say what it is
			text = place + ": " + text
		}
		if found {
			a.about(Mistake, p.Code, by, p.Hint, "%s: %s", cutShort(by.value), text)
		} else {
			a.add(Problem{Kind: Mistake, Code: p.Code, Text: text, Hint: p.Hint})
		}
	}
	for _, p := range a.job.Warnings() {
		if p.Code == jobspec.CodeTryTooMuch {
			a.add(Problem{Kind: Warning, Code: p.Code, Text: p.Text, Hint: p.Hint})
		}
	}
}

// fill makes the job of what was asked for.
func (a *asked) fill(t *text, s shape, p plan) {
	j := a.job
	j.Name = a.jobName()
	if j.Export = a.exports; a.exports == nil {
		j.Export = []string{"*"} // what sbatch does
	}
	task := jobspec.Task{Name: jobspec.DefaultGroup, Resources: s.resources(a), Env: a.env, Image: a.imageDir, Mounts: a.mounted}
	task.Script = a.rewritten(t, p)
	g := jobspec.Group{Name: jobspec.DefaultGroup, Count: s.nodes, Exclusive: a.wholeNodes.spec != nil}
	a.warnOfWholeNodes(s)
	if p.mode != once {
		task.Launch = &jobspec.Launch{Type: "slurm", Nproc: p.tasks}
	} else if s.all() > 1 {
		task.Env = withTasks(task.Env, s)
	}
	if a.goOn {
		g.OnWorkerFailure = "ignore"
	}
	a.stopping(&task)
	if p.repeat && j.Checkpoint == nil {
		j.Checkpoint = &jobspec.Checkpoint{}
	}
	task.Log = a.log(s.nodes)
	a.listedNodes(s.nodes)
	g.Tasks = []jobspec.Task{task}
	j.Groups = []jobspec.Group{g}
}

// warnOfWholeNodes says that a script which asks for whole nodes, and for no number of cores, does not get all that they have.
func (a *asked) warnOfWholeNodes(s shape) {
	if a.wholeNodes.spec != nil && a.cpus.n+a.cpusPerGPU.n+a.minCPUs.n+a.ntasks.n+a.perNode.n+a.perGPU.n == 0 {
		a.about(Warning, CodeChanged, a.wholeNodes, "ask for them: -c, and --gpus-per-node for GPUs", "keeps others away, and the job gets %d of a node's cores and %d of its GPUs; in Slurm it gets all",
			s.cores, s.gpus)
	}
}

// stopping says how the job is asked to stop.
func (a *asked) stopping(task *jobspec.Task) {
	if a.killSignal == "" {
		return
	}
	task.KillSignal, task.KillTimeout = a.killSignal, a.killSeconds
	a.job.Preemption = &jobspec.Preemption{Signal: a.killSignal, GracePeriod: a.killSeconds}
}

// withTasks tells a script that runs once how many tasks were asked for, so that mpirun -n $SLURM_NTASKS does what it does in Slurm.
func withTasks(env map[string]string, s shape) map[string]string {
	out := map[string]string{
		"SLURM_NTASKS": itoa(s.tasks), "SLURM_NPROCS": itoa(s.tasks), "SLURM_NTASKS_PER_NODE": itoa(s.tasks), "SLURM_TASKS_PER_NODE": itoa(s.tasks),
		"SLURM_CPUS_PER_TASK": itoa(max(s.cores/s.tasks, 1)),
	}
	for name, value := range env {
		out[name] = value
	}
	return out
}

// listedNodes warns when the list of nodes is not what the job takes.
func (a *asked) listedNodes(count int) {
	if a.listed.spec == nil {
		return
	}
	if names, ok := a.hosts(a.listed); ok && len(names) != count {
		a.warn(a.listed, "%s: the job runs on %d of these %d nodes; Slurm takes all of them, and others if they are too few", cutShort(a.listed.value), count, len(names))
	}
}

// jobName is what the flags say, or the script's file name, with what a name may not have replaced.
func (a *asked) jobName() string {
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
		a.at(Warning, CodeChanged, 0, "", "the job is called %s: a name has letters, digits, '.', '_' and '-', at most 63", name)
	}
	return name
}

// log is where the output goes: slurm-ID.out in the working directory when nobody says otherwise, as scripts and their authors expect.
func (a *asked) log(nodes int) *jobspec.Log {
	l := &jobspec.Log{Mode: a.mode}
	usual := "slurm-%j.out"
	if a.job.Array != nil {
		usual = "slurm-%A_%a.out"
	}
	if a.stdout == "" {
		a.stdout = usual
	}
	l.Stdout = a.pattern(a.stdout, nodes)
	if a.stderr != "" && a.stderr != a.stdout {
		apart := false
		l.Join, l.Stderr = &apart, a.pattern(a.stderr, nodes)
	}
	return l
}

// pattern is where one stream goes. Several workers cannot write one file.
func (a *asked) pattern(text string, nodes int) string {
	if text == "/dev/null" {
		a.at(Warning, CodeChanged, 0, "", "output to /dev/null is kept by the node: rota logs shows it")
		return ""
	}
	if plain, found := strings.CutPrefix(text, `\\`); found {
		return strings.ReplaceAll(plain, "%", "%%")
	}
	text = strings.NewReplacer("%%", "%%", "%J", "%j").Replace(text)
	if nodes < 2 || ofWorker.MatchString(strings.ReplaceAll(text, "%%", "")) {
		return text
	}
	ext := path.Ext(text)
	if strings.ContainsAny(ext, "%/") {
		ext = ""
	}
	each := strings.TrimSuffix(text, ext) + "-%n" + ext
	a.at(Warning, CodeChanged, 0, "", "each of the %d workers writes its own file, %s", nodes, each)
	return each
}

// ofWorker finds what differs between the workers of a job in a pattern without %%.
var ofWorker = regexp.MustCompile(`%[0-9]*[nNt]`)
