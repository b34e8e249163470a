package steps

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec/script"
)

// ofBoth are the flags of srun that apply to its allocation and to the step in it, if srun runs
// outside of a job. Other flags of the allocation reach the step through variables, as in a shell
// of salloc.
var ofBoth = []string{"cpus-per-task", "job-name", "quiet"}

// counts are the flags whose variables only srun reads, not sbatch or salloc.
var counts = []string{"nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task"}

// outsideRun is an allocation with a single step that uses all of it.
type outsideRun struct {
	*allocation
	args []string // flags of the step
	name string   // name of the program
}

// runOutside runs a step in an allocation of its own; the allocation ends when the step ends.
func runOutside(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && t.About(args[0]) {
		return nil
	}
	o := &outsideRun{allocation: &allocation{Tool: t, chosen: true}}
	if err := o.readFlags(args); err != nil {
		if errors.Is(err, errListed) {
			return nil
		}
		return err
	}
	var err error
	if o.req, err = input.Srun(t.Env, o.name, o.flags, t.Warner(t.Name)); err != nil {
		return t.Unreadable(err)
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.session, _, err = t.ConnectFor(ctx, o.req.Result.Clusters); err != nil {
		return allocationError(err)
	}
	signals, stop := watchSignals()
	defer stop()
	job, err := o.grant(ctx, signals)
	if err != nil {
		return err
	}
	s, err := o.step(o.Tool, job, o.clusterName(ctx))
	var stdin io.Reader
	if err == nil {
		stdin, err = s.openInput()
	}
	if err == nil {
		s.session, s.awaitRun, s.request.EndsJob = o.session, o.awaitRun, true
		err = s.start(ctx, stdin, signals)
	}
	o.endAs(s, err)
	return err
}

// awaitRun waits until the job of the allocation runs. It returns an error if the job ended before
// it ran.
func (o *outsideRun) awaitRun(ctx context.Context) error {
	job, err := follow.WaitFor(ctx, o.session, o.id, follow.PollWait, follow.PollWait, func(j *api.Job) bool {
		return j.Code == model.Running || j.Code.Final()
	})
	if err == nil && job.Code.Final() {
		err = &notAllocated{lostAllocation(job)}
	}
	return err
}

// notAllocated is the error for an allocation that ended before its step started.
type notAllocated struct{ error }

// errListed ends a run of srun that only prints a list.
var errListed = errors.New("listed")

// readFlags splits the command line into flags of the allocation and flags of the step.
func (o *outsideRun) readFlags(args []string) error {
	flags, words, bad := script.SrunFlags(args)
	immediate, given := o.LookupEnv("SLURM_IMMEDIATE")
	for _, f := range flags {
		switch {
		case f.Name == "immediate":
			immediate, given = f.Value, true
		case f.Name == "mpi" && f.Value == "list" && len(bad) == 0:
			listMPI(o.Tool)
			return errListed
		case script.OnlyStep(f.Name):
			o.args = append(o.args, word(f))
		default:
			o.add(f)
		}
	}
	for _, f := range srunFlags { // variables that only srun reads, for the allocation
		name, _, _ := strings.Cut(f.name, "/")
		if !slices.Contains(counts, name) || o.gives(name) {
			continue
		}
		value := ""
		for _, variable := range f.variables {
			value = cmp.Or(o.Getenv(variable), value)
		}
		if value != "" {
			o.add(script.Flag{Name: name, Value: value, Has: true})
		}
	}
	switch {
	case len(bad) > 0:
		return o.Refuse("", bad)
	case len(words) == 0:
		return errors.New("No command given to execute.")
	case slices.Contains(args, ":"):
		return errors.New("outside of a job srun starts only one component: submit several components with sbatch or " +
			"salloc, and start steps in them")
	}
	o.name = filepath.Base(words[0])
	o.args = slices.Concat(o.args, []string{"--"}, words)
	return o.readImmediate(immediate, given)
}

// add appends a flag to the allocation's command line.
func (o *outsideRun) add(f script.Flag) {
	o.flags = append(o.flags, f)
	if slices.Contains(ofBoth, f.Name) {
		o.args = append(o.args, word(f))
	}
}

// word formats a flag as one word of a command line.
func word(f script.Flag) string {
	if f.Has {
		return "--" + f.Name + "=" + f.Value
	}
	return "--" + f.Name
}

// check refuses a step that cannot start, before the allocation is requested.
func (o *outsideRun) check() error {
	env := *o.Env
	env.Stderr = io.Discard // the real step prints these messages later
	t := *o.Tool
	t.Env = &env
	job := &api.Job{Name: o.req.Job.Name}
	for n := range o.req.Job.Groups[0].Count {
		job.Nodes = append(job.Nodes, "n"+strconv.Itoa(n))
	}
	s, err := o.step(&t, job, "")
	if err != nil {
		return err
	}
	path, _, _, err := s.inputFile()
	if err != nil || path == "" || strings.Contains(s.line.values["input"], "%") {
		return err
	}
	return readable(path)
}

// step returns the step that runs in an allocation.
func (o *outsideRun) step(t *tool.Tool, job *api.Job, cluster string) (*stepRun, error) {
	var own []string
	for _, entry := range t.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !o.isAllocations(name) {
			own = append(own, entry)
		}
	}
	all := o.environment(own, job, cluster)
	env := *t.Env
	env.Environ = func() []string { return all }
	env.Getenv = func(name string) string { value, _ := env.LookupEnv(name); return value }
	inside := *t
	inside.Env = &env
	line, err := readSrun(&inside, o.args)
	if err != nil {
		return nil, err
	}
	return newStepRun(&inside, line)
}

// isAllocations reports whether a variable of srun concerns the allocation, so that the step must
// ignore it.
func (o *outsideRun) isAllocations(variable string) bool {
	return slices.ContainsFunc(srunFlags, func(f srunFlag) bool {
		name, _, _ := strings.Cut(f.name, "/")
		switch {
		case !slices.Contains(f.variables, variable):
			return false
		case name == "chdir":
			return o.gives("chdir") || o.gives("container-workdir")
		}
		return !script.OnlyStep(name) || name == "immediate"
	})
}

// gives reports whether the user set a flag of the allocation.
func (o *outsideRun) gives(name string) bool {
	return slices.ContainsFunc(o.flags, func(f script.Flag) bool { return f.Name == name })
}

// endPause is how long srun waits for the end of a job that it cancelled, so that later commands
// find the job ended.
const endPause = 10 * time.Second

// endAs ends the allocation in the way its step ended; a nil step means that the flags were wrong.
// If a signal to srun ended the step, or no step ran, the job is cancelled.
func (o *outsideRun) endAs(s *stepRun, err error) {
	var code *exit.CodeError
	switch {
	case s != nil && s.interrupted && (s.end == nil || s.end.Signal != 0):
		o.cancel("srun was interrupted")
		o.awaitEnd(context.Background(), endPause)
	case s == nil || !s.asked: // a worker that is still starting cannot be told
		o.cancel("srun requested no step")
		o.awaitEnd(context.Background(), endPause)
	case s.end != nil && s.end.Signal != 0:
		o.release(0, s.end.Signal)
	case errors.As(err, &code):
		o.release(code.Code, 0)
	case err != nil:
		o.release(tool.Failed, 0)
	default:
		o.release(0, 0)
	}
}
