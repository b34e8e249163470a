package queries

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
)

// jobOptions are the options of squeue and sacct that select jobs.
type jobOptions struct{ users, accounts, called, queues, classes, nodes, states string }

// add defines the flags of the options under a command's own names, in the order of the struct.
// Commas separate an option's other names; its letter follows a slash.
func (o *jobOptions) add(f *pflag.FlagSet, names ...string) {
	for i, to := range []*string{&o.users, &o.accounts, &o.called, &o.queues, &o.classes, &o.nodes, &o.states} {
		list, letter, _ := strings.Cut(names[i], "/")
		all := strings.Split(list, ",")
		f.StringVarP(to, all[0], letter, "", "")
		tool.Aliased(f, all[0], all[1:]...)
	}
}

// selection builds the selection of jobs from the options. "all" selects every state
func (o *jobOptions) selection() (s selection, all bool, err error) {
	s.users, s.accounts, s.names = command.SplitList(o.users), command.SplitList(o.accounts), command.SplitList(o.called)
	s.queues, s.classes = command.SplitList(o.queues), command.SplitList(o.classes)
	if s.states, all, err = fields.ReadStates(o.states); err == nil {
		s.nodes, err = readNodes(o.nodes)
	}
	return s, all, err
}

// readNodes parses a list of nodes; "" is an empty list.
func readNodes(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names, err := command.NodeRefs(command.SplitOutsideBrackets(withoutEmpty(list)))
	if err != nil {
		return nil, fmt.Errorf("Invalid node name %s: %w", list, err)
	}
	return names, nil
}

// withoutEmpty removes commas that separate nothing, as in "22," and "22,,23". Slurm ignores them.
func withoutEmpty(list string) string {
	for strings.Contains(list, ",,") {
		list = strings.ReplaceAll(list, ",,", ",")
	}
	return strings.Trim(list, ",")
}

// readJobs parses lists of jobs and steps.
func readJobs(lists ...string) ([]string, error) {
	var all []string
	for _, list := range lists {
		refs, err := command.JobRefs([]string{withoutEmpty(list)})
		if err != nil {
			return nil, fmt.Errorf("Invalid job id: %s", list)
		}
		all = append(all, refs...)
	}
	return all, nil
}

// jobList is one run of squeue or sacct.
type jobList struct {
	*tool.Tool
	session *command.Session
	source  *fields.Source
	columns []fields.Column[*fields.JobRow]
	which   selection
}

// resolve fetches the cluster's name and the queues that aliases name, as far as the list needs
// them.
func (l *jobList) resolve(ctx context.Context, c *common) error {
	needed := c.asJSON || fields.Shows(l.columns, "Cluster")
	if err := setCluster(ctx, l.session, l.source, c.clusters, needed); err != nil {
		return err
	}
	return l.which.useAliases(ctx, l.session)
}
