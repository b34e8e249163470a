package slurm

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
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// show carries out scontrol show.
func (t *tool) show(ctx context.Context, words []string, o *controlOptions) error {
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
		return t.showJobs(ctx, arg, o)
	case "node", "nodes", "nodename":
		return t.showNodes(ctx, arg, o)
	case "part", "partition", "partitions", "partitionname":
		return t.showPartitions(ctx, arg, o)
	case "config":
		return t.showConfig(ctx)
	case "hostname", "hostnames":
		return t.showHostnames(arg)
	case "hostlist":
		names, err := hostlist.Expand(arg)
		if err != nil || arg == "" {
			return fmt.Errorf("Invalid hostlist: %q", arg)
		}
		fmt.Fprintln(t.Stdout, hostlist.Compress(names))
		return nil
	}
	return fmt.Errorf("invalid entity: %s for keyword: show: job, node, partition, config, hostnames and hostlist "+
		"are there",
		what)
}

// showHostnames prints the names of a list, each on a line of its own.
func (t *tool) showHostnames(list string) error {
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
func (o *controlOptions) record(out *bufio.Writer, lines []string) {
	if o.oneLine {
		_, _ = out.WriteString(strings.Join(lines, " ") + "\n") // Flush returns the error
		return
	}
	_, _ = out.WriteString(strings.Join(lines, "\n   ") + "\n\n")
}

// jobLines are the keys of scontrol show job, line by line. ArrayJobId and ArrayTaskId are for arrays
// only, and BatchHost for jobs that have begun.
var jobLines = []string{
	"JobId ArrayJobId ArrayTaskId JobName", "UserId GroupId", "Priority Nice Account QOS", "JobState Reason Dependency",
	"Requeue Restarts BatchFlag ExitCode", "RunTime TimeLimit", "SubmitTime EligibleTime", "StartTime EndTime Deadline",
	"Partition", "ReqNodeList ExcNodeList", "NodeList", "BatchHost", "NumNodes NumCPUs NumTasks CPUs/Task", "ReqTRES",
	"AllocTRES", "MinMemoryNode MinTmpDiskNode", "Features", "OverSubscribe", "Command", "WorkDir",
	"StdErr StdIn StdOut", "Comment",
	"TresPerNode",
}

// optionalKeys are left out where they have no value.
var optionalKeys = []string{"ArrayJobId", "ArrayTaskId", "BatchHost", "Comment", "TresPerNode"}

// jobRecord returns the lines about a job.
func jobRecord(r *jobRow) []string {
	var lines []string
	for _, keys := range jobLines {
		var line []string
		for _, key := range strings.Fields(keys) {
			i := slices.IndexFunc(jobFields, func(f field[*jobRow]) bool { return f.key == key })
			if value := show.Clean(jobFields[i].text(r)); value != "" || !slices.Contains(optionalKeys, key) {
				line = append(line, key+"="+value)
			}
		}
		if line != nil {
			lines = append(lines, strings.Join(line, " "))
		}
	}
	return lines
}

// showJobs prints everything about jobs, about all if none is named.
func (t *tool) showJobs(ctx context.Context, text string, o *controlOptions) error {
	src, err := t.newSource()
	if err != nil {
		return err
	}
	src.never = "Unknown"
	var refs []string
	if text != "" {
		if refs, err = command.JobRefs([]string{text}); err != nil {
			return noJob
		}
	}
	s, err := t.connect()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(t.Stdout, 1<<16)
	d := document{out: out}
	if o.asJSON {
		if err := t.setCluster(ctx, s, src, "", true); err != nil {
			return err
		}
		d.begin("jobs")
	}
	found, tree := false, liveTree()
	visit := func(j *api.Job) error {
		for _, r := range src.unfold(j, false) {
			if found = true; !o.asJSON {
				o.record(out, jobRecord(r))
			} else if err := addRow(&d, tree, r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(refs) == 0 {
		_, err = s.EachJob(ctx, api.JobFilter{All: true, Spec: true}, api.Read{}, func(j *api.Job) error {
			if j.Ended != nil && src.now.Sub(j.Ended.Time) > minJobAge*time.Second {
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
		return loadFailure(err)
	case len(refs) > 0 && !found:
		return noJob
	case o.asJSON:
		return d.end(t, src.cluster)
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

// loadFailure is an error of a request that reads jobs.
func loadFailure(err error) error {
	var said *loadError
	switch {
	case errors.As(err, &said):
		return err
	case exit.IsNotFound(err):
		return noJob
	}
	return &loadError{"slurm_load_jobs", show.Clean(asSlurm(err).Error())}
}

// showNodes prints everything about nodes, about all if none is named.
func (t *tool) showNodes(ctx context.Context, list string, o *controlOptions) error {
	src, err := t.newSource()
	if err != nil {
		return err
	}
	var names []string
	if list != "" {
		if names, err = command.NodeRefs(command.SplitOutsideBrackets(list)); err != nil {
			return fmt.Errorf("Invalid node name %s: %w", list, err)
		}
	}
	parts, err := t.partitions(ctx, src, &common{}, nil)
	if err != nil {
		return err
	}
	known := map[string]*api.Node{}
	var queues []string
	for _, p := range parts {
		queues = append(queues, p.name)
		for _, n := range p.nodes {
			known[n.Name] = n
		}
	}
	if list == "" && len(parts) > 0 {
		names = namesOf(parts[0].nodes)
	}
	out := bufio.NewWriter(t.Stdout)
	d := document{out: out}
	if o.asJSON {
		d.begin("nodes")
	}
	var missing error
	for _, name := range names {
		n := known[name]
		switch {
		case n == nil:
			fmt.Fprintf(t.Stderr, "Node %s not found\n", show.Clean(name))
			missing = errSaid
		case o.asJSON:
			if err := d.add(nodeObject(n, queues)); err != nil {
				return err
			}
		default:
			o.record(out, nodeRecord(n, queues))
		}
	}
	if o.asJSON {
		err = d.end(t, src.cluster)
	} else {
		err = out.Flush()
	}
	return cmp.Or(err, missing)
}

// nodeRecord returns the lines about a node.
func nodeRecord(n *api.Node, queues []string) []string {
	lines := []string{
		fmt.Sprintf("NodeName=%s CoresPerSocket=%d", n.Name, n.Cores),
		fmt.Sprintf("CPUAlloc=%d CPUEfctv=%d CPUTot=%d CPULoad=N/A", n.CoresUsed, n.Cores, n.Cores),
		"AvailableFeatures=" + orNull(features(n)),
		"ActiveFeatures=" + orNull(features(n)),
		"Gres=" + orNull(gres(n)),
		"GresUsed=" + orNull(gresUsed(n)),
		fmt.Sprintf("NodeAddr=%s NodeHostName=%s Version=%s", n.Name, n.Name, orNull(n.Version)),
		fmt.Sprintf("RealMemory=%d AllocMem=%d FreeMem=%d Sockets=1 Boards=1", memoryOf(n), usedMemoryOf(n), freeMemoryOf(n)),
		fmt.Sprintf("State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
			strings.Join(nodeFlags(n.State), "+")),
		"Partitions=" + strings.Join(queues, ","),
		"CfgTRES=" + amounts(n.Cores, n.Memory, 0, len(n.GPUs)),
		"AllocTRES=" + allocated(n),
	}
	if n.Reason != "" {
		lines = append(lines, "Reason="+show.Clean(n.Reason))
	}
	return lines
}

// amounts writes resources as scontrol does.
func amounts(cores int64, mem jobspec.Bytes, nodes, gpus int) string {
	text := fmt.Sprintf("cpu=%d,mem=%s", cores, memory(mem))
	if nodes > 0 {
		text += fmt.Sprintf(",node=%d", nodes)
	}
	if text += fmt.Sprintf(",billing=%d", cores); gpus > 0 {
		text += fmt.Sprintf(",gres/gpu=%d", gpus)
	}
	return text
}

func allocated(n *api.Node) string {
	if n.CoresUsed == 0 && n.MemoryUsed == 0 && n.GPUsUsed == 0 {
		return ""
	}
	return amounts(n.CoresUsed, n.MemoryUsed, 0, n.GPUsUsed)
}

// nodeObject is the JSON of a node.
func nodeObject(n *api.Node, queues []string) any {
	return map[string]any{"name": n.Name, "hostname": n.Name, "address": n.Name, "state": nodeFlags(n.State),
		"cpus":       n.Cores,
		"alloc_cpus": n.CoresUsed, "alloc_idle_cpus": n.Cores - n.CoresUsed, "effective_cpus": n.Cores,
		"real_memory": memoryOf(n), "alloc_memory": usedMemoryOf(n), "free_mem": numberOf(freeMemoryOf(n)),
		"gres": gres(n), "gres_used": gresUsed(n), "features": splitWords(features(n)),
		"active_features": splitWords(features(n)), "partitions": queues, "reason": n.Reason, "version": n.Version,
		"tres": amounts(n.Cores, n.Memory, 0, len(n.GPUs)), "tres_used": allocated(n), "sockets": 1, "boards": 1,
		"cores": n.Cores, "threads": 1, "weight": 1}
}

func splitWords(text string) []string { return append([]string{}, command.SplitList(text)...) }

// showPartitions prints everything about partitions, about all if none is named.
func (t *tool) showPartitions(ctx context.Context, names string, o *controlOptions) error {
	src, err := t.newSource()
	if err != nil {
		return err
	}
	wanted := command.SplitList(names)
	parts, err := t.partitions(ctx, src, &common{}, slices.Clone(wanted))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.Stdout)
	d := document{out: out}
	if o.asJSON {
		d.begin("partitions")
	}
	for _, p := range parts {
		if !o.asJSON {
			o.record(out, partitionRecord(p))
		} else if err := d.add(partitionObject(p, src.cluster)); err != nil {
			return err
		}
	}
	var missing error
	for _, name := range wanted {
		if !slices.ContainsFunc(parts, func(p *partition) bool {
			return p.name == name || slices.Contains(p.Aliases, name)
		}) {
			fmt.Fprintf(t.Stderr, "Partition %s not found\n", show.Clean(name))
			missing = errSaid
		}
	}
	if o.asJSON {
		err = d.end(t, src.cluster)
	} else {
		err = out.Flush()
	}
	return cmp.Or(err, missing)
}

// totals are what the nodes of a partition have together.
func (p *partition) totals() (cores int64, mem jobspec.Bytes, gpus int) {
	for _, n := range p.nodes {
		cores, mem, gpus = cores+n.Cores, mem+n.Memory, gpus+len(n.GPUs)
	}
	return cores, mem, gpus
}

// partitionRecord returns the lines about a partition. No value is empty, as clients expect.
func partitionRecord(p *partition) []string {
	cores, mem, gpus := p.totals()
	isDefault := "NO"
	if p.name == model.DefaultQueue {
		isDefault = "YES"
	}
	def := "NONE"
	if p.DefaultTime > 0 {
		def = clock(p.DefaultTime)
	}
	return []string{
		"PartitionName=" + p.name,
		"AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL",
		fmt.Sprintf("AllocNodes=ALL Default=%s QoS=N/A", isDefault),
		fmt.Sprintf("DefaultTime=%s DisableRootJobs=NO ExclusiveUser=NO GraceTime=%d Hidden=NO", def, p.MaxGrace),
		fmt.Sprintf("MaxNodes=UNLIMITED MaxTime=%s MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED", limit(p.MaxTime)),
		"Nodes=" + orNull(show.Hosts(namesOf(p.nodes))),
		"PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
		"OverTimeLimit=NONE PreemptMode=REQUEUE",
		fmt.Sprintf("State=UP TotalCPUs=%d TotalNodes=%d SelectTypeParameters=NONE", cores, len(p.nodes)),
		"JobDefaults=(null)",
		"DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED",
		"TRES=" + amounts(cores, mem, len(p.nodes), gpus),
	}
}

// partitionObject is the JSON of a partition.
func partitionObject(p *partition, cluster string) any {
	cores, mem, gpus := p.totals()
	return map[string]any{"name": p.name, "cluster": cluster,
		"nodes": map[string]any{"configured": show.Hosts(namesOf(p.nodes)), "total": len(p.nodes),
			"allowed_allocation": ""},
		"cpus":      map[string]any{"total": cores, "task_binding": 0},
		"tres":      map[string]any{"configured": amounts(cores, mem, len(p.nodes), gpus), "billing_weights": ""},
		"partition": map[string]any{"state": []string{"UP"}},
		"maximums":  map[string]any{"time": minutes(p.MaxTime), "nodes": number{Infinite: true}},
		"defaults":  map[string]any{"time": minutes(p.DefaultTime)},
		"accounts":  map[string]any{"allowed": "", "deny": ""}, "groups": map[string]any{"allowed": ""},
		"qos": map[string]any{"allowed": "", "deny": "", "assigned": ""}}
}

// showConfig prints what clients read of Slurm's configuration.
func (t *tool) showConfig(ctx context.Context) error {
	s, err := t.connect()
	if err != nil {
		return err
	}
	config, _, err := s.Config(ctx, api.Read{})
	if err != nil {
		return &loadError{"slurm_load_ctl_conf", asSlurm(err).Error()}
	}
	cluster, _, err := s.Cluster(ctx)
	if err != nil {
		return &loadError{"slurm_load_ctl_conf", asSlurm(err).Error()}
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
	line("SLURM_VERSION", "%s", release)
	for i, c := range cluster.Controllers {
		line(fmt.Sprintf("SlurmctldHost[%d]", i), "%s", c.Name)
	}
	return out.Flush()
}
