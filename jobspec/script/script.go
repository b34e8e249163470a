// Package script converts a batch script for Slurm into a job. It reads the directives #SBATCH and
// #ROTA, the flags of a command line like that of sbatch, and the variables SBATCH_*. It is pure:
// scripts, variables and the time are arguments.
//
// No flag is ignored silently. A [Problem] says that something is not understood (a mistake) or not
// supported (refused). A warning says that something is left out or done in another way, without
// harm.
//
// As in Slurm, a script runs once, on the first worker of its job; srun in it starts steps on all
// workers. The components of a heterogeneous job become groups that start together.
package script

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/rules"
)

// Options are the inputs that determine the meaning of a script besides its text.
type Options struct {
	Name   string                      // name of the script, and of the job unless a flag sets another
	Args   []string                    // arguments of the script: $1 and so on
	Dir    string                      // submission directory, the base of --chdir; "": only absolute paths are allowed
	Flags  []Flag                      // flags of the command line, which override all others
	Getenv func(string) (string, bool) // for SBATCH_* variables, which override directives; nil: none
	Clock  Clock                       // for --begin and --deadline
	Nodes  int                         // number of nodes if no flag sets it; 0: one
}

// Flag is one flag of the command line.
type Flag struct {
	Name  string // without hyphens
	Value string
	Has   bool // a value was written
	// Component is the number of the heterogeneous job's component that the flag belongs to
	Component int
}

// Result is the job that a script describes.
type Result struct {
	Job      *jobspec.Job // with defaults; nil if there is a mistake
	Problems Problems     // in the order of the script

	Wait, Parsable, TestOnly, Quiet bool // set if the flags of these names were given

	// Tasks is the number of tasks if no flag sets the number of nodes; otherwise 0. The tasks take
	// as few nodes as possible: see [Options].
	Tasks int

	Clusters string // value of --clusters: names with commas, all, or "" for this cluster

	// Variables are the variables that sbatch sets for given flags, with their values.
	Variables map[string]string

	// BeginsAhead and DeadlineAhead are set if begin or deadline was written as a distance from
	// now, such as now+1hour.
	BeginsAhead, DeadlineAhead jobspec.Seconds
}

// The places of flags. A later place overrides an earlier one.
const (
	fromSlurm = iota + 1
	fromRota
	fromVariable
	fromCommand
)

// Wrap returns a script that runs one command, as sbatch --wrap does.
func Wrap(command string) []byte { return []byte("#!/bin/sh\n" + command + "\n") }

// Read converts a script into a job.
func Read(src []byte, opts Options) Result {
	result := Result{}
	a := newRequest(&result, &opts, &jobspec.Job{})
	t := readText(src, a.report)
	if t == nil {
		result.Problems = a.list
		return result
	}
	a.applyComponents(t, append(a.directiveFlags(t), a.externalFlags()...))
	s := a.shape()
	a.useStepImages(t)
	a.fillJob(t, s)
	a.setComponents()
	a.setVariables()
	return a.finish()
}

// finish returns the result after the job is filled in.
func (a *request) finish() Result {
	a.checkRules()
	a.result.Problems = a.sorted()
	if !a.result.Problems.Has(Mistake) {
		a.job.Default()
		a.result.Job = a.job
	}
	return *a.result
}

func newRequest(result *Result, opts *Options, job *jobspec.Job) *request {
	return &request{report: &report{}, opts: opts, result: result, job: job, applied: map[string]setting{}}
}

// asked are the variables that sbatch sets to the value of a flag.
var asked = map[string]string{
	"gpus": "SLURM_GPUS", "gpus-per-node": "SLURM_GPUS_PER_NODE", "gpus-per-task": "SLURM_GPUS_PER_TASK",
	"dependency": "SLURM_JOB_DEPENDENCY", "distribution": "SLURM_DISTRIBUTION",
}

// setVariables stores the variables that sbatch would set.
func (a *request) setVariables() {
	if set := a.askedVariables(); len(set) > 0 {
		a.result.Variables = set
	}
}

// askedVariables returns the variables that sbatch would set. Those that srun needs are in the task:
// see launch.
func (a *request) askedVariables() map[string]string {
	set := map[string]string{}
	for flag, name := range asked {
		if s, given := a.applied[flag]; given {
			set[name] = s.value
		}
	}
	memory := map[string]*counted{"SLURM_MEM_PER_NODE": &a.mem, "SLURM_MEM_PER_CPU": &a.memPerCPU,
		"SLURM_MEM_PER_GPU": &a.memPerGPU}
	for name, c := range memory { // the strongest layer: srun takes one of them only
		if c.n > 0 && c.by.layer == max(a.mem.by.layer, a.memPerCPU.by.layer, a.memPerGPU.by.layer) {
			set[name] = strconv.FormatInt(int64(c.n)/int64(jobspec.MiB), 10)
		}
	}
	return set
}

// maxFlags bounds the number of flags in a script.
const maxFlags = 1000

// directiveFlags returns the flags in the script itself.
func (a *request) directiveFlags(t *text) []setting {
	var list []setting
	for _, d := range t.flags {
		if len(a.list) == maxProblems {
			break
		}
		if len(list)+len(d.words) > maxFlags {
			a.addLine(Mistake, CodeWords, d.line, "", "the script has more than %d flags", maxFlags)
			break
		}
		layer := fromSlurm
		if d.own {
			layer = fromRota
		}
		g := &getopt{specs: table, each: func(given string, spec *Spec, value string, has bool) {
			list = append(list, setting{spec: spec, given: given, value: value, has: has, line: d.line, layer: layer,
				component: d.component})
		}, bad: func(code, given, hint, text string) {
			a.add(Problem{Kind: Mistake, Code: code, Line: d.line, Flag: given, Text: text, Hint: hint})
		}}
		switch rest := g.read(d.words); {
		case len(rest) > 0 && rest[0] == ":":
			a.addLine(Mistake, CodeHetJob, d.line, "write a line #SBATCH hetjob between the components",
				"a colon separates components on a command line only")
		case len(rest) > 0:
			a.addLine(Mistake, CodeWords, d.line, "a flag begins with -, and its value follows it", "%q is not a flag",
				excerpt(rest[0]))
		}
	}
	return list
}

// externalFlags returns the flags outside of the script.
func (a *request) externalFlags() []setting {
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
			list = append(list, setting{spec: spec, given: "--" + spec.Name, value: value, has: value != "", where: spec.Env,
				layer: fromVariable, component: everyComponent})
		}
	}
	return append(list, a.commandLineFlags()...)
}

func (a *request) commandLineFlags() []setting {
	var list []setting
	for _, f := range a.opts.Flags {
		spec := find(f.Name)
		if spec == nil {
			a.add(Problem{Kind: Mistake, Code: CodeUnknown, Where: commandLine, Flag: "--" + f.Name,
				Text: "is not a known flag"})
			continue
		}
		list = append(list, setting{spec: spec, given: "--" + f.Name, value: f.Value, has: f.Has, where: commandLine,
			layer: fromCommand, component: f.Component})
	}
	return list
}

// applyFlags applies the flags of all places. If a flag was given several times, only its last
// setting in the strongest place counts.
func (a *request) applyFlags(all []setting) {
	slices.SortStableFunc(all, func(x, y setting) int { return x.layer - y.layer })
	last := map[*Spec]int{}
	for i, s := range all {
		last[s.spec] = i
	}
	for i, s := range all {
		if last[s.spec] != i || s.has && s.value == "" && emptyIsUnset(s.spec.Name) {
			continue
		}
		a.applied[s.spec.Name] = s
		switch s.spec.kind {
		case Warning:
			a.addFlag(Warning, CodeIgnored, s, "", "is ignored: %s", s.spec.instead)
		case Refused:
			a.addFlag(Refused, CodeNotHere, s, s.spec.instead, "is not supported")
		default:
			s.spec.read(a, s)
		}
	}
}

// emptyIsUnset reports whether a flag counts as not given if its value is empty, as from an unset
// variable of the caller. These are the flags for which sbatch 24.11 does so; the others are errors.
func emptyIsUnset(name string) bool { return slices.Contains(mayBeEmpty, name) }

var mayBeEmpty = strings.Fields(`account array bb chdir comment constraint container container-id dependency error
	exclude extra gpus gpus-per-node gpus-per-socket gpus-per-task gres input job-name licenses mail-user network nice
	nodelist output prefer priority propagate qos reservation tres-per-task wckey`)

// checkRules reports the job's violations of the rules of all jobs, each with the flag that caused
// it. If the script has mistakes, the job is incomplete, and only violations caused by correct
// flags are reported.
func (a *request) checkRules() {
	mistaken := a.list.Of(Mistake)
	problems := rules.Validate(a.job)
	if a.opts.Clock.Civil != nil {
		problems = append(problems, rules.ValidateAt(a.job, a.opts.Clock.Now)...)
	}
	for _, p := range problems {
		place, by, found := a.originOf(p.Path)
		if len(mistaken) > 0 && (!found || slices.ContainsFunc(mistaken, by.blamed)) {
			continue
		}
		text := p.Text
		if place != "" && (!found || p.Code == jobspec.CodeRange) { // a number without unit has no clear meaning
			text = place + ": " + text
		}
		if found {
			a.addFlag(Mistake, p.Code, by, p.Hint, "%s: %s", cutShort(by.value), text)
		} else {
			a.add(Problem{Kind: Mistake, Code: p.Code, Text: text, Hint: p.Hint})
		}
	}
	if len(mistaken) > 0 {
		return
	}
	for _, p := range rules.Warnings(a.job) {
		if p.Code == jobspec.CodeTryTooMuch {
			a.add(Problem{Kind: Warning, Code: p.Code, Text: p.Text, Hint: p.Hint})
		}
	}
}
