package views

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// queueList holds the options of rota queue.
type queueList struct {
	*command.Session
	view     *listing.View[api.Job]
	filter   api.JobFilter
	nodes    []string // only jobs on these nodes, unless empty
	tree     bool     // show array tasks and groups under their job, and jobs under their dependency
	elements bool     // show each pending array task on its own line
	seen     map[model.JobID]bool
}

// print shows the queue one time.
func (q *queueList) print(ctx context.Context) error {
	if q.view.AsReceived() && !q.tree && !q.elements && len(q.nodes) == 0 && !q.IsTerminal(q.Stdout) {
		return q.copyJSON(ctx)
	}
	if q.view.RowByRow() && !q.tree && !q.elements {
		return q.printRows(ctx)
	}
	list := &api.List[api.Job]{APIVersion: api.Version, Kind: "JobList", Items: []api.Job{}}
	answer, err := q.eachJob(ctx, func(j *api.Job) {
		if q.tree || q.isShown(j) {
			list.Items = append(list.Items, *j)
		}
	})
	if err != nil {
		return err
	}
	list.Index = answer.Index
	if q.tree {
		list.Items = asTree(list.Items)
	}
	if q.elements {
		list.Items = eachElement(list.Items)
	}
	return q.view.Show(q.Env, list)
}

// printRows converts each job to a row as it arrives, so that memory holds rows only.
func (q *queueList) printRows(ctx context.Context) error {
	t := q.view.EmptyTable()
	if _, err := q.eachJob(ctx, func(j *api.Job) {
		if q.isShown(j) {
			q.view.AddRow(t, j)
		}
	}); err != nil {
		return err
	}
	return t.Print(q.Stdout, q.Screen(), q.view.Format, q.view.Header)
}

// eachJob calls visit for each job on the selected nodes. The job is valid until visit returns;
// visit must copy what it keeps.
func (q *queueList) eachJob(ctx context.Context, visit func(*api.Job)) (api.Answer, error) {
	f := q.filter
	f.Fields = q.view.Fields("id", "array", "group", "groups", "dependencies", "nodes")
	q.seen = map[model.JobID]bool{}
	answer, err := q.EachJob(ctx, f, api.Read{}, func(j *api.Job) error {
		if len(f.Refs) > 0 {
			q.seen[j.ID] = true
		}
		if runsOn(j, q.nodes) {
			visit(j)
		}
		return nil
	})
	if err == nil {
		q.WarnStale(answer)
	}
	return answer, err
}

// isShown reports whether a job is shown. In tables, an array or pipeline job whose members are
// listed is hidden, unless the user named it.
func (q *queueList) isShown(j *api.Job) bool {
	if q.view.Structured() {
		return true
	}
	if j.Array.Indices != "" && len(q.filter.States) > 0 && !slices.ContainsFunc(q.filter.States, isPending) {
		return false // this array runs, but its row would show the pending tasks
	}
	return len(q.filter.Refs) > 0 || !isEmptyRecord(j)
}

func isPending(state string) bool {
	return strings.EqualFold(state, string(model.Pending)) || strings.EqualFold(state, "PENDING")
}

// copyJSON copies the controller's JSON to the output while it arrives.
func (q *queueList) copyJSON(ctx context.Context) error {
	body, answer, err := q.StreamJobs(ctx, q.filter, api.Read{})
	if err != nil {
		return err
	}
	defer body.Close()
	q.WarnStale(answer)
	if _, err := io.Copy(q.Stdout, body); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	return nil
}

// iterate shows the queue again and again until the user interrupts.
func (q *queueList) iterate(ctx context.Context, text string) error {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0.1 || seconds > 86400 {
		return exit.Usagef("-i %s: must be a number of seconds from 0.1 to 86400", text)
	}
	ctx, stop := command.Interruptible(ctx)
	defer stop()
	every := time.NewTicker(time.Duration(seconds * float64(time.Second)))
	defer every.Stop()
	away := follow.Retry{Env: q.Env}
	for {
		if q.IsTerminal(q.Stdout) {
			fmt.Fprint(q.Stdout, "\x1b[H\x1b[2J")
		}
		fmt.Fprintln(q.Stdout, show.Time(&api.Time{Time: q.Now()}, q.view.UTC))
		switch err := q.print(ctx); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			away.Answered()
		case away.ShouldRetry(ctx, err):
			away.Repeat() // the screen was cleared, so print the message about lost controllers again
			continue
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return nil // an interrupt is the normal end
		case <-every.C:
		}
		fmt.Fprintln(q.Stdout)
	}
}

// isEmptyRecord reports whether all tasks or groups of an array or pipeline job have rows of their
// own in the list.
func isEmptyRecord(j *api.Job) bool {
	return !j.Code.Final() && (j.Array.Size > 0 && j.Array.Indices == "" || show.IsPipeline(j))
}

// eachElement replaces the row of an array by one row for each pending task.
func eachElement(jobs []api.Job) []api.Job {
	var all []api.Job
	for i := range jobs {
		if tasks := show.PendingTasks(&jobs[i]); tasks != nil {
			all = append(all, tasks...)
		} else {
			all = append(all, jobs[i])
		}
	}
	return all
}

// asTree sorts jobs so that each follows its array, pipeline job or dependency, and indents their
// names.
func asTree(jobs []api.Job) []api.Job {
	at := map[model.JobID]int{}
	for i := range jobs {
		at[jobs[i].ID] = i
	}
	under := map[int][]int{}
	var roots []int
	for i := range jobs {
		if p, ok := at[parentOf(&jobs[i])]; ok && p != i {
			under[p] = append(under[p], i)
		} else {
			roots = append(roots, i)
		}
	}
	out := make([]api.Job, 0, len(jobs))
	seen := make([]bool, len(jobs))
	var walk func(i, depth int)
	walk = func(i, depth int) {
		if seen[i] {
			return
		}
		seen[i] = true
		j := jobs[i]
		if depth > 0 {
			j.Name = strings.Repeat("  ", depth-1) + "└ " + j.Name
		}
		out = append(out, j)
		for _, k := range under[i] {
			walk(k, depth+1)
		}
	}
	for _, i := range roots {
		walk(i, 0)
	}
	return out
}

// parentOf returns the job above a job in the tree, 0 if there is none.
func parentOf(j *api.Job) model.JobID {
	var group model.JobID
	if j.Group != nil {
		group = j.Group.Job
	}
	var first model.JobID
	for _, d := range j.Dependencies {
		if len(d.Jobs) > 0 && group == 0 {
			first = cmp.Or(first, d.Jobs[0])
		}
	}
	return cmp.Or(j.Array.Job, group, first)
}
