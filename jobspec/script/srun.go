package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// maxSteps bounds how many steps of a script are looked at.
const maxSteps = 1000

// srun reads one step.
func (f *follower) srun(c shell.Command) {
	if len(f.launches)+len(f.singles) == maxSteps {
		f.at(Refused, CodeStep, c.Line, "split the script", "more than %d steps cannot be followed", maxSteps)
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
			f.at(Refused, CodeStep, c.Line, spec.instead, "srun --%s cannot be followed", spec.Name)
		case Warning:
			f.at(Warning, CodeIgnored, c.Line, "", "srun --%s is left out: %s", spec.Name, spec.instead)
		}
	}, bad: func(_, given, hint, text string) {
		good = false
		f.at(Refused, CodeStep, c.Line, hint, "srun: %s %s", given, text)
	}}
	rest := g.read(raw)
	if st.args = c.Words[len(c.Words)-len(rest):]; len(rest) == 0 && good {
		f.at(Refused, CodeStep, c.Line, "write what it is to start in the same line", "srun starts nothing that could be followed")
		good = false
	}
	if good && f.hidden(st) {
		return
	}
	if good {
		f.sort(st)
	}
}

// hidden finds flags in a variable in front of the command.
func (f *follower) hidden(st step) bool {
	name := strings.Trim(st.args[0].Raw, `"${}[@]`)
	if !strings.HasPrefix(strings.Trim(st.args[0].Raw, `"`), "$") {
		return false
	}
	for _, v := range f.shell.Assignments {
		if v.Name == name && strings.HasPrefix(strings.TrimLeft(v.Value, `"'( `), "-") {
			f.at(Refused, CodeStep, st.Line, fmt.Sprintf("write the flags of line %d behind srun", v.Line), "the flags of srun in $%s cannot be followed", name)
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
		f.at(Refused, CodeStep, st.Line, "ask for as many in the script's flags", "the step has %d tasks on %d nodes, and the job %d on %d", total, nodes, s.all(), s.nodes)
	case total == 1:
		return 1, true
	case total%s.nodes != 0 || nodes != s.nodes:
		f.at(Refused, CodeStep, st.Line, "start it on all nodes, with the same number of tasks on each", "a step of %d tasks on %d of %d nodes cannot be started", total, nodes, s.nodes)
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
		f.at(Warning, CodeUnclear, st.Line, "", "srun --%s=%s is taken to be %d, as the job has", name, text, usual)
	}
	return usual
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
			f.at(Warning, CodeChanged, st.Line, "set CUDA_VISIBLE_DEVICES in front of the command", "srun --%s is left out: the command sees all %d GPUs of its worker", name, s.gpus)
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
		s := setting{spec: spec, given: "--" + name, value: value, has: true, line: st.Line}
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
	f.at(Warning, CodeChanged, st.Line, "", "the whole script runs in the image, not only the step")
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
