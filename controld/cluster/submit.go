package cluster

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/jobspec"
)

// What a job gets that does not say.
const (
	defaultQueue    = "default"
	defaultAccount  = "default"
	defaultPriority = 50
	defaultGrace    = 30 // seconds
	leaseGrace      = 10 // seconds
	defaultCkptCode = 85
	memoryPerCore   = 4 * jobspec.GiB
)

// Bounds of one job. They keep arithmetic on requests from overflowing and a gang from filling the log.
const (
	maxWorkers  = 4096
	maxCores    = 1 << 20
	maxMemory   = 1 << 10 * jobspec.TiB
	maxAttempts = 1000 // of restart
)

// submitJobs adds pending jobs, all or none.
func (s *State) submitJobs(c SubmitJobs) (any, error) {
	s.expireKeys()
	if ids, err := s.recall(c); ids != nil || err != nil {
		return ids, err
	}
	if err := s.admit(len(c.Jobs)); err != nil {
		return nil, err
	}
	jobs := make([]*Job, len(c.Jobs))
	for i, spec := range c.Jobs {
		j, err := s.draft(c.Owner, spec)
		if err != nil {
			return nil, &JobError{Index: i, Name: nameOf(spec), Err: err}
		}
		jobs[i] = j
	}
	ids := make([]JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = s.add(j)
	}
	if c.Key != "" {
		s.remember(&key{keyName{c.Owner.UID, c.Key}, c.Digest, s.v.at, ids[0], len(ids)})
	}
	return ids, nil
}

func nameOf(spec *jobspec.Job) string {
	if spec == nil {
		return ""
	}
	return spec.Name
}

// admit refuses submissions that are empty or too many.
func (s *State) admit(n int) error {
	if n == 0 {
		return &SpecError{"a submission has at least one job"}
	}
	if err := limit("the number of jobs in one submission", int64(n), MaxJobsPerCall, ""); err != nil {
		return err
	}
	return limit("the number of jobs in the cluster", int64(s.njobs+n), MaxJobs, "")
}

// add gives a job its id and stores it.
func (s *State) add(j *Job) JobID {
	s.v.lastJob++
	j.ID = s.v.lastJob
	s.njobs++
	s.put(j)
	s.emitJob(EventSubmitted, j, "")
	if j.Hold != NotHeld {
		s.emitJob(EventHeld, j, "")
	}
	return j.ID
}

// draft makes a pending job without an id from what its owner asked for.
func (s *State) draft(owner Identity, spec *jobspec.Job) (*Job, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	name := cmp.Or(spec.Queue, defaultQueue)
	q, ok := s.v.config.Queues[name]
	if !ok {
		return nil, fmt.Errorf("queue %q: %w", name, ErrNoQueue)
	}
	j := &Job{
		Owner: owner, Account: cmp.Or(spec.Account, defaultAccount), Queue: name,
		Class: cmp.Or(spec.Class, q.DefaultClass, jobspec.BE), Priority: defaultPriority,
		Spec: spec, State: Pending, Submitted: s.now(), Eligible: s.v.at,
	}
	if spec.Priority != nil {
		j.Priority = *spec.Priority
	}
	if spec.Hold {
		j.Hold, j.Reason = HeldByUser, Reason{Code: ReasonHeldUser}
	}
	j.Limit = timeLimit(spec, j.Class, &q)
	j.layOut()
	return j, checkQueue(j, name, &q)
}

// RequestOf returns what a task's resources mean for its node. A suspended job keeps its memory and its GPUs' memory, not its cores.
func RequestOf(r jobspec.Resources) Request {
	cores := max(1, int64(r.Cores))
	memory := cmp.Or(r.Memory, memoryPerCore*jobspec.Bytes(cores))
	gpus := int64(r.GPUs) * wholeGPU
	return Request{Active: Vector{cores, memory, gpus}, Resident: Vector{0, memory, gpus}}
}

func timeLimit(spec *jobspec.Job, class jobspec.Class, q *Queue) jobspec.Seconds {
	if class == jobspec.TE {
		return cmp.Or(spec.TimeLimit, q.TEMaxTime)
	}
	return cmp.Or(spec.TimeLimit, q.DefaultTime)
}

// checkQueue holds a job to its queue's limits.
func checkQueue(j *Job, name string, q *Queue) error {
	if q.MaxTime > 0 {
		if err := secondsLimit("time_limit in queue "+name, j.Limit, q.MaxTime); err != nil {
			return err
		}
	}
	if j.Class != jobspec.TE {
		return nil
	}
	if q.TEMaxTime > 0 {
		if err := secondsLimit("time_limit of a te job in queue "+name, j.Limit, q.TEMaxTime); err != nil {
			return err
		}
	}
	if q.TEMaxGPUs > 0 {
		gpus := j.Total().GPUs / wholeGPU
		return limit("the number of GPUs of a te job in queue "+name, gpus, int64(q.TEMaxGPUs), "")
	}
	return nil
}

// checkSpec refuses what the state could not hold or run. It does not call jobspec's own validation: what this refuses must be
// the same in every version that replays the log.
func checkSpec(spec *jobspec.Job) error {
	switch {
	case spec == nil:
		return &SpecError{"a job is missing"}
	case len(spec.Groups) != 1:
		return &SpecError{"a job has exactly one group: several groups are not supported yet"}
	case len(spec.Groups[0].Tasks) != 1:
		return &SpecError{"a group has exactly one task: several tasks are not supported yet"}
	case spec.Class != "" && spec.Class != jobspec.TE && spec.Class != jobspec.BE:
		return &SpecError{fmt.Sprintf("class is te or be, not %q", spec.Class)}
	case spec.Priority != nil && (*spec.Priority < 0 || *spec.Priority > 100):
		return &SpecError{fmt.Sprintf("priority is 0 to 100, not %d", *spec.Priority)}
	case spec.TimeLimit < 0:
		return &SpecError{"time_limit is negative"}
	}
	if err := checkSize(spec); err != nil {
		return err
	}
	return checkRestart(spec.Restart)
}

func checkSize(spec *jobspec.Job) error {
	g, r := &spec.Groups[0], &spec.Groups[0].Tasks[0].Resources
	if g.Count < 0 || r.Cores < 0 || r.Memory < 0 || r.GPUs < 0 {
		return &SpecError{"count, cores, memory and gpus are not negative"}
	}
	for _, l := range []error{
		limit("the number of workers", int64(g.Count), maxWorkers, ""),
		limit("cores of a worker", int64(r.Cores), maxCores, ""),
		limit("memory of a worker", int64(r.Memory), int64(maxMemory), "bytes"),
		limit("gpus of a worker", int64(r.GPUs), MaxGPUsPerNode, ""),
		limit("the size of the job's texts", int64(textSize(spec)), MaxSpecBytes, "bytes"),
	} {
		if l != nil {
			return l
		}
	}
	return nil
}

func checkRestart(r *jobspec.Restart) error {
	if r == nil {
		return nil
	}
	if r.Attempts < 0 || r.Delay < 0 || r.MaxDelay < 0 || r.Window < 0 {
		return &SpecError{"the numbers of restart are not negative"}
	}
	return limit("restart attempts", int64(r.Attempts), maxAttempts, "")
}

// textSize adds up the texts of a job that have no small bound of their own.
func textSize(spec *jobspec.Job) int {
	g, t := &spec.Groups[0], &spec.Groups[0].Tasks[0]
	n := len(spec.Name) + len(spec.Description) + len(spec.Workdir) + len(t.Script) + len(t.Image)
	for _, list := range [][]string{spec.Tags, spec.Export, t.Command} {
		for _, s := range list {
			n += len(s)
		}
	}
	for _, m := range []map[string]string{spec.Meta, spec.ExportEnv, g.Meta, t.Env} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	for _, m := range t.Mounts {
		n += len(m.Source) + len(m.Target)
	}
	return n
}
