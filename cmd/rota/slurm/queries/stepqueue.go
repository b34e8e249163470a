package queries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
)

// stepFormat is the default format of squeue --steps.
const stepFormat = "%.15i %.8j %.9P %.8u %.9M %N"

// allSteps is the value of --steps without a list.
const allSteps = "all"

// joinSteps joins --steps with the list in the next word, because Slurm accepts -s 7.0 as well as
// -s7.0.
func joinSteps(args []string) []string {
	begins := func(text string) bool { return text != "" && text[0] >= '0' && text[0] <= '9' }
	for i, arg := range args {
		list, short := strings.CutPrefix(arg, "-s")
		switch {
		case short && begins(list):
			return slices.Concat(args[:i], []string{"--steps=" + list}, args[i+1:])
		case (arg == "-s" || arg == "--steps") && i+1 < len(args) && begins(args[i+1]):
			return slices.Concat(args[:i], []string{"--steps=" + args[i+1]}, args[i+2:])
		}
	}
	return args
}

// selectSteps parses the list of steps.
func (q *queueList) selectSteps() error {
	if q.asJSON {
		return errors.New("--json does not list steps: sacct --json does")
	}
	q.filter.Fields = show.Distinct(append(q.filter.Fields, "id", "array", "group", "started", "nodes", "elapsed",
		"flags"))
	if q.steps == allSteps {
		return nil
	}
	refs, err := command.JobRefs([]string{q.steps})
	if err != nil {
		return fmt.Errorf("Invalid job_step id: %s", q.steps)
	}
	q.onlySteps, err = q.which.addSteps(refs)
	q.which.narrow(&q.filter)
	return err
}

// addSteps adds the jobs of the steps to the selection, and returns the steps. A job in the list
// stands for all of its steps.
func (s *selection) addSteps(refs []string) ([]stepRef, error) {
	var list []stepRef
	for _, ref := range refs {
		job, step := tool.CutStep(ref)
		one := stepRef{id: step}
		if err := errors.Join(s.addRefs([]string{job}), one.of.addRefs([]string{job})); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// printSteps prints the steps of running jobs.
func (q *queueList) printSteps(ctx context.Context, l *fields.Lines[*fields.JobRow]) error {
	rows, err := stepsOf(ctx, q.Tool, q.session, q.eachRow)
	if err != nil {
		return err
	}
	if q.onlySteps != nil {
		rows = slices.DeleteFunc(rows, func(r *fields.JobRow) bool {
			return !slices.ContainsFunc(q.onlySteps, func(one stepRef) bool { return one.names(r) })
		})
	}
	return q.printRows(rows, l)
}

// stepsOf returns the running steps of jobs, including batch steps.
func stepsOf(ctx context.Context, t *tool.Tool, s *command.Session,
	each func(context.Context, func(*fields.JobRow) error) error) ([]*fields.JobRow, error) {
	var jobs, rows []*fields.JobRow
	if err := each(ctx, func(r *fields.JobRow) error {
		kept, job := *r, *r.Job
		kept.Job = &job
		jobs = append(jobs, &kept)
		return nil
	}); err != nil {
		return nil, err
	}
	if err := askRunning(ctx, t, s, jobs); err != nil {
		return nil, err
	}
	for _, r := range jobs {
		rows = append(rows, r.LiveSteps()...)
	}
	return rows, nil
}

// showSteps prints the records of running steps: of all jobs, of one job, or one step.
func showSteps(ctx context.Context, t *tool.Tool, text string, o *ShowOptions) error {
	if o.JSON {
		return errors.New("--json is not supported for steps: sacct --json lists them")
	}
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	src.Never = "Unknown"
	var which selection
	var only []stepRef
	if text != "" {
		refs, err := command.JobRefs([]string{text})
		if err == nil {
			only, err = which.addSteps(refs)
		}
		if err != nil {
			return fmt.Errorf("Invalid job step id specified: %s", text)
		}
	}
	s, err := t.Connect()
	if err != nil {
		return err
	}
	rows, err := stepsOf(ctx, t, s, func(ctx context.Context, visit func(*fields.JobRow) error) error {
		var filter api.JobFilter
		which.narrow(&filter)
		err := eachJob(ctx, s, filter, func(j *api.Job) error {
			for _, r := range which.named(src.Unfold(j, false)) {
				if err := visit(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return tool.LoadFailure(err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out := o.records(t, "steps")
	found := false
	for _, r := range rows {
		if only == nil || slices.ContainsFunc(only, func(one stepRef) bool { return one.names(r) }) {
			found = true
			if err := out.add(r.StepRecord(), nil); err != nil { // add refuses JSON here
				return err
			}
		}
	}
	switch {
	case !found && text == "":
		fmt.Fprintln(t.Stdout, "No job steps in the system")
	case !found:
		return fmt.Errorf("Job step %s not found", text)
	}
	return out.end(t, "")
}
