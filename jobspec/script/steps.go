package script

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// mode is how many processes run the script.
type mode int

const (
	once         mode = iota // one process, as in Slurm
	eachRank                 // every rank, with the command of its step in the place of srun
	refusedSteps             // every rank, in a script that was refused
)

// plan is how the script of a job is run.
type plan struct {
	mode   mode
	tasks  int // of each worker
	edits  []edit
	ownGPU int // GPUs that each rank sees, chosen by its number; 0 for all
	shared int // ranks that see the same GPU; 0 when GPUs are not shared
}

// edit replaces a part of the script.
type edit struct {
	begin, end int
	text       string
}

// step is one srun of a script.
type step struct {
	shell.Command
	options map[string]string // by name
	args    []shell.Word      // the command that it starts
}

// planRun decides how a script is run. Rota starts the same program on every worker, and has no
// batch script that starts steps from the first node. So a script that prepares its environment and
// then starts one step on all tasks is run by every rank, with the command in the place of srun.
func (a *request) planRun(t *text, s shape) plan {
	p := plan{tasks: s.tasks}
	if !shell.IsShell(t.shebang) {
		a.planOtherProgram(t, s, &p)
		return p
	}
	f := &stepReader{request: a, text: t, shape: s, plan: &p, shell: t.shell, lines: map[int]bool{}}
	f.findSteps()
	f.choosePlan()
	return p
}

// planOtherProgram is planRun for a script that no shell runs, so that steps cannot be found.
func (a *request) planOtherProgram(t *text, s shape, p *plan) {
	if s.nodes > 1 {
		a.refuseStep(t.body+1, "start it with srun from a shell script",
			"the job has %d nodes, and the script runs on the first one only", s.nodes)
		p.mode = refusedSteps
	}
}

// stepReader finds what a script starts.
type stepReader struct {
	*request
	text  *text
	shape shape
	plan  *plan
	shell *shell.Script

	launches []step          // steps on all tasks
	singles  []step          // steps of one task
	mpi      []shell.Command // mpirun and its like
	lines    map[int]bool    // of steps
}

// slurmPrograms are programs of Slurm that a node may not have.
var slurmPrograms = []string{"sbatch", "salloc", "scancel", "sacct", "sinfo", "sattach", "sbcast", "sgather",
	"sstat", "seff", "sacctmgr", "strigger"}

var mpiPrograms = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "ibrun", "aprun", "jsrun"}

func (f *stepReader) findSteps() {
	for _, c := range f.shell.Commands {
		c = unwrapped(c)
		switch name := c.Name(); {
		case name == "srun":
			f.srun(c)
		case slices.Contains(mpiPrograms, name):
			f.mpi = append(f.mpi, c)
		case slices.Contains(slurmPrograms, name):
			f.addLine(Warning, CodeUnclear, c.Line, "use rota there if the nodes have it",
				"%s is a program of Slurm, which the nodes may not have", name)
		}
	}
	for _, v := range f.shell.Assignments {
		value := strings.TrimLeft(v.Value, `"'`)
		if value == "srun" || strings.HasPrefix(value, "srun ") {
			f.refuseStep(v.Line, "write srun in front of the command itself",
				"srun in a variable (%s) is not supported", v.Name)
		}
	}
}

// unwrapped returns the command that timeout starts, or else the command itself.
func unwrapped(c shell.Command) shell.Command {
	if c.Name() == "timeout" {
		for i := 1; i < len(c.Words); i++ {
			if w := c.Words[i].Raw; w[0] != '-' && i+1 < len(c.Words) && (w[0] >= '0' && w[0] <= '9' || w[0] == '$') {
				c.Words = c.Words[i+1:]
				return c
			}
		}
	}
	return c
}

func (f *stepReader) choosePlan() {
	s := f.shape
	if s.allTasks() == 1 || s.nodes == 1 && len(f.launches) == 0 {
		for _, st := range append(slices.Clone(f.singles), f.launches...) {
			f.replaceStep(st)
		}
		return
	}
	f.plan.mode = eachRank
	main := f.mainStep()
	switch {
	case len(f.mpi) > 0 && s.nodes == 1:
		f.refuseStep(f.mpi[0].Line, "start all programs with one of them",
			"srun for all tasks and %s in one script are not supported", f.mpi[0].Name())
	case len(f.mpi) > 0:
		f.refuseStep(f.mpi[0].Line,
			"start the program with srun, if its MPI finds its ranks by itself; programs of one node may use mpirun",
			"%s on several nodes is not supported", f.mpi[0].Name())
	case main == nil && len(f.launches) == 0 && len(f.singles) > 0:
		f.refuseStep(f.singles[0].Line,
			"write a job file with a group for each program, and gang_scope = \"job\"",
			"several srun steps for single tasks are not supported")
	case main == nil && len(f.launches) == 0 && !f.list.Has(Refused):
		f.refuseStep(f.text.body+1, "write srun in front of the command that every node must run",
			"the job has %d nodes, and the script starts its programs on the first one only", s.nodes)
	case main != nil:
		f.runOnRanks(main)
		return
	}
	f.plan.mode = refusedSteps
	for _, st := range f.launches {
		f.replaceStep(st)
	}
}

// mainStep returns the step on all tasks that does the work, nil when there is none or several.
func (f *stepReader) mainStep() *step {
	var main *step
	for i := range f.launches {
		st := &f.launches[i]
		if onlyShows(st.args) {
			continue
		}
		if main != nil {
			f.refuseStep(st.Line, "submit a script for each step, with --dependency=afterok:ID",
				"several srun steps on all tasks are not supported (another one is in line %d)", main.Line)
			return nil
		}
		main = st
	}
	if main == nil && len(f.launches) > 0 {
		main = &f.launches[len(f.launches)-1]
	}
	if main != nil && (main.Block || main.Inside) {
		f.refuseStep(main.Line, "start it on a line of its own, as the last command of the script",
			"a step on all tasks in a loop, a condition or another command is not supported")
		return nil
	}
	return main
}
