package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// maxSteps bounds how many steps a script may have.
const maxSteps = 1000

// srun reads the flags of one step, and adds it to the steps.
func (f *stepReader) srun(c shell.Command) {
	if len(f.launches)+len(f.singles) == maxSteps {
		f.refuseStep(c.Line, "split the script", "more than %d steps are not supported", maxSteps)
		return
	}
	f.lines[c.Line] = true
	st := step{Command: c, options: map[string]string{}}
	raw := make([]string, len(c.Words)-1)
	for i, w := range c.Words[1:] {
		raw[i] = strings.Trim(w.Raw, `"'`)
	}
	good := true
	g := &getopt{specs: srunTable, each: func(_ string, spec *Spec, value string, _ bool) {
		st.options[spec.Name] = value
		switch spec.kind {
		case Refused:
			good = false
			f.refuseStep(c.Line, spec.instead, "srun --%s is not supported", spec.Name)
		case Warning:
			f.addLine(Warning, CodeIgnored, c.Line, "", "srun --%s is left out: %s", spec.Name, spec.instead)
		}
	}, bad: func(_, given, hint, text string) {
		good = false
		f.refuseStep(c.Line, hint, "srun: %s %s", given, text)
	}}
	rest := g.read(raw)
	if st.args = c.Words[len(c.Words)-len(rest):]; len(rest) == 0 && good {
		f.refuseStep(c.Line, "write the command on the same line", "this srun names no command")
		good = false
	}
	if good && f.refuseHiddenFlags(st) {
		return
	}
	if good {
		f.addStep(st)
	}
}

// refuseHiddenFlags refuses a step whose flags are in a variable. It reports whether it did.
func (f *stepReader) refuseHiddenFlags(st step) bool {
	name := strings.Trim(st.args[0].Raw, `"${}[@]`)
	if !strings.HasPrefix(strings.Trim(st.args[0].Raw, `"`), "$") {
		return false
	}
	for _, v := range f.shell.Assignments {
		if v.Name == name && strings.HasPrefix(strings.TrimLeft(v.Value, `"'( `), "-") {
			f.refuseStep(st.Line, fmt.Sprintf("write the flags of line %d behind srun", v.Line),
				"flags of srun in a variable ($%s) are not supported", name)
			return true
		}
	}
	return false
}

// addStep adds a step to those on all tasks or to those of one task.
func (f *stepReader) addStep(st step) {
	tasks, known := f.countTasks(st)
	switch {
	case !known:
	case tasks == 1:
		f.singles = append(f.singles, st)
	default:
		f.launches = append(f.launches, st)
	}
}

// countTasks returns how many tasks a step has. It refuses a step that does not fit into the job,
// or that runs on a part of its nodes.
func (f *stepReader) countTasks(st step) (int, bool) {
	s := f.shape
	nodes := f.stepNumber(st, "nodes", s.nodes, "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
	each := f.stepNumber(st, "ntasks-per-node", s.tasks, "SLURM_NTASKS_PER_NODE")
	total := f.stepNumber(st, "ntasks", nodes*each, "SLURM_NTASKS", "SLURM_NPROCS", "WORLD_SIZE")
	if _, given := st.options["ntasks"]; !given && nodes == 1 && s.nodes > 1 && st.options["ntasks-per-node"] == "" {
		total = 1
	}
	switch {
	case total > s.allTasks() || nodes > s.nodes:
		f.refuseStep(st.Line, "ask for them in the flags of the script",
			"the step has %d tasks on %d nodes, but the job has %d on %d", total, nodes, s.allTasks(), s.nodes)
	case total == 1:
		return 1, true
	case total%s.nodes != 0 || nodes != s.nodes:
		f.refuseStep(st.Line, "start it on all nodes, with the same number of tasks on each",
			"a step of %d tasks on %d of %d nodes is not supported", total, nodes, s.nodes)
	default:
		return total, true
	}
	return 0, false
}

// stepNumber returns a number of a step. The number of the job is taken for one of these variables,
// and with a warning for any other text.
func (f *stepReader) stepNumber(st step, name string, usual int, variables ...string) int {
	text, given := st.options[name]
	if !given {
		return usual
	}
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= mostNumber {
		return n
	}
	if !slices.Contains(variables, strings.Trim(text, "${}")) {
		f.addLine(Warning, CodeUnclear, st.Line, "", "srun --%s=%s is read as %d, the number of the job", name, text, usual)
	}
	return usual
}

// warnOfFewerGPUs warns when a step asks for fewer GPUs than the job has.
func (f *stepReader) warnOfFewerGPUs(st step) {
	s := f.shape
	for _, name := range []string{"gres", "gpus-per-node", "gpus"} {
		value, given := st.options[name]
		same := s.gpus
		if name == "gpus" {
			same *= s.nodes
		}
		if _, number, typed := cutLast(value, ":"); typed {
			value = number
		}
		if given && value != itoa(same) && s.gpus > 0 {
			f.addLine(Warning, CodeChanged, st.Line, "set CUDA_VISIBLE_DEVICES in front of the command",
				"srun --%s is left out: the command sees all %d GPUs of its worker", name, s.gpus)
		}
	}
}

// useStepImage makes the whole script run in the image of a step.
func (f *stepReader) useStepImage(st step) {
	image, given := st.options["container-image"]
	if !given {
		return
	}
	for _, name := range []string{"container-image", "container-mounts", "container-workdir"} {
		value, ok := st.options[name]
		spec := find(name)
		if !ok || spec == nil {
			continue
		}
		s := setting{spec: spec, given: "--" + name, value: value, has: true, line: st.Line}
		if strings.Contains(value, "$") {
			f.refuseFlag(s, "write the path itself", "%q: the value of a variable is unknown before the job runs", value)
			continue
		}
		if name == "container-image" && f.imageDir != "" && f.imageDir != image {
			f.refuseFlag(s, "use one image", "%q: a job has one image, and it has %s", image, f.imageDir)
			continue
		}
		spec.read(f.request, s)
	}
	f.addLine(Warning, CodeChanged, st.Line, "", "the whole script runs in the image, not only the step")
}

// srunTable are the flags of srun: those that are read or change nothing here, those that are left
// out with a warning, and those that are not supported.
var srunTable = slices.Concat(
	specs("", Value, "", `ntasks/n nodes/N ntasks-per-node cpus-per-task/c export nodelist/w jobid gres gpus/G
		gpus-per-node gpus-per-task mem mem-per-cpu mem-per-gpu cpu-bind mem-bind gpu-bind mpi distribution/m hint wait/W
		job-name/J threads-per-core cpus-per-gpu ntasks-per-gpu gpu-freq cpu-freq container-image container-mounts
		container-workdir partition/p account/A qos/q constraint/C`),
	specs("", Nothing, "", `label/l unbuffered/u overlap exact verbose/v quiet/Q overcommit/O oversubscribe/s
		preserve-env/E disable-status/X container-remap-root no-container-mount-home container-writable container-readonly
		no-container-remap-root whole`),
	specs("", Perhaps, "", "kill-on-bad-exit/K exclusive propagate no-kill/k resv-ports accel-bind"),
	specs(Warning, Value, "its output goes where the job's goes", "output/o error/e"),
	specs(Warning, Value, "the job's own limit counts", "time/t"),
	specs(Warning, Value, "every job has a container of its own", "container-name"),
	specs(Refused, Value, "write < FILE behind the command", "input/i"),
	specs(Refused, Nothing, "a batch job has no terminal: use rota run", "pty"),
	specs(Refused, Nothing, "name your home directory in --container-mounts", "container-mount-home"),
	specs(Refused, Nothing, "write a job file with one group for each program", "multi-prog"),
	specs(Refused, Value, "write a job file with one group for each component", "het-group"),
	specs(Refused, Value, "start the step on all nodes", "relative/r exclude/x"),
	specs(Refused, Value, "write cd in the script", "chdir/D"),
)
