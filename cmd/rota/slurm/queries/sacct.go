package queries

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Fields of sacct by default, with --brief, and with --long.
const (
	acctFormat  = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
	briefFormat = "JobID,State,ExitCode"
	wideFormat  = "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxRSS,AveRSS,AllocCPUS,Elapsed,State,ExitCode,ReqMem," +
		"AllocTRES"
)

// acctOptions are the options of sacct.
type acctOptions struct {
	common
	jobOptions
	sheet                                               fields.Sheet[*fields.JobRow]
	formats, jobs                                       []string
	start, finish, units                                string
	everyone, allocations, brief, long, anywhere, names bool
}

// flagsOfSacct defines the flags of sacct.
func flagsOfSacct(f *pflag.FlagSet) *acctOptions {
	o := &acctOptions{}
	o.common.add(f, "n")
	o.jobOptions.add(f, "user,uid,users/u", "accounts,account/A", "name", "partition,partitions/r", "qos/q",
		"nodelist,nodes/N", "state,states/s")
	f.BoolP("help", "h", false, "")
	f.StringArrayVarP(&o.formats, "format", "o", nil, "")
	f.StringArrayVarP(&o.jobs, "jobs", "j", nil, "")
	f.StringVarP(&o.start, "starttime", "S", "", "")
	f.StringVarP(&o.finish, "endtime", "E", "", "")
	o.sheet.Flags(f)
	f.StringVar(&o.sheet.Delimiter, "delimiter", "|", "")
	f.StringVar(&o.units, "units", "", "")
	f.BoolVarP(&o.everyone, "allusers", "a", false, "")
	f.BoolVarP(&o.allocations, "allocations", "X", false, "")
	f.BoolVarP(&o.brief, "brief", "b", false, "")
	f.BoolVarP(&o.long, "long", "l", false, "")
	f.BoolVarP(&o.names, "helpformat", "e", false, "")
	f.BoolVarP(&o.anywhere, "allclusters", "L", false, "") // there is only one cluster
	tool.Aliased(f, "jobs", "job")
	return o
}

// variablesOfSacct maps environment variables to the options that they set if the command line does
// not.
var variablesOfSacct = map[string]string{"format": "SACCT_FORMAT", "clusters": "SLURM_CLUSTERS"}

// acctList is one run of sacct.
type acctList struct {
	jobList
	*acctOptions
	onlySteps  []stepRef // nil: all steps, and the jobs themselves
	from, till time.Time // only jobs that existed between these times; zero: no bound
}

// sacct lists running and ended jobs.
func sacct(ctx context.Context, t *tool.Tool, args []string) error {
	f := t.Flags()
	o := flagsOfSacct(f)
	if err := begin(t, f, args, variablesOfSacct); err != nil {
		return err
	}
	if o.names {
		fields.PrintNames(t.Stdout, fields.Titles(fields.Jobs))
		return nil
	}
	a := &acctList{jobList: jobList{Tool: t}, acctOptions: o}
	var err error
	if a.source, err = fields.NewSource(t.Env); err != nil {
		return err
	}
	a.source.Past, a.source.Never = true, "Unknown"
	a.source.Exact, a.source.Unit = o.exact, strings.ToUpper(o.units)
	if a.source.Unit != "" && (len(a.source.Unit) != 1 || !strings.Contains(fields.Units, a.source.Unit)) {
		return fmt.Errorf("Invalid unit type %s: --units is one of K, M, G, T and P", o.units)
	}
	if err := o.sheet.Choose(fields.Jobs, a.fieldNames()); err != nil {
		return err
	}
	a.columns, o.sheet.NoHeader = o.sheet.Columns, o.noHeader
	if err := a.selectJobs(); err != nil {
		return err
	}
	if a.session, err = t.Connect(); err != nil {
		return err
	}
	return a.print(ctx)
}

// fieldNames returns the names of the requested fields.
func (a *acctList) fieldNames() string {
	switch {
	case len(a.formats) > 0:
		return strings.Join(a.formats, ",")
	case a.brief:
		return briefFormat
	case a.long:
		return wideFormat
	}
	return acctFormat
}

// selectJobs selects jobs as sacct does: by default today's jobs of the caller, and all users' jobs
// for root or with job ids.
func (a *acctList) selectJobs() error {
	var all bool
	var err error
	w := &a.which
	if *w, all, err = a.selection(); err != nil {
		return err
	}
	if all {
		w.states = nil
	}
	refs, err := readJobs(a.jobs...)
	if err != nil {
		return fmt.Errorf("Bad job/step specified: %s", strings.Join(a.jobs, ","))
	}
	for _, ref := range refs {
		job, step := tool.CutStep(ref)
		if err := w.addRefs([]string{job}); err != nil {
			return err
		}
		if step == "" {
			continue
		}
		one := stepRef{id: step}
		if err := one.of.addRefs([]string{job}); err != nil {
			return err
		}
		a.onlySteps = append(a.onlySteps, one)
	}
	if n := len(a.onlySteps); n > 0 && n < len(refs) {
		return errors.New("jobs and steps cannot be combined: list them separately")
	}
	if uid := os.Getuid(); len(w.users) == 0 && len(w.refs) == 0 && !a.everyone && uid != 0 {
		w.users = []string{strconv.Itoa(uid)}
	}
	return a.readTimes()
}

// readTimes parses the options --starttime and --endtime.
func (a *acctList) readTimes() error {
	now, err := a.Now(), error(nil)
	switch {
	case a.start != "":
		a.from, err = readTime(a.start, now)
	case len(a.which.refs) > 0:
	case len(a.which.states) > 0:
		a.from = now
	default:
		a.from, err = readTime("midnight", now)
	}
	if err == nil && a.finish != "" {
		a.till, err = readTime(a.finish, now)
	}
	if err == nil && !a.till.IsZero() && a.till.Before(a.from) {
		const form = "2006-01-02T15:04:05"
		err = fmt.Errorf("Start time (%s) requested is after end time (%s).", a.from.Local().Format(form),
			a.till.Local().Format(form))
	}
	return err
}

// print prints the list.
func (a *acctList) print(ctx context.Context) error {
	if err := a.resolve(ctx, &a.common); err != nil {
		return err
	}
	rows, err := a.rows(ctx)
	if err != nil {
		return err
	}
	if a.asJSON {
		out := bufio.NewWriterSize(a.Stdout, 1<<16)
		d, tree := fields.NewDocument(out, "jobs"), fields.PastTree()
		for _, r := range rows {
			if err := fields.AddRow(d, tree, r); err != nil {
				return err
			}
		}
		return d.End(a.Tool, a.source.Cluster)
	}
	return a.sheet.Print(a.Stdout, a.withSteps(rows))
}

// withSteps calls a function for each requested job and step.
func (a *acctList) withSteps(jobs []*fields.JobRow) iter.Seq[*fields.JobRow] {
	return func(yield func(*fields.JobRow) bool) {
		for _, r := range jobs {
			if (a.onlySteps == nil || a.allocations) && !yield(r) {
				return
			}
			if a.allocations {
				continue
			}
			for _, s := range r.Steps() {
				asked := func(one stepRef) bool { return one.names(s) }
				if (a.onlySteps == nil || slices.ContainsFunc(a.onlySteps, asked)) && !yield(s) {
					return
				}
			}
		}
	}
}

// rows returns the rows of the jobs, ordered by id. A job that ends between the two requests
// appears in both answers and is listed once.
func (a *acctList) rows(ctx context.Context) ([]*fields.JobRow, error) {
	var rows []*fields.JobRow
	add := func(j *api.Job) {
		for _, r := range a.which.named(a.source.Unfold(j, false)) {
			if a.which.selects(r) && a.isThere(r) {
				rows = append(rows, r)
			}
		}
	}
	filter := api.JobFilter{Steps: !a.allocations}
	a.which.narrow(&filter)
	if !a.asJSON {
		needs := append(append(a.which.needs(), fields.Members(a.columns)...), "id", "started", "submitted", "elapsed")
		if !a.allocations { // the rows of steps need these members
			needs = append(needs, "attempts", "workers", "nodes", "components", "code", "exit_code", "signal", "flags")
		}
		filter.Fields = show.Distinct(needs)
	}
	filter.Spec = a.asJSON || slices.Contains(filter.Fields, "spec")
	if err := eachJob(ctx, a.session, filter, func(j *api.Job) error {
		kept := *j
		add(&kept)
		return nil
	}); err != nil && !exit.IsNotFound(err) {
		return nil, tool.LoadFailure(err)
	}
	live, ended := len(rows), map[model.JobID]bool{}
	if err := a.eachEnded(ctx, filter.Fields, func(j *api.Job) {
		ended[j.ID] = true
		add(j)
	}); err != nil && !exit.IsNotFound(err) {
		return nil, tool.LoadFailure(err)
	}
	late := rows[live:]
	rows = slices.DeleteFunc(slices.Clone(rows[:live]), func(r *fields.JobRow) bool { return ended[r.ID] })
	rows = append(rows, late...)
	slices.SortStableFunc(rows, func(x, y *fields.JobRow) int { return cmp.Compare(x.ID, y.ID) })
	if a.allocations {
		return rows, nil
	}
	return rows, askRunning(ctx, a.Tool, a.session, rows)
}

// historyPage is the number of ended jobs in one request.
const historyPage = 1000

// eachEnded calls a function for each ended job that may match; members limits the JSON that the
// controller sends.
func (a *acctList) eachEnded(ctx context.Context, members []string, visit func(*api.Job)) error {
	var narrow api.JobFilter
	a.which.narrow(&narrow)
	return eachRef(narrow.Refs, func(refs []string) error {
		f := api.HistoryFilter{User: narrow.User, Account: narrow.Account, Name: narrow.Name, Refs: refs, Since: a.from,
			Limit: historyPage, Steps: !a.allocations, Fields: members}
		for {
			list, _, err := a.session.History(ctx, f, api.Read{})
			if err != nil {
				return err
			}
			for _, text := range list.Warnings {
				if f.Page == "" {
					a.Infof("%s", text)
				}
			}
			for i := range list.Items {
				visit(&list.Items[i])
			}
			if f.Page = list.Next; f.Page == "" {
				return nil
			}
		}
	})
}

// isThere reports whether a job existed between the two times.
func (a *acctList) isThere(r *fields.JobRow) bool {
	if !a.till.IsZero() && r.Submitted != nil && r.Submitted.After(a.till) {
		return false
	}
	return a.from.IsZero() || r.Ended == nil || !r.Ended.Before(a.from)
}

// readTime parses a time as sacct does, including midnight, noon, now-2hours, now+60 and the date
// 0926.
func readTime(text string, now time.Time) (time.Time, error) {
	local := now.Local()
	at := func(hour int) time.Time {
		return time.Date(local.Year(), local.Month(), local.Day(), hour, 0, 0, 0, time.Local)
	}
	switch strings.ToLower(text) {
	case "midnight", "today":
		return at(0), nil
	case "noon":
		return at(12), nil
	case "tomorrow":
		return at(24), nil
	}
	if rest, ok := strings.CutPrefix(text, "now"); ok && rest != "" {
		n, unit, digits := command.LeadingInt(rest[1:])
		d, known := spans[strings.TrimSuffix(unit, "s")]
		switch {
		case !digits || !known:
		case rest[0] == '-':
			return now.Add(-time.Duration(n) * d), nil
		case rest[0] == '+':
			return now.Add(time.Duration(n) * d), nil
		}
	}
	for _, layout := range []string{"01/02/06", "01/02/06-15:04", "01/02/06-15:04:05", "01.02.06", "2006-01-02T15",
		"2006-01-02T15:04:05Z07:00"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"01/02", "01/02-15:04", "0102", "01.02"} { // the current year is meant
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t.AddDate(local.Year(), 0, 0), nil
		}
	}
	if t, err := command.ParseWhen(text, now, false); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("Invalid time specification (pos=0): %s: write 2026-11-21, 2026-11-21T08:00, 08:00, "+
		"midnight, or now-2days", text)
}

// spans are the units of now+COUNT UNITS, with or without a final s.
var spans = map[string]time.Duration{"": time.Second, "second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": 24 * time.Hour, "week": 7 * 24 * time.Hour}
