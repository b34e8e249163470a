package views

import (
	"bufio"
	"cmp"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// showWhy prints why a job waits, how many nodes each requirement leaves, and advice.
func showWhy(env *command.Env, c *cli.Context) error {
	session, ref, err := env.ConnectForJob(c)
	if err != nil {
		return err
	}
	why, answer, err := session.WhyBy(c.Context, ref)
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, why)
	}
	if len(why.Funnel) == 0 { // the job does not wait for capacity, so the state says more
		if job, _, err := session.JobBy(c.Context, ref, api.Read{}); err == nil && job.Code != model.Pending {
			text := notWaiting(job, c.Bool("utc"))
			lost := why.Reason.Code == string(model.ReasonNodeLost)
			if lost || job.Code == model.Suspended && why.Reason.Code == string(model.ReasonSuspended) {
				text += "; " + why.Reason.Text // what the job needs to continue
			}
			if why.Reason = (api.Reason{Text: text}); !lost {
				why.Advice = cmp.Or(adviceAfterEnd(ref, job), why.Advice)
			}
		}
	}
	return printWhy(env.Stdout, env.Screen(), ref, why, c.Bool("utc"))
}

func printWhy(out io.Writer, screen table.Screen, ref string, why *api.Why, utc bool) error {
	b := bufio.NewWriter(show.Fold(out, screen.Width))
	text := show.Clean(show.Reason(why.Reason))
	if text == "" {
		text = "it is not pending"
	}
	fmt.Fprintf(b, "Job %s: %s\n", ref, text)
	if why.Ahead > 0 {
		fmt.Fprintf(b, "%s it.\n", show.Count(why.Ahead, "job is ahead of", "jobs are ahead of"))
	}
	if err := table.PrintObstacles(b, screen, why.Funnel, why.Advice); err != nil {
		return err
	}
	show.Quotas(b, why.Quotas)
	show.AfterPreemption(b, why.After)
	if e := why.Ended; e != nil {
		fmt.Fprintf(b, "attempt %d ended with %s: %s (rule %s)\n", e.Attempt, e.Cause, show.Clean(e.Text), e.Rule)
	}
	if len(why.Steering) > 0 {
		fmt.Fprintln(b)
	}
	for _, s := range why.Steering {
		fmt.Fprintln(b, show.Steering(s, utc))
	}
	for _, d := range why.WouldPreempt {
		fmt.Fprintln(b, show.Displacement(d))
	}
	return b.Flush()
}

// notWaiting describes a job that is not pending: its state, or how it ended.
func notWaiting(j *api.Job, utc bool) string {
	switch {
	case show.IsArray(j) && !j.Code.Final():
		return "it is not pending: all of its tasks have started"
	case show.IsPipeline(j) && !j.Code.Final():
		return "it is not pending: some of its groups have started"
	case j.Code == model.Configuring:
		return "it is starting on " + show.Hosts(j.Nodes)
	case j.Code == model.Running:
		return "it is running on " + show.Hosts(j.Nodes)
	case j.Code == model.Suspended:
		return "it is suspended on " + show.Hosts(j.Nodes) + show.SuspendedFor(j, utc)
	case j.Code == model.Completing:
		return "it is stopping on " + show.Hosts(j.Nodes)
	case j.Code == model.Checkpointing:
		return "it is leaving " + show.Hosts(j.Nodes) + show.LeavingFor(j)
	case j.Code == model.Completed:
		return "it has completed"
	case j.Code == model.Cancelled && j.Reason.Code == "":
		text := "it was cancelled"
		if by := show.CancelledBy(j); by != "" {
			text += " by " + by
		}
		if j.Reason.Text != "" {
			text += ": " + j.Reason.Text
		}
		return text
	}
	text := show.Reason(j.Reason)
	switch {
	case text == "":
		text = "it has ended as " + j.State
	case j.Code != model.Failed || show.IsArray(j) || len(j.Groups) > 0:
	case j.Signal != 0:
		text += fmt.Sprintf(", signal %d", j.Signal)
	case j.ExitCode != 0:
		text += fmt.Sprintf(", exit code %d", j.ExitCode)
	}
	return text
}

// adviceAfterEnd says where to look after a job failed; "" for other jobs.
func adviceAfterEnd(ref string, j *api.Job) string {
	switch {
	case !j.Code.Final() || j.Code == model.Completed || j.Code == model.Cancelled:
	case show.IsArray(j):
		return fmt.Sprintf("\"rota hist -j %s -s F\" lists its failed tasks", ref)
	case j.Attempt > 0 && j.Code != model.BootFailed && follow.OutputElsewhere(j) == "":
		return fmt.Sprintf("\"rota logs %s\" shows its output", ref)
	}
	return ""
}
