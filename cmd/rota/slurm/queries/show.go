package queries

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// ShowOptions are the options of scontrol show.
type ShowOptions struct {
	OneLine bool // a line for each record
	JSON    bool
}

// Show carries out scontrol show with the words behind it.
func Show(ctx context.Context, t *tool.Tool, words []string, o *ShowOptions) error {
	if len(words) == 0 {
		return errors.New("too few arguments for keyword: show")
	}
	what, arg, has := strings.Cut(words[0], "=") // job=7 is job 7
	if words = words[1:]; has {
		words = append([]string{arg}, words...)
	}
	what = strings.ToLower(what)
	if len(words) > 1 {
		return fmt.Errorf("too many arguments for keyword: show %s", what)
	}
	arg = strings.Join(words, "")
	switch what {
	case "job", "jobs", "jobid":
		return showJobs(ctx, t, arg, o)
	case "step", "steps", "stepid":
		return showSteps(ctx, t, arg, o)
	case "node", "nodes", "nodename":
		return showNodes(ctx, t, arg, o)
	case "part", "partition", "partitions", "partitionname":
		return showPartitions(ctx, t, arg, o)
	case "config":
		return showConfig(ctx, t)
	case "hostname", "hostnames":
		return showHostnames(t, arg)
	case "hostlist":
		names, err := hostlist.Expand(arg)
		if err != nil || arg == "" {
			return fmt.Errorf("Invalid hostlist: %q", arg)
		}
		fmt.Fprintln(t.Stdout, hostlist.Compress(names))
		return nil
	}
	return fmt.Errorf("invalid entity: %s for keyword: show: job, step, node, partition, config, hostnames and hostlist "+
		"are there",
		what)
}

// showHostnames prints the names of a list, each on a line of its own.
func showHostnames(t *tool.Tool, list string) error {
	list = cmp.Or(list, t.Getenv("SLURM_JOB_NODELIST"))
	if list == "" {
		return errors.New("show hostnames needs a list, or SLURM_JOB_NODELIST")
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return fmt.Errorf("Invalid hostlist: %s: %w", list, err)
	}
	for _, name := range names {
		fmt.Fprintln(t.Stdout, name)
	}
	return nil
}

// record prints something with its lines of KEY=VALUE, on one line if that is asked for.
func (o *ShowOptions) record(out *bufio.Writer, lines []string) {
	if o.OneLine {
		_, _ = out.WriteString(strings.Join(lines, " ") + "\n") // Flush returns the error
		return
	}
	_, _ = out.WriteString(strings.Join(lines, "\n   ") + "\n\n")
}

// showJobs prints everything about jobs, about all if none is named.
func showJobs(ctx context.Context, t *tool.Tool, text string, o *ShowOptions) error {
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	src.Never = "Unknown"
	var refs []string
	if text != "" {
		if refs, err = command.JobRefs([]string{text}); err != nil {
			return tool.NoJob
		}
	}
	s, err := t.Connect()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(t.Stdout, 1<<16)
	var d *fields.Document
	if o.JSON {
		if err := setCluster(ctx, s, src, "", true); err != nil {
			return err
		}
		d = fields.NewDocument(out, "jobs")
	}
	found, tree := false, fields.LiveTree()
	visit := func(j *api.Job) error {
		for _, r := range src.Unfold(j, false) {
			if found = true; !o.JSON {
				o.record(out, r.Record())
			} else if err := fields.AddRow(d, tree, r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(refs) == 0 {
		_, err = s.EachJob(ctx, api.JobFilter{All: true, Spec: true}, api.Read{}, func(j *api.Job) error {
			if j.Ended != nil && src.Now.Sub(j.Ended.Time) > minJobAge*time.Second {
				return nil
			}
			return visit(j)
		})
	}
	for _, ref := range refs {
		if err = showOne(ctx, s, ref, visit); err != nil {
			break
		}
	}
	switch {
	case err != nil:
		return tool.LoadFailure(err)
	case len(refs) > 0 && !found:
		return tool.NoJob
	case o.JSON:
		return d.End(t, src.Cluster)
	case !found:
		fmt.Fprintln(out, "No jobs in the system")
	}
	return out.Flush()
}

// showOne visits a job, or the tasks of an array that have been made with those that have not.
func showOne(ctx context.Context, s *command.Session, ref string, visit func(*api.Job) error) error {
	job, _, err := s.JobBy(ctx, ref, api.Read{})
	if err != nil {
		return err
	}
	if !show.IsArray(job) && !show.IsPipeline(job) {
		return visit(job)
	}
	_, err = s.EachJob(ctx, api.JobFilter{Refs: []string{ref}, All: true, Spec: true}, api.Read{}, visit)
	return err
}

// showNodes prints everything about nodes, about all if none is named.
func showNodes(ctx context.Context, t *tool.Tool, list string, o *ShowOptions) error {
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	var names []string
	if list != "" {
		if names, err = command.NodeRefs(command.SplitOutsideBrackets(list)); err != nil {
			return fmt.Errorf("Invalid node name %s: %w", list, err)
		}
	}
	parts, err := partitions(ctx, t, src, &common{}, nil)
	if err != nil {
		return err
	}
	known := map[string]*api.Node{}
	var queues []string
	for _, p := range parts {
		queues = append(queues, p.Name)
		for _, n := range p.Nodes {
			known[n.Name] = n
		}
	}
	if list == "" && len(parts) > 0 {
		names = parts[0].NodeNames()
	}
	out := bufio.NewWriter(t.Stdout)
	var d *fields.Document
	if o.JSON {
		d = fields.NewDocument(out, "nodes")
	}
	var missing error
	for _, name := range names {
		n := known[name]
		switch {
		case n == nil:
			fmt.Fprintf(t.Stderr, "Node %s not found\n", show.Clean(name))
			missing = tool.ErrSaid
		case o.JSON:
			if err := d.Add(fields.NodeObject(n, queues)); err != nil {
				return err
			}
		default:
			o.record(out, fields.NodeRecord(n, queues))
		}
	}
	if o.JSON {
		err = d.End(t, src.Cluster)
	} else {
		err = out.Flush()
	}
	return cmp.Or(err, missing)
}

// showPartitions prints everything about partitions, about all if none is named.
func showPartitions(ctx context.Context, t *tool.Tool, names string, o *ShowOptions) error {
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	wanted := command.SplitList(names)
	parts, err := partitions(ctx, t, src, &common{}, slices.Clone(wanted))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.Stdout)
	var d *fields.Document
	if o.JSON {
		d = fields.NewDocument(out, "partitions")
	}
	for _, p := range parts {
		if !o.JSON {
			o.record(out, p.Record())
		} else if err := d.Add(p.Object(src.Cluster)); err != nil {
			return err
		}
	}
	var missing error
	for _, name := range wanted {
		if !slices.ContainsFunc(parts, func(p *fields.Partition) bool {
			return p.Name == name || slices.Contains(p.Aliases, name)
		}) {
			fmt.Fprintf(t.Stderr, "Partition %s not found\n", show.Clean(name))
			missing = tool.ErrSaid
		}
	}
	if o.JSON {
		err = d.End(t, src.Cluster)
	} else {
		err = out.Flush()
	}
	return cmp.Or(err, missing)
}

// showConfig prints what clients read of Slurm's configuration.
func showConfig(ctx context.Context, t *tool.Tool) error {
	s, err := t.Connect()
	if err != nil {
		return err
	}
	config, _, err := s.Config(ctx, api.Read{})
	if err != nil {
		return &tool.LoadError{What: "slurm_load_ctl_conf", Text: tool.AsSlurm(err).Error()}
	}
	cluster, _, err := s.Cluster(ctx)
	if err != nil {
		return &tool.LoadError{What: "slurm_load_ctl_conf", Text: tool.AsSlurm(err).Error()}
	}
	out := bufio.NewWriter(t.Stdout)
	fmt.Fprintf(out, "Configuration data as of %s\n", show.Time(&api.Time{Time: t.Now()}, false))
	line := func(key, format string, values ...any) {
		fmt.Fprintf(out, "%-23s = %s\n", key, fmt.Sprintf(format, values...))
	}
	line("AccountingStorageType", "accounting_storage/slurmdbd") // sacct has ended jobs
	line("ClusterName", "%s", cluster.Name)
	line("DefMemPerNode", "UNLIMITED")
	line("EnforcePartLimits", "ALL") // what no node could run is refused
	line("JobRequeue", "1")
	line("MaxArraySize", "%d", jobspec.MaxElements+1)
	line("MaxJobCount", "%d", model.MaxJobs)
	line("MinJobAge", "%d sec", minJobAge)
	line("PreemptMode", "REQUEUE")
	line("SchedulerType", "rota/%s", cmp.Or(config.Policy.Name, cluster.Policy))
	line("SLURM_VERSION", "%s", tool.Release)
	for i, c := range cluster.Controllers {
		line(fmt.Sprintf("SlurmctldHost[%d]", i), "%s", c.Name)
	}
	return out.Flush()
}
