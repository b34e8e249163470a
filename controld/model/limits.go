package model

// Limits of the state. Each keeps one map or list from growing without bound.
const (
	MaxJobs = 1_000_000 // in the state, finished ones that are not trimmed included: a few GiB
	// in one SubmitJobs or ControlJobs: a few ms of Apply, during which nothing else is applied
	MaxJobsPerCall  = 10_000
	MaxNodes        = 16_384    // beyond the 10,000 that scheduling is measured with
	MaxKeys         = 1_000_000 // idempotency keys
	MaxReservations = 1_024     // more would keep the cluster from being used
	MaxQueues       = 1_024
	MaxExclude      = 16 // nodes that one job avoids; the oldest is forgiven

	// MaxEdgesPerCall is how many jobs the jobs of one submission wait for together.
	MaxEdgesPerCall = 100_000
	// MaxWaiting bounds how many jobs wait for one job, divided by the number of jobs that each
	// waits for. A job that waits for 1,000 jobs may be the hundredth at most to wait for one of
	// them. So the end of a job costs a few ms of Apply, during which nothing else is applied.
	MaxWaiting = 100_000
)
