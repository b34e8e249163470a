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

// jobOptions say which jobs squeue and sacct list.
type jobOptions struct{ users, accounts, called, queues, classes, nodes, states string }

// add defines the options by their names in a command, in the order of the struct. Commas separate
// an option's other names; its letter follows a slash.
func (o *jobOptions) add(f *pflag.FlagSet, names ...string) {
	for i, to := range []*string{&o.users, &o.accounts, &o.called, &o.queues, &o.classes, &o.nodes, &o.states} {
		list, letter, _ := strings.Cut(names[i], "/")
		all := strings.Split(list, ",")
		f.StringVarP(to, all[0], letter, "", "")
		tool.Aliased(f, all[0], all[1:]...)
	}
}

// selection reads the options. all: every state is asked for.
func (o *jobOptions) selection() (s selection, all bool, err error) {
	s.users, s.accounts, s.names = command.SplitList(o.users), command.SplitList(o.accounts), command.SplitList(o.called)
	s.queues, s.classes = command.SplitList(o.queues), command.SplitList(o.classes)
	if s.states, all, err = fields.ReadStates(o.states); err == nil {
		s.nodes, err = readNodes(o.nodes)
	}
	return s, all, err
}

// readNodes reads a list of nodes; "" is none.
func readNodes(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names, err := command.NodeRefs(command.SplitOutsideBrackets(list))
	if err != nil {
		return nil, fmt.Errorf("Invalid node name %s: %w", list, err)
	}
	return names, nil
}

// readJobs reads lists of jobs and steps.
func readJobs(lists ...string) ([]string, error) {
	var all []string
	for _, list := range lists {
		refs, err := command.JobRefs([]string{list})
		if err != nil {
			return nil, fmt.Errorf("Invalid job id: %s", list)
		}
		all = append(all, refs...)
	}
	return all, nil
}

// jobList is one call of squeue or sacct.
type jobList struct {
	*tool.Tool
	session *command.Session
	source  *fields.Source
	columns []fields.Column[*fields.JobRow]
	which   selection
}

// resolve asks for what is needed to know the jobs and to write them: the name of the cluster, and for
// which partitions aliases stand.
func (l *jobList) resolve(ctx context.Context, c *common) error {
	needed := c.asJSON || fields.Shows(l.columns, "Cluster")
	if err := setCluster(ctx, l.session, l.source, c.clusters, needed); err != nil {
		return err
	}
	return l.which.useAliases(ctx, l.session)
}
