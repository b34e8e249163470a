// Package views has the commands that show jobs, nodes, accounts and events.
package views

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	return command.InCategory("Show", slices.Concat(listCommands(), jobCommands(), clusterCommands()))
}

// listCommands are the lists of what is in the cluster now.
func listCommands() []*command.Command {
	return []*command.Command{
		{Name: "queue", Aliases: []string{"q"}, Usage: "show pending and running jobs",
			ArgsUsage: "[OPTIONS]", Action: showQueue,
			Flags: listing.ViewFlags(
				command.Switch("me", "only your jobs"),
				command.Text("user,u", "only jobs of `USER`"),
				command.Text("account,A", "only jobs of `ACCOUNT`"),
				command.Text("queue,p,partition", "only jobs of `QUEUE`"),
				command.Text("name,n", "only jobs with `NAME`"),
				command.Text("states,t,state", "only jobs in `STATES`, such as PD,R"),
				command.Text("jobs,j,job", "only jobs `IDS`"),
				command.Text("nodes,w,nodelist", "only jobs on `NODES`, such as gpu[01-04]"),
				command.Switch("all,a", "include recently ended jobs"),
				command.Switch("long,l", "the same as -o wide"),
				command.Switch("start", "show when jobs are expected to start, and on what that rests"),
				command.Switch("tree", "show array tasks and groups under their job, and jobs under the job they "+
					"depend on"),
				command.Switch("array,r", "show each pending array task on its own line"),
				command.Text("iterate,i", "repeat every `SECONDS` until Ctrl-C"),
			), Values: listing.Completions(queueCells,
				map[string]command.Source{"name": complete.JobNames})},
		{Name: "nodes", Usage: "show the nodes and their use", ArgsUsage: "[OPTIONS]",
			Action: showNodes,
			Flags: listing.ViewFlags(
				command.Text("nodes,w,nodelist", "only `NODES`, such as gpu[01-04]"),
				command.Switch("summary,s,summarize", //nolint:misspell // sinfo's spelling
					"one line for each state and kind of node"),
				command.Switch("long,l", "the same as -o wide")), Values: listing.Completions(nodeCells, nil)},
	}
}

// jobCommands show single jobs.
func jobCommands() []*command.Command {
	return []*command.Command{
		{Name: "status", Aliases: []string{"show"}, Usage: "show everything about a job",
			ArgsUsage: "[JOB...]", Action: showStatus, OwnJob: true,
			Description: "With --plot it draws the metric that the job reports, since the present leader took over.",
			Flags: command.WithCommon(
				command.Switch("plot", "draw the job's metric over its steps"),
				command.Text("metric", "with --plot: draw `METRIC` (default: the metric named in the job's progress block)"),
			), Arguments: complete.AllJobs},
		{Name: "eff", Aliases: []string{"seff"}, Usage: "show how much of its requested resources a job used",
			ArgsUsage: "[JOB...]", Action: showEfficiency, OwnJob: true,
			Description: "Shows the use of cores, memory and GPUs in percent of the job's allocation. The nodes of a running " +
				"job are queried for its use so far. For an array, each task that has started has a line.",
			Flags: command.WithCommon(
				&cli.IntFlag{Name: "attempt", Usage: "of attempt `N`", DefaultText: "the last"},
			), Arguments: complete.AllJobs},
		{Name: "why", Usage: "explain why a job is pending, or how it ended", ArgsUsage: "[JOB]", OwnJob: true,
			Action: showWhy, Flags: command.CommonFlags(), Arguments: complete.AllJobs},
		{Name: "logs", Aliases: []string{"log"}, Usage: "show a job's output",
			ArgsUsage: "[JOB[.WORKER]] [OPTIONS]", Action: showLogs, OwnJob: true,
			Flags: command.WithCommon(
				command.Switch("follow,f", "continue until the job ends"),
				command.Number("tail,n", "only the last `N` lines"),
				command.Switch("stdout", "only standard output"),
				command.Switch("stderr", "only standard error, if the job keeps it in a separate file"),
				&cli.IntFlag{Name: "worker", Usage: "only worker `N`", Value: -1, DefaultText: "all"},
				command.Text("task", "output of `TASK`"),
				&cli.IntFlag{Name: "attempt", Usage: "output of attempt `N`", DefaultText: "the last"},
				command.Switch("all", "output of all attempts, each below a line with its number"),
			), Arguments: complete.AllJobs},
	}
}

// clusterCommands show the past, and how the cluster is divided between accounts and jobs.
func clusterCommands() []*command.Command {
	return []*command.Command{
		{Name: "hist", Usage: "show ended jobs and their GPU hours", ArgsUsage: "[OPTIONS]",
			Action: showHistory,
			Flags:  listing.ViewFlags(histFlags()...), Values: listing.Completions(histCells, nil)},
		{Name: "audit", Usage: "show requests that changed something, or were refused", ArgsUsage: "[OPTIONS]",
			Action: showAudit,
			Description: "Users see their own requests, admins all requests. Equal refusals within a second are shown as one " +
				"line, with their number.",
			Flags: listing.ViewFlags(auditFlags()...), Values: listing.Completions(auditCells, nil)},
		{Name: "share", Usage: "show quota and usage of accounts", ArgsUsage: "[OPTIONS]",
			Action: showShares, Flags: listing.ViewFlags(
				command.Text("explain", "explain the share of `ACCOUNT`")), Values: listing.Completions(shareCells, nil)},
		{Name: "prio", Usage: "show pending jobs in the order in which the scheduler considers them", ArgsUsage: "[OPTIONS]",
			Action: showPriorities,
			Description: "Jobs are sorted by these terms, the leftmost first: class, accounts and user over quota, priority, " +
				"service level, age. Jobs without a position cannot start now.",
			Flags: listing.ViewFlags(
				command.Switch("me", "only your jobs"),
				command.Text("user,u", "only jobs of `USER`"),
				command.Text("account,A", "only jobs of `ACCOUNT`"),
				command.Text("jobs,j,job", "only jobs `IDS`"),
				command.Switch("long,l", "the same as -o wide"),
			), Values: listing.Completions(priorityCells, nil)},
		{Name: "events", Usage: "show events", ArgsUsage: "[OPTIONS]", Action: showEvents,
			Flags: listing.ViewFlags(
				command.Switch("follow,f", "continue with new events"),
				&cli.Uint64Flag{Name: "after", Aliases: []string{"since-index"}, Usage: "only events after `INDEX`"},
				command.Text("job,j", "only events of jobs `IDS`"),
				command.Text("node,w,nodes", "only events of `NODES`, such as gpu[01-04]"),
				command.Text("type", "only events of `TYPES`, such as started,finished"),
			), Values: listing.Completions(eventCells,
				map[string]command.Source{"type": complete.Words(eventTypes...)})},
	}
}

// jobFilter reads the filters of rota queue.
func jobFilter(env *command.Env, c *cli.Context) (api.JobFilter, error) {
	f := api.JobFilter{Account: c.String("account"), Queue: c.String("queue"), Name: c.String("name"),
		States: command.SplitList(c.String("states")), All: c.Bool("all")}
	if err := command.RefuseEmpty(c, "user", "account", "queue", "name", "states", "jobs", "iterate"); err != nil {
		return f, err
	}
	var err error
	if f.User, err = env.SelectedUser(c); err != nil {
		return f, err
	}
	if text := c.String("jobs"); text != "" {
		f.All = true
		f.Refs, err = command.JobRefs([]string{text})
	}
	return f, err
}

func showQueue(env *command.Env, c *cli.Context) error {
	cells := queueCells
	if c.Bool("start") {
		cells = startCells
	}
	v, session, err := listing.Open(env, c, cells)
	if err != nil {
		return err
	}
	filter, err := jobFilter(env, c)
	if err != nil {
		return err
	}
	filter.Start = c.Bool("start")
	nodes, err := command.NodesOf(c, "nodes")
	if err != nil {
		return err
	}
	q := &queueList{Session: session, view: v, filter: filter, nodes: nodes, tree: c.Bool("tree"),
		elements: c.Bool("array")}
	if text := c.String("iterate"); text != "" {
		return q.iterate(c.Context, text)
	}
	if err := q.print(c.Context); err != nil {
		return err
	}
	return reportMissing(c.Context, session, filter.Refs, q.seen, func(j *api.Job) string {
		narrowed := filter.User+filter.Account+filter.Queue+filter.Name != "" || len(filter.States)+len(nodes) > 0
		if !j.Code.Final() || narrowed {
			return ""
		}
		return fmt.Sprintf("job %d has ended: \"rota hist -j %d\" shows it", j.ID, j.ID)
	})
}

// reportMissing reports named jobs that do not exist, and fails. For named jobs that exist but are
// not listed, note returns where to find them.
func reportMissing(ctx context.Context, session *command.Session, refs []string,
	seen map[model.JobID]bool, note func(*api.Job) string) error {
	code := exit.OK
	for _, ref := range refs {
		id, err := strconv.ParseInt(ref, 10, 64)
		if err != nil || seen[model.JobID(id)] {
			continue // the request for the list refused unknown tasks and groups already
		}
		j, _, err := session.Job(ctx, model.JobID(id), api.Read{})
		switch {
		case exit.IsNotFound(err):
			session.PrintError(session.AsJSON, err)
			code = exit.NotFound
		case err != nil:
			return err
		case !session.AsJSON && note(j) != "":
			session.Notef("%s", note(j))
		}
	}
	return exit.WithCode(code)
}

// nodesOrReason formats the last column of the queue as squeue does: a job's nodes, or why it
// waits.
func nodesOrReason(j *api.Job, full bool) string {
	if j.Code != model.Pending && len(j.Nodes) > 0 {
		return show.Hosts(j.Nodes)
	}
	if j.Reason.Code == "" {
		return ""
	}
	reason := "(" + j.Reason.Code + ")"
	if full && j.Reason.Text != "" {
		return reason + " " + j.Reason.Text
	}
	return reason
}

func showNodes(env *command.Env, c *cli.Context) error {
	wanted, err := command.NodesOf(c, "nodes")
	if err != nil {
		return err
	}
	var missing []string
	fetch := func(client *api.Client, v *listing.View[api.Node]) (*api.List[api.Node], api.Answer, error) {
		list, answer, err := client.Nodes(c.Context, api.Read{})
		if err == nil && v != nil && list.Shares {
			v.AddColumns("height", "affinity")
		}
		if err == nil && len(wanted) > 0 {
			for _, name := range wanted {
				if !slices.ContainsFunc(list.Items, func(n api.Node) bool { return n.Name == name }) {
					missing = append(missing, name)
				}
			}
			list.Items = slices.DeleteFunc(list.Items, func(n api.Node) bool { return !slices.Contains(wanted, n.Name) })
		}
		return &list.List, answer, err
	}
	if !c.Bool("summary") {
		err = simpleList(env, c, nodeCells, fetch)
	} else {
		err = simpleList(env, c, kindCells, func(client *api.Client, _ *listing.View[nodeKind]) (*api.List[nodeKind],
			api.Answer, error) {
			list, answer, err := fetch(client, nil)
			if err != nil {
				return nil, answer, err
			}
			return nodeSummary(list), answer, nil
		})
	}
	if err == nil && len(missing) > 0 {
		return &exit.CodeError{Code: exit.NotFound, Text: "unknown node " + show.Hosts(missing)}
	}
	return err
}

// simpleList prints a list that fits in one answer.
func simpleList[T any](env *command.Env, c *cli.Context, cells []listing.Cell[T],
	fetch func(*api.Client, *listing.View[T]) (*api.List[T], api.Answer, error)) error {
	v, session, err := listing.Open(env, c, cells)
	if err != nil {
		return err
	}
	list, answer, err := fetch(session.Client, v)
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	return v.Show(env, list)
}

// models returns the distinct GPU models of a node.
func models(gpus []api.NodeGPU) string {
	var names []string
	for _, g := range gpus {
		names = append(names, g.Model)
	}
	return strings.Join(show.Distinct(names), ",")
}
