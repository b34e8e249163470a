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
	OneLine bool // print each record on one line
	JSON    bool
}

// Show runs scontrol show with the words that follow it.
func Show(ctx context.Context, t *tool.Tool, words []string, o *ShowOptions) error {
	if len(words) == 0 {
		return errors.New("too few arguments for keyword: show")
	}
	what, arg, has := strings.Cut(words[0], "=") // job=7 means job 7
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
		"are supported",
		what)
}

// Ping lists the controllers, the leader first. It fails if none answers.
func Ping(ctx context.Context, t *tool.Tool) error {
	s, err := t.Connect()
	if err != nil {
		return err
	}
	cluster, _, err := s.Cluster(ctx)
	if err != nil {
		return tool.AsSlurm(err)
	}
	slices.SortStableFunc(cluster.Controllers, func(a, b api.Controller) int {
		switch {
		case a.Leader == b.Leader:
			return 0
		case a.Leader:
			return -1
		}
		return 1
	})
	for i, c := range cluster.Controllers {
		role := "primary"
		if i > 0 {
			role = fmt.Sprintf("backup%d", i)
		}
		state := "UP"
		if c.HTTP == "" { // the other controllers do not hear this voter
			state = "DOWN"
		}
		fmt.Fprintf(t.Stdout, "Slurmctld(%s) at %s is %s\n", role, show.Clean(c.Name), state)
	}
	return nil
}

// showHostnames expands a node list and prints one name on each line.
func showHostnames(t *tool.Tool, list string) error {
	list = cmp.Or(list, t.Getenv("SLURM_JOB_NODELIST"))
	if list == "" {
		return errors.New("host list is empty: give one, or set SLURM_JOB_NODELIST")
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

// records prints the answer of scontrol show: each record as KEY=VALUE lines, or all as JSON.
type records struct {
	*ShowOptions
	out *bufio.Writer
	doc *fields.Document // nil: print lines
}

// records starts the JSON list with the given name.
func (o *ShowOptions) records(t *tool.Tool, list string) *records {
	r := &records{ShowOptions: o, out: bufio.NewWriterSize(t.Stdout, 1<<16)}
	if o.JSON {
		r.doc = fields.NewDocument(r.out, list)
	}
	return r
}

// add prints one record, as lines (joined if requested) or as JSON.
func (r *records) add(lines []string, object any) error {
	switch {
	case r.doc != nil:
		return r.doc.Add(object)
	case r.OneLine:
		_, _ = r.out.WriteString(strings.Join(lines, " ") + "\n") // Flush returns an error of the writer
	default:
		_, _ = r.out.WriteString(strings.Join(lines, "\n   ") + "\n\n")
	}
	return nil
}

func (r *records) end(t *tool.Tool, cluster string) error {
	if r.doc != nil {
		return r.doc.End(t, cluster)
	}
	return r.out.Flush()
}

// showJobs prints the records of the named jobs, or of all jobs.
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
	if err := setCluster(ctx, s, src, "", o.JSON); err != nil {
		return err
	}
	found, out, tree := false, o.records(t, "jobs"), fields.LiveTree()
	visit := func(j *api.Job) (err error) {
		for _, r := range src.Unfold(j, false) {
			if found = true; o.JSON {
				err = fields.AddRow(out.doc, tree, r)
			} else {
				err = out.add(r.Record(), nil)
			}
			if err != nil {
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
	case !found && !o.JSON:
		fmt.Fprintln(out.out, "No jobs in the system")
	}
	return out.end(t, src.Cluster)
}

// showOne calls a function for a job; for an array, for its started tasks and for the row of the
// others.
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

// showNodes prints the records of the named nodes, or of all nodes.
func showNodes(ctx context.Context, t *tool.Tool, list string, o *ShowOptions) error {
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	names, err := readNodes(list)
	if err != nil {
		return err
	}
	parts, err := partitions(ctx, t, src, "", nil)
	if err != nil {
		return err
	}
	s, err := t.Connect()
	if err != nil {
		return err
	}
	all, _, err := s.Nodes(ctx, api.Read{})
	if err != nil {
		return &tool.LoadError{What: "slurm_load_nodes", Text: tool.AsSlurm(err).Error()}
	}
	known, queuesOf := map[string]*api.Node{}, map[string][]string{}
	for i := range all.Items {
		n := &all.Items[i]
		if known[n.Name] = n; list == "" {
			names = append(names, n.Name)
		}
	}
	for _, p := range parts {
		for _, n := range p.Nodes {
			queuesOf[n.Name] = append(queuesOf[n.Name], p.Name)
		}
	}
	out := o.records(t, "nodes")
	var missing error
	for _, name := range names {
		n := known[name]
		if n == nil {
			fmt.Fprintf(t.Stderr, "Node %s not found\n", show.Clean(name))
			missing = tool.ErrSaid
		} else if err := out.add(fields.NodeRecord(n, queuesOf[name]), fields.NodeObject(n, queuesOf[name])); err != nil {
			return err
		}
	}
	return cmp.Or(out.end(t, src.Cluster), missing)
}

// showPartitions prints the records of the named partitions, or of all partitions.
func showPartitions(ctx context.Context, t *tool.Tool, names string, o *ShowOptions) error {
	src, err := fields.NewSource(t.Env)
	if err != nil {
		return err
	}
	wanted := command.SplitList(names)
	parts, err := partitions(ctx, t, src, "", slices.Clone(wanted))
	if err != nil {
		return err
	}
	out := o.records(t, "partitions")
	for _, p := range parts {
		if err := out.add(p.Record(), p.Object(src.Cluster)); err != nil {
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
	return cmp.Or(out.end(t, src.Cluster), missing)
}

// showConfig prints the settings of Slurm's configuration that clients read.
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
	line("AccountingStorageType", "accounting_storage/slurmdbd") // sacct lists ended jobs
	line("ClusterName", "%s", cluster.Name)
	line("DefMemPerCPU", "%d", jobspec.DefaultMemoryPerCore/jobspec.MiB)
	line("EnforcePartLimits", "ALL") // requests that no node can satisfy are refused
	line("JobRequeue", "1")
	line("KillWait", "%d sec", jobspec.DefaultKillTimeout)
	line("MaxArraySize", "%d", jobspec.MaxElements+1)
	line("MaxJobCount", "%d", model.MaxJobs)
	line("MaxMemPerNode", "UNLIMITED")
	line("MinJobAge", "%d sec", minJobAge)
	line("PreemptMode", "REQUEUE")
	line("PrivateData", "%s", cmp.Or(strings.Join(config.Private, ","), "none"))
	line("SchedulerType", "rota/%s", cmp.Or(config.Policy.Name, cluster.Policy))
	line("SelectType", "select/cons_tres")
	line("SelectTypeParameters", "CR_CORE_MEMORY")
	line("SLURM_VERSION", "%s", tool.Release)
	for i, c := range cluster.Controllers {
		line(fmt.Sprintf("SlurmctldHost[%d]", i), "%s", c.Name)
	}
	return out.Flush()
}
