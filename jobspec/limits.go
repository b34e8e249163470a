package jobspec

// Limits of a job. They keep the record of one job small: every controller keeps it in memory and
// in the log.
const (
	MaxPriority     = 100
	MaxTextBytes    = 2 << 20 // of all texts together: a script of 1 MiB and as much again
	MaxWorkers      = 4096
	MaxGroups       = 64
	MaxTasks        = 16 // of one group
	MaxTags         = 32
	MaxMetaKeys     = 64
	MaxMetaBytes    = 4 << 10
	MaxDescription  = 4 << 10
	MaxComment      = 1 << 10
	MaxExport       = 256
	MaxEnvBytes     = 256 << 10
	MaxScriptBytes  = 1 << 20
	MaxArguments    = 4096
	MaxCommandBytes = 128 << 10 // what Linux takes as one argument
	MaxMounts       = 64
	MaxAttempts     = 100
	MaxCores        = 4096
	MaxNodeCores    = 1 << 20 // of a node, and of a simulated worker
	MaxGPUs         = 64      // of one worker
	MaxProcesses    = 1024
	MinMemory       = 4 * MiB // below it no container starts

	// Parameters of an array.
	MaxAxes       = 32
	MaxParamBytes = 1 << 20

	// Bounds of a job's dependencies and watchers.
	MaxDependencies   = 64
	MaxDependencyJobs = 1000
	MaxLogPolicies    = 32
	MaxPattern        = 1000

	// Bounds of a job's requests about nodes.
	MaxConstraints = 64
	MaxNodeLists   = 1000
	MaxFeatures    = 32

	// MaxNofile is what Linux allows as the number of open files of a process, unless its operator
	// raised it.
	MaxNofile = 1 << 20
)
