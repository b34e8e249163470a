package submit

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// resubmit submits failed or cancelled jobs again.
func resubmit(env *command.Env, c *cli.Context) error {
	session, ref, err := env.ConnectForJob(c)
	if err != nil {
		return err
	}
	failed, cancelled := c.Bool("failed"), c.Bool("cancelled")
	if !failed && !cancelled {
		return exit.Usagef("--failed or --cancelled is required: rota resubmit %s", c.Command.ArgsUsage)
	}
	wanted := func(code model.JobState) bool {
		if code == model.Cancelled {
			return cancelled
		}
		return failed && code.Final() && code != model.Completed
	}
	job, _, err := session.JobBy(c.Context, ref, api.Read{})
	if err != nil {
		return err
	}
	spec, err := specAgain(c.Context, session, job, wanted)
	if err != nil {
		return err
	}
	id, err := session.Submit(c.Context, api.NewKey(), spec)
	if err != nil {
		return submitFailed(spec.Name, "", err)
	}
	return printID(env, id, session.AsJSON, c.Bool("parsable"))
}

// specAgain returns the specification for submitting a job again, without its dependencies and its
// begin time.
func specAgain(ctx context.Context, session *command.Session, job *api.Job,
	wanted func(model.JobState) bool) (*jobspec.Job, error) {
	if job.Spec == nil {
		return nil, exit.Usagef("job %s belongs to another user: only its owner can resubmit it", show.JobName(job))
	}
	spec := *job.Spec
	spec.Dependencies, spec.Begin = nil, ""
	switch {
	case job.Array.Job != 0:
		if !wanted(job.Code) {
			return nil, notWanted(job)
		}
		ordinal := spec.Array.Ordinal(*job.Array.Index)
		spec.Array = subArray(spec.Array, []jobspec.Span{{First: ordinal, Last: ordinal}})
	case spec.Array != nil:
		spans, err := wantedElements(ctx, session, job, wanted)
		if err != nil {
			return nil, err
		}
		if len(spans) == 0 {
			return nil, notWanted(job)
		}
		spec.Array = subArray(spec.Array, spans)
	case !wanted(job.Code):
		return nil, notWanted(job)
	}
	return &spec, nil
}

func notWanted(job *api.Job) error {
	return exit.Usagef("nothing of job %s to resubmit: it is %s", show.JobName(job), job.State)
}

// wantedElements returns the wanted tasks of an array, as ranges of ordinals. Tasks that were
// cancelled before they started are in no list, so they are inferred.
func wantedElements(ctx context.Context, session *command.Session, record *api.Job,
	wanted func(model.JobState) bool) ([]jobspec.Span, error) {
	elements := record.Spec.Array.Elements()
	states := make([]model.JobState, elements.Len())
	note := func(j *api.Job) {
		if j.Array.Job == record.ID && j.Array.Index != nil {
			if n := elements.Ordinal(*j.Array.Index); n >= 0 {
				states[n] = j.Code
			}
		}
	}
	refs := []string{show.ID(record.ID)}
	past, _, err := listing.JoinPages(func(page string) (*api.List[api.Job], error) {
		list, _, err := session.History(ctx, api.HistoryFilter{Refs: refs, Limit: pageSize, Page: page}, api.Read{})
		return list, err
	}, 0)
	if err != nil {
		return nil, err
	}
	for i := range past.Items {
		note(&past.Items[i])
	}
	_, err = session.EachJob(ctx, api.JobFilter{Refs: refs, All: true}, api.Read{},
		func(j *api.Job) error { note(j); return nil })
	if err != nil {
		return nil, err
	}
	var spans []jobspec.Span
	for n, state := range states {
		if state == "" && record.Code.Final() {
			state = model.Cancelled
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

// subArray returns an array with some of the tasks. Indices are kept; parameters become a table,
// whose indices count from 0.
func subArray(a *jobspec.Array, spans []jobspec.Span) *jobspec.Array {
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

// pageSize is how many ended jobs one request asks for.
const pageSize = 1000
