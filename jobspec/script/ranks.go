package script

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// runOnRanks plans a script that every rank runs.
func (f *stepReader) runOnRanks(main *step) {
	total, _ := f.countTasks(*main)
	f.plan.tasks = max(total/f.shape.nodes, 1)
	for i := range f.launches {
		f.replaceStep(f.launches[i])
	}
	for _, st := range f.singles {
		if st.Inside && st.args[0].Plain() == "hostname" {
			f.plan.edits = append(f.plan.edits, edit{st.Words[0].Begin, st.End, `echo "$ROTA_MASTER_ADDR"`})
			f.addLine(Warning, CodeChanged, st.Line, "", "the address of the first node replaces the step that asks for it")
			continue
		}
		f.refuseStep(st.Line, "leave it out, or submit it as a job of its own",
			"a step of one task in a job of %d is not supported", f.shape.allTasks())
	}
	f.assignGPUs(main)
	if f.shape.allTasks() > 1 {
		f.checkOtherLines(main)
	}
}

// assignGPUs lets each rank see only its own GPUs, if the flags ask for GPUs for each task.
func (f *stepReader) assignGPUs(main *step) {
	s := f.shape
	if n, err := strconv.Atoi(main.options["gpus-per-task"]); err == nil && n > 0 && n <= s.gpus/f.plan.tasks {
		f.plan.ownGPU = n
		return
	}
	switch {
	case s.tasks < 2 || f.seeAll || s.perTask == 0 && f.perGPU.n == 0:
	case f.plan.tasks != s.tasks:
		f.addLine(Warning, CodeChanged, 0, "let each task choose by $SLURM_LOCALID",
			"every task of the step sees all %d GPUs of its worker, not only its own", s.gpus)
	case s.perTask > 0:
		f.plan.ownGPU = s.perTask
	case s.gpus == s.tasks:
		f.plan.ownGPU = 1
	case s.gpus*f.perGPU.n == s.tasks:
		f.plan.shared = f.perGPU.n
	}
}

// checkOtherLines warns of commands in front of the step, which every rank runs and Slurm runs
// once. It refuses commands behind the step.
func (f *stepReader) checkOtherLines(main *step) {
	f.warnOfSharedFiles(main)
	last := 0
	for _, c := range f.shell.Commands {
		switch {
		case c.Begin >= main.Begin && c.End <= main.End || f.lines[c.Line] || isSetup(c) || c.Line == last:
		case c.Begin < main.Begin:
			last = c.Line
			f.addLine(Warning, CodeEachRank, c.Line, "", "every rank runs this line; in Slurm it runs once, before the step")
		default:
			last = c.Line
			f.refuseStep(c.Line, "run it in another job that depends on this one",
				"every rank would run this command; in Slurm it runs once, when the step has ended")
		}
	}
}

// warnOfSharedFiles warns of a file for the output of the step: in Slurm the output of all ranks
// goes there, but here every rank creates the file again.
func (f *stepReader) warnOfSharedFiles(main *step) {
	files := slices.Clone(main.Outputs)
	end := lineEnd(f.text.src, main.End)
	for _, c := range f.shell.Commands {
		if c.Begin > main.End && c.Begin < end && c.Name() == "tee" && len(c.Words) > 1 && !strings.HasPrefix(c.Words[1].Raw,
			"-") {
			files = append(files, c.Words[1].Raw)
		}
	}
	for _, file := range files {
		if !strings.HasPrefix(file, "/dev/") && !ofRank.MatchString(file) {
			f.addLine(Warning, CodeEachRank, main.Line,
				"write one file for each rank, such as out-$SLURM_PROCID.txt, or use --output",
				"every rank overwrites %s; in Slurm it has the output of all ranks", cutShort(file))
		}
	}
}

// ofRank finds a part that differs between ranks in the name of a file.
var ofRank = regexp.MustCompile(`PROCID|LOCALID|NODEID|RANK|(?i:hostname)|\$\$`)

// setupCommands are commands that every rank may run without harm.
var setupCommands = strings.Fields(`echo printf date export source . module ml conda mamba micromamba spack set unset cd
	ulimit umask trap alias declare readonly local typeset eval nvidia-smi hostname pwd which type printenv env cat head
	tail grep sed awk cut tr sort uniq wc ls test [ true false : wait exit return shift hash command pyenv activate
	deactivate basename dirname realpath readlink nproc free lscpu uname whoami id getent ip ping sleep scontrol pushd popd
	mkdir nvcc python3-config ibstat ibv_devinfo numactl jobs shopt let read seq expr paste xargs tee squeue kill`)

func isSetup(c shell.Command) bool {
	name := c.Name()
	return slices.Contains(setupCommands, name) || strings.HasPrefix(name,
		"$") && len(c.Words) == 1 || name == "python" && len(c.Words) == 2 && strings.HasPrefix(c.Words[1].Raw, "-V")
}

// onlyShows reports whether a step does no more than print something.
func onlyShows(args []shell.Word) bool {
	return slices.Contains([]string{"hostname", "echo", "date", "nvidia-smi", "env", "printenv", "true", "uname",
		"ibstat", "lscpu", "pwd", "id", "which", "cat", "nvcc"}, args[0].Plain())
}

// replaceStep replaces srun and its flags by the command alone.
func (f *stepReader) replaceStep(st step) {
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
	f.useStepImage(st)
	f.warnOfFewerGPUs(st)
	if v, ok := st.options["export"]; ok && (v != "ALL" && !strings.HasPrefix(v, "ALL,") || strings.Contains(v, "=")) {
		f.addLine(Warning, CodeIgnored, st.Line, "export them in front of it",
			"srun --export=%s is left out: the step gets all variables of the script", v)
	}
}

// lineEnd returns the end of the line that holds a place, with the lines that continue it.
func lineEnd(src string, at int) int {
	for at < len(src) && (src[at] != '\n' || at > 0 && src[at-1] == '\\') {
		at++
	}
	return at
}
