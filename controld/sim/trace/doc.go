// Package trace reads workloads and clusters for the simulator. Package synth draws workloads from
// seeds.
//
// The package is pure: readers take bytes that the caller has opened, plain or gzip. [Read] turns
// any of the formats below into a [Trace] of jobs in neutral units: milliseconds, cores, bytes,
// thousandths of a GPU.
//
// A bad line is left out, counted, and listed with its number and the reason. A line is bad if a
// field is missing, is not a number, or holds a negative or absurd number. A meaningless zero and
// an id that was used before are bad too. A job of unknown length is left out too. An unknown
// column refuses the whole file, because it may be a mistake in all lines. Recorded waiting times
// are never used: they are the work of another scheduler.
//
// # fitgpp
//
// A table with a header (CSV) and whole minutes: job_id, class (TE or BE), user, submit_min, cpus,
// ram_gb, gpus, exec_min, grace_min. A job is one worker. All users are leaves of one account,
// "paper". A gigabyte is 2^30 bytes.
//
// # philly
//
// A table: timestamp (local time of day, taken as it stands), duration (s), num_gpus, gpu_time
// (checked against the product of the two before), cluster. The virtual cluster is the account and
// its only user. A gang of up to a node's GPUs (8, or [Options].NodeGPUs) is one worker on one
// node. A larger gang takes whole nodes, rounded up, with a worker on each. Cores and memory are
// not recorded: each GPU gets one core and one GiB, which no GPU node runs out of first. Jobs are
// named after their line.
//
// # swf
//
// The Standard Workload Format: 18 fields between blanks, comments after semicolons, -1 for unknown
// values. A job has as many workers of one core as it used processors (or requested, if the former
// is unknown). Any number of them may run on a node. Jobs of unknown run time are left out. User,
// group, program and queue become user, account, name and QoS. The requested time becomes
// Job.Estimate, not Job.Limit: it is the user's estimate, many jobs run for longer, and only policy
// easy may see it. Requested memory is KiB for each processor.
//
// # openb
//
// A table of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli (share of one GPU), gpu_spec
// (allowed models, separated by bars), qos, pod_phase, creation_time, deletion_time, scheduled_time
// (s). Parts of a core are rounded up. A pod arrives when it was created, and runs from its
// placement to its deletion. A pod that was never placed has Job.Unplaced, and its length is how
// long it was wanted. All pods are best effort, because the service classes there do not tell trial
// jobs apart; they stay in Job.QoS. [ReadNodes] reads the list of nodes that belongs to it.
//
// # sia
//
// A table: name, time (s), application, num_replicas (GPUs requested), batch_size (over all of
// them). It needs [Profiles]. They hold measured step times by placement (placements.csv) and by
// numbers of nodes and workers (scalability.csv). The last line of validation-BATCH.csv gives the
// steps of a training at that batch. Work is the number of steps times the step time with the
// requested workers, packed on nodes of four. With other workers, or elsewhere, the rate is the
// ratio of the step times ([Training]). A worker whose share of the batch does not fit into memory
// takes several passes; only the last one exchanges gradients. The batch does not change. Jobs are
// elastic from one worker to as many as were measured. Restart costs of the known applications are
// built in.
//
// # tiresias
//
// A table: job_id, num_gpu, submit_time (s), iterations, model_name, duration (s), interval (which
// repeats the submit times and is not used). Gangs become workers as in philly.
//
// # history
//
// Our own accounting as rota hist -o json prints it, or the same jobs one after the other (JSON
// Lines). The length of a job is the sum of its attempts. Cores, memory and GPUs are divided among
// its workers. Jobs that never ran or have not ended are left out. Array jobs and pipeline jobs are
// left out too, because their tasks and group jobs are in the accounting themselves.
//
// # Further columns
//
// Every table may also have more columns, unless it has a like column: name, account, priority,
// workers, min_workers, max_workers, workers_per_node, time_limit_s, grace_s, restart_s. So may
// models (H100|A100), speed (see [ParseCurve]) and locality (see [ParseLocality]). Requests are
// then those of each worker.
package trace
