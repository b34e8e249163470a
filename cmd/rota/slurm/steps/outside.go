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

// ofBoth are the flags of srun outside of a job that say something of its allocation and of the
// step in it. Other flags of the allocation reach the step in variables, as in a shell of salloc.
var ofBoth = []string{"cpus-per-task", "job-name", "quiet"}

// counts are flags with variables that srun reads, and neither sbatch nor salloc.
var counts = []string{"nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu", "cpus-per-task"}

// outsideRun is an allocation for one step that has all of it.
type outsideRun struct {
	*allocation
	args []string // for the step
	name string   // of the program
}

// runOutside runs a step in an allocation of its own, which ends as the step does.
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

// awaitRun waits until the job of the allocation runs. The error says that it has ended before.
func (o *outsideRun) awaitRun(ctx context.Context) error {
	job, err := follow.WaitFor(ctx, o.session, o.id, follow.PollWait, follow.PollWait, func(j *api.Job) bool {
		return j.Code == model.Running || j.Code.Final()
	})
	if err == nil && job.Code.Final() {
		err = &notAllocated{lostAllocation(job)}
	}
	return err
}

// notAllocated is the error for a step whose allocation has ended before it began.
type notAllocated struct{ error }

// errListed ends a srun that has printed what it was asked for.
var errListed = errors.New("listed")

// readFlags reads the command line: what it says of the allocation, and what of the step.
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
	for _, f := range srunFlags { // variables that only srun has, for what it asks for
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
		return errors.New("outside of a job srun starts one component: submit several with sbatch or salloc, and start " +
			"steps in them")
	}
	o.name = filepath.Base(words[0])
	o.args = slices.Concat(o.args, []string{"--"}, words)
	return o.readImmediate(immediate, given)
}

// add adds a flag of the allocation.
func (o *outsideRun) add(f script.Flag) {
	o.flags = append(o.flags, f)
	if slices.Contains(ofBoth, f.Name) {
		o.args = append(o.args, word(f))
	}
}

// word writes a flag as a word.
func word(f script.Flag) string {
	if f.Has {
		return "--" + f.Name + "=" + f.Value
	}
	return "--" + f.Name
}

// check refuses a step that cannot be started, before its allocation is asked for.
func (o *outsideRun) check() error {
	env := *o.Env
	env.Stderr = io.Discard // the step says it again
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

// step returns the step in an allocation.
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

// isAllocations reports whether a variable of srun says something of the allocation, so that the step is not
// to read it.
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

// gives reports whether a flag of the allocation is given.
func (o *outsideRun) gives(name string) bool {
	return slices.ContainsFunc(o.flags, func(f script.Flag) bool { return f.Name == name })
}

// endPause is how long srun waits for the end of a job that it has cancelled, so that what follows finds that.
const endPause = 10 * time.Second

// endAs ends the allocation as its step has ended: nil if it could not be read. One that a signal to srun has
// ended is cancelled, and so is one without a step.
func (o *outsideRun) endAs(s *stepRun, err error) {
	var code *exit.CodeError
	switch {
	case s != nil && s.interrupted && (s.end == nil || s.end.Signal != 0):
		o.cancel("srun was interrupted")
		o.awaitEnd(context.Background(), endPause)
	case s == nil || !s.asked: // its worker may not have begun, which could not be told
		o.cancel("srun has asked for no step")
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
