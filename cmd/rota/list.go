package main

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// viewCommands are those that show what is.
func (w *world) viewCommands() []*Command {
	return inCategory("Look", []*Command{

		{Command: &cli.Command{Name: "queue", Aliases: []string{"q"}, Usage: "show waiting and running jobs", ArgsUsage: "[OPTIONS]", Action: w.queue,
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "me", Usage: "my jobs only"},
				&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of `USER` only"},
				&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of `ACCOUNT` only"},
				&cli.StringFlag{Name: "queue", Aliases: []string{"p", "partition"}, Usage: "jobs of `QUEUE` only"},
				&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "jobs called `NAME` only"},
				&cli.StringFlag{Name: "states", Aliases: []string{"t", "state"}, Usage: "jobs in `STATES` only, such as PD,R"},
				&cli.StringFlag{Name: "jobs", Aliases: []string{"j", "job"}, Usage: "these `IDS` only"},
				&cli.StringFlag{Name: "nodes", Aliases: []string{"w", "nodelist"}, Usage: "jobs on these `NODES` only, such as gpu[01-04]"},
				&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "ended jobs too, while the controllers still hold them"},
				&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "the same as -o wide"},
				&cli.BoolFlag{Name: "start", Usage: "show when jobs may begin at the earliest, where that is known"},
				&cli.BoolFlag{Name: "tree", Usage: "show members under their job, and jobs under the one they wait for"},
				&cli.BoolFlag{Name: "array", Aliases: []string{"r"}, Usage: "show each element of an array that has not begun on a line of its own"},
				&cli.StringFlag{Name: "iterate", Aliases: []string{"i"}, Usage: "show it again every `SECONDS` until Ctrl-C"},
			}, viewFlags())}, Values: columnValues(queueCells, map[string]Source{"name": CompleteJobNames})},
		{Command: &cli.Command{Name: "nodes", Usage: "show the nodes and what is used of them", ArgsUsage: "[OPTIONS]", Action: w.nodes,
			Flags: with([]cli.Flag{
				&cli.StringFlag{Name: "nodes", Aliases: []string{"w", "nodelist"}, Usage: "these `NODES` only, such as gpu[01-04]"},
				&cli.BoolFlag{Name: "summary", Aliases: []string{"s", "summarize"}, Usage: "a line for each state and kind of node"}, //nolint:misspell // as sinfo has it
				&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "the same as -o wide"}}, viewFlags())}, Values:            columnValues(nodeCells, nil)},
		{Command: &cli.Command{Name: "status", Aliases: []string{"show"}, Usage: "show everything about a job", ArgsUsage: "JOB...", Action: w.status, Flags: commonFlags()}, Arguments: CompleteAllJobs},
		{Command: &cli.Command{Name: "why", Usage: "say why a job waits, or ended as it did", ArgsUsage: "JOB", Action: w.why, Flags: commonFlags()}, Arguments: CompleteAllJobs},
		{Command: &cli.Command{Name: "logs", Aliases: []string{"log"}, Usage: "show a job's output", ArgsUsage: "JOB[.WORKER] [OPTIONS]", Action: w.logs,
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the job ends"},
				&cli.IntFlag{Name: "tail", Aliases: []string{"n"}, Usage: "the last `N` lines only"},
				&cli.BoolFlag{Name: "stderr", Usage: "standard error, where the job keeps it apart"},
				&cli.IntFlag{Name: "worker", Usage: "of worker `N` only", Value: -1, DefaultText: "all"},
				&cli.StringFlag{Name: "task", Usage: "of `TASK`"},
				&cli.IntFlag{Name: "attempt", Usage: "of attempt `N`", DefaultText: "the last"},
			}, commonFlags())}, Arguments: CompleteAllJobs},
		{Command: &cli.Command{Name: "hist", Usage: "show ended jobs and the GPU time they were charged", ArgsUsage: "[OPTIONS]", Action: w.hist,
			Flags: with(histFlags(), viewFlags())}, Values: columnValues(histCells, nil)},
		{Command: &cli.Command{Name: "share", Usage: "show what each account holds", ArgsUsage: "[OPTIONS]", Action: w.share, Flags: viewFlags()}, Values: columnValues(shareCells, nil)},
		{Command: &cli.Command{Name: "events", Usage: "show what happened", ArgsUsage: "[OPTIONS]", Action: w.events,
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as things happen"},
				&cli.Uint64Flag{Name: "after", Aliases: []string{"since-index"}, Usage: "only what came after `INDEX`"},
				&cli.StringFlag{Name: "job", Aliases: []string{"j"}, Usage: "of jobs `IDS` only"},
				&cli.StringFlag{Name: "node", Aliases: []string{"w", "nodes"}, Usage: "of `NODES` only, such as gpu[01-04]"},
				&cli.StringFlag{Name: "type", Usage: "of `TYPES` only, such as started,finished"},
			}, viewFlags())}, Values: columnValues(eventCells, map[string]Source{"type": CompleteWords(eventTypes()...)})},
	})
}

func inCategory(name string, commands []*Command) []*Command {
	for _, c := range commands {
		c.Category = name
	}
	return commands
}

// jobFilter reads the filters of queue.
func (w *world) jobFilter(c *cli.Context) (api.JobFilter, error) {
	f := api.JobFilter{User: c.String("user"), Account: c.String("account"), Queue: c.String("queue"), Name: c.String("name"),
		States: splitList(c.String("states")), All: c.Bool("all")}
	if err := notEmpty(c, "user", "account", "queue", "name", "states", "jobs"); err != nil {
		return f, err
	}
	if c.Bool("me") {
		name, err := w.currentUser()
		if err != nil {
			return f, err
		}
		if f.User != "" && f.User != name {
			return f, usagef("--me and --user %s ask for different jobs: give one of them", f.User)
		}
		f.User = name
	}
	if text := c.String("jobs"); text != "" {
		refs, err := jobRefs([]string{text})
		if err != nil {
			return f, err
		}
		f.Refs, f.All = refs, true
	}
	return f, nil
}

func (w *world) queue(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	o, err := w.viewOptions(c)
	if err != nil {
		return err
	}
	cells := queueCells
	if c.Bool("start") {
		cells = startCells
	}
	v, err := newView(o, cells)
	if err != nil {
		return err
	}
	filter, err := w.jobFilter(c)
	if err != nil {
		return err
	}
	nodes, err := nodeRefs(splitOutside(c.String("nodes")))
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	q := &queueList{world: w, view: v, client: client, filter: filter, nodes: nodes, tree: c.Bool("tree"), elements: c.Bool("array")}
	if text := c.String("iterate"); text != "" {
		return q.again(c.Context, text)
	}
	if err := q.print(c.Context); err != nil {
		return err
	}
	return w.notShown(c.Context, client, filter.Refs, q.seen, func(j *job) string {
		narrowed := filter.User+filter.Account+filter.Queue+filter.Name != "" || len(filter.States)+len(nodes) > 0
		if !ended(j) || narrowed {
			return ""
		}
		return fmt.Sprintf("job %d has ended: \"rota hist -j %d\" shows it", j.ID, j.ID)
	}, v.form == formatJSON)
}

// notShown fails where jobs were named that are not there. Of those that are, and were not seen in a list, note says where else.
func (w *world) notShown(ctx context.Context, client *api.Client, refs []string, seen map[cluster.JobID]bool, note func(*job) string, asJSON bool) error {
	code := exitOK
	for _, ref := range refs {
		id, err := strconv.ParseInt(ref, 10, 64)
		if err != nil || seen[cluster.JobID(id)] {
			continue // elements and groups that are not there were refused with the list
		}
		j, _, err := client.Job(ctx, cluster.JobID(id), api.Read{})
		switch {
		case isNotFound(err):
			w.printError(asJSON, err)
			code = exitNotFound
		case err != nil:
			return err
		case !asJSON && note(j) != "":
			fmt.Fprintln(w.stderr, "rota: "+note(j))
		}
	}
	if code != exitOK {
		return &codeError{code: code}
	}
	return nil
}

// pages joins the pages of a list, up to limit items if limit is above 0, and reports whether there are more.
func pages[T any](fetch func(page string) (*api.List[T], error), limit int) (_ *api.List[T], more bool, _ error) {
	first, err := fetch("")
	if err != nil {
		return nil, false, err
	}
	next := first.Next
	for next != "" && (limit == 0 || len(first.Items) < limit) {
		list, err := fetch(next)
		if err != nil {
			return nil, false, err
		}
		first.Items = append(first.Items, list.Items...)
		next = list.Next
	}
	first.Next, more = "", next != ""
	if limit > 0 && len(first.Items) > limit {
		first.Items, more = first.Items[:limit], true
	}
	if first.Items == nil {
		first.Items = []T{}
	}
	return first, more, nil
}

func idText(id cluster.JobID) string { return strconv.FormatInt(int64(id), 10) }

// nodeCount is how many nodes a job has, or would have at most while it waits.
func nodeCount(j *api.Job) int {
	if n := len(distinct(j.Nodes)); n > 0 {
		return n
	}
	return j.Workers
}

// nodesText is how many nodes a job has or, of an elastic one, how many workers of how many.
func nodesText(j *api.Job) string {
	if j.Elastic != nil {
		return workersText(j)
	}
	return strconv.Itoa(nodeCount(j))
}

// workersText is how many workers a job has; of an elastic one between which numbers they may be: 2/1-4.
func workersText(j *api.Job) string {
	if e := j.Elastic; e != nil {
		return fmt.Sprintf("%d/%d-%d", e.Workers, e.Min, e.Max)
	}
	return strconv.Itoa(j.Workers)
}

func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	var out []string
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// whereOrWhy is the last column of the queue: the nodes of a job that has some, else the reason, as squeue shows them.
func whereOrWhy(j *api.Job, full bool) string {
	if j.Code != cluster.Pending && len(j.Nodes) > 0 {
		return hosts(j.Nodes)
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

func (w *world) nodes(c *cli.Context) error {
	wanted, err := nodeRefs(splitOutside(c.String("nodes")))
	if err != nil {
		return err
	}
	var missing []string
	fetch := func(client *api.Client) (*api.List[api.Node], api.Answer, error) {
		list, answer, err := client.Nodes(c.Context, api.Read{})
		if err == nil && len(wanted) > 0 {
			for _, name := range wanted {
				if !slices.ContainsFunc(list.Items, func(n api.Node) bool { return n.Name == name }) {
					missing = append(missing, name)
				}
			}
			list.Items = slices.DeleteFunc(list.Items, func(n api.Node) bool { return !slices.Contains(wanted, n.Name) })
		}
		return list, answer, err
	}
	if !c.Bool("summary") {
		err = simpleList(w, c, nodeCells, fetch)
	} else {
		err = simpleList(w, c, kindCells, func(client *api.Client) (*api.List[nodeKind], api.Answer, error) {
			list, answer, err := fetch(client)
			if err != nil {
				return nil, answer, err
			}
			return summary(list), answer, nil
		})
	}
	if err == nil && len(missing) > 0 {
		return &codeError{code: exitNotFound, text: "there is no node " + hosts(missing)}
	}
	return err
}

// simpleList shows a list that is asked for as a whole.
func simpleList[T any](w *world, c *cli.Context, cells []cell[T], fetch func(*api.Client) (*api.List[T], api.Answer, error)) error {
	if err := noArguments(c); err != nil {
		return err
	}
	o, err := w.viewOptions(c)
	if err != nil {
		return err
	}
	v, err := newView(o, cells)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	list, answer, err := fetch(client)
	if err != nil {
		return err
	}
	w.warnStale(answer)
	return v.show(w, list)
}

// models names the GPU models of a node, each once.
func models(gpus []api.NodeGPU) string {
	var names []string
	for _, g := range gpus {
		names = append(names, g.Model)
	}
	return strings.Join(distinct(names), ",")
}

func idList(ids []cluster.JobID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = idText(id)
	}
	return strings.Join(texts, ",")
}

// userName looks up who uid is.
func userName(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", fmt.Errorf("user %d has no name on this machine: %w", uid, err)
	}
	return u.Username, nil
}
