package steps

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
)

// srunFlag is a flag of srun that concerns a step. It is written as NAME/LETTER VARIABLES; a
// variable sets the flag if the command line does not, and a later variable outweighs an earlier
// one.
type srunFlag struct {
	name      string
	takes     srunTakes
	usually   string // value of the flag when it is written without one
	variables []string
	refused   string // why the flag is refused and what to do; "": it is accepted
	noted     bool   // print that the flag has no effect, because the step differs from the request
}

type srunTakes int

const (
	takesValue srunTakes = iota
	takesNothing
	takesPerhaps
)

// srunFlags are the flags that affect a step.
var srunFlags = []srunFlag{
	{name: "nodes/N", variables: []string{"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
	{name: "ntasks/n", variables: []string{"SLURM_NPROCS", "SLURM_NTASKS"}},
	{name: "ntasks-per-node", variables: []string{"SLURM_NTASKS_PER_NODE"}},
	{name: "nodelist/w"},
	{name: "exclude/x"},
	{name: "relative/r"},
	{name: "distribution/m", variables: []string{"SLURM_DISTRIBUTION"}},
	{name: "cpus-per-task/c", variables: []string{"SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK"}},
	{name: "mem"},
	{name: "mem-per-cpu"},
	{name: "gpus/G", variables: []string{"SLURM_GPUS"}},
	{name: "gpus-per-node", variables: []string{"SLURM_GPUS_PER_NODE"}},
	{name: "gpus-per-task", variables: []string{"SLURM_GPUS_PER_TASK"}},
	{name: "gres", variables: []string{"SLURM_STEP_GRES"}},
	{name: "ntasks-per-gpu", variables: []string{"SLURM_NTASKS_PER_GPU"}},
	{name: "cpus-per-gpu", variables: []string{"SLURM_CPUS_PER_GPU"}},
	{name: "overcommit/O", takes: takesNothing, variables: []string{"SLURM_OVERCOMMIT"}},
	{name: "exclusive", takes: takesPerhaps, usually: "node", variables: []string{"SLURM_EXCLUSIVE"}},
	{name: "exact", takes: takesNothing, variables: []string{"SLURM_EXACT"}},
	{name: "whole", takes: takesNothing, variables: []string{"SLURM_WHOLE"}},
	{name: "overlap", takes: takesNothing, variables: []string{"SLURM_OVERLAP"}},
	{name: "immediate/I", takes: takesPerhaps, usually: "1", variables: []string{"SLURM_IMMEDIATE"}},
	{name: "time/t", variables: []string{"SLURM_TIMELIMIT"}},
	{name: "wait/W", variables: []string{"SLURM_WAIT"}},
	{name: "kill-on-bad-exit/K", takes: takesPerhaps, usually: "1", variables: []string{"SLURM_KILL_BAD_EXIT"}},
	{name: "jobid"},
	{name: "het-group"},
	{name: "job-name/J"},
	{name: "chdir/D", variables: []string{"SLURM_REMOTE_CWD", "SLURM_WORKING_DIR"}},
	{name: "export", variables: []string{"SLURM_EXPORT_ENV", "SRUN_EXPORT_ENV"}},
	{name: "multi-prog", takes: takesNothing, variables: []string{"SLURM_SRUN_MULTI"}},
	{name: "pty", takes: takesNothing},
	{name: "label/l", takes: takesNothing, variables: []string{"SLURM_LABELIO"}},
	{name: "unbuffered/u", takes: takesNothing, variables: []string{"SLURM_UNBUFFEREDIO"}},
	{name: "output/o", variables: []string{"SLURM_STDOUTMODE"}},
	{name: "error/e", variables: []string{"SLURM_STDERRMODE"}},
	{name: "input/i", variables: []string{"SLURM_STDINMODE"}},
	{name: "open-mode", variables: []string{"SLURM_OPEN_MODE"}},
	{name: "container-image"},
	{name: "container-workdir"},
	{name: "container-mounts"},
	{name: "gpu-bind", variables: []string{"SLURM_GPU_BIND"}},
	{name: "mpi", variables: []string{"SLURM_MPI_TYPE"}},
	{name: "quiet/Q", takes: takesNothing},
	{name: "disable-status/X", takes: takesNothing, variables: []string{"SLURM_DISABLE_STATUS"}},
	{name: "quit-on-interrupt", takes: takesNothing},
}

// srunWithout are flags that may be ignored silently. They tune core binding or srun itself,
// describe what every step does anyway, or concern an existing job.
var srunWithout = []srunFlag{
	{name: "cpu-bind"}, {name: "mem-bind"}, {name: "hint"}, {name: "accel-bind"}, {name: "cpu-freq", noted: true},
	{name: "gpu-freq", noted: true}, {name: "threads-per-core"}, {name: "cores-per-socket"}, {name: "sockets-per-node"},
	{name: "ntasks-per-core", noted: true}, {name: "ntasks-per-socket", noted: true},
	{name: "extra-node-info/B", noted: true}, {name: "comment"},
	{name: "acctg-freq"}, {name: "profile"}, {name: "wckey"}, {name: "account/A"}, {name: "partition/p"},
	{name: "qos/q"}, {name: "constraint/C", refused: "a step runs on nodes of its job: choose among them with --nodelist"},
	{name: "network", noted: true}, {name: "threads/T"}, {name: "msg-timeout"},
	{name: "slurmd-debug"}, {name: "mincpus", noted: true}, {name: "tmp", noted: true}, {name: "gres-flags"},
	{name: "switches"},
	{name: "mail-type"}, {name: "mail-user"},
	{name: "reservation", refused: "Rota has no reservations"},
	{name: "priority"},
	{name: "nice", takes: takesPerhaps},
	{name: "spread-job", takes: takesNothing}, {name: "propagate", takes: takesPerhaps, noted: true},
	{name: "resv-ports", takes: takesPerhaps, noted: true}, {name: "no-kill/k", takes: takesPerhaps},
	{name: "verbose/v", takes: takesNothing}, {name: "preserve-env/E", takes: takesNothing},
	{name: "use-min-nodes", takes: takesNothing}, {name: "contiguous", takes: takesNothing, noted: true},
	{name: "oversubscribe/s", takes: takesNothing},
	{name: "container-name", noted: true},
	{name: "container-remap-root", takes: takesNothing, noted: true},
	{name: "no-container-remap-root", takes: takesNothing},
	{name: "no-container-mount-home", takes: takesNothing, noted: true},
	{name: "no-container-entrypoint", takes: takesNothing},
	{name: "container-writable", takes: takesNothing, noted: true},
	{name: "container-readonly", takes: takesNothing, noted: true},
}

// Takes reports whether srun accepts a flag such as -n or --ntasks for a step, and whether the flag
// has an effect.
func Takes(flag string) (taken, effect bool) {
	has := func(list []srunFlag) bool {
		return slices.ContainsFunc(list, func(f srunFlag) bool {
			name, letter, _ := strings.Cut(f.name, "/")
			return f.refused == "" && ("--"+name == flag || letter != "" && flag == "-"+letter)
		})
	}
	effect = has(srunFlags)
	return effect || has(srunWithout), effect
}

// srunLine is a parsed command line of srun.
type srunLine struct {
	*tool.Tool
	values map[string]string // values of the flags, from the command line or variables
	typed  map[string]bool   // flags that the command line sets
	words  []string          // the command and its arguments
	group  int               // index of the job's component that the line is for
	more   []*srunLine       // the step's parts in other components
}

func (line *srunLine) has(name string) bool { _, given := line.values[name]; return given }

// is reports whether a switch is on. A variable turns it off by 0 or no.
func (line *srunLine) is(name string) bool {
	switch v, given := line.values[name]; strings.ToLower(v) {
	case "0", "no", "false":
		return false
	default:
		return given
	}
}

// number returns the value of a numeric flag, or 0 if unset.
func (line *srunLine) number(name string, least int) (int, error) {
	text, given := line.values[name]
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > 1<<20 {
		return 0, fmt.Errorf("Invalid numeric value \"%s\" for --%s.", text, name)
	}
	return n, nil
}

// attached handles values written directly after the letter of a flag with an optional value; pflag
// cannot parse these.
var attached = regexp.MustCompile(`^-([KI])([0-9]+)$`)

// readPart parses the command line of srun for one component of a job.
func readPart(t *tool.Tool, args []string) (*srunLine, error) {
	args = slices.Clone(args)
	for i, word := range args {
		m := attached.FindStringSubmatch(word)
		if m == nil {
			continue
		}
		before := srunSet(t)
		if before.Parse(args[:i]) == nil && before.NArg() == 0 && !slices.Contains(args[:i], "--") {
			args[i] = "-" + m[1] + "=" + m[2]
		}
	}
	set := srunSet(t)
	words, err := t.Parse(set, args)
	if err != nil {
		return nil, err
	}
	line := &srunLine{Tool: t, values: map[string]string{}, typed: map[string]bool{}, words: words}
	set.Visit(func(f *pflag.Flag) {
		line.values[f.Name], line.typed[f.Name] = f.Value.String(), true
	})
	return line, line.refuseFlags()
}

// readVariables sets the flags that the command line leaves to environment variables.
func (line *srunLine) readVariables() error {
	for _, f := range srunFlags {
		name, _, _ := strings.Cut(f.name, "/")
		for _, variable := range f.variables {
			v := line.variable(variable, ofComponent[name])
			if v != "" && f.takes == takesNothing {
				if _, err := tool.ReadSwitch(variable, v); err != nil {
					return err
				}
			}
			if v != "" && !line.typed[name] {
				line.values[name] = v
			}
		}
	}
	return nil
}

// refuseFlags refuses flags that a step cannot honour, and prints which flags have no effect.
func (line *srunLine) refuseFlags() error {
	for _, f := range srunWithout {
		name, _, _ := strings.Cut(f.name, "/")
		switch {
		case !line.typed[name]:
		case f.refused != "":
			return fmt.Errorf("--%s=%s is not supported in a step: %s", name, line.values[name], f.refused)
		case f.noted && !line.is("quiet"):
			line.Infof("warning: --%s has no effect on a step", name)
		}
	}
	return nil
}

// srunSet returns srun's flags. As with getopt, long names may be shortened, and some flags have an
// older name with underscores.
func srunSet(t *tool.Tool) *pflag.FlagSet {
	set := t.Flags()
	set.SetInterspersed(false)
	for _, f := range slices.Concat(srunFlags, srunWithout) {
		name, letter, _ := strings.Cut(f.name, "/")
		switch f.takes {
		case takesNothing:
			set.BoolP(name, letter, false, "")
		default:
			set.StringP(name, letter, "", "")
			if f.takes == takesPerhaps {
				set.Lookup(name).NoOptDefVal = f.usually
				if f.usually == "" {
					set.Lookup(name).NoOptDefVal = "yes"
				}
			}
		}
	}
	set.SetNormalizeFunc(func(f *pflag.FlagSet, name string) pflag.NormalizedName {
		return tool.Shortened(f, strings.ReplaceAll(name, "_", "-"))
	})
	return set
}

// jobOf returns the job of a step, and whether this process runs inside that job.
func (line *srunLine) jobOf() (ref string, own bool, err error) {
	mine := line.OwnJob()
	given, named := line.values["jobid"]
	if !named {
		if mine == "" { // as in Slurm, the variable names the job in a shell of salloc too
			given = line.Getenv("SLURM_JOB_ID")
		}
		if given == "" {
			return mine, mine != "", nil
		}
	}
	refs, err := command.JobRefs([]string{given})
	if err != nil || len(refs) != 1 {
		return "", false, errors.New(tool.NoSuchJob)
	}
	return refs[0], refs[0] == mine, nil
}
