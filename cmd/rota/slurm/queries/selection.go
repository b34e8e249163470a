package queries

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// setCluster stores the name of the cluster, and refuses the names of others.
func setCluster(ctx context.Context, s *command.Session, src *fields.Source, wanted string, needed bool) error {
	if wanted == "" && !needed {
		return nil
	}
	var err error
	src.Cluster, err = tool.ClusterName(ctx, s, wanted)
	return err
}

// common holds the options that all listing commands share.
type common struct {
	noHeader, asJSON, exact bool
	clusters                string
}

// add defines the flags. The letter of --noheader differs between commands.
func (c *common) add(f *pflag.FlagSet, noHeader string) {
	f.BoolVarP(&c.noHeader, "noheader", noHeader, false, "")
	f.BoolVar(&c.asJSON, "json", false, "")
	f.BoolVar(&c.exact, "noconvert", false, "")
	f.StringVarP(&c.clusters, "clusters", "M", "", "")
	f.StringVar(&c.clusters, "cluster", "", "")
}

// sheetFlags adds the flags of a sheet, whose format is the value of one flag.
func sheetFlags[T any](f *pflag.FlagSet, s *fields.Sheet[T], format *string) {
	s.Flags(f)
	f.BoolVarP(&s.NoHeader, "noheader", "n", false, "")
	f.StringVarP(format, "format", "o", "", "")
}

// begin parses a command line that takes options and no arguments.
func begin(t *tool.Tool, f *pflag.FlagSet, args []string, defaults map[string]string) (err error) {
	if err := t.ParseOptions(f, args); err != nil {
		return err
	}
	if f.Changed("format") || f.Changed("Format") { // a format on the command line outweighs both variables
		defaults = maps.Clone(defaults)
		delete(defaults, "format")
		delete(defaults, "Format")
	}
	for name, variable := range defaults {
		if value := t.Getenv(variable); value != "" && !given(f, name) {
			if err := tool.SetFrom(f, name, variable, value); err != nil {
				return err
			}
		}
	}
	f.Visit(func(flag *pflag.Flag) {
		if empty := strings.Trim(flag.Value.String(), " ,"); empty == "" && err == nil && flag.Name != "delimiter" {
			err = fmt.Errorf("--%s is empty", flag.Name)
		}
	})
	return err
}

// given reports whether the user set a flag by any of its names.
func given(f *pflag.FlagSet, name string) (is bool) {
	value := f.Lookup(name).Value
	f.Visit(func(flag *pflag.Flag) { is = is || flag.Value == value })
	return is
}

// selection holds the filters that select jobs. An empty list selects all.
type selection struct {
	users, accounts, names, queues, classes, nodes []string
	states                                         []model.JobState
	refs                                           []string
	tasks                                          map[model.JobID]map[int]bool // the named tasks of arrays
}

// addRefs adds job ids to the filter. An array is fetched whole even if only some tasks are named,
// because its pending tasks share one row.
func (s *selection) addRefs(refs []string) error {
	if s.tasks == nil {
		s.tasks = map[model.JobID]map[int]bool{}
	}
	for _, ref := range refs {
		array, indices, isTask := strings.Cut(ref, "_")
		id, err := strconv.ParseInt(array, 10, 64)
		if !isTask || err != nil {
			s.refs = append(s.refs, ref)
			continue
		}
		some := s.tasks[model.JobID(id)]
		if some == nil {
			if slices.Contains(s.refs, array) {
				continue // the list names the whole array too
			}
			some = map[int]bool{}
			s.tasks[model.JobID(id)] = some
			s.refs = append(s.refs, array)
		}
		indices, _, _ = strings.Cut(strings.Trim(indices, "[]"), "%")
		for part := range strings.SplitSeq(indices, ",") {
			runs, err := jobspec.ParseIndices(part)
			if err != nil {
				return fmt.Errorf("Invalid job id: %s", ref)
			}
			for n := runs[0].First; n <= runs[0].Last; n += runs[0].Step {
				some[n] = true
			}
		}
	}
	for _, ref := range refs {
		if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
			delete(s.tasks, model.JobID(id))
		}
	}
	return nil
}

// named keeps the rows of named jobs, and in a row of array tasks the named tasks.
func (s *selection) named(rows []*fields.JobRow) []*fields.JobRow {
	if len(s.tasks) == 0 {
		return rows
	}
	return slices.DeleteFunc(rows, func(r *fields.JobRow) bool {
		if some := s.tasks[r.Array.Job]; some != nil && r.Array.Index != nil {
			return !some[*r.Array.Index]
		}
		some := s.tasks[r.ID]
		switch {
		case some == nil:
			return false
		case r.Array.Indices == "":
			return true // the row has no array tasks
		}
		indices, most, _ := strings.Cut(r.Array.Indices, "%")
		runs, err := jobspec.ParseIndices(indices)
		var kept []int
		for _, run := range runs {
			for n := run.First; n <= run.Last; n += run.Step {
				if some[n] {
					kept = append(kept, n)
				}
			}
		}
		switch {
		case err != nil || len(kept) == 0:
			return true
		case len(kept) == 1:
			r.Array = api.ArrayPlace{Job: r.ID, Index: &kept[0]}
			return false
		}
		if r.Array.Indices = jobspec.MakeIndices(kept).String(); most != "" {
			r.Array.Indices += "%" + most
		}
		return false
	})
}

// useAliases replaces aliases in the filter by the queues that they name.
func (s *selection) useAliases(ctx context.Context, session *command.Session) error {
	if len(s.queues) == 0 {
		return nil
	}
	config, _, err := session.Config(ctx, api.Read{})
	if err != nil {
		return &tool.LoadError{What: "slurm_load_partitions", Text: show.Clean(tool.AsSlurm(err).Error())}
	}
	for i, name := range s.queues {
		s.queues[i] = config.QueueName(name)
	}
	return nil
}

// checkNodes refuses node names that the cluster does not know.
func (s *selection) checkNodes(ctx context.Context, session *command.Session) error {
	if len(s.nodes) == 0 {
		return nil
	}
	list, _, err := session.Nodes(ctx, api.Read{})
	if err != nil {
		return &tool.LoadError{What: "slurm_load_nodes", Text: show.Clean(tool.AsSlurm(err).Error())}
	}
	for _, name := range s.nodes {
		if !slices.ContainsFunc(list.Items, func(n api.Node) bool { return n.Name == name }) {
			return fmt.Errorf("Invalid node name %s", name)
		}
	}
	return nil
}

// narrow passes filters with a single value on to the controller, which then sends fewer jobs.
func (s *selection) narrow(f *api.JobFilter) {
	one := func(into *string, list []string) {
		if len(list) == 1 {
			*into = list[0]
		}
	}
	if len(s.users) == 1 && !isNumber(s.users[0]) {
		f.User = s.users[0]
	}
	one(&f.Account, s.accounts)
	one(&f.Name, s.names)
	one(&f.Queue, s.queues)
	f.Refs = s.refs
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

// needs returns the members of the API's JSON that selects reads.
func (s *selection) needs() []string {
	return []string{"user", "uid", "account", "name", "queue", "class", "nodes", "code", "state", "array", "groups",
		"ended"}
}

// selects reports whether a row matches the filters.
func (s *selection) selects(r *fields.JobRow) bool {
	in := func(list []string, values ...string) bool {
		return len(list) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(list, v) })
	}
	return in(s.users, r.User, strconv.Itoa(int(r.UID))) && in(s.accounts, r.Account) && in(s.names, r.Name) &&
		in(s.queues, r.Queue) && in(s.classes, string(r.Class)) && in(s.nodes, r.Nodes...) &&
		(len(s.states) == 0 || slices.Contains(s.states, r.Code))
}

// eachJob calls a function for each job that matches a filter of the API.
func eachJob(ctx context.Context, s *command.Session, f api.JobFilter, visit func(*api.Job) error) error {
	return eachRef(f.Refs, func(refs []string) error {
		f.Refs = refs
		_, err := s.EachJob(ctx, f, api.Read{}, visit)
		return err
	})
}

// eachRef fetches the named jobs. With several names, unknown jobs are skipped, as in Slurm.
func eachRef(refs []string, ask func(refs []string) error) error {
	err := ask(refs)
	if !exit.IsNotFound(err) || len(refs) < 2 {
		return err
	}
	for i := range refs {
		if err := ask(refs[i : i+1]); err != nil && !exit.IsNotFound(err) {
			return err
		}
	}
	return nil
}
