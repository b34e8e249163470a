package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// SbatchFlags reads the flags at the front of a command line of sbatch, of all components of a job. It
// returns the words from the first one that is no flag, and what cannot be read.
func SbatchFlags(words []string) (flags []Flag, rest []string, bad Problems) {
	r := flagReader{specs: table, sbatch: true}
	rest = r.components(words)
	return r.flags, rest, r.bad
}

// SrunFlags is [SbatchFlags] for srun outside of a job, which has one component.
func SrunFlags(words []string) (flags []Flag, rest []string, bad Problems) {
	r := flagReader{specs: SrunTable()}
	rest = r.read(words, 0)
	return r.flags, rest, r.bad
}

// SallocFlags is [SbatchFlags] for salloc.
func SallocFlags(words []string) (flags []Flag, rest []string, bad Problems) {
	r := flagReader{specs: SallocTable()}
	rest = r.components(words)
	return r.flags, rest, r.bad
}

// flagReader reads the flags of a command line. Those of sbatch that are refused are left to [Read], which
// lists all problems of a script.
type flagReader struct {
	specs  []Spec
	sbatch bool
	flags  []Flag
	bad    Problems
}

// components reads the flags of all components, which colons separate. It returns the words behind them.
func (r *flagReader) components(words []string) (rest []string) {
	for n := 0; ; n++ {
		rest = r.read(words, n)
		if len(rest) == 0 || rest[0] != ":" {
			return rest
		}
		words = rest[1:]
	}
}

// read reads the flags of one component.
func (r *flagReader) read(words []string, component int) (rest []string) {
	g := &getopt{specs: r.specs, each: func(given string, spec *Spec, value string, has bool) {
		if spec.kind == Refused && !r.sbatch {
			r.bad = append(r.bad, Problem{Kind: Refused, Code: CodeNotHere, Where: commandLine, Flag: given,
				Text: "is not supported", Hint: spec.instead})
			return
		}
		r.flags = append(r.flags, Flag{Name: spec.Name, Value: value, Has: has, Component: component})
	}, bad: func(code, given, hint, text string) {
		r.bad = append(r.bad, Problem{Kind: Mistake, Code: code, Where: commandLine, Flag: excerpt(given), Text: text,
			Hint: hint})
	}}
	return g.read(words)
}

// SrunTable returns the flags of srun outside of a job: most of those of sbatch, and its own.
func SrunTable() []Spec {
	out := slices.DeleteFunc(slices.Clone(table), func(s Spec) bool { return sbatchOnly[s.Name] })
	for i := range out {
		out[i].Env = strings.Replace(out[i].Env, "SBATCH_", "SLURM_", 1)
	}
	return slices.Concat(out, srunOnly)
}

// sbatchOnly are the flags of sbatch that srun has not, or that mean something else there.
var sbatchOnly = map[string]bool{"array": true, "wrap": true, "parsable": true, "hold": true, "wait": true,
	"requeue": true, "no-requeue": true, "ignore-pbs": true, "export-file": true, "get-user-env": true,
	"kill-on-invalid-dep": true, "test-only": true, "input": true, "clusters": true, "multi-prog": true, "pty": true}

// srunOnly are the flags that srun alone has. Those of kind Warning change nothing.
var srunOnly = slices.Concat(
	specs("", Nothing, "", "pty"), // of srun's caller, which has the terminal
	specs(Refused, Nothing, "submit a script with sbatch --hold", "hold/H"),
	specs(Refused, Value, "write < FILE behind the command in a script", "input/i"),
	specs(Refused, Perhaps, "the job waits in the queue until it fits: rota plan says whether it fits now", "immediate/I"),
	specs(Refused, Nothing, "rota plan says whether a job would start now", "test-only"),
	specs(Refused, Value, "name the controllers with --addr or ROTA_ADDR", "clusters/M"),
	specs(Refused, Value, "a job of its own starts on its first node", "relative/r"),
	specs(Refused, Nothing, "a job needs an allocation", "no-allocate/Z"),
	specs(Refused, Value, "tasks are started at once", "threads/T"),
	specs(Refused, Perhaps, "put the program on a shared path", "bcast"),
	specs(Refused, Value, "put it into a script", "task-prolog task-epilog prolog epilog"),
	specs(Refused, Value, "the job has ended when all of its tasks have", "wait/W"),
	specs(Refused, Nothing, "write a job file with one task for each program", "multi-prog"),
)

// SallocTable returns the flags of salloc: those of sbatch about resources, and its own.
func SallocTable() []Spec {
	out := slices.DeleteFunc(slices.Clone(table), func(s Spec) bool { return notSalloc[s.Name] })
	for i := range out {
		out[i].Env = strings.Replace(out[i].Env, "SBATCH_", "SALLOC_", 1)
	}
	return slices.Concat(out, sallocOnly)
}

// OnlySalloc reports whether salloc alone has a flag, so that it says nothing of the job.
func OnlySalloc(name string) bool {
	return slices.ContainsFunc(sallocOnly, func(s Spec) bool { return s.Name == name })
}

// notSalloc are the flags of sbatch that salloc has not: they are about a script and its output.
var notSalloc = map[string]bool{"array": true, "wrap": true, "parsable": true, "wait": true, "requeue": true,
	"no-requeue": true, "ignore-pbs": true, "export": true, "export-file": true, "kill-on-invalid-dep": true,
	"test-only": true, "input": true, "output": true, "error": true, "open-mode": true, "multi-prog": true,
	"kill-on-bad-exit": true, "mpi": true, "label": true, "unbuffered": true, "propagate": true, "overlap": true,
	"pty": true, "jobid": true, "het-group": true}

// sallocOnly are the flags that salloc alone has.
var sallocOnly = slices.Concat(
	specs("", Perhaps, "", "immediate/I kill-command/K"),
	specs("", Nothing, "", "bell no-bell no-shell"),
	specs(Refused, Perhaps, "a step has no display: forward a port with ssh", "x11"),
)

// holding waits until the job is ended, or salloc gives it back by [Release]: then it ends as the command of
// salloc has, if that has written how. Signals that are meant for steps do not end it.
const holding = `#!/bin/sh
how=/dev/shm/salloc.$SLURM_JOB_ID
end() {
	[ -r "$how" ] || exit 0
	read -r what n <"$how"
	if [ "$what" = signal ]; then
		trap - "$n"
		kill -"$n" $$
	fi
	exit "$n"
}
trap 'exit 0' TERM
trap end URG
trap '' HUP INT QUIT USR1 USR2 ALRM
while :; do sleep 86400 & wait $!; done
`

// Release is the signal with which salloc gives its allocation back. To a shell that has not begun to wait it
// does nothing, and is to be sent again.
const Release = "SIGURG"

// ReleaseAs is the command that is to be executed in the allocation before [Release], so that its job has the
// exit code of the command of salloc, or was ended by the same signal.
func ReleaseAs(code, signal int) []string {
	how := fmt.Sprintf("exit %d", code)
	if signal != 0 {
		how = fmt.Sprintf("signal %d", signal)
	}
	return []string{"/bin/sh", "-c", "umask 077; echo " + how + " >/dev/shm/salloc.$SLURM_JOB_ID"}
}

// Allocation returns the job that holds what the flags ask for until it is ended, so that steps can be
// started in it. The variables of salloc are those of sbatch under SALLOC_*.
func Allocation(opts Options) Result {
	if variables := opts.Getenv; variables != nil {
		opts.Getenv = func(name string) (string, bool) {
			return variables(strings.Replace(name, "SBATCH_", "SALLOC_", 1))
		}
	}
	result := Result{}
	a := newRequest(&result, &opts, &jobspec.Job{})
	t := readText([]byte(holding), a.report)
	a.applyComponents(t, a.externalFlags())
	a.exports = []string{}                          // srun has the variables of its shell
	a.noRequeue = setting{spec: find("no-requeue")} // its command would not know of it
	s := a.shape()
	a.fillJob(t, s, plan{tasks: s.tasks})
	a.setComponents()
	a.setVariables()
	apart := false
	a.job.Groups[0].Tasks[0].Log = &jobspec.Log{Join: &apart}
	return a.finish()
}

// commandLine is where flags of a command line are from.
const commandLine = "command line"

// Command returns the job in which all tasks run a command, as srun does outside of a job. Its output
// is kept by the node, unless flags name files. The variables of srun are those of sbatch under
// SLURM_*.
func Command(words []string, opts Options) Result {
	if variables := opts.Getenv; variables != nil {
		opts.Getenv = func(name string) (string, bool) {
			return variables(strings.Replace(name, "SBATCH_", "SLURM_", 1))
		}
	}
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = shellQuoted(word)
	}
	result := Result{}
	a := newRequest(&result, &opts, &jobspec.Job{})
	t := readText(Wrap("exec "+strings.Join(quoted, " ")), a.report)
	if t == nil {
		result.Problems = a.list
		return result
	}
	a.applyFlags(a.externalFlags())
	s := a.shape()
	p := plan{tasks: s.tasks, mode: alone}
	if s.allTasks() > 1 {
		p.mode = eachRank
	}
	if s.tasks > 1 && !a.seeAll {
		p.ownGPU = s.perTask
	}
	toFile := a.stdout != "" || a.stderr != ""
	a.fillJob(t, s, p)
	a.job.RequeueExit = 0
	if !toFile {
		apart := false
		a.job.Groups[0].Tasks[0].Log = &jobspec.Log{Join: &apart}
	}
	return a.finish()
}
