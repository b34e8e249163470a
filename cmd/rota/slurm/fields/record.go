package fields

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// jobLines has the keys of scontrol show job, line by line. ArrayJobId and ArrayTaskId are shown
// for arrays only, BatchHost for started jobs only.
var jobLines = []string{
	"JobId ArrayJobId ArrayTaskId JobName", "UserId GroupId", "Priority Nice Account QOS", "JobState Reason Dependency",
	"Requeue Restarts BatchFlag ExitCode", "RunTime TimeLimit", "SubmitTime EligibleTime", "StartTime EndTime Deadline",
	"Partition", "ReqNodeList ExcNodeList", "NodeList", "BatchHost", "NumNodes NumCPUs NumTasks CPUs/Task", "ReqTRES",
	"AllocTRES", "MinMemoryNode MinTmpDiskNode", "Features", "OverSubscribe", "Command", "WorkDir",
	"StdErr", "StdIn", "StdOut", "Comment", "SystemComment",
	"TresPerNode",
}

// optionalKeys are omitted if their value is empty.
var optionalKeys = []string{"ArrayJobId", "ArrayTaskId", "BatchHost", "Comment", "SystemComment", "TresPerNode"}

// Record returns the KEY=VALUE lines of a job in scontrol show.
func (r *JobRow) Record() []string {
	var lines []string
	for _, keys := range jobLines {
		var line []string
		for _, key := range strings.Fields(keys) {
			i := slices.IndexFunc(Jobs, func(f Field[*JobRow]) bool { return f.key == key })
			if value := show.Clean(Jobs[i].text(r)); value != "" || !slices.Contains(optionalKeys, key) {
				line = append(line, key+"="+value)
			}
		}
		if line != nil {
			lines = append(lines, strings.Join(line, " "))
		}
	}
	return lines
}

// NodeRecord returns the KEY=VALUE lines of a node in scontrol show. queues returns the partitions
// of the node.
func NodeRecord(n *api.Node, queues []string) []string {
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

// amounts formats resources as scontrol does.
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

// NodeObject is the JSON of a node in scontrol show.
func NodeObject(n *api.Node, queues []string) any {
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

// totals returns the summed resources of a partition's nodes.
func (p *Partition) totals() (cores int64, mem jobspec.Bytes, gpus int) {
	for _, n := range p.Nodes {
		cores, mem, gpus = cores+n.Cores, mem+n.Memory, gpus+len(n.GPUs)
	}
	return cores, mem, gpus
}

// Record returns the KEY=VALUE lines of a partition in scontrol show. Every key has a value,
// because clients expect one.
func (p *Partition) Record() []string {
	cores, mem, gpus := p.totals()
	isDefault := "NO"
	if p.Name == model.DefaultQueue {
		isDefault = "YES"
	}
	def := "NONE"
	if p.DefaultTime > 0 {
		def = Clock(p.DefaultTime)
	}
	return []string{
		"PartitionName=" + p.Name,
		"AllowGroups=ALL AllowAccounts=" + p.allowed() + " AllowQos=ALL",
		fmt.Sprintf("AllocNodes=ALL Default=%s QoS=%s", isDefault, p.qos()),
		fmt.Sprintf("DefaultTime=%s DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=%d Hidden=NO", def,
			p.MaxGrace),
		fmt.Sprintf("MaxNodes=UNLIMITED MaxTime=%s MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED",
			limit(p.MaxTime)),
		"NodeSets=ALL",
		"Nodes=" + orNull(show.Hosts(p.NodeNames())),
		"PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO",
		"OverTimeLimit=NONE PreemptMode=REQUEUE",
		fmt.Sprintf("State=UP TotalCPUs=%d TotalNodes=%d SelectTypeParameters=NONE", cores, len(p.Nodes)),
		"JobDefaults=(null)",
		fmt.Sprintf("DefMemPerCPU=%d MaxMemPerNode=UNLIMITED", jobspec.DefaultMemoryPerCore/jobspec.MiB),
		"TRES=" + amounts(cores, mem, len(p.Nodes), gpus),
	}
}

// allowed returns the accounts whose jobs a partition takes.
func (p *Partition) allowed() string {
	if len(p.Accounts) == 0 {
		return "ALL"
	}
	return strings.Join(p.Accounts, ",")
}

// qos names the quality of service that has the limits of a partition: it goes by the name of the
// queue.
func (p *Partition) qos() string {
	if p.Limit == nil && len(p.Users) == 0 {
		return "N/A"
	}
	return p.Name
}

// Object returns the JSON of a partition in scontrol show.
func (p *Partition) Object(cluster string) any {
	cores, mem, gpus := p.totals()
	return map[string]any{"name": p.Name, "cluster": cluster,
		"nodes": map[string]any{"configured": show.Hosts(p.NodeNames()), "total": len(p.Nodes),
			"allowed_allocation": ""},
		"cpus":      map[string]any{"total": cores, "task_binding": 0},
		"tres":      map[string]any{"configured": amounts(cores, mem, len(p.Nodes), gpus), "billing_weights": ""},
		"partition": map[string]any{"state": []string{"UP"}},
		"maximums":  map[string]any{"time": minutes(p.MaxTime), "nodes": number{Infinite: true}},
		"defaults":  map[string]any{"time": minutes(p.DefaultTime)},
		"accounts":  map[string]any{"allowed": strings.Join(p.Accounts, ","), "deny": ""},
		"groups":    map[string]any{"allowed": ""},
		"qos":       map[string]any{"allowed": "", "deny": "", "assigned": ""}}
}
