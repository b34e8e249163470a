package model

// Steps lists the states that may follow each state, itself left out.
var Steps = map[JobState][]JobState{
	"":          {Pending},
	Pending:     {Configuring, Cancelled, PastDue},
	Configuring: {Running, Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, NodeFailed, BootFailed},
	Running:     {Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, NodeFailed},
	Completing:  {Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, NodeFailed, BootFailed},
}

// ParentSteps is steps for parent jobs. They run nothing themselves, so all that can be said of them is that they have begun.
var ParentSteps = map[JobState][]JobState{
	"":      {Pending},
	Pending: {Running, Completed, Failed, Cancelled, PastDue},
	Running: {Completed, Failed, Cancelled, PastDue},
}

// Limits of the state. Each keeps one map or list from growing without bound.
const (
	MaxJobs         = 1_000_000 // in the state, finished ones that are not trimmed included: a few GiB
	MaxJobsPerCall  = 10_000    // in one SubmitJobs or ControlJobs: a few ms of Apply, during which nothing else is applied
	MaxNodes        = 16_384    // beyond the 10,000 that scheduling is measured with
	MaxKeys         = 1_000_000 // idempotency keys
	MaxReservations = 1_024     // more would keep the cluster from being used
	MaxQueues       = 1_024
	MaxSpecBytes    = 2 << 20 // texts of one job: a script of 1 MiB and as much again
	MaxExclude      = 16      // nodes that one job avoids; the oldest is forgiven
)
