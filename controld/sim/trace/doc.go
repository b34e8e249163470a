// Package trace reads workloads and clusters for the simulator. Package synth draws workloads from seeds.
//
// It is pure: readers take bytes that the caller has opened, plain or gzip. [Read] turns any of the
// formats below into a [Trace] of jobs in neutral units: milliseconds, cores, bytes, thousandths of a GPU. A line that makes no sense
// (a field is missing, no number, negative, absurd, zero where nothing is meant by that, an id used before) is left out, counted, and
// listed with its number and the reason; so is a job whose length is not known. What Rota cannot tell apart from a mistake in the file
// as a whole, such as a column that it does not know, refuses the file. Waiting times that a trace records are never used: they
// are the work of another scheduler.
//
// # fitgpp
//
// A table with a header (CSV) and whole minutes: job_id, class (TE or BE), user, submit_min, cpus, ram_gb, gpus, exec_min, grace_min.
// A job is one worker. All users are leaves of one account, "paper". A gigabyte is 2^30 bytes.
//
// # philly
//
// A table: timestamp (local time of day, taken as it stands), duration (s), num_gpus, gpu_time (checked against the product of the two
// before), cluster. The virtual cluster is the account and its only user. A gang of up to a node's GPUs (8, or [Options].NodeGPUs) is
// one worker on one node; a larger one takes whole nodes, rounded up, a worker on each. Cores and memory are not recorded: each GPU
// gets one core and one GiB, which no GPU node runs out of first. Jobs are named after their line.
//
// # swf
//
// The Standard Workload Format: 18 fields between blanks, comments after semicolons, -1 for what is not known. Processors are flat: a
// job asks for as many workers of one core as it used processors (requested ones if that is not known), any number of them on a node.
// Jobs whose run time is unknown are left out. User, group, program and queue become user, account, name and QoS. The requested time
// goes to Job.Estimate, not to Job.Limit: it is the user's guess, many jobs outlive it, and only policy easy may be told.
// Requested memory is KiB for each processor.
//
// # openb
//
// A table of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli (share of one GPU), gpu_spec (models that will do, between bars),
// qos, pod_phase, creation_time, deletion_time, scheduled_time (s). Parts of a core are rounded up. A pod came when it was created and
// ran from when it was placed until it was deleted; one that never was has Job.Unplaced, and its length is how long it was wanted.
// All pods are best effort: the classes of service there say nothing of trials; they stay in Job.QoS. The list of nodes that goes with
// it is read by [ReadNodes].
//
// # sia
//
// A table: name, time (s), application, num_replicas (GPUs asked for), batch_size (over all of them). It needs [Profiles]: measured
// step times by placement (placements.csv) and by numbers of nodes and workers (scalability.csv), and how many steps training takes at a
// batch (the last line of validation-BATCH.csv). Work is the steps times the step with the workers asked for, packed on nodes of four;
// with others, or elsewhere, the rate is the ratio of the steps' lengths ([Training]). A worker whose share of the batch does
// not fit into memory does it in passes, of which only the last exchanges gradients. The batch stays what was asked for. Jobs
// are elastic from one worker to as many as were measured. Restart costs of the known applications are built in.
//
// # tiresias
//
// A table: job_id, num_gpu, submit_time (s), iterations, model_name, duration (s), interval (which repeats the submit times and is not
// used). Gangs are cut as in philly.
//
// # history
//
// Our own accounting as rota hist -o json prints it, or the same jobs one after the other (JSON Lines). A job's length is that of its
// attempts together; cores, memory and GPUs are divided among its workers. Jobs that never ran or have not ended are left out. The record
// of an array, or of groups that ran one by one, is no job: its members are, and are in the accounting too.
//
// # Further columns
//
// Every table may also have the columns name, account, priority, workers, min_workers, max_workers, workers_per_node, time_limit_s,
// grace_s, restart_s, models (H100|A100), speed (see [ParseCurve]) and locality (see [ParseLocality]), where it has not the like
// already. Demands are those of each worker then.
package trace
