package submit

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// planJob asks the controllers whether a job would start now.
func planJob(env *command.Env, c *cli.Context) error {
	req, err := input.Read(env, c)
	if err != nil {
		return err
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	if err := checkCluster(c.Context, session, req); err != nil {
		return err
	}
	return showPlan(c.Context, session, req, true)
}

// showPlan prints where a job would start, or why it would wait. With strict, waiting is exit code
// 6.
func showPlan(ctx context.Context, session *command.Session, req *input.Submission, strict bool) error {
	var plan *api.PlanResponse
	err := req.OnFewestNodes(ctx, session, func(job *jobspec.Job) (err error) {
		plan, err = session.Plan(ctx, job)
		return err
	})
	if err != nil {
		return aboutSpec("plan", req.Job.Name, err)
	}
	if req.AsJSON {
		err = table.PrintJSON(session.Stdout, plan)
	} else {
		err = printPlan(session.Env, req.Job, plan)
	}
	if err == nil && strict && !plan.Starts {
		return exit.WithCode(exit.WouldWait)
	}
	return err
}

func printPlan(env *command.Env, job *jobspec.Job, plan *api.PlanResponse) error {
	screen := env.Screen()
	out := show.Fold(env.Stdout, screen.Width)
	if !plan.Starts {
		fmt.Fprintf(out, "%s would wait: %s\n", job.Name, show.Clean(show.DashIfEmpty(show.Reason(plan.Reason))))
		if plan.Ahead > 0 {
			fmt.Fprintf(out, "%s it\n", show.Count(plan.Ahead, "job is ahead of", "jobs are ahead of"))
		}
		printStart(out, plan)
		if err := table.PrintObstacles(out, screen, plan.Funnel, plan.Advice); err != nil {
			return err
		}
		printDisplaced(out, plan)
		return nil
	}
	if plan.Begins > 1 {
		what := "tasks"
		if len(job.Groups) > 1 && job.Array == nil {
			what = "groups"
		}
		fmt.Fprintf(out, "%d %s of %s would start now; the first of them here:\n", plan.Begins, what, job.Name)
	} else {
		fmt.Fprintf(out, "%s would start now\n", job.Name)
	}
	t := &table.Table{Columns: []table.Column{{Title: "WORKER", Right: true}, {Title: "NODE", Least: 8},
		{Title: "GPUS", Least: 8}}}
	for i, place := range plan.Places {
		gpus := make([]string, len(place.GPUs))
		for n, g := range place.GPUs {
			gpus[n] = strconv.Itoa(g)
		}
		t.Add(strconv.Itoa(i), place.Node, show.DashIfEmpty(strings.Join(gpus, ",")))
	}
	return t.Print(out, screen, table.AsTable, true)
}

// printStart writes when the job is expected to start.
func printStart(w io.Writer, plan *api.PlanResponse) {
	switch {
	case plan.StartLatest != nil:
		fmt.Fprintf(w, "it starts between %s and %s, %s\n", show.Time(plan.StartEarliest, false),
			show.Time(plan.StartLatest, false), show.Clean(plan.Basis))
	case plan.Basis != "":
		fmt.Fprintf(w, "its start is %s\n", show.Clean(plan.Basis))
	}
}

// printDisplaced writes which quotas apply, and which jobs would be asked to leave.
func printDisplaced(w io.Writer, plan *api.PlanResponse) {
	show.Quotas(w, plan.Quotas)
	if len(plan.Displaces) == 0 {
		show.AfterPreemption(w, plan.After)
		return
	}
	when := "at once"
	if plan.DisplacesAfter > 0 {
		when = "in " + show.Clock(jobspec.Seconds(plan.DisplacesAfter)) + " if it still waits then"
	}
	fmt.Fprintf(w, "\nDISPLACES, %s\n", when)
	for _, d := range plan.Displaces {
		fmt.Fprintf(w, "    %s\n", show.Displaced(d))
	}
	for _, s := range plan.Steering {
		fmt.Fprintf(w, "but %s\n", show.Steering(s, false))
	}
}
