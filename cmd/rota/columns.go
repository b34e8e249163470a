package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// text and number make cells of the common kinds.
func textCell[T any](name, title string, least int, needs string, text func(*T) string) cell[T] {
	return cell[T]{name: name, column: column{title: title, least: least}, needs: strings.Fields(needs),
		text: func(item *T, _ style) string { return text(item) }}
}

func numberCell[T any](name, title, needs string, number func(*T) int64) cell[T] {
	return cell[T]{name: name, column: column{title: title, right: true}, needs: strings.Fields(needs), number: number,
		text: func(item *T, _ style) string { return strconv.FormatInt(number(item), 10) }}
}

// timeCell shows a time, and sorts by it.
func timeCell[T any](name, title, needs string, at func(*T) *api.Time) cell[T] {
	return cell[T]{name: name, column: column{title: title}, needs: strings.Fields(needs),
		text: func(item *T, s style) string { return stamp(at(item), s.utc) },
		number: func(item *T) int64 {
			if t := at(item); t != nil {
				return t.UnixMilli()
			}
			return 0
		}}
}

// inWide shows a column only in the wide format, and on demand makes it shown only when it is asked for.
func (c cell[T]) inWide() cell[T]   { c.wide = true; return c }
func (c cell[T]) onDemand() cell[T] { c.rare = true; return c }
func (c cell[T]) atRight() cell[T]  { c.right = true; return c }

// sortedBy has a column of text sorted by a number.
func (c cell[T]) sortedBy(number func(*T) int64) cell[T] { c.number = number; return c }

type job = api.Job

// The columns of jobs that more than one list has.
var (
	jobIDCell = cell[job]{name: "id", column: column{title: "JOBID", right: true}, needs: []string{"id", "array", "group"},
		text: func(j *job, _ style) string { return calledAs(j) }, number: func(j *job) int64 { return int64(j.ID) }}
	jobNameCell = textCell("name", "NAME", 8, "name", func(j *job) string { return j.Name })
	userCell    = textCell("user", "USER", 6, "user", func(j *job) string { return j.User })
	accountCell = textCell("account", "ACCOUNT", 6, "account", func(j *job) string { return j.Account })
	queueCell   = textCell("queue", "QUEUE", 6, "queue", func(j *job) string { return j.Queue })
	classCell   = textCell("class", "CLASS", 0, "class", func(j *job) string { return string(j.Class) })
	codeCell    = textCell("code", "ST", 0, "code array", shownCode)
	gpusCell    = numberCell("gpus", "GPUS", "gpus", func(j *job) int64 { return int64(j.GPUs) })
	coresCell   = numberCell("cores", "CORES", "cores", func(j *job) int64 { return int64(j.Cores) })
	memoryCell  = textCell("memory", "MEM", 0, "memory", func(j *job) string { return sizeText(j.Memory) }).atRight().
			sortedBy(func(j *job) int64 { return int64(j.Memory) })
	workersCell = textCell("workers", "WORKERS", 0, "workers elastic", workersText).atRight().sortedBy(func(j *job) int64 { return int64(j.Workers) })
	attemptCell = numberCell("attempt", "ATTEMPT", "attempt", func(j *job) int64 { return int64(j.Attempt) })
	elapsedCell = textCell("time", "TIME", 0, "elapsed array", func(j *job) string { return clockText(shownTime(j)) }).atRight().
			sortedBy(func(j *job) int64 { return int64(shownTime(j)) })
	limitCell = textCell("limit", "LIMIT", 0, "time_limit", func(j *job) string { return limitText(j.TimeLimit) }).atRight().
			sortedBy(func(j *job) int64 { return int64(j.TimeLimit) })
	priorityCell  = numberCell("pri", "PRI", "priority", func(j *job) int64 { return int64(j.Priority) })
	stepsCell     = numberCell("steps", "STEPS", "steps", func(j *job) int64 { return j.Steps })
	submittedCell = timeCell("submitted", "SUBMITTED", "submitted", func(j *job) *api.Time { return j.Submitted })
	startedCell   = timeCell("started", "STARTED", "started array", shownStart)
	endedCell     = timeCell("ended", "ENDED", "ended", func(j *job) *api.Time { return j.Ended })
	nodesCell     = textCell("nodes", "NODES", 0, "nodes workers elastic", nodesText).atRight().sortedBy(func(j *job) int64 { return int64(nodeCount(j)) })
	nodelistCell  = textCell("nodelist", "NODELIST", 8, "nodes", func(j *job) string { return hosts(j.Nodes) })
	workdirCell   = textCell("workdir", "WORKDIR", 8, "workdir", func(j *job) string { return j.Workdir })
	reasonCell    = textCell("reason", "REASON", 10, "reason", func(j *job) string { return reasonText(j.Reason) })
	stateCell     = textCell("state", "STATE", 9, "state array", shownState)
	exitCell      = textCell("exit", "EXIT", 0, "exit_code signal", exitText).atRight()
	gpuHoursCell  = textCell("gpuh", "GPUH", 0, "gpu_seconds", func(j *job) string { return hoursText(j.GPUSeconds) }).atRight().
			sortedBy(func(j *job) int64 { return j.GPUSeconds })
	preemptCell = numberCell("preemptions", "PREEMPTED", "preemptions", func(j *job) int64 {
		return int64(j.Preemptions.TE + j.Preemptions.Reclaim + j.Preemptions.Order)
	})
	whereCell = cell[job]{name: "where", column: column{title: "REASON|NODELIST", least: 20}, needs: []string{"code", "nodes", "reason"},
		text: func(j *job, s style) string { return whereOrWhy(j, s.full) }}
	eligibleCell = timeCell("start", "START", "eligible", func(j *job) *api.Time { return j.Eligible })
	deadlineCell = timeCell("deadline", "DEADLINE", "deadline", func(j *job) *api.Time { return j.Deadline })
	dependsCell  = textCell("depends", "DEPENDS ON", 10, "dependencies", dependsText)
)

// queueCells are the columns of the queue.
var queueCells = []cell[job]{
	jobIDCell, jobNameCell, userCell, accountCell, queueCell.inWide(), classCell, codeCell, elapsedCell, limitCell, gpusCell, nodesCell,
	priorityCell, attemptCell.inWide(), stepsCell.inWide(), submittedCell.inWide(), whereCell,
	stateCell.onDemand(), coresCell.onDemand(), memoryCell.onDemand(), workersCell.onDemand(), startedCell.onDemand(), endedCell.onDemand(),
	eligibleCell.onDemand(), deadlineCell.onDemand(), dependsCell.onDemand(), nodelistCell.onDemand(), reasonCell.onDemand(), workdirCell.onDemand(),
	exitCell.onDemand(), gpuHoursCell.onDemand(), preemptCell.onDemand(),
}

// startCells are those of queue --start.
var startCells = []cell[job]{
	jobIDCell, jobNameCell, userCell, codeCell, startCell, deadlineCell.inWide(), nodesCell, dependsCell, reasonCell,
	gpusCell.onDemand(), accountCell.onDemand(), queueCell.onDemand(), classCell.onDemand(), limitCell.onDemand(), priorityCell.onDemand(),
}

// startCell is when a job began, or may begin at the earliest. Nobody knows when room will be free, and none is promised.
var startCell = cell[job]{name: "start", column: column{title: "START"}, needs: []string{"started", "eligible", "code", "array"},
	text: func(j *job, s style) string {
		switch {
		case shownCode(j) != string(cluster.Pending):
			return stamp(j.Started, s.utc)
		case j.Eligible != nil:
			return "after " + stamp(j.Eligible, s.utc)
		}
		return "unknown"
	}}

// histCells are the columns of ended jobs.
var histCells = []cell[job]{
	jobIDCell, jobNameCell, userCell, accountCell.inWide(), queueCell, classCell, gpusCell, stateCell, exitCell, titled(elapsedCell, "ELAPSED", "elapsed"),
	gpuHoursCell, titled(attemptCell, "ATTEMPTS", "attempts").inWide(), startedCell.inWide(), endedCell.inWide(), nodelistCell, reasonCell.inWide(),
	codeCell.onDemand(), submittedCell.onDemand(), limitCell.onDemand(), priorityCell.onDemand(), coresCell.onDemand(), memoryCell.onDemand(),
	workersCell.onDemand(), stepsCell.onDemand(), preemptCell.onDemand(), workdirCell.onDemand(), nodesCell.onDemand(),
}

func titled[T any](c cell[T], title, name string) cell[T] {
	c.title, c.name = title, name
	return c
}

// calledAs is how a job is called: 123, 123_4 for an element, 123_[5-9%2] for what has not begun of an array, 123.train for a group.
func calledAs(j *api.Job) string {
	switch {
	case j.Array.Job != 0 && j.Array.Index != nil:
		return fmt.Sprintf("%d_%d", j.Array.Job, *j.Array.Index)
	case j.Array.Indices != "":
		return fmt.Sprintf("%d_[%s]", j.ID, j.Array.Indices)
	case j.Group != nil:
		return fmt.Sprintf("%d.%s", j.Group.Job, j.Group.Name)
	}
	return idText(j.ID)
}

// shownCode is a job's state. The row of an array is of what has not begun of it: that waits, whatever the rest does.
func shownCode(j *job) string {
	if j.Array.Indices != "" {
		return string(cluster.Pending)
	}
	return string(j.Code)
}

// shownState is shownCode in full, shownTime and shownStart when that began: not yet.
func shownState(j *job) string {
	if j.Array.Indices != "" {
		return "PENDING"
	}
	return j.State
}

func shownTime(j *job) jobspec.Seconds {
	if j.Array.Indices != "" {
		return 0
	}
	return j.Elapsed
}

func shownStart(j *job) *api.Time {
	if j.Array.Indices != "" {
		return nil
	}
	return j.Started
}

// dependsText writes what a job still waits for as sbatch takes it.
func dependsText(j *api.Job) string {
	var all []string
	for _, d := range j.Dependencies {
		text := d.Type
		for _, id := range d.Jobs {
			text += ":" + idText(id)
		}
		if d.Match == "any" {
			text = "any of " + text
		}
		if d.Delay > 0 {
			text += "+" + clockText(d.Delay)
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

var nodeCells = []cell[api.Node]{
	textCell("name", "NODE", 8, "name", func(n *api.Node) string { return n.Name }),
	textCell("state", "STATE", 0, "state", func(n *api.Node) string { return n.State }),
	textCell("cpus", "CPUS(A/T)", 0, "", func(n *api.Node) string { return fmt.Sprintf("%d/%d", n.CoresUsed, n.Cores) }).atRight().
		sortedBy(func(n *api.Node) int64 { return n.Cores - n.CoresUsed }),
	textCell("mem", "MEM(A/T)", 0, "", func(n *api.Node) string { return sizeText(n.MemoryUsed) + "/" + sizeText(n.Memory) }).atRight().
		sortedBy(func(n *api.Node) int64 { return int64(n.Memory - n.MemoryUsed) }),
	textCell("gpus", "GPUS(A/T)", 0, "", func(n *api.Node) string { return fmt.Sprintf("%d/%d", n.GPUsUsed, len(n.GPUs)) }).atRight().
		sortedBy(func(n *api.Node) int64 { return int64(len(n.GPUs) - n.GPUsUsed) }),
	textCell("model", "MODEL", 8, "", func(n *api.Node) string { return models(n.GPUs) }),
	textCell("jobs", "JOBS", 6, "", func(n *api.Node) string { return idList(n.Jobs) }),
	timeCell("seen", "SEEN", "", func(n *api.Node) *api.Time { return n.LastSeen }).inWide(),
	textCell("version", "VERSION", 0, "", func(n *api.Node) string { return n.Version }).inWide(),
	textCell("shared", "SHARED", 0, "", func(n *api.Node) string { return strings.Join(n.SharedPaths, ",") }).inWide(),
	textCell("reason", "REASON", 8, "", func(n *api.Node) string { return n.Reason }),
	textCell("labels", "LABELS", 8, "", func(n *api.Node) string { return labelsText(n.Labels) }).onDemand(),
}

func labelsText(labels map[string]string) string {
	var all []string
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

var eventCells = []cell[api.Event]{
	numberCell("index", "INDEX", "", func(e *api.Event) int64 { return int64(e.Index) }),
	timeCell("time", "TIME", "", func(e *api.Event) *api.Time { return e.At }),
	textCell("type", "TYPE", 0, "", func(e *api.Event) string { return e.Type }),
	textCell("job", "JOB", 0, "", func(e *api.Event) string { return orDash(int64(e.Job)) }).atRight().sortedBy(func(e *api.Event) int64 { return int64(e.Job) }),
	textCell("attempt", "ATTEMPT", 0, "", func(e *api.Event) string { return orDash(int64(e.Attempt)) }).atRight(),
	textCell("node", "NODE", 8, "", func(e *api.Event) string { return dashIfEmpty(e.Node) }),
	textCell("cause", "CAUSE", 0, "", func(e *api.Event) string { return dashIfEmpty(string(e.Cause)) }),
	textCell("for", "FOR", 0, "", func(e *api.Event) string { return orDash(int64(e.For)) }).atRight(),
}
