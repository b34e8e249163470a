package main

import (
	"bufio"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// why prints one sentence, the nodes left after each obstacle, and advice.
func (w *world) why(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	ref, err := oneJob(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	why, answer, err := client.WhyBy(c.Context, ref)
	if err != nil {
		return err
	}
	w.warnStale(answer)
	if asJSON {
		return printJSON(w.stdout, why)
	}
	if len(why.Funnel) == 0 { // it does not wait for room: what it is like instead says more
		if job, _, err := client.JobBy(c.Context, ref, api.Read{}); err == nil && job.Code != cluster.Pending {
			why.Reason = api.Reason{Text: whyNot(job)}
			why.Advice = afterwards(ref, job)
		}
	}
	return printWhy(w.stdout, ref, why)
}

func printWhy(out io.Writer, ref string, why *api.Why) error {
	b := bufio.NewWriter(out)
	text := clean(reasonText(why.Reason))
	if text == "" {
		text = "it does not wait"
	}
	fmt.Fprintf(b, "Job %s: %s\n", ref, text)
	if why.Ahead > 0 {
		fmt.Fprintf(b, "%s it.\n", count(why.Ahead, "job goes before", "jobs go before"))
	}
	if len(why.Funnel) > 0 {
		fmt.Fprintln(b)
		if err := printFunnel(b, why.Funnel); err != nil {
			return err
		}
	}
	if why.Advice != "" {
		fmt.Fprintf(b, "\n%s\n", clean(why.Advice))
	}
	return b.Flush()
}

// whyNot says of a job that does not wait what it does instead, or how it ended.
func whyNot(j *api.Job) string {
	switch {
	case j.Array.Size > 0 && j.Array.Index == nil && !ended(j):
		return "it does not wait: all of its elements have begun"
	case len(j.Groups) > 0 && j.Groups[0].ID != 0 && !ended(j):
		return "it does not wait: some of its groups have begun"
	case j.Code == cluster.Configuring:
		return "it does not wait: it is being started on " + hosts(j.Nodes)
	case j.Code == cluster.Running:
		return "it does not wait: it runs on " + hosts(j.Nodes)
	case j.Code == cluster.Completing:
		return "it does not wait: it is being stopped on " + hosts(j.Nodes)
	case j.Code == cluster.Completed:
		return "it has ended well"
	case j.Code == cluster.Cancelled && j.Reason.Code == "" && j.Reason.Text != "":
		return "it was cancelled: " + j.Reason.Text
	case j.Code == cluster.Cancelled && j.Reason.Code == "":
		return "it was cancelled"
	}
	text := reasonText(j.Reason)
	switch {
	case text == "":
		text = "it has ended as " + j.State
	case j.Code != cluster.Failed || j.Array.Size > 0 && j.Array.Index == nil || len(j.Groups) > 0:
	case j.Signal != 0:
		text += fmt.Sprintf(", by signal %d", j.Signal)
	case j.ExitCode != 0:
		text += fmt.Sprintf(", with exit code %d", j.ExitCode)
	}
	return text
}

// afterwards says where to look at a job that has failed, "" of any other.
func afterwards(ref string, j *api.Job) string {
	switch {
	case !ended(j) || j.Code == cluster.Completed || j.Code == cluster.Cancelled:
	case j.Array.Size > 0 && j.Array.Index == nil:
		return fmt.Sprintf("rota hist -j %s -s F lists its elements that failed", ref)
	case j.Attempt > 0 && j.Code != cluster.BootFailed && noOutputOfItsOwn(j) == "":
		return fmt.Sprintf("rota logs %s shows its output", ref)
	}
	return ""
}
