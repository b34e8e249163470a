package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// queueList is one way to show the queue.
type queueList struct {
	*world
	view     *view[job]
	client   *api.Client
	filter   api.JobFilter
	nodes    []string // jobs on these only, if there are any
	tree     bool     // members under their records, dependents under what they wait for
	elements bool     // a line for each element that has not begun
	seen     map[cluster.JobID]bool
}

// print shows the queue once.
func (q *queueList) print(ctx context.Context) error {
	if q.view.plain() && !q.tree && !q.elements && len(q.nodes) == 0 && !q.terminal(q.stdout) {
		return q.pass(ctx)
	}
	if q.view.rows() && !q.tree && !q.elements {
		return q.printRows(ctx)
	}
	list := &api.List[job]{APIVersion: api.Version, Kind: "JobList", Items: []job{}}
	answer, err := q.each(ctx, func(j *job) {
		if q.tree || q.takes(j) {
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
	return q.view.show(q.world, list)
}

// printRows makes a row of each job as it comes: of a hundred thousand jobs, only the rows are kept.
func (q *queueList) printRows(ctx context.Context) error {
	t := q.view.emptyTable()
	if _, err := q.each(ctx, func(j *job) {
		if q.takes(j) {
			q.view.addRow(t, j)
		}
	}); err != nil {
		return err
	}
	return t.print(q.stdout, q.view.form, q.view.header)
}

// each visits the jobs on the nodes in question. A visited job is good until visit returns.
func (q *queueList) each(ctx context.Context, visit func(*job)) (api.Answer, error) {
	f := q.filter
	f.Fields = q.view.fields("id", "array", "group", "groups", "dependencies", "nodes")
	q.seen = map[cluster.JobID]bool{}
	answer, err := q.client.EachJob(ctx, f, api.Read{}, func(j *job) error {
		if len(f.Refs) > 0 {
			q.seen[j.ID] = true
		}
		if runsOn(j, q.nodes) {
			visit(j)
		}
		return nil
	})
	if err == nil {
		q.warnStale(answer)
	}
	return answer, err
}

// takes reports whether a job is shown. Where people read, what only stands for others in the list is left out, unless it was asked for.
func (q *queueList) takes(j *job) bool {
	if q.view.form == formatJSON || q.view.form == formatYAML {
		return true
	}
	if j.Array.Indices != "" && len(q.filter.States) > 0 && !slices.ContainsFunc(q.filter.States, isPending) {
		return false // the array runs, but its row is of what has not begun
	}
	return len(q.filter.Refs) > 0 || !isEmptyRecord(j)
}

func isPending(state string) bool {
	return strings.EqualFold(state, string(cluster.Pending)) || strings.EqualFold(state, "PENDING")
}

// pass copies the controller's JSON to the output as it comes.
func (q *queueList) pass(ctx context.Context) error {
	body, answer, err := q.client.StreamJobs(ctx, q.filter, api.Read{})
	if err != nil {
		return err
	}
	defer closeQuietly(body)
	q.warnStale(answer)
	if _, err := io.Copy(q.stdout, body); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	return nil
}

// again shows the queue every so many seconds until the user interrupts.
func (q *queueList) again(ctx context.Context, text string) error {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0.1 || seconds > 86400 {
		return usagef("-i %s: a number of seconds from 0.1 to 86400 is wanted", text)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	every := time.NewTicker(time.Duration(seconds * float64(time.Second)))
	defer every.Stop()
	away := patience{world: q.world}
	for {
		if q.terminal(q.stdout) {
			fmt.Fprint(q.stdout, "\x1b[H\x1b[2J")
		}
		fmt.Fprintln(q.stdout, stamp(&api.Time{Time: q.now()}, q.view.utc))
		switch err := q.print(ctx); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			away.answered()
		case away.bears(ctx, err):
			away.told = false // what was said is cleared, or stands above another time
			continue
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			return nil // interrupting is how it ends
		case <-every.C:
		}
		fmt.Fprintln(q.stdout)
	}
}

// isEmptyRecord reports whether a job only stands for its members, all of which are in the list themselves.
func isEmptyRecord(j *job) bool {
	return j.Array.Size > 0 && j.Array.Indices == "" && !j.Code.Final() || len(j.Groups) > 0 && j.Groups[0].ID != 0 && !j.Code.Final()
}

// eachElement puts in place of an array's record one line for each element that has not begun.
func eachElement(jobs []job) []job {
	var all []job
	for i := range jobs {
		j := jobs[i]
		indices, _, _ := strings.Cut(j.Array.Indices, "%")
		runs, err := jobspec.ParseIndices(indices)
		if indices == "" || err != nil {
			all = append(all, j)
			continue
		}
		for _, run := range runs {
			for n := range run.Len() {
				index := run.First + n*run.Step
				e := j
				e.Array = api.ArrayPlace{Job: j.ID, Index: &index}
				e.Code, e.State, e.Elapsed, e.Started = cluster.Pending, "PENDING", 0, nil
				all = append(all, e)
			}
		}
	}
	return all
}

// asTree orders jobs so that each stands under the record that it is a member of or the job that it waits for, and indents their names.
func asTree(jobs []job) []job {
	at := map[cluster.JobID]int{}
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
	out := make([]job, 0, len(jobs))
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

// parentOf returns the job under which a job stands in a tree, 0 if none.
func parentOf(j *job) cluster.JobID {
	var group cluster.JobID
	if j.Group != nil {
		group = j.Group.Job
	}
	var first cluster.JobID
	for _, d := range j.Dependencies {
		if len(d.Jobs) > 0 && group == 0 {
			first = cmp.Or(first, d.Jobs[0])
		}
	}
	return cmp.Or(j.Array.Job, group, first)
}
