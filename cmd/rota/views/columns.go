package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Columns of jobs that several lists have.
var (
	jobIDCell = listing.Cell[api.Job]{Name: "id", Column: table.Column{Title: "JOBID", Right: true},
		Needs:  []string{"id", "array", "group"},
		Text:   func(j *api.Job, _ listing.Style) string { return show.JobName(j) },
		Number: func(j *api.Job) int64 { return int64(j.ID) }}
	jobNameCell = listing.TextCell("name", "NAME", 8, "name", func(j *api.Job) string { return j.Name })
	userCell    = listing.TextCell("user", "USER", 6, "user", func(j *api.Job) string { return j.User })
	accountCell = listing.TextCell("account", "ACCOUNT", 6, "account", func(j *api.Job) string { return j.Account })
	queueCell   = listing.TextCell("queue", "QUEUE", 6, "queue", func(j *api.Job) string { return j.Queue })
	classCell   = listing.TextCell("class", "CLASS", 0, "class", func(j *api.Job) string { return string(j.Class) })
	codeCell    = listing.TextCell("code", "ST", 0, "code array", shownCode)
	gpusCell    = listing.NumberCell("gpus", "GPUS", "gpus", func(j *api.Job) int64 { return int64(j.GPUs) })
	coresCell   = listing.NumberCell("cores", "CORES", "cores", func(j *api.Job) int64 { return int64(j.Cores) })
	memoryCell  = listing.TextCell("memory", "MEM", 0, "memory",
		func(j *api.Job) string { return show.Size(j.Memory) }).AtRight().
		SortedBy(func(j *api.Job) int64 { return int64(j.Memory) })
	workersCell = listing.TextCell("workers", "WORKERS", 0, "workers elastic",
		show.Workers).AtRight().SortedBy(func(j *api.Job) int64 { return int64(j.Workers) })
	attemptCell = listing.NumberCell("attempt", "ATTEMPT", "attempt", func(j *api.Job) int64 { return int64(j.Attempt) })
	elapsedCell = listing.TextCell("time", "TIME", 0, "elapsed array",
		func(j *api.Job) string { return show.Clock(shownTime(j)) }).AtRight().
		SortedBy(func(j *api.Job) int64 { return int64(shownTime(j)) })
	limitCell = listing.TextCell("limit", "LIMIT", 0, "time_limit",
		func(j *api.Job) string { return show.Limit(j.TimeLimit) }).AtRight().
		SortedBy(func(j *api.Job) int64 { return int64(j.TimeLimit) })
	priorityCell  = listing.NumberCell("pri", "PRI", "priority", func(j *api.Job) int64 { return int64(j.Priority) })
	stepsCell     = listing.NumberCell("steps", "STEPS", "steps", func(j *api.Job) int64 { return j.Steps })
	submittedCell = listing.TimeCell("submitted", "SUBMITTED", "submitted",
		func(j *api.Job) *api.Time { return j.Submitted })
	startedCell = listing.TimeCell("started", "STARTED", "started array", shownStart)
	endedCell   = listing.TimeCell("ended", "ENDED", "ended", func(j *api.Job) *api.Time { return j.Ended })
	nodesCell   = listing.TextCell("nodes", "NODES", 0, "nodes workers elastic",
		show.Nodes).AtRight().SortedBy(func(j *api.Job) int64 { return int64(show.NodeCount(j)) })
	nodelistCell = listing.TextCell("nodelist", "NODELIST", 8, "nodes",
		func(j *api.Job) string { return show.Hosts(j.Nodes) })
	workdirCell = listing.TextCell("workdir", "WORKDIR", 8, "workdir", func(j *api.Job) string { return j.Workdir })
	reasonCell  = listing.TextCell("reason", "REASON", 10, "reason",
		func(j *api.Job) string { return show.Reason(j.Reason) })
	stateCell    = listing.TextCell("state", "STATE", 9, "state array", shownState)
	exitCell     = listing.TextCell("exit", "EXIT", 0, "exit_code signal", show.Exit).AtRight()
	gpuHoursCell = listing.TextCell("gpuh", "GPUH", 0, "gpu_seconds",
		func(j *api.Job) string { return show.Hours(j.GPUSeconds) }).AtRight().
		SortedBy(func(j *api.Job) int64 { return j.GPUSeconds })
	preemptCell = listing.NumberCell("preemptions", "PREEMPTED", "preemptions", func(j *api.Job) int64 {
		return int64(j.Preemptions.TE + j.Preemptions.Reclaim + j.Preemptions.Order)
	})
	whereCell = listing.Cell[api.Job]{Name: "where", Column: table.Column{Title: "REASON|NODELIST", Least: 20},
		Needs: []string{"code", "nodes", "reason"},
		Text:  func(j *api.Job, s listing.Style) string { return nodesOrReason(j, s.Full) }}
	eligibleCell = listing.TimeCell("start", "START", "eligible", func(j *api.Job) *api.Time { return j.Eligible })
	deadlineCell = listing.TimeCell("deadline", "DEADLINE", "deadline", func(j *api.Job) *api.Time { return j.Deadline })
	dependsCell  = listing.TextCell("depends", "DEPENDS ON", 10, "dependencies", show.Dependencies)
)

// queueCells are the columns of rota queue.
var queueCells = []listing.Cell[api.Job]{
	jobIDCell, jobNameCell, userCell, accountCell, queueCell.InWide(), classCell, codeCell, elapsedCell, limitCell,
	gpusCell, nodesCell,
	priorityCell, attemptCell.InWide(), stepsCell.InWide(), submittedCell.InWide(), whereCell,
	stateCell.OnDemand(), coresCell.OnDemand(), memoryCell.OnDemand(), workersCell.OnDemand(), startedCell.OnDemand(),
	endedCell.OnDemand(),
	eligibleCell.OnDemand(), deadlineCell.OnDemand(), dependsCell.OnDemand(), nodelistCell.OnDemand(),
	reasonCell.OnDemand(), workdirCell.OnDemand(),
	exitCell.OnDemand(), gpuHoursCell.OnDemand(), preemptCell.OnDemand(),
}

// startCells are the columns of rota queue --start.
var startCells = []listing.Cell[api.Job]{
	jobIDCell, jobNameCell, userCell, codeCell, startCell, deadlineCell.InWide(), nodesCell, dependsCell, reasonCell,
	gpusCell.OnDemand(), accountCell.OnDemand(), queueCell.OnDemand(), classCell.OnDemand(), limitCell.OnDemand(),
	priorityCell.OnDemand(),
}

// startCell is when a job started, or its earliest start. No start is promised, because when
// capacity becomes free is unknown.
var startCell = listing.Cell[api.Job]{Name: "start", Column: table.Column{Title: "START"},
	Needs: []string{"started", "eligible", "code", "array"},
	Text: func(j *api.Job, s listing.Style) string {
		switch {
		case shownCode(j) != string(cluster.Pending):
			return show.Time(j.Started, s.UTC)
		case j.Eligible != nil:
			return "after " + show.Time(j.Eligible, s.UTC)
		}
		return "unknown"
	}}

// histCells are the columns of rota hist.
var histCells = []listing.Cell[api.Job]{
	jobIDCell, jobNameCell, userCell, accountCell.InWide(), queueCell, classCell, gpusCell, stateCell, exitCell,
	listing.Titled(elapsedCell, "ELAPSED", "elapsed"),
	gpuHoursCell, listing.Titled(attemptCell, "ATTEMPTS", "attempts").InWide(), startedCell.InWide(),
	endedCell.InWide(), nodelistCell, reasonCell.InWide(),
	codeCell.OnDemand(), submittedCell.OnDemand(), limitCell.OnDemand(), priorityCell.OnDemand(), coresCell.OnDemand(),
	memoryCell.OnDemand(),
	workersCell.OnDemand(), stepsCell.OnDemand(), preemptCell.OnDemand(), workdirCell.OnDemand(), nodesCell.OnDemand(),
}

// shownCode returns the state of a job. The row of an array stands for its pending tasks, so it is
// pending.
func shownCode(j *api.Job) string {
	if j.Array.Indices != "" {
		return string(cluster.Pending)
	}
	return string(j.Code)
}

// shownState is shownCode as a word. shownTime and shownStart return the run time and the start,
// which pending tasks do not have.
func shownState(j *api.Job) string {
	if j.Array.Indices != "" {
		return "PENDING"
	}
	return j.State
}

func shownTime(j *api.Job) jobspec.Seconds {
	if j.Array.Indices != "" {
		return 0
	}
	return j.Elapsed
}

func shownStart(j *api.Job) *api.Time {
	if j.Array.Indices != "" {
		return nil
	}
	return j.Started
}

var nodeCells = []listing.Cell[api.Node]{
	listing.TextCell("name", "NODE", 8, "name", func(n *api.Node) string { return n.Name }),
	listing.TextCell("state", "STATE", 0, "state", func(n *api.Node) string { return n.State }),
	listing.TextCell("cpus", "CPUS(A/T)", 0, "", func(n *api.Node) string {
		return fmt.Sprintf("%d/%d", n.CoresUsed,
			n.Cores)
	}).AtRight().
		SortedBy(func(n *api.Node) int64 { return n.Cores - n.CoresUsed }),
	listing.TextCell("mem", "MEM(A/T)", 0, "", func(n *api.Node) string {
		return show.Size(n.MemoryUsed) + "/" +
			show.Size(n.Memory)
	}).AtRight().
		SortedBy(func(n *api.Node) int64 { return int64(n.Memory - n.MemoryUsed) }),
	listing.TextCell("gpus", "GPUS(A/T)", 0, "", func(n *api.Node) string {
		return fmt.Sprintf("%d/%d", n.GPUsUsed,
			len(n.GPUs))
	}).AtRight().
		SortedBy(func(n *api.Node) int64 { return int64(len(n.GPUs) - n.GPUsUsed) }),
	listing.TextCell("model", "MODEL", 8, "", func(n *api.Node) string { return models(n.GPUs) }),
	listing.TextCell("jobs", "JOBS", 6, "", func(n *api.Node) string { return show.IDs(n.Jobs) }),
	listing.TimeCell("seen", "SEEN", "", func(n *api.Node) *api.Time { return n.LastSeen }).InWide(),
	listing.TextCell("version", "VERSION", 0, "", func(n *api.Node) string { return n.Version }).InWide(),
	listing.TextCell("shared", "SHARED", 0, "", func(n *api.Node) string {
		return strings.Join(n.SharedPaths,
			",")
	}).InWide(),
	listing.TextCell("reason", "REASON", 8, "", func(n *api.Node) string { return n.Reason }),
	listing.TextCell("labels", "LABELS", 8, "", func(n *api.Node) string { return labelsText(n.Labels) }).OnDemand(),
}

func labelsText(labels map[string]string) string {
	var all []string
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

var eventCells = []listing.Cell[api.Event]{
	listing.NumberCell("index", "INDEX", "", func(e *api.Event) int64 { return int64(e.Index) }),
	listing.TimeCell("time", "TIME", "", func(e *api.Event) *api.Time { return e.At }),
	listing.TextCell("type", "TYPE", 0, "", func(e *api.Event) string { return e.Type }),
	listing.TextCell("job", "JOB", 0, "", func(e *api.Event) string { return show.NumberOrDash(int64(e.Job)) }).AtRight().
		SortedBy(func(e *api.Event) int64 { return int64(e.Job) }),
	listing.TextCell("attempt", "ATTEMPT", 0, "",
		func(e *api.Event) string { return show.NumberOrDash(int64(e.Attempt)) }).AtRight(),
	listing.TextCell("node", "NODE", 8, "", func(e *api.Event) string { return show.DashIfEmpty(e.Node) }),
	listing.TextCell("cause", "CAUSE", 0, "", func(e *api.Event) string { return show.DashIfEmpty(string(e.Cause)) }),
	listing.TextCell("for", "FOR", 0, "", func(e *api.Event) string { return show.NumberOrDash(int64(e.For)) }).AtRight(),
}
