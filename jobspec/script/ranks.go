package script

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// each makes a script that every rank can run.
func (f *follower) each(main *step) {
	total, _ := f.tasksOf(*main)
	f.plan.tasks = max(total/f.shape.nodes, 1)
	for i := range f.launches {
		f.inPlace(f.launches[i])
	}
	for _, st := range f.singles {
		if st.Inside && st.args[0].Plain() == "hostname" {
			f.plan.edits = append(f.plan.edits, edit{st.Words[0].Begin, st.End, `echo "$ROTA_MASTER_ADDR"`})
			f.at(Warning, CodeChanged, st.Line, "", "the address of the first node is taken, instead of a step that asks for it")
			continue
		}
		f.at(Refused, CodeStep, st.Line, "leave it out, or submit it as a job of its own", "a step of one task in a job of %d cannot be started", f.shape.all())
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
	for _, c := range f.shell.Commands {
		switch {
		case c.Begin >= main.Begin && c.End <= main.End || f.lines[c.Line] || setup(c) || c.Line == last:
		case c.Begin < main.Begin:
			last = c.Line
			f.at(Warning, CodeEachRank, c.Line, "", "every rank runs this line for itself; in Slurm it runs once, before the step")
		default:
			last = c.Line
			f.at(Refused, CodeStep, c.Line, "do it in a job of its own that waits for this one", "this is to run once, when the step has ended, and every rank would run it")
		}
	}
}

// oneFile warns of a file that every rank makes anew: in Slurm the step has one output, which goes there.
func (f *follower) oneFile(main *step) {
	files := slices.Clone(main.Outputs)
	end := lineEnd(f.text.src, main.End)
	for _, c := range f.shell.Commands {
		if c.Begin > main.End && c.Begin < end && c.Name() == "tee" && len(c.Words) > 1 && !strings.HasPrefix(c.Words[1].Raw, "-") {
			files = append(files, c.Words[1].Raw)
		}
	}
	for _, file := range files {
		if !strings.HasPrefix(file, "/dev/") && !ofRank.MatchString(file) {
			f.at(Warning, CodeEachRank, main.Line, "write it to a file of each rank, such as out-$SLURM_PROCID.txt, or leave it to --output",
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

func setup(c shell.Command) bool {
	name := c.Name()
	return slices.Contains(setupCommands, name) || strings.HasPrefix(name, "$") && len(c.Words) == 1 || name == "python" && len(c.Words) == 2 && strings.HasPrefix(c.Words[1].Raw, "-V")
}

// harmless reports whether a step only shows something.
func harmless(args []shell.Word) bool {
	return slices.Contains([]string{"hostname", "echo", "date", "nvidia-smi", "env", "printenv", "true", "uname", "ibstat", "lscpu", "pwd", "id", "which", "cat", "nvcc"}, args[0].Plain())
}

// inPlace puts the command of a step into the place of the step.
func (f *follower) inPlace(st step) {
	kept := ""
	for i := 0; st.Words[i].Begin < st.args[0].Begin; i++ {
		w, next := st.Words[i], st.Words[i+1]
		kept += strings.Repeat("\\\n", strings.Count(w.Raw, "\\\n")) // the lines keep their numbers
		between := strings.Trim(f.text.src[w.End:next.Begin], " \t")
		if kept += between; between != "" && !strings.HasSuffix(between, "\n") {
			kept += " " // behind a redirection
		}
	}
	f.plan.edits = append(f.plan.edits, edit{st.Words[0].Begin, st.args[0].Begin, kept})
	f.container(st)
	f.fewerGPUs(st)
	if v, ok := st.options["export"]; ok && (v != "ALL" && !strings.HasPrefix(v, "ALL,") || strings.Contains(v, "=")) {
		f.at(Warning, CodeIgnored, st.Line, "export them in front of it", "srun --export=%s is left out: the step gets the variables of the script", v)
	}
}

// lineEnd returns the end of the line that holds a place, with the lines that continue it.
func lineEnd(src string, at int) int {
	for at < len(src) && (src[at] != '\n' || at > 0 && src[at-1] == '\\') {
		at++
	}
	return at
}
