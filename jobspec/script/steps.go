package script

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// mode is who runs the script.
type mode int

const (
	once      mode = iota // one process, as in Slurm
	eachRank              // every rank, because what it starts with srun is what every rank is to run
	eachGuess             // the same, for want of something better: the script was refused
)

// plan is how the script of a job is run.
type plan struct {
	mode   mode
	tasks  int // of each worker
	edits  []edit
	ownGPU int  // GPUs that each rank is to see, those of its own number
	shared int  // or ranks that see the same GPU
	repeat bool // it asks to be requeued
	hosts  bool // it asks for the names of its nodes
}

// edit replaces a part of the script.
type edit struct {
	begin, end int
	text       string
}

// step is one srun of a script.
type step struct {
	command
	options map[string]string // by name
	begins  int               // where the command begins that it starts
	args    []word            // that command
}

// follow finds out what a script starts, and how that can be done without a batch script that starts steps from the first node. Rota starts
// the same thing on every worker, so a script that prepares something and then starts one step on all its tasks is run by every rank,
// with the command of that step in the place of srun.
func (a *asked) follow(t *text, s shape) plan {
	p := plan{tasks: s.tasks}
	from := 0
	for _, line := range t.lines[:t.body] {
		from += len(line) + 1
	}
	if !shellScript(t.shebang) {
		a.alone(t, s, &p)
		return p
	}
	sh := parse(t.src, min(from, len(t.src)))
	f := &follower{asked: a, text: t, shape: s, plan: &p, shell: sh, lines: map[int]bool{}}
	f.find()
	f.decide()
	return p
}

// alone is the plan for a script in which no steps can be found.
func (a *asked) alone(t *text, s shape, p *plan) {
	if s.nodes > 1 {
		a.at(Refused, CodeStep, t.body+1, "start it with srun from a shell script", "the job has %d nodes, and nothing is started on all but the first", s.nodes)
		p.mode = eachGuess
	}
}

// follower looks at what a script starts.
type follower struct {
	*asked
	text  *text
	shape shape
	plan  *plan
	shell *shell

	launches []step       // steps on all tasks
	singles  []step       // steps of one task
	mpi      []command    // mpirun and its like
	lines    map[int]bool // of steps
}

// Programs of Slurm that a node need not have.
var slurmPrograms = []string{"sbatch", "salloc", "squeue", "scancel", "sacct", "sinfo", "sattach", "sbcast", "sgather", "sstat", "seff", "sacctmgr", "strigger"}

var mpiPrograms = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "ibrun", "aprun", "jsrun"}

func (f *follower) find() {
	for _, c := range f.shell.out {
		c = unwrapped(c)
		switch name := c.name(); {
		case name == "srun":
			f.srun(c)
		case slices.Contains(mpiPrograms, name):
			f.mpi = append(f.mpi, c)
		case name == "scontrol":
			f.scontrol(c)
		case slices.Contains(slurmPrograms, name):
			f.at(Warning, CodeUnclear, c.line, "use rota there if the nodes have it", "%s is a program of Slurm, which the nodes need not have", name)
		}
	}
	for _, v := range f.shell.assignments {
		value := strings.TrimLeft(v.value, `"'`)
		if value == "srun" || strings.HasPrefix(value, "srun ") {
			f.at(Refused, CodeStep, v.line, "write srun in front of the command itself", "srun in the variable %s cannot be followed", v.name)
		}
	}
}

// unwrapped takes timeout and its like off the front.
func unwrapped(c command) command {
	if c.name() == "timeout" {
		for i := 1; i < len(c.words); i++ {
			if w := c.words[i].raw; w[0] != '-' && i+1 < len(c.words) && (w[0] >= '0' && w[0] <= '9' || w[0] == '$') {
				c.words = c.words[i+1:]
				return c
			}
		}
	}
	return c
}

func (f *follower) scontrol(c command) {
	verb, what := "", ""
	if len(c.words) > 1 {
		verb = c.words[1].plain()
	}
	if len(c.words) > 2 {
		what = c.words[2].plain()
	}
	switch {
	case verb == "show" && (what == "hostnames" || what == "hostname"):
		f.plan.hosts = true
	case verb == "requeue":
		f.plan.repeat = true
		f.at(Warning, CodeChanged, c.line, "", "the script ends there with exit code 85, which asks for the job to be started again; a job that is at its time limit is not")
	default:
		f.at(Warning, CodeUnclear, c.line, "", "scontrol %s is not there when the job runs: only show hostnames and requeue are", verb)
	}
}

// maxSteps bounds how many steps of a script are looked at.
const maxSteps = 1000

// srun reads one step.
func (f *follower) srun(c command) {
	if len(f.launches)+len(f.singles) == maxSteps {
		f.at(Refused, CodeStep, c.line, "split the script", "more than %d steps cannot be followed", maxSteps)
		return
	}
	f.lines[c.line] = true
	st := step{command: c, options: map[string]string{}}
	raw := make([]string, len(c.words)-1)
	for i, w := range c.words[1:] {
		raw[i] = strings.Trim(w.raw, `"'`)
	}
	good := true
	g := &getopt{specs: srunTable, each: func(_ string, spec *Spec, value string, _ bool) {
		st.options[spec.Name] = value
		switch spec.kind {
		case Refused:
			good = false
			f.at(Refused, CodeStep, c.line, spec.instead, "srun --%s cannot be followed", spec.Name)
		case Warning:
			f.at(Warning, CodeIgnored, c.line, "", "srun --%s is left out: %s", spec.Name, spec.instead)
		}
	}, bad: func(_, given, hint, text string) {
		good = false
		f.at(Refused, CodeStep, c.line, hint, "srun: %s %s", given, text)
	}}
	rest := g.read(raw)
	if st.args = c.words[len(c.words)-len(rest):]; len(rest) == 0 && good {
		f.at(Refused, CodeStep, c.line, "write what it is to start in the same line", "srun starts nothing that could be followed")
		good = false
	}
	if good && f.hidden(st) {
		return
	}
	if good {
		st.begins = st.args[0].begin
		f.sort(st)
	}
}

// hidden finds flags in a variable in front of the command.
func (f *follower) hidden(st step) bool {
	name := strings.Trim(st.args[0].raw, `"${}[@]`)
	if !strings.HasPrefix(strings.Trim(st.args[0].raw, `"`), "$") {
		return false
	}
	for _, v := range f.shell.assignments {
		if v.name == name && strings.HasPrefix(strings.TrimLeft(v.value, `"'( `), "-") {
			f.at(Refused, CodeStep, st.line, fmt.Sprintf("write the flags of line %d behind srun", v.line), "the flags of srun in $%s cannot be followed", name)
			return true
		}
	}
	return false
}

// sort tells steps on all tasks from steps of one.
func (f *follower) sort(st step) {
	tasks, known := f.tasksOf(st)
	switch {
	case !known:
	case tasks == 1:
		f.singles = append(f.singles, st)
	default:
		f.launches = append(f.launches, st)
	}
}

// tasksOf is how many tasks a step has; it refuses what the job has no room for.
func (f *follower) tasksOf(st step) (int, bool) {
	s := f.shape
	nodes := f.value(st, "nodes", s.nodes, "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
	each := f.value(st, "ntasks-per-node", s.tasks, "SLURM_NTASKS_PER_NODE")
	total := f.value(st, "ntasks", nodes*each, "SLURM_NTASKS", "SLURM_NPROCS", "WORLD_SIZE")
	if _, said := st.options["ntasks"]; !said && nodes == 1 && s.nodes > 1 && st.options["ntasks-per-node"] == "" {
		total = 1
	}
	switch {
	case total > s.all() || nodes > s.nodes:
		f.at(Refused, CodeStep, st.line, "ask for as many in the script's flags", "the step has %d tasks on %d nodes, and the job %d on %d", total, nodes, s.all(), s.nodes)
	case total == 1:
		return 1, true
	case total%s.nodes != 0 || nodes != s.nodes:
		f.at(Refused, CodeStep, st.line, "start it on all nodes, with the same number of tasks on each", "a step of %d tasks on %d of %d nodes cannot be started", total, nodes, s.nodes)
	default:
		return total, true
	}
	return 0, false
}

// value reads a number of a step. A variable that stands for the job's own is that; another is taken for it with a warning.
func (f *follower) value(st step, name string, usual int, variables ...string) int {
	text, said := st.options[name]
	if !said {
		return usual
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= mostNumber {
		return n
	}
	if !slices.Contains(variables, strings.Trim(text, "${}")) {
		f.at(Warning, CodeUnclear, st.line, "", "srun --%s=%s is taken to be %d, as the job has", name, text, usual)
	}
	return usual
}

func (f *follower) decide() {
	s := f.shape
	if s.all() == 1 || s.nodes == 1 && len(f.launches) == 0 {
		for _, st := range append(slices.Clone(f.singles), f.launches...) {
			f.inPlace(st)
		}
		return
	}
	f.plan.mode = eachRank
	main := f.main()
	switch {
	case len(f.mpi) > 0 && s.nodes == 1:
		f.at(Refused, CodeStep, f.mpi[0].line, "start everything with one of them", "a script that uses srun for all tasks and %s cannot be run", f.mpi[0].name())
	case len(f.mpi) > 0:
		f.at(Refused, CodeStep, f.mpi[0].line, "start the program with srun, if its MPI finds its ranks by itself; programs of one node may use mpirun",
			"%s starts processes on several nodes, which is not supported yet", f.mpi[0].name())
	case main == nil && len(f.launches) == 0 && len(f.singles) > 0:
		f.at(Refused, CodeStep, f.singles[0].line, "write a job file with a group for each program, and gang_scope = \"job\"",
			"a script that starts programs on its nodes one by one cannot be run")
	case main == nil && len(f.launches) == 0 && !f.list.Has(Refused):
		f.at(Refused, CodeStep, f.text.body+1, "write srun in front of the command that every node is to run",
			"the job has %d nodes, and the script starts nothing on all but the first", s.nodes)
	case main != nil:
		f.each(main)
		return
	}
	f.plan.mode = eachGuess
	for _, st := range f.launches {
		f.inPlace(st)
	}
}

// main is the one step that does the work.
func (f *follower) main() *step {
	var main *step
	for i := range f.launches {
		st := &f.launches[i]
		if harmless(st.args) {
			continue
		}
		if main != nil {
			f.at(Refused, CodeStep, st.line, "submit a script for each step, with --dependency=afterok:ID",
				"the script starts several steps on all tasks (line %d is one), which would not wait for each other", main.line)
			return nil
		}
		main = st
	}
	if main == nil && len(f.launches) > 0 {
		main = &f.launches[len(f.launches)-1]
	}
	if main != nil && (main.block || main.inside) {
		f.at(Refused, CodeStep, main.line, "start it on a line of its own, as the last thing that the script does",
			"a step on all tasks that is within a loop, a condition or another command cannot be started")
		return nil
	}
	return main
}

// each makes a script that every rank can run.
func (f *follower) each(main *step) {
	total, _ := f.tasksOf(*main)
	f.plan.tasks = max(total/f.shape.nodes, 1)
	for i := range f.launches {
		f.inPlace(f.launches[i])
	}
	for _, st := range f.singles {
		if st.inside && st.args[0].plain() == "hostname" {
			f.plan.edits = append(f.plan.edits, edit{st.words[0].begin, st.end, `echo "$ROTA_MASTER_ADDR"`})
			f.at(Warning, CodeChanged, st.line, "", "the address of the first node is taken, instead of a step that asks for it")
			continue
		}
		f.at(Refused, CodeStep, st.line, "leave it out, or submit it as a job of its own", "a step of one task in a job of %d cannot be started", f.shape.all())
	}
	f.ownGPUs(main)
	if f.shape.all() > 1 {
		f.around(main)
	}
}

// ownGPUs lets each rank see its own GPUs alone, where they were asked for by the task.
func (f *follower) ownGPUs(main *step) {
	s := f.shape
	if n, err := strconv.Atoi(main.options["gpus-per-task"]); err == nil && n > 0 && n <= s.gpus/f.plan.tasks {
		f.plan.ownGPU = n
		return
	}
	switch {
	case s.tasks < 2 || f.seeAll || s.perTask == 0 && f.perGPU.n == 0:
	case f.plan.tasks != s.tasks:
		f.at(Warning, CodeChanged, 0, "let each choose by $SLURM_LOCALID", "every task of the step sees all %d GPUs of its worker, not only its own", s.gpus)
	case s.perTask > 0:
		f.plan.ownGPU = s.perTask
	case s.gpus == s.tasks:
		f.plan.ownGPU = 1
	case s.gpus*f.perGPU.n == s.tasks:
		f.plan.shared = f.perGPU.n
	}
}

// around looks at what the script does beside its step, which Slurm does once and every rank will do.
func (f *follower) around(main *step) {
	f.oneFile(main)
	last := 0
	for _, c := range f.shell.out {
		switch {
		case c.begin >= main.begin && c.end <= main.end || f.lines[c.line] || setup(c) || c.line == last:
		case c.begin < main.begin:
			last = c.line
			f.at(Warning, CodeEachRank, c.line, "", "every rank runs this line for itself; in Slurm it runs once, before the step")
		default:
			last = c.line
			f.at(Refused, CodeStep, c.line, "do it in a job of its own that waits for this one", "this is to run once, when the step has ended, and every rank would run it")
		}
	}
}

// oneFile warns of a file that every rank makes anew: in Slurm the step has one output, which goes there.
func (f *follower) oneFile(main *step) {
	var files []string
	for _, o := range f.shell.outputs {
		if o.of == main.begin {
			files = append(files, o.file)
		}
	}
	end := f.shell.lineEnd(main.end)
	for _, c := range f.shell.out {
		if c.begin > main.end && c.begin < end && c.name() == "tee" && len(c.words) > 1 && !strings.HasPrefix(c.words[1].raw, "-") {
			files = append(files, c.words[1].raw)
		}
	}
	for _, file := range files {
		if !strings.HasPrefix(file, "/dev/") && !ofRank.MatchString(file) {
			f.at(Warning, CodeEachRank, main.line, "write it to a file of each rank, such as out-$SLURM_PROCID.txt, or leave it to --output",
				"every rank makes %s anew for itself; in Slurm the output of all goes there", cutShort(file))
		}
	}
}

// ofRank finds what differs between ranks in the name of a file.
var ofRank = regexp.MustCompile(`PROCID|LOCALID|NODEID|RANK|(?i:hostname)|\$\$`)

// setupCommands do nothing that it would harm to do on every rank.
var setupCommands = strings.Fields(`echo printf date export source . module ml conda mamba micromamba spack set unset cd ulimit umask trap alias declare readonly local typeset
	eval nvidia-smi hostname pwd which type printenv env cat head tail grep sed awk cut tr sort uniq wc ls test [ [[ true false : wait exit return for case in shift hash
	command pyenv activate deactivate micromamba basename dirname realpath readlink nproc free lscpu uname whoami id getent ip ping sleep scontrol function pushd popd
	mkdir nvcc python3-config ibstat ibv_devinfo numactl jobs shopt let read seq expr paste xargs tee scontrol squeue kill`)

func setup(c command) bool {
	name := c.name()
	return slices.Contains(setupCommands, name) || strings.HasPrefix(name, "$") && len(c.words) == 1 || name == "python" && len(c.words) == 2 && strings.HasPrefix(c.words[1].raw, "-V")
}

// harmless reports whether a step only shows something.
func harmless(args []word) bool {
	return slices.Contains([]string{"hostname", "echo", "date", "nvidia-smi", "env", "printenv", "true", "uname", "ibstat", "lscpu", "pwd", "id", "which", "cat", "nvcc"}, args[0].plain())
}

// inPlace puts the command of a step into the place of the step.
func (f *follower) inPlace(st step) {
	kept := ""
	for i := 0; st.words[i].begin < st.begins; i++ {
		w, next := st.words[i], st.words[i+1]
		kept += strings.Repeat("\\\n", strings.Count(w.raw, "\\\n")) // the lines keep their numbers
		between := strings.Trim(f.text.src[w.end:next.begin], " \t")
		if kept += between; between != "" && !strings.HasSuffix(between, "\n") {
			kept += " " // behind a redirection
		}
	}
	f.plan.edits = append(f.plan.edits, edit{st.words[0].begin, st.begins, kept})
	f.container(st)
	f.fewerGPUs(st)
	if v, ok := st.options["export"]; ok && (v != "ALL" && !strings.HasPrefix(v, "ALL,") || strings.Contains(v, "=")) {
		f.at(Warning, CodeIgnored, st.line, "export them in front of it", "srun --export=%s is left out: the step gets the variables of the script", v)
	}
}

// fewerGPUs warns when a step is to see less than the job has.
func (f *follower) fewerGPUs(st step) {
	s := f.shape
	for _, name := range []string{"gres", "gpus-per-node", "gpus"} {
		value, said := st.options[name]
		same := s.gpus
		if name == "gpus" {
			same *= s.nodes
		}
		if _, number, typed := cutLast(value, ":"); typed {
			value = number
		}
		if said && value != itoa(same) && s.gpus > 0 {
			f.at(Warning, CodeChanged, st.line, "set CUDA_VISIBLE_DEVICES in front of the command", "srun --%s is left out: the command sees all %d GPUs of its worker", name, s.gpus)
		}
	}
}

// container takes over the image that a step is to run in: the whole script does then.
func (f *follower) container(st step) {
	image, said := st.options["container-image"]
	if !said {
		return
	}
	for _, name := range []string{"container-image", "container-mounts", "container-workdir"} {
		value, ok := st.options[name]
		spec := find(name)
		if !ok || spec == nil {
			continue
		}
		s := setting{spec: spec, given: "--" + name, value: value, has: true, line: st.line}
		if strings.Contains(value, "$") {
			f.refuse(s, "write the path itself", "%q: a variable is not known before the job runs", value)
			continue
		}
		if name == "container-image" && f.imageDir != "" && f.imageDir != image {
			f.refuse(s, "use one image", "%q: a job has one image, and it has %s", image, f.imageDir)
			continue
		}
		spec.read(f.asked, s)
	}
	f.at(Warning, CodeChanged, st.line, "", "the whole script runs in the image, not only the step")
}

// find returns the flag of a name.
func find(name string) *Spec {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// srunTable are the flags of srun: those whose value is looked at, those that change nothing here, and those that cannot be followed.
var srunTable = func() []Spec {
	var list []Spec
	add := func(takes Takes, kind Kind, instead string, names ...string) {
		for _, name := range names {
			spec := Spec{Takes: takes, kind: kind, instead: instead, Arg: "value"}
			if long, short, both := strings.Cut(name, "/"); both {
				spec.Name, spec.Short = long, short[0]
			} else {
				spec.Name = name
			}
			list = append(list, spec)
		}
	}
	add(Value, "", "", "ntasks/n", "nodes/N", "ntasks-per-node", "cpus-per-task/c", "export", "nodelist/w", "jobid", "gres", "gpus/G", "gpus-per-node", "gpus-per-task",
		"mem", "mem-per-cpu", "mem-per-gpu", "cpu-bind", "mem-bind", "gpu-bind", "mpi", "distribution/m", "hint", "wait/W", "job-name/J", "threads-per-core", "cpus-per-gpu",
		"ntasks-per-gpu", "gpu-freq", "cpu-freq", "container-image", "container-mounts", "container-workdir", "partition/p", "account/A", "qos/q", "constraint/C")
	add(Nothing, "", "", "label/l", "unbuffered/u", "overlap", "exact", "verbose/v", "quiet/Q", "overcommit/O", "oversubscribe/s", "preserve-env/E", "disable-status/X",
		"container-remap-root", "no-container-mount-home", "container-writable", "container-readonly", "no-container-remap-root", "whole")
	add(Perhaps, "", "", "kill-on-bad-exit/K", "exclusive", "propagate", "no-kill/k", "resv-ports", "accel-bind")
	add(Value, Warning, "its output goes where the job's goes", "output/o", "error/e")
	add(Value, Warning, "the job's own limit counts", "time/t")
	add(Value, Warning, "every job has a container of its own", "container-name")
	add(Value, Refused, "write < FILE behind the command", "input/i")
	add(Nothing, Refused, "a batch job has no terminal: use rota run", "pty")
	add(Nothing, Refused, "name your home directory in --container-mounts", "container-mount-home")
	add(Nothing, Refused, "write a job file with one group for each program", "multi-prog")
	add(Value, Refused, "write a job file with one group for each component", "het-group")
	add(Value, Refused, "start the step on all nodes", "relative/r", "exclude/x")
	add(Value, Refused, "write cd in the script", "chdir/D")
	return list
}()

// shellScript reports whether the program in the first line is a shell whose language is understood.
func shellScript(shebang string) bool {
	words := strings.Fields(shebang)
	for i, w := range words {
		base := w[strings.LastIndex(w, "/")+1:]
		switch {
		case base == "env" || i > 0 && strings.HasPrefix(w, "-"):
		default:
			return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh"}, base)
		}
	}
	return false
}

// resources of one worker.
func (s shape) resources(a *asked) jobspec.Resources {
	r := jobspec.Resources{Cores: s.cores, Memory: s.memory, GPUs: s.gpus}
	if s.model != "" && s.gpus > 0 {
		r.GPU = &jobspec.GPU{Model: "*" + strings.NewReplacer("_", "?", "-", "?").Replace(s.model) + "*"}
	}
	return r
}
