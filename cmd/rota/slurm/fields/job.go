package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/logpath"
)

// JobRow is a row of squeue, sacct or scontrol. It describes a job, the pending tasks of an array,
// or array tasks that were cancelled before they started. With a step, the row describes that step.
type JobRow struct {
	*api.Job
	*Source
	Running []api.StepStatus // the job's running steps, if the command lists them
	step    *step
}

// Jobs is the table of all fields of a job. Several fields may have the same name: the first one
// counts. A field lists in needs the members of the API's answer that its functions read; requests
// ask only for those.
var Jobs = []Field[*JobRow]{
	{letter: 'i', long: "JobArrayID", title: "JOBID", acct: "JobID", width: -12, needs: "id array group",
		text: (*JobRow).FullID},
	{letter: 'A', long: "JobID", title: "JOBID", acct: "JobIDRaw", width: -12, key: "JobId", json: "job_id",
		past:  "job_id",
		needs: "id", text: (*JobRow).rawID, value: func(r *JobRow) any { return r.ID }},
	{letter: 'F', long: "ArrayJobID", title: "ARRAY_JOB_ID", needs: "id array",
		text: func(r *JobRow) string { return show.ID(cmp.Or(r.Array.Job, r.ID)) }},
	{key: "ArrayJobId", json: "array_job_id", past: "array.job_id", needs: "id array",
		text: func(r *JobRow) string { return ofArray(r, show.ID(r.arrayID())) },
		value: func(r *JobRow) any {
			if r.Source.Past {
				return r.arrayID()
			}
			return numberOf(r.arrayID())
		}},
	{letter: 'K', long: "ArrayTaskID", title: "ARRAY_TASK_ID", needs: "array",
		text: func(r *JobRow) string { return cmp.Or(r.tasks(), "N/A") }},
	{key: "ArrayTaskId", json: "array_task_string", past: "array.task", needs: "array",
		text:  (*JobRow).tasks,
		value: func(r *JobRow) any { return r.Array.Indices }},
	{json: "array_task_id", past: "array.task_id", needs: "array", text: (*JobRow).tasks,
		value: func(r *JobRow) any {
			if r.Array.Index == nil {
				return number{}
			}
			return numberOf(*r.Array.Index)
		}},
	{json: "array_max_tasks", past: "array.limits.max.running.tasks", needs: "array", text: (*JobRow).tasks,
		value: func(r *JobRow) any {
			if r.Source.Past {
				return r.Array.MaxParallel
			}
			return numberOf(r.Array.MaxParallel)
		}},
	{letter: 'j', long: "Name", acct: "JobName", key: "JobName", json: "name", past: "name", needs: "name",
		text: func(r *JobRow) string { return r.Name }},
	{letter: 'u', long: "UserName", title: "USER", acct: "User", width: 9, json: "user_name", past: "user", needs: "user",
		text: notOfSteps(func(r *JobRow) string { return r.User })},
	{letter: 'U', long: "UserID", title: "USER_ID", acct: "UID", width: 6, json: "user_id", needs: "uid",
		text:  notOfSteps(func(r *JobRow) string { return strconv.Itoa(int(r.UID)) }),
		value: func(r *JobRow) any { return r.UID }},
	{letter: 'g', long: "GroupName", title: "GROUP", acct: "Group", width: 9, json: "group_name", past: "group",
		needs: "gid",
		text:  notOfSteps(func(r *JobRow) string { return r.groupName(r.GID) })},
	{letter: 'G', long: "GroupID", title: "GROUP_ID", acct: "GID", width: 6, json: "group_id", needs: "gid",
		text:  notOfSteps(func(r *JobRow) string { return strconv.Itoa(int(r.GID)) }),
		value: func(r *JobRow) any { return r.GID }},
	{key: "UserId", needs: "user uid", text: func(r *JobRow) string { return fmt.Sprintf("%s(%d)", r.User, r.UID) }},
	{key: "GroupId", needs: "gid",
		text: func(r *JobRow) string { return fmt.Sprintf("%s(%d)", r.groupName(r.GID), r.GID) }},
	{letter: 'a', long: "Account", acct: "Account", key: "Account", json: "account", past: "account", needs: "account",
		text: func(r *JobRow) string { return r.Account }},
	{letter: 'P', long: "Partition", acct: "Partition", key: "Partition", json: "partition", past: "partition",
		needs: "queue", text: notOfSteps(func(r *JobRow) string { return r.Queue })},
	{letter: 'q', long: "QOS", acct: "QOS", key: "QOS", json: "qos", past: "qos", needs: "class",
		text: notOfSteps(func(r *JobRow) string { return string(r.Class) })},
	{letter: 'k', long: "Comment", acct: "Comment", width: 14, json: "comment", past: "comment.job",
		needs: "comment", text: func(r *JobRow) string { return orNullUnlessPast(r, r.Comment) },
		value: func(r *JobRow) any { return r.Comment }},
	{key: "Comment", needs: "comment", text: func(r *JobRow) string { return r.Comment }},
	{letter: 't', long: "StateCompact", title: "ST", needs: "code array",
		text: func(r *JobRow) string { return string(r.Code) }},
	{letter: 'T', long: "State", key: "JobState", json: "job_state", past: "state.current",
		needs: "state code array", text: func(r *JobRow) string { return r.State },
		value: func(r *JobRow) any { return []string{r.State} }},
	{acct: "State", needs: "state code array cancelled_by", text: (*JobRow).stateBy},
	{past: "kill_request_user", needs: "code cancelled_by", text: func(r *JobRow) string {
		if uid := r.cancelledBy(); uid != nil {
			return show.UserName(*uid)
		}
		return ""
	}},
	{letter: 'r', long: "Reason", acct: "Reason", width: 22, key: "Reason", json: "state_reason", past: "state.reason",
		needs: "reason", text: func(r *JobRow) string { return reasonCode(r.Job) }},
	{json: "state_description", needs: "reason", text: func(r *JobRow) string { return r.Reason.Text }},
	{letter: 'R', long: "ReasonList", title: "NODELIST(REASON)", needs: "nodes reason array code",
		text: func(r *JobRow) string {
			if len(r.Nodes) == 0 || slices.Contains(failedCodes, r.Code) {
				return "(" + reasonCode(r.Job) + ")"
			}
			return show.Hosts(r.Nodes)
		}},
	{letter: 'N', long: "NodeList", needs: "nodes array code",
		text: func(r *JobRow) string { return show.Hosts(r.Nodes) }},
	{acct: "NodeList", width: 15, past: "nodes", needs: "nodes array code",
		text: func(r *JobRow) string { return cmp.Or(show.Hosts(r.Nodes), "None assigned") }},
	{key: "NodeList", json: "nodes", needs: "nodes array code",
		text: func(r *JobRow) string { return show.Hosts(r.Nodes) }},
	{letter: 'B', long: "BatchHost", title: "EXEC_HOST", needs: "nodes array code",
		text: func(r *JobRow) string { return cmp.Or(r.batchHost(), "n/a") }},
	{key: "BatchHost", json: "batch_host", needs: "nodes array code", text: (*JobRow).batchHost},
	{letter: 'Y', long: "SchedNodes", title: "SCHEDNODES", json: "scheduled_nodes", text: none, value: nothing},
	{letter: 'n', long: "ReqNodes", title: "REQ_NODES", json: "required_nodes", needs: "spec",
		text: func(r *JobRow) string { return strings.Join(r.spec().Nodes, ",") }},
	{key: "ReqNodeList", needs: "spec", text: func(r *JobRow) string { return orNull(strings.Join(r.spec().Nodes, ",")) }},
	{letter: 'x', long: "ExcNodes", title: "EXC_NODES", json: "excluded_nodes", needs: "spec",
		text: func(r *JobRow) string { return strings.Join(r.spec().ExcludeNodes, ",") }},
	{key: "ExcNodeList", needs: "spec",
		text: func(r *JobRow) string { return orNull(strings.Join(r.spec().ExcludeNodes, ",")) }},
	{letter: 'f', long: "Feature", title: "FEATURES", acct: "Constraints", width: 19, key: "Features", json: "features",
		past: "constraints", needs: "spec",
		text:  func(r *JobRow) string { return orNullUnlessPast(r, r.constraint()) },
		value: func(r *JobRow) any { return r.constraint() }},
	{letter: 'D', long: "NumNodes", title: "NODES", acct: "NNodes", width: 8, key: "NumNodes", json: "node_count",
		past: "allocation_nodes", needs: "nodes workers array code",
		text: func(r *JobRow) string { return strconv.Itoa(r.nodeCount()) },
		value: func(r *JobRow) any {
			if r.Source.Past {
				return len(r.Nodes)
			}
			return numberOf(r.nodeCount())
		}},
	{long: "Nodes", needs: "nodes array code", text: func(r *JobRow) string { return show.Hosts(r.Nodes) }},
	{acct: "AllocNodes", needs: "nodes array code", text: func(r *JobRow) string { return strconv.Itoa(len(r.Nodes)) }},
	{letter: 'C', long: "NumCPUs", title: "CPUS", key: "NumCPUs", json: "cpus", needs: "cores", text: cores,
		value: coresNumber},
	{acct: "ReqCPUS", width: 8, past: "required.CPUs", needs: "cores", text: cores,
		value: func(r *JobRow) any { return r.Cores }},
	{acct: "AllocCPUS", needs: "cores started array code",
		text: func(r *JobRow) string { return strconv.Itoa(r.allocated()) }},
	{acct: "NCPUS", needs: "cores started array code",
		text: func(r *JobRow) string { return strconv.Itoa(r.allocated()) }},
	{long: "NumTasks", title: "TASKS", key: "NumTasks", json: "tasks", needs: "workers gpus spec",
		text:  func(r *JobRow) string { return strconv.Itoa(r.taskCount()) },
		value: func(r *JobRow) any { return numberOf(r.taskCount()) }},
	{acct: "NTasks", width: 8, needs: "nodes", text: func(r *JobRow) string {
		if r.step == nil {
			return ""
		}
		return strconv.Itoa(r.step.tasks)
	}},
	{letter: 'c', long: "MinCpus", title: "MIN_CPUS", json: "minimum_cpus_per_node", needs: "cores workers",
		text:  func(r *JobRow) string { return strconv.Itoa(r.perWorker()) },
		value: func(r *JobRow) any { return numberOf(r.perWorker()) }},
	{long: "cpus-per-task", title: "CPUS_PER_TASK", key: "CPUs/Task", json: "cpus_per_task",
		needs: "cores workers gpus spec",
		text:  func(r *JobRow) string { return strconv.Itoa(r.Cores / max(r.taskCount(), 1)) },
		value: func(r *JobRow) any { return numberOf(r.Cores / max(r.taskCount(), 1)) }},
	{json: "job_resources.nodes.count", needs: "nodes array code", text: zero,
		value: func(r *JobRow) any { return len(r.Nodes) }},
	{json: "job_resources.nodes.list", needs: "nodes array code",
		text: func(r *JobRow) string { return show.Hosts(r.Nodes) }},
	{json: "job_resources.cpus", needs: "cores started array code", text: zero,
		value: func(r *JobRow) any { return r.allocated() }},
	{letter: 'd', long: "MinTmpDisk", title: "MIN_TMP_DISK", key: "MinTmpDiskNode", json: "minimum_tmp_disk_per_node",
		text: zero, value: func(*JobRow) any { return numberOf(0) }},
	{letter: 'm', long: "MinMemory", title: "MIN_MEMORY", json: "memory_per_node", key: "MinMemoryNode",
		needs: "memory nodes workers array code",
		text:  func(r *JobRow) string { return r.size(perNode(r.Memory, r.Job)) },
		value: func(r *JobRow) any { return numberOf(perNode(r.Memory, r.Job) / jobspec.MiB) }},
	{acct: "ReqMem", needs: "memory", text: notOfSteps(func(r *JobRow) string { return r.size(r.Memory) })},
	{past: "required.memory_per_node", needs: "memory nodes workers array code", text: zero,
		value: func(r *JobRow) any { return numberOf(perNode(r.Memory, r.Job) / jobspec.MiB) }},
	{letter: 'b', long: "tres-per-node", title: "TRES_PER_NODE", needs: "gpus nodes workers array code",
		text: func(r *JobRow) string { return cmp.Or(r.gpusPerNode(), "N/A") }},
	{key: "TresPerNode", json: "tres_per_node", needs: "gpus nodes workers array code", text: (*JobRow).gpusPerNode},
	{long: "Gres", title: "GRES", needs: "gpus nodes workers array code",
		text: func(r *JobRow) string { return cmp.Or(r.gpusPerNode(), "N/A") }},
	{long: "tres-alloc", title: "TRES_ALLOC", key: "AllocTRES", json: "tres_alloc_str",
		needs: "cores memory gpus nodes workers started array code",
		text:  func(r *JobRow) string { return orNull(r.allocatedTRES(false)) },
		value: func(r *JobRow) any { return r.allocatedTRES(false) }},
	{key: "ReqTRES", json: "tres_req_str", needs: "cores memory gpus nodes workers array code",
		text: func(r *JobRow) string { return r.tres(false) }},
	{acct: "ReqTRES", needs: "cores memory gpus nodes workers array code",
		text: notOfSteps(func(r *JobRow) string { return r.tres(true) })},
	{acct: "AllocTRES", needs: "cores memory gpus nodes workers started array code",
		text: func(r *JobRow) string { return r.allocatedTRES(true) }},
	{past: "tres.requested", needs: "cores memory gpus nodes workers array code", text: zero,
		value: func(r *JobRow) any { return tresList(r.tres(true)) }},
	{past: "tres.allocated", needs: "cores memory gpus nodes workers started array code", text: zero,
		value: func(r *JobRow) any { return tresList(r.allocatedTRES(true)) }},
	{letter: 'M', long: "TimeUsed", title: "TIME", needs: "elapsed array code",
		text:  func(r *JobRow) string { return show.Clock(r.Elapsed) },
		value: func(r *JobRow) any { return int64(r.Elapsed) }},
	{acct: "Elapsed", key: "RunTime", past: "time.elapsed", needs: "elapsed array code",
		text:  func(r *JobRow) string { return Clock(r.Elapsed) },
		value: func(r *JobRow) any { return int64(r.Elapsed) }},
	{acct: "ElapsedRaw", needs: "elapsed array code",
		text: func(r *JobRow) string { return strconv.FormatInt(int64(r.Elapsed), 10) }},
	{acct: "CPUTime", needs: "elapsed cores started array code",
		text: func(r *JobRow) string { return Clock(r.Elapsed * jobspec.Seconds(r.allocated())) }},
	{acct: "CPUTimeRAW", needs: "elapsed cores started array code",
		text: func(r *JobRow) string { return strconv.Itoa(int(r.Elapsed) * r.allocated()) }},
	{letter: 'l', long: "TimeLimit", title: "TIME_LIMIT", needs: "time_limit",
		text:  func(r *JobRow) string { return shortLimit(r.TimeLimit) },
		value: func(r *JobRow) any { return int64(r.TimeLimit) }},
	{acct: "Timelimit", key: "TimeLimit", json: "time_limit", past: "time.limit", needs: "time_limit",
		text: notOfSteps(func(r *JobRow) string { return limit(r.TimeLimit) }), value: limitMinutes},
	{acct: "TimelimitRaw", needs: "time_limit", text: notOfSteps(func(r *JobRow) string {
		if r.TimeLimit == 0 {
			return "UNLIMITED"
		}
		return strconv.FormatInt(int64(r.TimeLimit+59)/60, 10)
	})},
	{letter: 'L', long: "TimeLeft", title: "TIME_LEFT", needs: "time_limit elapsed array code",
		text: func(r *JobRow) string {
			if r.TimeLimit == 0 {
				return "UNLIMITED"
			}
			return show.Clock(max(r.TimeLimit-r.Elapsed, 0))
		}},
	{letter: 'V', long: "SubmitTime", title: "SUBMIT_TIME", acct: "Submit", width: 19, key: "SubmitTime",
		json: "submit_time", past: "time.submission", needs: "submitted",
		text:  func(r *JobRow) string { return r.when(r.Submitted) },
		value: func(r *JobRow) any { return r.stamp(r.Submitted) }},
	{long: "EligibleTime", title: "ELIGIBLE_TIME", acct: "Eligible", width: 19, key: "EligibleTime",
		json: "eligible_time", past: "time.eligible", needs: "eligible submitted",
		text:  func(r *JobRow) string { return r.when(r.eligible()) },
		value: func(r *JobRow) any { return r.stamp(r.eligible()) }},
	{letter: 'S', long: "StartTime", title: "START_TIME", acct: "Start", width: 19, key: "StartTime", json: "start_time",
		past: "time.start", needs: "started array code",
		text:  func(r *JobRow) string { return r.when(r.start()) },
		value: func(r *JobRow) any { return r.stamp(r.start()) }},
	{letter: 'e', long: "EndTime", title: "END_TIME", key: "EndTime", json: "end_time",
		needs: "started ended time_limit array code",
		text:  func(r *JobRow) string { return r.when(r.end()) },
		value: func(r *JobRow) any { return r.stamp(r.end()) }},
	{acct: "End", width: 19, past: "time.end", needs: "ended array code",
		text:  func(r *JobRow) string { return r.when(r.Ended) },
		value: func(r *JobRow) any { return r.stamp(r.Ended) }},
	{long: "Deadline", key: "Deadline", json: "deadline", needs: "deadline",
		text: func(r *JobRow) string {
			if r.Deadline == nil {
				return "N/A"
			}
			return r.when(r.Deadline)
		},
		value: func(r *JobRow) any { return r.stamp(r.Deadline) }},
	{key: "ExitCode", needs: "exit_code signal", text: func(r *JobRow) string { return show.Exit(r.Job) }},
	{acct: "ExitCode", width: 8, needs: "exit_code signal code",
		text: func(r *JobRow) string { return show.Exit(r.accounted().Job) }},
	{long: "exit_code", title: "EXIT_CODE", json: "exit_code", needs: "exit_code signal code array",
		text: func(r *JobRow) string { return strconv.Itoa(r.ExitCode) }, value: exitCodeOf},
	{past: "exit_code", needs: "exit_code signal code array", text: none,
		value: func(r *JobRow) any { return exitCodeOf(r.accounted()) }},
	{acct: "DerivedExitCode", width: 15, past: "derived_exit_code", needs: "exit_code signal code array",
		text: notOfSteps(func(r *JobRow) string { return show.Exit(r.Job) }), value: exitCodeOf},
	{letter: 'Q', long: "PriorityLong", title: "PRIORITY", acct: "Priority", key: "Priority", json: "priority",
		past: "priority", needs: "priority",
		text:  notOfSteps(func(r *JobRow) string { return strconv.Itoa(r.Priority) }),
		value: func(r *JobRow) any { return numberOf(r.Priority) }},
	{letter: 'p', long: "Priority", needs: "priority",
		text: func(r *JobRow) string { return fmt.Sprintf("%.14f", float64(r.Priority)/jobspec.MaxPriority) }},
	{letter: 'y', long: "Nice", key: "Nice", json: "nice", needs: "priority",
		text: func(r *JobRow) string { return strconv.Itoa(r.nice()) }, value: func(r *JobRow) any { return r.nice() }},
	{letter: 'E', long: "Dependency", key: "Dependency", json: "dependency", needs: "dependencies",
		text:  func(r *JobRow) string { return orNull(show.Dependencies(r.Job)) },
		value: func(r *JobRow) any { return show.Dependencies(r.Job) }},
	{letter: 'h', long: "OverSubscribe", title: "OVER_SUBSCRIBE", key: "OverSubscribe", needs: "spec",
		text: func(r *JobRow) string {
			if r.exclusive() {
				return "NO"
			}
			return "OK"
		}},
	{json: "shared", needs: "spec", text: none, value: func(r *JobRow) any {
		if r.exclusive() {
			return []string{"none"}
		}
		return []string{}
	}},
	{letter: 'H', long: "Sockets", title: "SOCKETS_PER_NODE", text: anyNumber},
	{letter: 'I', long: "Cores", title: "CORES_PER_SOCKET", text: anyNumber},
	{letter: 'J', long: "Threads", title: "THREADS_PER_CORE", text: anyNumber},
	{letter: 'z', long: "SCT", title: "S:C:T", text: func(*JobRow) string { return "*:*:*" }},
	{letter: 'o', long: "Command", key: "Command", json: "command", needs: "spec", text: func(r *JobRow) string {
		return orNull(r.command())
	}, value: func(r *JobRow) any { return r.command() }},
	{letter: 'O', long: "Contiguous", json: "contiguous", text: zero, value: func(*JobRow) any { return false }},
	{letter: 'v', long: "Reservation", acct: "Reservation", width: 20, json: "resv_name", text: none, value: nothing},
	{letter: 'w', long: "WCKey", acct: "WCKey", json: "wckey", needs: "spec",
		text:  func(r *JobRow) string { return orNullUnlessPast(r, r.spec().Meta["wckey"]) },
		value: func(r *JobRow) any { return r.spec().Meta["wckey"] }},
	{letter: 'W', long: "Licenses", acct: "Licenses", json: "licenses", past: "licenses", needs: "spec",
		text:  func(r *JobRow) string { return orNullUnlessPast(r, jobspec.LicenseText(r.spec().Licenses)) },
		value: func(r *JobRow) any { return jobspec.LicenseText(r.spec().Licenses) }},
	{letter: 'X', long: "CoreSpec", title: "CORE_SPEC", text: func(*JobRow) string { return "N/A" }},
	{letter: 'Z', long: "WorkDir", title: "WORK_DIR", acct: "WorkDir", width: 20, key: "WorkDir",
		json: "current_working_directory", past: "working_directory", needs: "workdir",
		text: notOfSteps(func(r *JobRow) string { return r.Workdir })},
	{long: "STDOUT", key: "StdOut", json: "standard_output", needs: "spec id name user array nodes attempt",
		text:  func(r *JobRow) string { return orNull(r.output(false)) },
		value: func(r *JobRow) any { return r.output(false) }},
	{long: "STDERR", key: "StdErr", json: "standard_error", needs: "spec id name user array nodes attempt",
		text:  func(r *JobRow) string { return orNull(r.output(true)) },
		value: func(r *JobRow) any { return r.output(true) }},
	{long: "STDIN", key: "StdIn", json: "standard_input", text: func(*JobRow) string { return "/dev/null" }},
	{long: "RestartCnt", title: "RESTART_COUNT", key: "Restarts", acct: "Restarts", json: "restart_cnt",
		past: "restart_cnt", needs: "attempt", text: func(r *JobRow) string { return strconv.Itoa(r.restarts()) },
		value: func(r *JobRow) any { return r.restarts() }},
	{long: "Requeue", key: "Requeue", json: "requeue", needs: "spec", text: func(r *JobRow) string {
		if r.spec().RunsOnce() {
			return "0"
		}
		return "1"
	}, value: func(r *JobRow) any { return !r.spec().RunsOnce() }},
	{long: "BatchFlag", key: "BatchFlag", title: "BATCH_FLAG", json: "batch_flag", needs: "flags",
		text: func(r *JobRow) string {
			if r.isAllocation() {
				return "0"
			}
			return "1"
		}, value: func(r *JobRow) any { return !r.isAllocation() }},
	{json: "hold", past: "hold", needs: "flags", text: none,
		value: func(r *JobRow) any { return slices.Contains(r.Flags, "held") }},
	{json: "flags", past: "flags", text: none, value: func(*JobRow) any { return []string{} }},
	{long: "Cluster", acct: "Cluster", json: "cluster", past: "cluster",
		text: func(r *JobRow) string { return r.Cluster }},
	{past: "association.cluster", text: func(r *JobRow) string { return r.Cluster }},
	{past: "association.account", needs: "account", text: func(r *JobRow) string { return r.Account }},
	{past: "association.user", needs: "user", text: func(r *JobRow) string { return r.User }},
	{past: "association.partition", text: none, value: nothing},
	{past: "comment.administrator", text: none, value: nothing},
	{key: "SystemComment", acct: "SystemComment", width: 14, past: "comment.system", needs: "id attempts",
		text: notOfSteps((*JobRow).systemComment)},
	{acct: "TotalCPU", past: "time.total", needs: "attempts",
		text:  func(r *JobRow) string { return CPUClock(r.cpuSeconds()) },
		value: func(r *JobRow) any { return splitSeconds(r.cpuSeconds()) }},
	{acct: "SystemCPU", needs: "attempts", text: func(r *JobRow) string { return CPUClock(r.systemSeconds()) }},
	{acct: "UserCPU", needs: "attempts",
		text: func(r *JobRow) string { return CPUClock(r.cpuSeconds() - r.systemSeconds()) }},
	{acct: "Planned", needs: "eligible submitted started ended array code", text: notOfSteps((*JobRow).waited)},
	{acct: "MaxRSS", needs: "attempts", text: func(r *JobRow) string {
		if r.step == nil {
			return ""
		}
		return r.PeakOrNone(r.step.used.MaxRSS())
	}},
	{acct: "AveRSS", needs: "attempts", text: func(r *JobRow) string {
		if r.step == nil {
			return ""
		}
		return r.PeakOrNone(r.step.used.AveRSS())
	}},
	{acct: "TRESUsageInTot", needs: "attempts", text: func(r *JobRow) string {
		if r.step == nil {
			return ""
		}
		return r.step.used.TRESUsageInTot()
	}},
	{acct: "TRESUsageInAve", needs: "attempts", text: func(r *JobRow) string {
		if r.step == nil {
			return ""
		}
		return r.step.used.TRESUsageInAve(r.step.tasks)
	}},
	{acct: "MaxVMSize", needs: "attempts", text: ofSteps},
	{acct: "Suspended", past: "time.suspended", needs: "attempts",
		text:  func(r *JobRow) string { return Clock(r.suspended()) },
		value: func(r *JobRow) any { return int64(r.suspended()) }},
	{past: "steps", needs: "attempts started", text: none, value: stepList},
}

// failedCodes are states for which squeue shows a reason instead of nodes.
var failedCodes = []model.JobState{model.Failed, model.TimedOut, model.OutOfMemory, model.PastDue}

// stateBy returns the state as sacct prints it; for a cancelled job it includes the cancelling
// user.
func (r *JobRow) stateBy() string {
	if uid := r.cancelledBy(); uid != nil {
		return fmt.Sprintf("%s by %d", r.State, *uid)
	}
	return r.State
}

// cancelledBy returns the user that cancelled a job; nil if no user cancelled it.
func (r *JobRow) cancelledBy() *uint32 {
	if r.Code != model.Cancelled {
		return nil
	}
	return r.CancelledBy
}

// accounted returns the row with sacct's exit code: 0:0 for a stopped job, see stopped.
func (r *JobRow) accounted() *JobRow {
	if r.step != nil || !r.stopped() {
		return r
	}
	row, job := *r, *r.Job
	job.ExitCode, job.Signal, row.Job = 0, 0, &job
	return &row
}

// notOfSteps wraps a field so that it is empty in sacct's rows of steps.
func notOfSteps(text func(*JobRow) string) func(*JobRow) string {
	return func(r *JobRow) string {
		if r.step != nil && r.Past {
			return ""
		}
		return text(r)
	}
}

// Constants for fields that Slurm prints and Rota has no data for, and helpers for simple fields.
func none(r *JobRow) string     { return orNullUnlessPast(r, "") }
func nothing(*JobRow) any       { return "" }
func zero(*JobRow) string       { return "0" }
func anyNumber(*JobRow) string  { return "*" }
func ofSteps(*JobRow) string    { return "" }
func cores(r *JobRow) string    { return strconv.Itoa(r.Cores) }
func coresNumber(r *JobRow) any { return numberOf(r.Cores) }
func ofArray(r *JobRow, text string) string {
	if r.arrayID() == 0 {
		return ""
	}
	return text
}

// orNullUnlessPast returns the text of a field. If it is empty, squeue shows (null) and sacct an
// empty field.
func orNullUnlessPast(r *JobRow, text string) string {
	if r.Past {
		return text
	}
	return orNull(text)
}

// FullID returns the job's id as users write it: 7, or 7_3 for an array task. Pending tasks are
// 7_[4-9%2], and a group that is a job of its own is 7+0. A dot follows only for a step.
func (r *JobRow) FullID() string {
	name := ""
	if r.Group != nil {
		name = fmt.Sprintf("%d+%d", r.Group.Job, r.ID-r.Group.Job-1)
	} else {
		name = show.JobName(r.Job)
	}
	return r.withStep(name)
}

func (r *JobRow) rawID() string { return r.withStep(show.ID(r.ID)) }

func (r *JobRow) withStep(name string) string {
	if r.step != nil {
		name += "." + r.step.id
	}
	return name
}

// arrayID returns the id of the row's array; 0: it has none.
func (r *JobRow) arrayID() model.JobID {
	if r.Array.Indices != "" {
		return r.ID
	}
	return r.Array.Job
}

// tasks returns the array task indices of the row, or "" if the job is no array.
func (r *JobRow) tasks() string {
	if r.Array.Index != nil {
		return strconv.Itoa(*r.Array.Index)
	}
	return r.Array.Indices
}

func (r *JobRow) batchHost() string {
	if len(r.Nodes) == 0 {
		return ""
	}
	return r.Nodes[0]
}

// systemComment says which output of the job could not be written.
func (r *JobRow) systemComment() string {
	var all []string
	for i := range r.Attempts {
		all = append(all, show.OutputLosses(r.ID, &r.Attempts[i], -1)...)
	}
	return strings.Join(all, "; ")
}

// spec returns the job's specification, or an empty one if the caller may not see it.
func (r *JobRow) spec() *jobspec.Job {
	if r.Spec == nil {
		return &jobspec.Job{}
	}
	return r.Spec
}

// constraint returns the job's requirements on nodes in the syntax of --constraint. A clause with
// alternatives needs parentheses if other clauses stand beside it.
func (r *JobRow) constraint() string {
	clauses := slices.Clone(r.spec().Features)
	for i, c := range clauses {
		if len(clauses) > 1 && strings.Contains(c, "|") {
			clauses[i] = "(" + c + ")"
		}
	}
	return strings.Join(clauses, "&")
}

// nice returns the value of --nice: the distance of the priority below the default.
func (r *JobRow) nice() int { return max(jobspec.DefaultPriority-r.Job.Priority, 0) }

func (r *JobRow) exclusive() bool {
	return slices.ContainsFunc(r.spec().Groups, func(g jobspec.Group) bool { return g.Exclusive })
}

// command returns the command of the job's first task; "" for a script, which has no path.
func (r *JobRow) command() string {
	for _, g := range r.spec().Groups {
		for _, t := range g.Tasks {
			return strings.Join(t.Command, " ")
		}
	}
	return ""
}

// output returns the path of the stdout or stderr file of the job's first worker. It is "" if the
// job names no file, or if the row covers several array tasks. The pattern is expanded as the node
// does it, from the values in the row.
func (r *JobRow) output(errors bool) string {
	spec := r.spec()
	if len(spec.Groups) == 0 || len(spec.Groups[0].Tasks) == 0 || r.Array.Indices != "" {
		return ""
	}
	log := spec.Groups[0].Tasks[0].Log
	if log == nil || log.Stdout == "" {
		return ""
	}
	w := logpath.Worker{Job: int64(r.ID), Name: spec.Name, User: r.User, Workdir: spec.Workdir, Node: r.batchHost(),
		Restarts: r.restarts()}
	if r.Array.Index != nil {
		w.Array, w.Index = int64(r.Array.Job), *r.Array.Index
	}
	pattern := log.Stdout
	if errors && log.Stderr != "" {
		pattern = log.Stderr
	}
	path, err := w.Expand(pattern)
	if err != nil {
		return ""
	}
	return path
}

func (r *JobRow) nodeCount() int { return show.NodeCount(r.Job) }

// taskCount returns the number of processes that the job starts. If the caller may not see the
// specification, or it has several groups or tasks, each worker counts as one process.
func (r *JobRow) taskCount() int {
	n := max(r.Workers, 1)
	spec := r.spec()
	if len(spec.Groups) != 1 || len(spec.Groups[0].Tasks) != 1 {
		return n
	}
	switch l := spec.Groups[0].Tasks[0].Launch; {
	case l == nil:
		return n
	case l.Type == "per_gpu" || l.NprocGPU:
		return max(r.GPUs, n)
	default:
		return n * max(l.Nproc, 1)
	}
}

func (r *JobRow) perWorker() int { return r.Cores / max(r.Workers, 1) }

// allocated returns the number of cores that the job has or had; 0 if the job has not started.
func (r *JobRow) allocated() int {
	if r.Started == nil {
		return 0
	}
	return r.Cores
}

func (r *JobRow) gpusPerNode() string {
	if r.GPUs == 0 {
		return ""
	}
	return fmt.Sprintf("gres/gpu:%d", perNode(r.GPUs, r.Job))
}

// tres lists the requested resources: in sorted order for sacct, in Slurm's fixed order for other
// commands.
func (r *JobRow) tres(sorted bool) string {
	all := []string{fmt.Sprintf("cpu=%d", r.Cores), "mem=" + memory(r.Memory), fmt.Sprintf("node=%d",
		show.NodeCount(r.Job)),
		fmt.Sprintf("billing=%d", r.Cores)}
	if r.GPUs > 0 {
		all = append(all, fmt.Sprintf("gres/gpu=%d", r.GPUs))
	}
	if sorted {
		slices.Sort(all)
	}
	return strings.Join(all, ",")
}

func (r *JobRow) allocatedTRES(sorted bool) string {
	switch {
	case r.Started == nil:
		return ""
	case r.step != nil && r.step.id != tool.ExternStep:
		return r.stepTRES()
	}
	return r.tres(sorted)
}

func (r *JobRow) restarts() int { return max(r.Attempt-1, 0) }

func (r *JobRow) eligible() *api.Time {
	if r.Eligible != nil {
		return r.Eligible
	}
	return r.Submitted
}

// start returns when the job started or, with squeue --start, when it is expected to start at the
// latest.
func (r *JobRow) start() *api.Time {
	if r.StartLatest != nil { // it waits
		return r.StartLatest
	}
	return r.Started
}

// waited returns how long the job was eligible before it started or ended; for a pending job, how
// long until now.
func (r *JobRow) waited() string {
	from, until := r.eligible(), &api.Time{Time: r.Now}
	switch {
	case r.Started != nil:
		until = r.Started
	case r.Ended != nil:
		until = r.Ended
	}
	if from == nil {
		return Clock(0)
	}
	return Clock(jobspec.Seconds(max(0, until.Sub(from.Time)) / time.Second))
}

// end returns the time at which the job ended, or at which a running job reaches its time limit.
func (r *JobRow) end() *api.Time {
	if r.Ended == nil && r.Started != nil && r.TimeLimit > 0 {
		return &api.Time{Time: r.Started.Add(time.Duration(r.TimeLimit) * time.Second)}
	}
	return r.Ended
}

func (r *JobRow) suspended() jobspec.Seconds {
	var sum int64
	for i := range r.Attempts {
		sum += r.Attempts[i].SuspendedSeconds
	}
	return jobspec.Seconds(sum)
}

func limitMinutes(r *JobRow) any {
	if r.TimeLimit == 0 {
		return number{Infinite: true}
	}
	return numberOf(int64(r.TimeLimit+59) / 60)
}

// Unfold splits a job into the rows that Slurm shows for it. The array itself has no row. Its
// pending tasks share one row, and the tasks cancelled before their start share another. If each is
// true, every such task has its own row. Started tasks are jobs of their own and have their own
// rows. A pipeline job has no row; its groups have rows. The rows may share memory with j.
func (s *Source) Unfold(j *api.Job, each bool) []*JobRow {
	if j.TimeLimit == jobspec.MaxDuration { // of sbatch -t UNLIMITED
		j.TimeLimit = 0
	}
	// A pending job shows nothing of its earlier attempts.
	j.Code, j.State = slurmState(j)
	if j.Code == model.Pending {
		j.Nodes, j.Started, j.Elapsed = nil, nil, 0
	}
	if !show.IsArray(j) {
		if show.IsPipeline(j) {
			return nil
		}
		return []*JobRow{{Job: j, Source: s}}
	}
	var rows []*JobRow
	// add appends the row of tasks that never ran. The array's times and nodes belong to other
	// tasks, so the row omits them.
	add := func(indices string, code model.JobState, state string) {
		if indices == "" {
			return
		}
		part := *j
		part.Array.Indices = indices
		part.Code, part.State, part.Nodes, part.Started, part.Elapsed = code, state, nil, nil, 0
		if code == model.Pending {
			part.Ended = nil
		} else {
			part.Reason = api.Reason{}
		}
		if tasks := show.PendingTasks(&part); each && tasks != nil {
			for i := range tasks {
				tasks[i].Code, tasks[i].State = code, state
				rows = append(rows, &JobRow{Job: &tasks[i], Source: s})
			}
			return
		}
		rows = append(rows, &JobRow{Job: &part, Source: s})
	}
	add(j.Array.Indices, model.Pending, "PENDING")
	add(j.Array.Dropped, model.Cancelled, "CANCELLED")
	return rows
}

// slurmState returns Slurm's name for the job's state.
func slurmState(j *api.Job) (model.JobState, string) {
	if j.Code == model.Checkpointing {
		return model.Completing, "COMPLETING"
	}
	return j.Code, j.State
}
