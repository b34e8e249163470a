package script

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
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
	shell.Command
	options map[string]string // by name
	args    []shell.Word      // the command that it starts
}

// follow finds out what a script starts, and how that can be done without a batch script that starts steps from the first node. Rota starts
// the same thing on every worker, so a script that prepares something and then starts one step on all its tasks is run by every rank,
// with the command of that step in the place of srun.
func (a *asked) follow(t *text, s shape) plan {
	p := plan{tasks: s.tasks}
	if !shell.IsShell(t.shebang) {
		a.alone(t, s, &p)
		return p
	}
	f := &follower{asked: a, text: t, shape: s, plan: &p, shell: t.shell, lines: map[int]bool{}}
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
	shell *shell.Script

	launches []step          // steps on all tasks
	singles  []step          // steps of one task
	mpi      []shell.Command // mpirun and its like
	lines    map[int]bool    // of steps
}

// Programs of Slurm that a node need not have.
var slurmPrograms = []string{"sbatch", "salloc", "squeue", "scancel", "sacct", "sinfo", "sattach", "sbcast", "sgather", "sstat", "seff", "sacctmgr", "strigger"}

var mpiPrograms = []string{"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "ibrun", "aprun", "jsrun"}

func (f *follower) find() {
	for _, c := range f.shell.Commands {
		c = unwrapped(c)
		switch name := c.Name(); {
		case name == "srun":
			f.srun(c)
		case slices.Contains(mpiPrograms, name):
			f.mpi = append(f.mpi, c)
		case name == "scontrol":
			f.scontrol(c)
		case slices.Contains(slurmPrograms, name):
			f.at(Warning, CodeUnclear, c.Line, "use rota there if the nodes have it", "%s is a program of Slurm, which the nodes need not have", name)
		}
	}
	for _, v := range f.shell.Assignments {
		value := strings.TrimLeft(v.Value, `"'`)
		if value == "srun" || strings.HasPrefix(value, "srun ") {
			f.at(Refused, CodeStep, v.Line, "write srun in front of the command itself", "srun in the variable %s cannot be followed", v.Name)
		}
	}
}

// unwrapped takes timeout and its like off the front.
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

func (f *follower) scontrol(c shell.Command) {
	verb, what := "", ""
	if len(c.Words) > 1 {
		verb = c.Words[1].Plain()
	}
	if len(c.Words) > 2 {
		what = c.Words[2].Plain()
	}
	switch {
	case verb == "show" && (what == "hostnames" || what == "hostname"):
		f.plan.hosts = true
	case verb == "requeue":
		f.plan.repeat = true
		f.at(Warning, CodeChanged, c.Line, "", "the script ends there with exit code 85, which asks for the job to be started again; a job that is at its time limit is not")
	default:
		f.at(Warning, CodeUnclear, c.Line, "", "scontrol %s is not there when the job runs: only show hostnames and requeue are", verb)
	}
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
		f.at(Refused, CodeStep, f.mpi[0].Line, "start everything with one of them", "a script that uses srun for all tasks and %s cannot be run", f.mpi[0].Name())
	case len(f.mpi) > 0:
		f.at(Refused, CodeStep, f.mpi[0].Line, "start the program with srun, if its MPI finds its ranks by itself; programs of one node may use mpirun",
			"%s starts processes on several nodes, which is not supported yet", f.mpi[0].Name())
	case main == nil && len(f.launches) == 0 && len(f.singles) > 0:
		f.at(Refused, CodeStep, f.singles[0].Line, "write a job file with a group for each program, and gang_scope = \"job\"",
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
			f.at(Refused, CodeStep, st.Line, "submit a script for each step, with --dependency=afterok:ID",
				"the script starts several steps on all tasks (line %d is one), which would not wait for each other", main.Line)
			return nil
		}
		main = st
	}
	if main == nil && len(f.launches) > 0 {
		main = &f.launches[len(f.launches)-1]
	}
	if main != nil && (main.Block || main.Inside) {
		f.at(Refused, CodeStep, main.Line, "start it on a line of its own, as the last thing that the script does",
			"a step on all tasks that is within a loop, a condition or another command cannot be started")
		return nil
	}
	return main
}
