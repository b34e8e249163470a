package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// update changes jobs that have not ended.
func (w *world) update(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	refs, err := someJobs(c)
	if err != nil {
		return err
	}
	change, err := changeOf(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	return w.forEach(refs, "job", "updated", asJSON, func(ref string) (*api.ControlResponse, error) { return client.Update(c.Context, ref, change) })
}

// changeOf reads what is to be changed.
func changeOf(c *cli.Context) (api.UpdateRequest, error) {
	var change api.UpdateRequest
	if text := c.String("time"); text != "" {
		limit, err := parseLimit(strings.TrimLeft(text, "+-"))
		if err != nil {
			return change, err
		}
		switch text[0] {
		case '+':
			change.AddTime = &limit
		case '-':
			limit = -limit
			change.AddTime = &limit
		default:
			change.TimeLimit = &limit
		}
	}
	if c.IsSet("priority") {
		n := c.Int("priority")
		change.Priority = &n
	}
	if name := c.String("name"); name != "" {
		change.Name = &name
	}
	if change == (api.UpdateRequest{}) {
		return change, usagef("what is to be changed? rota update %s", c.Command.ArgsUsage)
	}
	return change, nil
}

// array is `rota array prune`.
func (w *world) array(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() != 2 || c.Args().First() != "prune" {
		return usagef("rota array %s", c.Command.ArgsUsage)
	}
	refs, err := jobRefs([]string{c.Args().Get(1)})
	if err != nil {
		return err
	}
	req := api.PruneRequest{Metric: c.String("metric"), Keep: c.String("keep"), Goal: c.String("goal"), AtStep: int64(c.Int("at-step")), DryRun: c.Bool("dry-run")}
	if req.Metric == "" || req.Keep == "" {
		return usagef("say by what the elements are compared and how many go on: rota array %s", c.Command.ArgsUsage)
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	resp, err := client.Prune(c.Context, refs[0], req)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w.stdout, resp)
	}
	verb := "cancelled"
	if req.DryRun {
		verb = "would be cancelled"
	}
	fmt.Fprintf(w.stdout, "kept: %s\n%s: %s\n", indexList(resp.Kept), verb, indexList(resp.Cancelled))
	if len(resp.Silent) > 0 {
		fmt.Fprintf(w.stdout, "left alone, without %s yet: %s\n", req.Metric, indexList(resp.Silent))
	}
	return nil
}

// indexList writes indices as short as they can be said.
func indexList(indices []int) string {
	if len(indices) == 0 {
		return "none"
	}
	indices = slices.Sorted(slices.Values(indices))
	var r cluster.Ranges
	for _, n := range indices {
		r = r.With(cluster.Span(n, n))
	}
	return r.String()
}

// resubmit submits again what failed or was cancelled.
func (w *world) resubmit(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	ref, err := oneJob(c)
	if err != nil {
		return err
	}
	failed, cancelled := c.Bool("failed"), c.Bool("cancelled")
	if !failed && !cancelled {
		return usagef("what of it? rota resubmit %s", c.Command.ArgsUsage)
	}
	wanted := func(code cluster.JobState) bool {
		if code == cluster.Cancelled {
			return cancelled
		}
		return failed && code.Final() && code != cluster.Completed
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	job, _, err := client.JobBy(c.Context, ref, api.Read{})
	if err != nil {
		return err
	}
	spec, err := w.again(c, client, job, wanted)
	if err != nil {
		return err
	}
	id, err := client.Submit(c.Context, api.NewKey(), spec)
	if err != nil {
		return err
	}
	return w.submitted(id, asJSON, c.Bool("parsable"))
}

// again is the specification of what is wanted of a job that was. What it waited for then it waits for no more.
func (w *world) again(c *cli.Context, client *api.Client, job *api.Job, wanted func(cluster.JobState) bool) (*jobspec.Job, error) {
	if job.Spec == nil {
		return nil, usagef("job %s is another user's: its owner may submit it again", calledAs(job))
	}
	spec := *job.Spec
	spec.Dependencies, spec.Begin = nil, ""
	switch {
	case job.Array.Job != 0:
		if !wanted(job.Code) {
			return nil, notWanted(job)
		}
		ordinal := spec.Array.Ordinal(*job.Array.Index)
		spec.Array = chosen(spec.Array, []jobspec.Span{{First: ordinal, Last: ordinal}})
	case spec.Array != nil:
		spans, err := w.wantedElements(c, client, job, wanted)
		if err != nil {
			return nil, err
		}
		if len(spans) == 0 {
			return nil, notWanted(job)
		}
		spec.Array = chosen(spec.Array, spans)
	case !wanted(job.Code):
		return nil, notWanted(job)
	}
	return &spec, nil
}

func notWanted(job *api.Job) error {
	return usagef("nothing of job %s is to be submitted again: it is %s", calledAs(job), job.State)
}

// wantedElements finds the elements whose state is wanted, by ordinal. Those that were cancelled before they began are in no list.
func (w *world) wantedElements(c *cli.Context, client *api.Client, record *api.Job, wanted func(cluster.JobState) bool) ([]jobspec.Span, error) {
	elements := record.Spec.Array.Elements()
	states := make([]cluster.JobState, elements.Len())
	note := func(j *api.Job) {
		if j.Array.Job == record.ID && j.Array.Index != nil {
			if n := elements.Ordinal(*j.Array.Index); n >= 0 {
				states[n] = j.Code
			}
		}
	}
	refs := []string{idText(record.ID)}
	past, _, err := pages(func(page string) (*api.List[api.Job], error) {
		list, _, err := client.History(c.Context, api.HistoryFilter{Refs: refs, Limit: histLimit, Page: page}, api.Read{})
		return list, err
	}, 0)
	if err != nil {
		return nil, err
	}
	for i := range past.Items {
		note(&past.Items[i])
	}
	_, err = client.EachJob(c.Context, api.JobFilter{Refs: refs, All: true}, api.Read{}, func(j *api.Job) error { note(j); return nil })
	if err != nil {
		return nil, err
	}
	var spans []jobspec.Span
	for n, state := range states {
		if state == "" && record.Code.Final() {
			state = cluster.Cancelled
		}
		switch k := len(spans); {
		case !wanted(state):
		case k > 0 && spans[k-1].Last == n-1:
			spans[k-1].Last = n
		default:
			spans = append(spans, jobspec.Span{First: n, Last: n})
		}
	}
	return spans, nil
}

// chosen is an array of some elements of another. Indices stay what they are; of parameters a table is made, whose indices count from 0.
func chosen(a *jobspec.Array, spans []jobspec.Span) *jobspec.Array {
	elements := a.Elements()
	next := *a
	if a.Indices != "" {
		next.Indices = elements.Text(spans)
		return &next
	}
	next.Matrix, next.Columns, next.Rows = nil, a.Names(), nil
	for _, s := range spans {
		for n := s.First; n <= s.Last; n++ {
			var row []string
			for _, p := range elements.Params(n) {
				row = append(row, p.Value)
			}
			next.Rows = append(next.Rows, row)
		}
	}
	return &next
}
