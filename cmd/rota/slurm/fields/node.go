package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// Partition is a queue of Rota under Slurm's name, with its nodes.
type Partition struct {
	Name string
	cluster.Queue
	Nodes []*api.Node
}

// NodeRow is a row for equal nodes of one partition.
type NodeRow struct {
	*Source
	part  *Partition
	nodes []*api.Node // empty only for a partition without nodes
}

// Nodes is the table of all fields of nodes and partitions. Nodes that differ in a node field get
// separate rows.
var Nodes = []Field[*NodeRow]{
	{letter: 'P', long: "Partition", text: func(r *NodeRow) string { return r.part.marked() }},
	{letter: 'R', long: "PartitionName", title: "PARTITION", json: "partition.name",
		text: func(r *NodeRow) string { return r.part.Name }},
	{letter: 'a', long: "Available", title: "AVAIL", joins: true, text: words("up")},
	{letter: 'l', long: "Time", title: "TIMELIMIT", joins: true,
		text: func(r *NodeRow) string { return shortOrInfinite(r.part.MaxTime) }},
	{letter: 'L', long: "DefaultTime", joins: true,
		text: func(r *NodeRow) string { return shortOrInfinite(r.part.DefaultTime) }},
	{letter: 't', long: "StateCompact", title: "STATE", text: func(r *NodeRow) string { return r.first().State }},
	{letter: 'T', long: "StateLong", title: "STATE", json: "node.state",
		text:  func(r *NodeRow) string { return longNodeState(r.first().State) },
		value: func(r *NodeRow) any { return nodeFlags(r.first().State) }},
	{long: "State", text: func(r *NodeRow) string { return longNodeState(r.first().State) }},
	{letter: 'D', long: "Nodes", joins: true, text: func(r *NodeRow) string { return strconv.Itoa(len(r.nodes)) }},
	{letter: 'N', long: "NodeList", joins: true, text: func(r *NodeRow) string { return show.Hosts(r.names()) }},
	{letter: 'n', long: "NodeHost", title: "HOSTNAMES", text: func(r *NodeRow) string { return r.first().Name }},
	{letter: 'o', long: "NodeAddr", title: "NODE_ADDR", text: func(r *NodeRow) string { return r.first().Name }},
	{letter: 'F', long: "NodeAIOT", title: "NODES(A/I/O/T)", joins: true, text: func(r *NodeRow) string {
		c := r.count()
		return fmt.Sprintf("%d/%d/%d/%d", c.allocated, c.idle, c.other, len(r.nodes))
	}},
	{letter: 'A', long: "NodeAI", title: "NODES(A/I)", joins: true, text: func(r *NodeRow) string {
		c := r.count()
		return fmt.Sprintf("%d/%d", c.allocated, c.idle)
	}},
	{letter: 'C', long: "CPUsState", title: "CPUS(A/I/O/T)", joins: true, text: func(r *NodeRow) string {
		c := r.count()
		return fmt.Sprintf("%d/%d/%d/%d", c.cores, c.idleCores, c.otherCores, c.cores+c.idleCores+c.otherCores)
	}},
	{letter: 'c', long: "CPUs", joins: true, text: func(r *NodeRow) string { return r.least(coresOf) }},
	{letter: 'm', long: "Memory", joins: true, text: func(r *NodeRow) string { return r.least(memoryOf) }},
	{long: "AllocMem", title: "ALLOCMEM", text: func(r *NodeRow) string { return r.least(usedMemoryOf) }},
	{letter: 'e', long: "FreeMem", title: "FREE_MEM", text: func(r *NodeRow) string { return r.least(freeMemoryOf) }},
	{letter: 'd', long: "Disk", title: "TMP_DISK", joins: true, text: words("0")},
	{letter: 'w', long: "Weight", joins: true, text: words("1")},
	{letter: 'O', long: "CPUsLoad", title: "CPU_LOAD", text: words("N/A")},
	{letter: 'X', long: "Sockets", joins: true, text: words("1")},
	{letter: 'Y', long: "Cores", joins: true, text: func(r *NodeRow) string { return r.least(coresOf) }},
	{letter: 'Z', long: "Threads", joins: true, text: words("1")},
	{letter: 'z', long: "SocketCoreThread", title: "S:C:T", joins: true,
		text: func(r *NodeRow) string { return "1:" + r.least(coresOf) + ":1" }},
	{letter: 'G', long: "Gres", json: "gres.total", text: func(r *NodeRow) string { return orNull(gres(r.first())) },
		value: func(r *NodeRow) any { return gres(r.first()) }},
	{long: "GresUsed", title: "GRES_USED", json: "gres.used",
		text:  func(r *NodeRow) string { return orNull(gresUsed(r.first())) },
		value: func(r *NodeRow) any { return gresUsed(r.first()) }},
	{letter: 'f', long: "Features", title: "AVAIL_FEATURES", json: "features.total",
		text:  func(r *NodeRow) string { return orNull(features(r.first())) },
		value: func(r *NodeRow) any { return features(r.first()) }},
	{letter: 'b', long: "features_act", title: "ACTIVE_FEATURES", json: "features.active",
		text:  func(r *NodeRow) string { return orNull(features(r.first())) },
		value: func(r *NodeRow) any { return features(r.first()) }},
	{letter: 'E', long: "Reason", json: "reason",
		text:  func(r *NodeRow) string { return cmp.Or(r.first().Reason, "none") },
		value: func(r *NodeRow) any { return r.first().Reason }},
	{letter: 'u', long: "User", text: words("Unknown")},
	{letter: 'H', long: "Timestamp", text: words("Unknown")},
	{letter: 'v', long: "Version", json: "version", text: func(r *NodeRow) string { return r.first().Version }},
	{letter: 'V', long: "Cluster", json: "cluster", joins: true, text: func(r *NodeRow) string { return r.Cluster }},
	{letter: 'B', long: "MaxCPUsPerNode", title: "MAX_CPUS_PER_NODE", joins: true, text: words("UNLIMITED")},
	{letter: 's', long: "Size", title: "JOB_SIZE", joins: true, text: words("1-infinite")},
	{letter: 'h', long: "OverSubscribe", joins: true, text: words("NO")},
	{letter: 'g', long: "Groups", joins: true, text: words("all")},
	{letter: 'S', long: "AllocNodes", title: "ALLOCNODES", joins: true, text: words("all")},
	{letter: 'r', long: "Root", joins: true, text: words("no")},
	{letter: 'p', long: "PriorityTier", title: "PRIO_TIER", joins: true, text: words("1")},
	{letter: 'I', long: "PriorityJobFactor", title: "PRIO_JOB_FACTOR", joins: true, text: words("1")},
	{letter: 'M', long: "PreemptMode", title: "PREEMPT_MODE", joins: true, text: words("REQUEUE")},
	{letter: 'i', long: "Reservation", json: "reservation", joins: true, text: words("")},

	{json: "nodes", joins: true, text: words(""), value: func(r *NodeRow) any {
		c := r.count()
		return map[string]any{"allocated": c.allocated, "idle": c.idle, "other": c.other, "total": len(r.nodes),
			"hostnames": r.names(), "addresses": r.names(), "nodes": r.names()}
	}},
	{json: "cpus", joins: true, text: words(""), value: func(r *NodeRow) any {
		c := r.count()
		o := span(r, coresOf)
		o["allocated"], o["idle"], o["other"] = c.cores, c.idleCores, c.otherCores
		o["total"] = c.cores + c.idleCores + c.otherCores
		return o
	}},
	{json: "memory", joins: true, text: words(""), value: func(r *NodeRow) any {
		o, free := span(r, memoryOf), span(r, freeMemoryOf)
		o["free"] = map[string]any{"minimum": numberOf(free["minimum"].(int64)), "maximum": numberOf(free["maximum"].(int64))}
		o["allocated"] = sum(r, usedMemoryOf)
		return o
	}},
	{json: "sockets", joins: true, text: words(""), value: spanOf(1)},
	{json: "threads", joins: true, text: words(""), value: spanOf(1)},
	{json: "disk", joins: true, text: words(""), value: spanOf(0)},
	{json: "weight", joins: true, text: words(""), value: spanOf(1)},
	{json: "cores", joins: true, text: words(""), value: func(r *NodeRow) any { return span(r, coresOf) }},
	{json: "partition.nodes", joins: true, text: words(""), value: func(r *NodeRow) any {
		return map[string]any{"allowed_allocation": "", "configured": show.Hosts(r.part.NodeNames()),
			"total": len(r.part.Nodes)}
	}},
	{json: "partition.maximums.time", joins: true, text: words(""),
		value: func(r *NodeRow) any { return minutes(r.part.MaxTime) }},
	{json: "partition.defaults.time", joins: true, text: words(""),
		value: func(r *NodeRow) any { return minutes(r.part.DefaultTime) }},
	{json: "partition.partition.state", joins: true, text: words(""), value: func(*NodeRow) any { return []string{"UP"} }},
}

// words returns a field function with the same text for every row.
func words(text string) func(*NodeRow) string { return func(*NodeRow) string { return text } }

// marked returns the partition's name; a star marks the default partition.
func (p *Partition) marked() string {
	if p.Name == model.DefaultQueue {
		return p.Name + "*"
	}
	return p.Name
}

// first returns the node that represents the row.
func (r *NodeRow) first() *api.Node {
	if len(r.nodes) == 0 {
		return &api.Node{State: "n/a"}
	}
	return r.nodes[0]
}

// NodeNames returns the names of a partition's nodes.
func (p *Partition) NodeNames() []string { return namesOf(p.Nodes) }

func (r *NodeRow) names() []string { return namesOf(r.nodes) }

func namesOf(nodes []*api.Node) []string {
	names := []string{}
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

// counts holds the numbers of nodes and cores by use: allocated, idle, other, total.
type counts struct {
	allocated, idle, other       int
	cores, idleCores, otherCores int64
}

func (r *NodeRow) count() (c counts) {
	for _, n := range r.nodes {
		c.cores += n.CoresUsed
		rest := n.Cores - n.CoresUsed
		switch n.State {
		case "idle":
			c.idle++
			c.idleCores += rest
		case "mix", "alloc":
			c.allocated++
			c.idleCores += rest
		default:
			c.other++
			c.otherCores += rest
		}
	}
	return c
}

// Amounts of a node, with memory in MiB.
func coresOf(n *api.Node) int64      { return n.Cores }
func memoryOf(n *api.Node) int64     { return int64(n.Memory / jobspec.MiB) }
func usedMemoryOf(n *api.Node) int64 { return int64(n.MemoryUsed / jobspec.MiB) }
func freeMemoryOf(n *api.Node) int64 { return memoryOf(n) - usedMemoryOf(n) }

// span is the minimum and the maximum of an amount in JSON.
func span(r *NodeRow, amount func(*api.Node) int64) map[string]any {
	var low, high int64
	for i, n := range r.nodes {
		a := amount(n)
		if low, high = min(low, a), max(high, a); i == 0 {
			low, high = a, a
		}
	}
	return map[string]any{"minimum": low, "maximum": high}
}

func spanOf(n int64) func(*NodeRow) any {
	return func(*NodeRow) any { return map[string]any{"minimum": n, "maximum": n} }
}

func sum(r *NodeRow, amount func(*api.Node) int64) (all int64) {
	for _, n := range r.nodes {
		all += amount(n)
	}
	return all
}

// least returns the minimum of an amount, with a + if some nodes have more.
func (r *NodeRow) least(amount func(*api.Node) int64) string {
	s := span(r, amount)
	if s["minimum"] != s["maximum"] {
		return fmt.Sprintf("%d+", s["minimum"])
	}
	return fmt.Sprint(s["minimum"])
}

// longStates maps the short names of node states to the long ones.
var longStates = map[string]string{"idle": "idle", "mix": "mixed", "alloc": "allocated", "down": "down",
	"drain": "drained", "drng": "draining"}

func longNodeState(state string) string { return cmp.Or(longStates[state], state) }

// nodeFlags returns the state of a node as a list of Slurm's words.
func nodeFlags(state string) []string {
	switch state {
	case "drain":
		return []string{"IDLE", "DRAIN"}
	case "drng":
		return []string{"MIXED", "DRAIN"}
	}
	return []string{strings.ToUpper(longNodeState(state))}
}

// shortOrInfinite formats a time limit for sinfo.
func shortOrInfinite(s jobspec.Seconds) string {
	if s == 0 {
		return "infinite"
	}
	return show.Clock(s)
}

func minutes(s jobspec.Seconds) number {
	if s == 0 {
		return number{Infinite: true}
	}
	return numberOf(int64(s) / 60)
}

// features are the labels of a node that -C may name.
func features(n *api.Node) string {
	var all []string
	for key := range n.Labels {
		all = append(all, key)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// gpuName returns the short name of a GPU model, as in --gres=gpu:NAME:N: h100 for NVIDIA H100 80GB
// HBM3.
func gpuName(full string) string {
	parts := strings.FieldsFunc(full, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range parts {
		if strings.ContainsFunc(word, unicode.IsDigit) {
			return strings.ToLower(word)
		}
	}
	return strings.ToLower(strings.Join(parts, "_"))
}

// gres returns the GPUs of a node: gpu:h100:8.
func gres(n *api.Node) string { return gresOf(n, func(*api.NodeGPU) bool { return true }, false) }

// gresUsed returns the GPUs that jobs hold: gpu:h100:2(IDX:0-1).
func gresUsed(n *api.Node) string {
	return gresOf(n, func(g *api.NodeGPU) bool { return g.Job != 0 }, true)
}

func gresOf(n *api.Node, counts func(*api.NodeGPU) bool, index bool) string {
	var names []string
	numbers := map[string][]int{}
	for i := range n.GPUs {
		name := gpuName(n.GPUs[i].Model)
		if numbers[name] == nil {
			names, numbers[name] = append(names, name), []int{}
		}
		if counts(&n.GPUs[i]) {
			numbers[name] = append(numbers[name], i)
		}
	}
	for i, name := range names {
		text := fmt.Sprintf("gpu:%s:%d", name, len(numbers[name]))
		if index {
			list := "N/A"
			if len(numbers[name]) > 0 {
				list = hostlist.Numbers(numbers[name])
			}
			text += "(IDX:" + list + ")"
		}
		names[i] = text
	}
	return strings.Join(names, ",")
}
