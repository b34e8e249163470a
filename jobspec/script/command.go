package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// SbatchFlags parses the flags at the start of sbatch's command line, for all components of a job.
// It returns the remaining words and the problems.
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

// flagReader parses the flags of a command line. It accepts refused flags of sbatch, because [Read]
// lists all problems of a script.
type flagReader struct {
	specs  []Spec
	sbatch bool
	flags  []Flag
	bad    Problems
}

// components parses the flags of all components, which colons separate. It returns the words after
// them.
func (r *flagReader) components(words []string) (rest []string) {
	for n := 0; ; n++ {
		rest = r.read(words, n)
		if len(rest) == 0 || rest[0] != ":" {
			return rest
		}
		words = rest[1:]
	}
}

// read parses the flags of one component.
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

// SrunTable returns the flags of srun outside of a job: sbatch's flags about resources, and srun's
// own.
func SrunTable() []Spec {
	return slices.Concat(slices.DeleteFunc(allocationTable(srunVariables), func(s Spec) bool {
		return OnlyStep(s.Name) || s.Name == "get-user-env"
	}), srunOnly)
}

// OnlyStep reports whether a flag of srun, outside of a job, concerns only the step and not the
// allocation that srun requests.
func OnlyStep(name string) bool {
	return slices.ContainsFunc(srunOnly, func(s Spec) bool { return s.Name == name && !s.Refused() })
}

// srunOnly are the flags that only srun has, or that concern its step. package steps of the command
// parses the accepted ones.
var srunOnly = slices.Concat(
	specs("", Nothing, "", `pty multi-prog label/l unbuffered/u overlap exact whole overcommit/O quit-on-interrupt
		disable-status/X preserve-env/E`),
	specs("", Value, "", `output/o error/e input/i open-mode export mpi wait/W relative/r threads/T accel-bind msg-timeout
		slurmd-debug`),
	specs("", Perhaps, "", "immediate/I kill-on-bad-exit/K propagate resv-ports"),
	specs(Refused, Nothing, "rota plan says whether a job would start now", "test-only"),
	specs(Refused, Nothing, "a job needs an allocation", "no-allocate/Z"),
	specs(Refused, Perhaps, "put the program on a shared path", "bcast"),
	specs(Refused, Value, "put it into a script", "task-prolog task-epilog prolog epilog"),
	specs(Refused, Value, "it selects components of a job: submit the job with sbatch or salloc, and use this option "+
		"for steps in it",
		"het-group"),
)

// SallocTable returns the flags of salloc: sbatch's flags about resources, and salloc's own.
func SallocTable() []Spec {
	return slices.Concat(allocationTable(sallocVariables), sallocOnly)
}

// allocationTable returns sbatch's flags about resources, with variables of another prefix.
func allocationTable(prefix string) []Spec {
	out := slices.DeleteFunc(slices.Clone(table), func(s Spec) bool { return notAllocation[s.Name] })
	for i := range out {
		out[i].Env = strings.Replace(out[i].Env, "SBATCH_", prefix, 1)
	}
	return out
}

// OnlySalloc reports whether only salloc has a flag, which therefore does not describe the job.
func OnlySalloc(name string) bool {
	return slices.ContainsFunc(sallocOnly, func(s Spec) bool { return s.Name == name })
}

// notAllocation are sbatch's flags about a script and its output.
var notAllocation = map[string]bool{"array": true, "wrap": true, "parsable": true, "wait": true, "requeue": true,
	"no-requeue": true, "ignore-pbs": true, "export": true, "export-file": true, "kill-on-invalid-dep": true,
	"test-only": true, "input": true, "output": true, "error": true, "open-mode": true, "multi-prog": true,
	"kill-on-bad-exit": true, "mpi": true, "label": true, "unbuffered": true, "propagate": true, "overlap": true,
	"pty": true, "jobid": true, "het-group": true}

// sallocOnly are the flags that only salloc has.
var sallocOnly = slices.Concat(
	specs("", Perhaps, "", "immediate/I kill-command/K"),
	specs("", Nothing, "", "bell no-bell no-shell"),
	specs(Refused, Perhaps, "a step has no display: forward a port with ssh", "x11"),
)

// holding is a script that waits until the job ends, or until salloc releases it by [Release]. It
// then exits with the code of salloc's command, if that was recorded. Signals for steps do not end
// it.
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

// Release is the signal by which salloc releases its allocation. It has no effect on a shell that
// has not begun to wait, so it must be sent again.
const Release = "SIGURG"

// ReleaseAs is the command that salloc executes in the allocation before [Release]. It records the
// exit code of salloc's command, or the signal that ended the command.
func ReleaseAs(code, signal int) []string {
	how := fmt.Sprintf("exit %d", code)
	if signal != 0 {
		how = fmt.Sprintf("signal %d", signal)
	}
	return []string{"/bin/sh", "-c", "umask 077; echo " + how + " >/dev/shm/salloc.$SLURM_JOB_ID"}
}

// Prefixes that take the place of SBATCH_ in the variables of other commands.
const (
	sallocVariables = "SALLOC_"
	srunVariables   = "SLURM_"
)

// Salloc returns a job that only holds the resources that salloc's flags request, so that steps can
// run in it.
func Salloc(opts Options) Result { return allocation("salloc", sallocVariables, opts) }

// Srun is [Salloc] for an srun outside of a job. It ignores flags that only concern the step.
func Srun(opts Options) Result { return allocation(jobspec.AllocationOfSrun, srunVariables, opts) }

// allocation returns a job that holds the resources that flags and variables with a prefix request.
func allocation(command, prefix string, opts Options) Result {
	if variables := opts.Getenv; variables != nil {
		opts.Getenv = func(name string) (string, bool) {
			return variables(strings.Replace(name, "SBATCH_", prefix, 1))
		}
	}
	result := Result{}
	a := newRequest(&result, &opts, &jobspec.Job{})
	t := readText([]byte(holding), a.report)
	a.applyComponents(t, slices.DeleteFunc(a.externalFlags(), func(s setting) bool {
		return s.layer == fromVariable &&
			(notAllocation[s.spec.Name] || prefix == srunVariables && OnlyStep(s.spec.Name))
	}))
	a.exports = []string{}                          // srun takes the variables from its own environment
	a.noRequeue = setting{spec: find("no-requeue")} // the command would not notice a new start
	s := a.shape()
	a.fillJob(t, s)
	a.setComponents()
	a.setVariables()
	a.keepAs(jobspec.MetaAllocation, command)
	apart := false
	a.job.Groups[0].Tasks[0].Log = &jobspec.Log{Join: &apart}
	return a.finish()
}

// commandLine is the place of flags of the command line.
const commandLine = "command line"
