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
)
