package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Columns that several lists of jobs share.
var (
	jobIDCell = listing.Cell[api.Job]{Name: "id", Column: table.Column{Title: "JOBID", Right: true},
		Needs:  []string{"id", "array", "group"},
		Text:   func(j *api.Job, _ listing.Style) string { return show.JobName(j) },
		Number: func(j *api.Job) int64 { return int64(j.ID) }}
	jobNameCell = listing.TextCell("name", "NAME", 8, "name", func(j *api.Job) string { return j.Name })
	userCell    = listing.TextCell("user", "USER", 6, "user", func(j *api.Job) string { return j.User })
	accountCell = listing.TextCell("account", "ACCOUNT", 6, "account",
		func(j *api.Job) string { return j.Account }).Ranked(4)
	queueCell = listing.TextCell("queue", "QUEUE", 6, "queue", func(j *api.Job) string { return j.Queue }).Ranked(4)
	classCell = listing.TextCell("class", "CLASS", 0, "class",
		func(j *api.Job) string { return string(j.Class) }).Ranked(5)
	codeCell = listing.TextCell("code", "ST", 0, "code array", shownCode).Painted(table.StateOf)
	gpusCell = listing.AmountCell("gpus", "GPUS", "gpus gpu_thousandths",
		func(j *api.Job) int64 { return show.GPUAmount(j.GPUs, j.GPUThousandths) }, show.GPUs)
	coresCell  = listing.NumberCell("cores", "CORES", "cores", func(j *api.Job) int { return j.Cores })
	memoryCell = listing.AmountCell("memory", "MEM", "memory", func(j *api.Job) jobspec.Bytes { return j.Memory },
		show.Size)
	workersCell = listing.TextCell("workers", "WORKERS", 0, "workers elastic",
		show.Workers).AtRight().SortedBy(func(j *api.Job) int64 { return int64(j.Workers) })
	attemptCell = listing.NumberCell("attempt", "ATTEMPT", "attempt", func(j *api.Job) int { return j.Attempt })
	elapsedCell = listing.AmountCell("time", "TIME", "elapsed array", shownTime, show.Clock)
	limitCell   = listing.AmountCell("limit", "LIMIT", "time_limit",
		func(j *api.Job) jobspec.Seconds { return j.TimeLimit },
		show.Limit).Ranked(2)
	priorityCell  = listing.NumberCell("pri", "PRI", "priority", func(j *api.Job) int { return j.Priority }).Ranked(6)
	stepsCell     = listing.NumberCell("steps", "STEPS", "steps", func(j *api.Job) int64 { return j.Steps })
	submittedCell = listing.TimeCell("submitted", "SUBMITTED", "submitted",
		func(j *api.Job) *api.Time { return j.Submitted })
	startedCell = listing.TimeCell("started", "STARTED", "started array", shownStart)
	endedCell   = listing.TimeCell("ended", "ENDED", "ended", func(j *api.Job) *api.Time { return j.Ended })
	nodesCell   = listing.TextCell("nodes", "NODES", 0, "nodes workers elastic",
		show.Nodes).AtRight().SortedBy(func(j *api.Job) int64 { return int64(show.NodeCount(j)) }).Ranked(3)
	nodelistCell = listing.TextCell("nodelist", "NODELIST", 8, "nodes",
		func(j *api.Job) string { return show.Hosts(j.Nodes) })
	workdirCell  = listing.TextCell("workdir", "WORKDIR", 8, "workdir", func(j *api.Job) string { return j.Workdir })
	commentCell  = listing.TextCell("comment", "COMMENT", 8, "comment", func(j *api.Job) string { return j.Comment })
	reasonCell   = listing.TextCell("reason", "REASON", 10, "reason cancelled_by uid code", reasonText)
	stateCell    = listing.TextCell("state", "STATE", 9, "state array", shownState).Painted(table.StateOf)
	exitCell     = listing.TextCell("exit", "EXIT", 0, "exit_code signal", show.Exit).AtRight().Painted(table.ExitOf)
	gpuHoursCell = listing.AmountCell("gpuh", "GPUH", "gpu_seconds", func(j *api.Job) int64 { return j.GPUSeconds },
		show.Hours).Ranked(2)
	suspendCell = listing.NumberCell("suspensions", "SUSPENDED", "suspensions",
		func(j *api.Job) int { return j.Suspensions })
	preemptCell = listing.NumberCell("preemptions", "PREEMPTED", "preemptions", func(j *api.Job) int {
		return j.Preemptions.TE + j.Preemptions.Reclaim + j.Preemptions.Order
	})
	cpuTimeCell = listing.AmountCell("cputime", "CPUTIME", "attempts", show.CPUTime, show.Clock)
	maxMemCell  = listing.AmountCell("maxmem", "MAXMEM", "attempts",
		func(j *api.Job) jobspec.Bytes { return show.Usage(j).PeakMemory }, show.Size)
	gpuUtilCell = listing.NumberCell("gpuutil", "GPU%", "attempts", func(j *api.Job) int { return show.Usage(j).GPUUtil })
	gpuMemCell  = listing.AmountCell("gpumem", "MAXGPUMEM", "attempts",
		func(j *api.Job) jobspec.Bytes { return show.Usage(j).PeakGPUMemory }, show.Size)
	outputLostCell = listing.AmountCell("outputlost", "OUTPUT LOST", "attempts",
		func(j *api.Job) jobspec.Bytes { return jobspec.Bytes(show.OutputLost(j)) }, show.Size)
	lostCell = listing.NumberCell("lost", "LOST GPU S", "attempts", show.LostGPUSeconds)
	leftCell = listing.TextCell("left", "LEFT FOR", 10, "attempts",
		func(j *api.Job) string { return show.DashIfEmpty(show.AllLeft(j)) })
	whereCell = listing.Cell[api.Job]{Name: "where", Column: table.Column{Title: "REASON|NODELIST", Least: 15},
		Needs: []string{"code", "nodes", "reason"},
		Text:  func(j *api.Job, s listing.Style) string { return nodesOrReason(j, s.Full) }}
	eligibleCell = listing.TimeCell("start", "START", "eligible", func(j *api.Job) *api.Time { return j.Eligible })
	deadlineCell = listing.TimeCell("deadline", "DEADLINE", "deadline", func(j *api.Job) *api.Time { return j.Deadline })
	dependsCell  = listing.TextCell("depends", "DEPENDS ON", 10, "dependencies", show.Dependencies)
)

// queueCells are the columns of rota queue.
var queueCells = append([]listing.Cell[api.Job]{
	jobIDCell, jobNameCell, userCell, accountCell, queueCell.InWide(), classCell, codeCell, elapsedCell, limitCell,
	gpusCell, nodesCell,
	priorityCell, attemptCell.InWide(), stepsCell.InWide(), submittedCell.InWide(), whereCell,
}, listing.OnDemand(
	stateCell, coresCell, memoryCell, workersCell, startedCell, endedCell, eligibleCell, deadlineCell, dependsCell,
	nodelistCell, reasonCell, workdirCell, commentCell, exitCell, gpuHoursCell, preemptCell, leftCell, lostCell,
	suspendCell,
)...)

// startCells are the columns of rota queue --start.
var startCells = append([]listing.Cell[api.Job]{
	jobIDCell, jobNameCell, userCell, codeCell, startCell, latestCell, deadlineCell.InWide(), nodesCell, dependsCell,
	reasonCell, basisCell,
}, listing.OnDemand(
	gpusCell, accountCell, queueCell, classCell, limitCell, priorityCell,
)...)

// startCell is when a job started, or its earliest expected start.
var startCell = listing.Cell[api.Job]{Name: "start", Column: table.Column{Title: "START"},
	Needs: []string{"started", "eligible", "start_earliest", "code", "array"},
	Text: func(j *api.Job, s listing.Style) string {
		switch {
		case shownCode(j) != string(model.Pending):
			return show.Time(j.Started, s.UTC)
		case j.StartEarliest != nil:
			return show.Time(j.StartEarliest, s.UTC)
		case j.Eligible != nil:
			return "after " + show.Time(j.Eligible, s.UTC)
		}
		return "unknown"
	}}

// latestCell is the latest expected start of a waiting job, if no other job arrives that goes
// first.
var latestCell = listing.Cell[api.Job]{Name: "latest", Column: table.Column{Title: "LATEST"},
	Needs: []string{"start_latest", "code", "array"},
	Text: func(j *api.Job, s listing.Style) string {
		switch {
		case shownCode(j) != string(model.Pending):
			return "-"
		case j.StartLatest == nil:
			return "unknown"
		}
		return show.Time(j.StartLatest, s.UTC)
	}}

// basisCell says on what the expected start of a job rests.
var basisCell = listing.TextCell("basis", "BASIS", 20, "basis", func(j *api.Job) string {
	return show.DashIfEmpty(j.Basis)
})

// histCells are the columns of rota hist.
var histCells = append([]listing.Cell[api.Job]{
	jobIDCell, jobNameCell, userCell, accountCell.InWide(), queueCell, classCell, gpusCell, stateCell, exitCell,
	listing.Titled(elapsedCell, "ELAPSED", "elapsed"),
	gpuHoursCell, listing.Titled(attemptCell, "ATTEMPTS", "attempts").InWide(), startedCell.InWide(),
	endedCell.InWide(), nodelistCell, leftCell.InWide(), lostCell.InWide(), reasonCell.InWide(),
}, listing.OnDemand(
	codeCell, submittedCell, limitCell, priorityCell, coresCell, memoryCell, workersCell, stepsCell, preemptCell,
	workdirCell, commentCell, nodesCell, suspendCell, cpuTimeCell, maxMemCell, gpuUtilCell, gpuMemCell,
	outputLostCell,
)...)

// shownCode returns the state to show for a job. The row of an array stands for its pending tasks,
// so it is pending. reasonText says why a job waits or how it ended; it names the cancelling user
// unless that was the owner.
func reasonText(j *api.Job) string {
	text, by := show.Reason(j.Reason), show.CancelledBy(j)
	switch {
	case by == "":
		return text
	case text == "":
		return "cancelled by " + by
	}
	return "cancelled by " + by + ": " + text
}

func shownCode(j *api.Job) string {
	if j.Array.Indices != "" {
		return string(model.Pending)
	}
	return string(j.Code)
}

// shownState is shownCode as a word. shownTime and shownStart return run time and start; both are
// empty for pending tasks.
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

var nodeCells = append([]listing.Cell[api.Node]{
	listing.TextCell("name", "NODE", 8, "name", func(n *api.Node) string { return n.Name }),
	listing.TextCell("state", "STATE", 0, "state", func(n *api.Node) string { return n.State }).Painted(table.StateOf),
	listing.TextCell("cpus", "CPUS(A/T)", 0, "", func(n *api.Node) string {
		return fmt.Sprintf("%d/%d", n.CoresUsed, n.Cores)
	}).AtRight().SortedBy(func(n *api.Node) int64 { return n.Cores - n.CoresUsed }),
	listing.TextCell("mem", "MEM(A/T)", 0, "", func(n *api.Node) string {
		return show.Size(n.MemoryUsed) + "/" + show.Size(n.Memory)
	}).AtRight().SortedBy(func(n *api.Node) int64 { return int64(n.Memory - n.MemoryUsed) }),
	listing.TextCell("gpus", "GPUS(A/T)", 0, "", func(n *api.Node) string {
		return fmt.Sprintf("%d/%d", n.GPUsUsed, len(n.GPUs))
	}).AtRight().SortedBy(func(n *api.Node) int64 { return int64(len(n.GPUs) - n.GPUsUsed) }),
	listing.NumberCell("height", "HEIGHT", "", func(n *api.Node) int { return n.Height }).InWide().Ranked(2),
	listing.AmountCell("affinity", "AFFINITY", "", func(n *api.Node) int { return n.Affinity },
		show.NumberOrDash).InWide().Ranked(3),
	listing.TextCell("model", "MODEL", 8, "", func(n *api.Node) string { return models(n.GPUs) }).Ranked(4),
	listing.TextCell("jobs", "JOBS", 6, "", func(n *api.Node) string { return show.IDs(n.Jobs) }),
	listing.TimeCell("seen", "SEEN", "", func(n *api.Node) *api.Time { return n.LastSeen }).InWide(),
	listing.TextCell("version", "VERSION", 0, "", func(n *api.Node) string { return n.Version }).InWide(),
	listing.TextCell("shared", "SHARED", 0, "",
		func(n *api.Node) string { return strings.Join(n.SharedPaths, ",") }).InWide(),
	listing.TextCell("reason", "REASON", 8, "", func(n *api.Node) string { return n.Reason }),
}, listing.OnDemand(
	listing.AmountCell("load", "LOAD", "", func(n *api.Node) int64 { return n.Load }, show.Thousandths),
	listing.TextCell("suspended", "SUSPENDED", 8, "", suspendedText),
	listing.TextCell("labels", "LABELS", 8, "", func(n *api.Node) string { return labelsText(n.Labels) }))...)

// suspendedText lists the jobs that are suspended on a node, with the memory that they still hold.
func suspendedText(n *api.Node) string {
	all := make([]string, len(n.Suspended))
	for i, s := range n.Suspended {
		all[i] = fmt.Sprintf("%s(%s)", show.NumberOrDash(s.Job), show.Size(s.Memory))
	}
	return show.DashIfEmpty(strings.Join(all, ","))
}

func labelsText(labels map[string]string) string {
	var all []string
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

var eventCells = append([]listing.Cell[api.Event]{
	listing.NumberCell("index", "INDEX", "", func(e *api.Event) uint64 { return e.Index }).Ranked(2),
	listing.TimeCell("time", "TIME", "", func(e *api.Event) *api.Time { return e.At }),
	listing.TextCell("type", "TYPE", 8, "", func(e *api.Event) string { return e.Type }).Painted(eventPaint),
	listing.AmountCell("job", "JOB", "", func(e *api.Event) model.JobID { return e.Job }, show.NumberOrDash),
	listing.TextCell("attempt", "ATTEMPT", 0, "",
		func(e *api.Event) string { return show.NumberOrDash(e.Attempt) }).AtRight().Ranked(3),
	listing.TextCell("node", "NODE", 8, "", func(e *api.Event) string { return show.DashIfEmpty(e.Node) }),
	listing.TextCell("cause", "CAUSE", 0, "", func(e *api.Event) string {
		return show.DashIfEmpty(string(e.Cause))
	}).Painted(table.CauseOf),
	listing.TextCell("for", "FOR", 0, "", func(e *api.Event) string { return show.NumberOrDash(e.For) }).AtRight(),
	listing.TextCell("of", "OF", 6, "",
		func(e *api.Event) string { return show.DashIfEmpty(show.Whose(e.ForUser, e.ForAccount)) }).Ranked(4),
	listing.AmountCell("lost", "LOST GPU S", "", func(e *api.Event) int64 { return e.LostGPUSeconds },
		show.NumberOrDash).Ranked(5),
}, listing.OnDemand(
	listing.TextCell("text", "TEXT", 20, "", func(e *api.Event) string { return show.DashIfEmpty(show.EventText(e)) }),
)...)

// eventPaint returns the colour for a type of event: that of a node that is gone.
func eventPaint(name string) table.Paint {
	switch model.EventType(name) {
	case model.EventNodeDown, model.EventNodeDead:
		return table.Bad
	}
	return table.Plain
}
