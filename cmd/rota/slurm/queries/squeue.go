package queries

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Formats of squeue: the default, --long and --start.
const (
	queueFormat = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	longFormat  = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	stateFormat = "%.18i %.2t"
	startFormat = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
)

// minJobAge is how long squeue shows an ended job, in seconds.
const minJobAge = 300

// queueOptions are the options of squeue.
type queueOptions struct {
	common
	jobOptions
	format, names, jobs, steps, sort       string
	me, long, start, all, apart, stateOnly bool
	every                                  int
}

// flagsOfSqueue defines the flags of squeue.
func flagsOfSqueue(f *pflag.FlagSet) *queueOptions {
	o := &queueOptions{}
	o.common.add(f, "h")
	o.jobOptions.add(f, "user,users/u", "account,accounts/A", "name,names/n", "partition,partitions/p", "qos/q",
		"nodelist,nodes/w", "states,state/t")
	f.StringVarP(&o.format, "format", "o", "", "")
	f.StringVarP(&o.names, "Format", "O", "", "")
	f.StringVarP(&o.jobs, "jobs", "j", "", "")
	f.StringVarP(&o.sort, "sort", "S", "", "")
	f.BoolVar(&o.me, "me", false, "")
	f.BoolVarP(&o.long, "long", "l", false, "")
	f.BoolVar(&o.start, "start", false, "")
	f.BoolVarP(&o.all, "all", "a", false, "") // no partition is hidden anyway
	f.BoolVarP(&o.apart, "array", "r", false, "")
	f.BoolVar(&o.stateOnly, "only-job-state", false, "") // the other fields of the format are shown as well
	f.IntVarP(&o.every, "iterate", "i", 0, "")
	f.StringVarP(&o.steps, "steps", "s", "", "")
	f.Lookup("steps").NoOptDefVal = allSteps
	tool.Aliased(f, "jobs", "job")
	return o
}

// variablesOfSqueue maps environment variables to the options that they set if the command line
// does not.
var variablesOfSqueue = map[string]string{"format": "SQUEUE_FORMAT", "Format": "SQUEUE_FORMAT2", "sort": "SQUEUE_SORT",
	"states": "SQUEUE_STATES", "user": "SQUEUE_USERS", "account": "SQUEUE_ACCOUNT", "name": "SQUEUE_NAMES",
	"partition": "SQUEUE_PARTITION", "qos": "SQUEUE_QOS", "array": "SQUEUE_ARRAY", "all": "SQUEUE_ALL",
	"clusters": "SLURM_CLUSTERS"}

// squeue lists unfinished jobs.
func squeue(ctx context.Context, t *tool.Tool, args []string) error {
	f := t.Flags()
	o := flagsOfSqueue(f)
	if err := begin(t, f, joinSteps(args), variablesOfSqueue); err != nil {
		return err
	}
	q, err := readQueue(t, f, o)
	if err != nil {
		return err
	}
	if o.every == 0 {
		return q.print(ctx)
	}
	ctx, stop := command.Interruptible(ctx)
	defer stop()
	for {
		if err := q.print(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // an interrupt is the normal end of --iterate
		case <-time.After(time.Duration(o.every) * time.Second):
		}
		fmt.Fprintln(t.Stdout)
	}
}

// queueList is one run of squeue.
type queueList struct {
	jobList
	*queueOptions
	keys      []fields.SortKey[*fields.JobRow]
	filter    api.JobFilter
	onlySteps []stepRef // nil: all steps
}

// readQueue parses the command line.
func readQueue(t *tool.Tool, f *pflag.FlagSet, o *queueOptions) (*queueList, error) {
	q := &queueList{jobList: jobList{Tool: t}, queueOptions: o}
	var err error
	if q.source, err = fields.NewSource(t.Env); err != nil {
		return nil, err
	}
	q.source.Exact = o.exact
	switch {
	case f.Changed("iterate") && o.every < 1:
		return nil, fmt.Errorf("--iterate=%d: must be at least 1 second", o.every)
	case o.names != "":
		q.columns, err = fields.ParseNames(fields.Jobs, o.names)
	default:
		q.columns, err = fields.ParseLetters(fields.Jobs, q.letters())
	}
	if err != nil {
		return nil, err
	}
	if q.keys, err = fields.ParseSort(fields.Jobs, o.sort); err != nil {
		return nil, err
	}
	if err := q.selectJobs(); err != nil {
		return nil, err
	}
	if o.steps != "" {
		fields.TitleSteps(q.columns)
		if err := q.selectSteps(); err != nil {
			return nil, err
		}
	}
	if q.session, err = t.Connect(); err != nil {
		return nil, err
	}
	return q, nil
}

// letters returns the format as -o takes it.
func (q *queueList) letters() string {
	switch {
	case q.format != "":
		return q.format
	case q.steps != "":
		return stepFormat
	case q.start:
		return startFormat
	case q.stateOnly:
		return stateFormat
	case q.long:
		return longFormat
	}
	return queueFormat
}

// selectJobs builds the selection of jobs.
func (q *queueList) selectJobs() error {
	var all bool
	var err error
	w := &q.which
	if *w, all, err = q.selection(); err != nil {
		return err
	}
	if q.me {
		w.users = append(w.users, strconv.Itoa(os.Getuid()))
	}
	if q.start {
		w.states, all = []model.JobState{model.Pending}, false
	}
	if q.jobs != "" {
		refs, err := readJobs(q.jobs)
		if err != nil {
			return err
		}
		if err := w.addRefs(refs); err != nil {
			return err
		}
	}
	w.narrow(&q.filter)
	ended := all || slices.ContainsFunc(w.states, model.JobState.Final)
	// an ended job must be found by its id, otherwise it would be mistaken for an unknown job
	q.filter.All = ended || len(w.refs) > 0
	switch {
	case all:
		w.states = nil
	case len(w.states) == 0:
		w.states = []model.JobState{model.Pending, model.Configuring, model.Running, model.Suspended, model.Completing,
			"RS", "ST", "SI", "SO"}
	}
	q.filter.Start = q.start
	if q.asJSON {
		q.filter.Spec = true
		return nil
	}
	needs := append(w.needs(), fields.Members(q.columns)...)
	for _, k := range q.keys {
		needs = append(needs, k.Members()...)
	}
	if q.start {
		needs = append(needs, "start_latest")
	}
	q.filter.Fields = show.Distinct(needs)
	q.filter.Spec = slices.Contains(needs, "spec")
	return nil
}

// print prints the list one time.
func (q *queueList) print(ctx context.Context) error {
	if err := q.resolve(ctx, &q.common); err != nil {
		return err
	}
	if err := q.which.checkNodes(ctx, q.session); err != nil {
		return err
	}
	q.source.Now = q.Now()
	out := bufio.NewWriterSize(q.Stdout, 1<<16)
	if q.asJSON {
		return q.printJSON(ctx, out)
	}
	l := fields.Lines[*fields.JobRow]{Columns: q.columns, Out: out}
	if !q.noHeader {
		if q.clusters != "" {
			fmt.Fprintf(out, "CLUSTER: %s\n", q.source.Cluster)
		}
		if q.long || q.every > 0 {
			fmt.Fprintln(out, q.source.Now.Local().Format("Mon Jan 02 15:04:05 2006"))
		}
	}
	if q.steps != "" {
		return q.printSteps(ctx, &l)
	}
	if len(q.keys) > 0 || l.Fits() {
		return q.printSorted(ctx, &l)
	}
	if !q.noHeader {
		l.Header()
	}
	if err := q.eachRow(ctx, func(r *fields.JobRow) error { l.Row(r); return nil }); err != nil {
		return err
	}
	return out.Flush()
}

// printSorted collects all rows, sorts them and prints them.
func (q *queueList) printSorted(ctx context.Context, l *fields.Lines[*fields.JobRow]) error {
	var rows []*fields.JobRow
	if err := q.eachRow(ctx, func(r *fields.JobRow) error {
		kept, job := *r, *r.Job
		kept.Job = &job
		rows = append(rows, &kept)
		return nil
	}); err != nil {
		return err
	}
	return q.printRows(rows, l)
}

// printRows prints rows as they arrive.
func (q *queueList) printRows(rows []*fields.JobRow, l *fields.Lines[*fields.JobRow]) error {
	fields.SortRows(rows, q.keys)
	l.Fit(rows)
	if !q.noHeader {
		l.Header()
	}
	for _, r := range rows {
		l.Row(r)
	}
	return l.Out.Flush()
}

func (q *queueList) printJSON(ctx context.Context, out *bufio.Writer) error {
	d := fields.NewDocument(out, "jobs")
	tree := fields.LiveTree()
	if err := q.eachRow(ctx, func(r *fields.JobRow) error { return fields.AddRow(d, tree, r) }); err != nil {
		return err
	}
	return d.End(q.Tool, q.source.Cluster)
}

// eachRow calls a function for each row that matches.
func (q *queueList) eachRow(ctx context.Context, visit func(*fields.JobRow) error) error {
	found := false
	err := eachJob(ctx, q.session, q.filter, func(j *api.Job) error {
		if found = found || len(q.which.tasks) == 0; j.Code.Final() && j.Ended != nil &&
			q.source.Now.Sub(j.Ended.Time) > minJobAge*time.Second {
			return nil
		}
		for _, r := range q.which.named(q.source.Unfold(j, q.apart)) {
			if found = true; q.which.selects(r) {
				if err := visit(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return tool.LoadFailure(err)
	case len(q.filter.Refs) == 1 && !found:
		return tool.NoJob
	}
	return nil
}
