package main

import (
	"context"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

var listFormats = []format{formatTable, formatWide, formatJSON, formatCSV, formatName}

// lookCommands are those that show what is.
func (w *world) lookCommands() []*cli.Command {
	return inCategory("Look", []*cli.Command{
		{Name: "queue", Aliases: []string{"q"}, Usage: "show waiting and running jobs", ArgsUsage: "[OPTIONS]", Action: w.queue,
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "me", Usage: "my jobs only"},
				&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of `USER` only"},
				&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of `ACCOUNT` only"},
				&cli.StringFlag{Name: "queue", Aliases: []string{"p", "partition"}, Usage: "jobs of `QUEUE` only"},
				&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "jobs called `NAME` only"},
				&cli.StringFlag{Name: "states", Aliases: []string{"t", "state"}, Usage: "jobs in `STATES` only, such as PD,R"},
				&cli.StringFlag{Name: "jobs", Aliases: []string{"j", "job"}, Usage: "these `IDS` only"},
				&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "ended jobs too, while the controllers still hold them"},
				&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "the same as -o wide"},
			}, listFlags())},
		{Name: "nodes", Usage: "show the nodes and what is used of them", ArgsUsage: "[OPTIONS]", Action: w.nodes,
			Flags: with([]cli.Flag{&cli.BoolFlag{Name: "long", Aliases: []string{"l"}, Usage: "the same as -o wide"}}, listFlags())},
		{Name: "status", Aliases: []string{"show"}, Usage: "show everything about a job", ArgsUsage: "JOB...", Action: w.status, Flags: commonFlags()},
		{Name: "why", Usage: "say why a job waits, or ended as it did", ArgsUsage: "JOB", Action: w.why, Flags: commonFlags()},
		{Name: "hist", Usage: "show ended jobs and the GPU time they were charged", ArgsUsage: "[OPTIONS]", Action: w.hist,
			Flags: with(histFlags(), listFlags())},
		{Name: "share", Usage: "show what each account holds", ArgsUsage: "[OPTIONS]", Action: w.share, Flags: listFlags()},
		{Name: "events", Usage: "show what happened", ArgsUsage: "[OPTIONS]", Action: w.events,
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on as things happen"},
				&cli.Uint64Flag{Name: "after", Aliases: []string{"since-index"}, Usage: "only what came after `INDEX`"},
				&cli.StringFlag{Name: "job", Aliases: []string{"j"}, Usage: "of job `ID` only"},
				&cli.StringFlag{Name: "node", Usage: "of `NODE` only"},
				&cli.StringFlag{Name: "type", Usage: "of `TYPE` only"},
			}, listFlags())},
		{Name: "check", Usage: "check every invariant on the live state", ArgsUsage: "[OPTIONS]", Action: w.check, Flags: commonFlags()},
	})
}

func inCategory(name string, commands []*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = name
	}
	return commands
}

// jobFilter reads the filters of queue.
func (w *world) jobFilter(c *cli.Context) (api.JobFilter, error) {
	f := api.JobFilter{User: c.String("user"), Account: c.String("account"), Queue: c.String("queue"), Name: c.String("name"),
		States: splitList(c.String("states")), All: c.Bool("all")}
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
		ids, err := jobIDs(splitList(text))
		if err != nil {
			return f, err
		}
		f.IDs, f.All = ids, true
	}
	return f, nil
}

func (w *world) queue(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	form, err := w.format(c, listFormats...)
	if err != nil {
		return err
	}
	filter, err := w.jobFilter(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	list, err := w.allJobs(c.Context, client, filter)
	if err != nil {
		return err
	}
	if form == formatTable && c.Bool("long") {
		form = formatWide
	}
	if form == formatJSON {
		return printJSON(w.stdout, list)
	}
	return queueTable(list.Items, form != formatTable, c.Bool("utc")).print(w.stdout, form, !c.Bool("no-header"))
}

// allJobs fetches every page.
func (w *world) allJobs(ctx context.Context, client *api.Client, f api.JobFilter) (*api.List[api.Job], error) {
	return pages(func(page string) (*api.List[api.Job], error) {
		f.Page = page
		list, answer, err := client.Jobs(ctx, f, api.Read{})
		if err == nil && page == "" {
			w.warnStale(answer)
		}
		return list, err
	}, 0)
}

// pages joins the pages of a list, up to limit items if limit is above 0.
func pages[T any](fetch func(page string) (*api.List[T], error), limit int) (*api.List[T], error) {
	first, err := fetch("")
	if err != nil {
		return nil, err
	}
	for next := first.Next; next != "" && (limit == 0 || len(first.Items) < limit); {
		list, err := fetch(next)
		if err != nil {
			return nil, err
		}
		first.Items = append(first.Items, list.Items...)
		next = list.Next
	}
	first.Next = ""
	if limit > 0 && len(first.Items) > limit {
		first.Items = first.Items[:limit]
	}
	if first.Items == nil {
		first.Items = []T{}
	}
	return first, nil
}

func queueTable(jobs []api.Job, full, utc bool) *table {
	t := &table{columns: []column{
		{title: "JOBID", right: true}, {title: "NAME", least: 8}, {title: "USER", least: 6}, {title: "ACCOUNT", least: 6},
		{title: "QUEUE", wide: true}, {title: "CLASS"}, {title: "ST"}, {title: "TIME", right: true}, {title: "LIMIT", right: true},
		{title: "GPUS", right: true}, {title: "NODES", right: true}, {title: "PRI", right: true},
		{title: "ATTEMPT", right: true, wide: true}, {title: "STEPS", right: true, wide: true}, {title: "SUBMITTED", wide: true},
		{title: "REASON|NODELIST", least: 20},
	}}
	for i := range jobs {
		j := &jobs[i]
		t.add(idText(j.ID), j.Name, j.User, j.Account, j.Queue, string(j.Class), string(j.Code), clockText(j.Elapsed), limitText(j.TimeLimit),
			strconv.Itoa(j.GPUs), strconv.Itoa(nodeCount(j)), strconv.Itoa(j.Priority), strconv.Itoa(j.Attempt),
			strconv.FormatInt(j.Steps, 10), stamp(j.Submitted, utc), whereOrWhy(j, full))
	}
	return t
}

func idText(id cluster.JobID) string { return strconv.FormatInt(int64(id), 10) }

// nodeCount is how many nodes a job has, or would have at most while it waits.
func nodeCount(j *api.Job) int {
	if n := len(distinct(j.Nodes)); n > 0 {
		return n
	}
	return j.Workers
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
	if err := noArguments(c); err != nil {
		return err
	}
	form, err := w.format(c, listFormats...)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	list, answer, err := client.Nodes(c.Context, api.Read{})
	if err != nil {
		return err
	}
	w.warnStale(answer)
	if form == formatTable && c.Bool("long") {
		form = formatWide
	}
	if form == formatJSON {
		return printJSON(w.stdout, list)
	}
	return nodesTable(list.Items, c.Bool("utc")).print(w.stdout, form, !c.Bool("no-header"))
}

func nodesTable(nodes []api.Node, utc bool) *table {
	t := &table{columns: []column{
		{title: "NODE", least: 8}, {title: "STATE"}, {title: "CPUS(A/T)", right: true}, {title: "MEM(A/T)", right: true},
		{title: "GPUS(A/T)", right: true}, {title: "MODEL", least: 8}, {title: "JOBS", least: 6},
		{title: "SEEN", wide: true}, {title: "VERSION", wide: true}, {title: "SHARED", wide: true}, {title: "REASON", least: 8},
	}}
	for i := range nodes {
		n := &nodes[i]
		t.add(n.Name, n.State, fmt.Sprintf("%d/%d", n.CoresUsed, n.Cores), sizeText(n.MemoryUsed)+"/"+sizeText(n.Memory),
			fmt.Sprintf("%d/%d", n.GPUsUsed, len(n.GPUs)), models(n.GPUs), idList(n.Jobs),
			stamp(n.LastSeen, utc), n.Version, strings.Join(n.SharedPaths, ","), n.Reason)
	}
	return t
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

func (w *world) share(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	form, err := w.format(c, listFormats...)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	list, answer, err := client.Shares(c.Context, api.Read{})
	if err != nil {
		return err
	}
	w.warnStale(answer)
	if form == formatJSON {
		return printJSON(w.stdout, list)
	}
	t := &table{columns: []column{{title: "ACCOUNT", least: 10}, {title: "JOBS", right: true}, {title: "RUNNING", right: true},
		{title: "GPUS", right: true}, {title: "SHARE", right: true}}}
	for _, s := range list.Items {
		t.add(s.Account, strconv.Itoa(s.Jobs), strconv.Itoa(s.Running), strconv.Itoa(s.GPUs), fmt.Sprintf("%d.%d%%", s.Share/10, s.Share%10))
	}
	return t.print(w.stdout, form, !c.Bool("no-header"))
}

// userName looks up who uid is.
func userName(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return "", fmt.Errorf("user %d has no name on this machine: %w", uid, err)
	}
	return u.Username, nil
}
