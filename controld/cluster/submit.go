package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	s.learnCame()
	if c.Key != "" {
		s.remember(&key{keyName{c.Owner.UID, c.Key}, c.Digest, s.v.at, ids[0], len(ids), nil})
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
	return limit("the number of jobs in the cluster", int64(s.v.njobs+n), MaxJobs, "")
}

// add gives a job its id and stores it.
func (s *State) add(j *Job) JobID {
	s.pack(j)
	s.v.lastJob++
	j.ID = s.v.lastJob
	s.put(j)
	s.learnArrival(j)
	s.learnMix(j)
	s.emitJob(EventSubmitted, j, "")
	if j.Hold != NotHeld {
		s.emitJob(EventHeld, j, "")
	}
	return j.ID
}

// draft makes a pending job without an id from what its owner asked for with submit-jobs/1.
func (s *State) draft(owner Identity, spec *jobspec.Job) (*Job, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	return s.compose(owner, spec)
}

// compose makes a pending job without an id. The job has been checked.
func (s *State) compose(owner Identity, spec *jobspec.Job) (*Job, error) {
	name := cmp.Or(spec.Queue, defaultQueue)
	q, ok := s.v.config.Queues[name]
	if !ok {
		return nil, fmt.Errorf("queue %q: %w: the cluster has %s", name, ErrNoQueue, strings.Join(slices.Sorted(maps.Keys(s.v.config.Queues)), ", "))
	}
	j := &Job{
		Owner: owner, Account: cmp.Or(spec.Account, defaultAccount), Queue: name,
		Class: cmp.Or(spec.Class, q.DefaultClass, jobspec.BE), Priority: defaultPriority,
		Spec: spec, State: Pending, Submitted: s.now(), Eligible: s.v.at,
	}
	if j.Class == jobspec.TE && newIn3(spec) == "elastic" {
		return nil, &SpecError{errElasticTE}
	}
	j.layOut()
	s.measure(j)
	if spec.Priority != nil {
		j.Priority = *spec.Priority
	}
	if spec.Hold {
		j.Hold, j.Reason = HeldByUser, Reason{Code: ReasonHeldUser}
	}
	j.Limit = timeLimit(spec, &spec.Groups[0], j.Class, &q)
	return j, checkQueue(j, name, &q)
}

// RequestOf returns what a task's resources mean for its node. A suspended job keeps its memory and its GPUs' memory, not its cores.
func RequestOf(r jobspec.Resources) Request {
	cores := max(1, int64(r.Cores))
	memory := cmp.Or(r.Memory, memoryPerCore*jobspec.Bytes(cores))
	gpus := int64(r.GPUs) * WholeGPU
	if r.GPU != nil && r.GPU.Share > 0 {
		gpus = int64(r.GPU.Share)
	}
	return Request{Active: Vector{cores, memory, gpus}, Resident: Vector{0, memory, gpus}}
}

// timeLimit returns the limit of a group: its own, its job's, or the queue's.
func timeLimit(spec *jobspec.Job, g *jobspec.Group, class jobspec.Class, q *Queue) jobspec.Seconds {
	if class == jobspec.TE {
		return cmp.Or(g.TimeLimit, spec.TimeLimit, q.TEMaxTime)
	}
	return cmp.Or(g.TimeLimit, spec.TimeLimit, q.DefaultTime)
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
		gpus := roundUp(j.Total().GPUs) / WholeGPU
		return limit("the number of GPUs of a te job in queue "+name, gpus, int64(q.TEMaxGPUs), "")
	}
	return nil
}

// checkSpec refuses what a job of submit-jobs/1 cannot ask for. It does not call jobspec's own validation: what this refuses must be
// the same in every version that replays the log.
func checkSpec(spec *jobspec.Job) error {
	switch {
	case spec == nil:
		return &SpecError{"a job is missing"}
	case len(spec.Groups) != 1:
		return &SpecError{"a job has exactly one group: several need cluster version 2"}
	case len(spec.Groups[0].Tasks) != 1:
		return &SpecError{"a group has exactly one task: several need cluster version 2"}
	}
	if field := newIn3(spec); field != "" {
		return &SpecError{field + " needs cluster version 3"}
	}
	if field := newIn2(spec); field != "" {
		return &SpecError{field + " needs cluster version 2"}
	}
	return checkForm(spec)
}

func checkSize(g *jobspec.Group, r *jobspec.Resources) error {
	if g.Count < 0 || r.Cores < 0 || r.Memory < 0 || r.GPUs < 0 {
		return &SpecError{"count, cores, memory and gpus are not negative"}
	}
	for _, l := range []error{
		limit("the number of workers", int64(g.Count), maxWorkers, ""),
		limit("cores of a worker", int64(r.Cores), maxCores, ""),
		limit("memory of a worker", int64(r.Memory), int64(maxMemory), "bytes"),
		limit("gpus of a worker", int64(r.GPUs), MaxGPUsPerNode, ""),
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
	n := len(spec.Name) + len(spec.Description) + len(spec.Workdir)
	n += sizeOfLists(spec.Tags, spec.Export, spec.Nodes, spec.ExcludeNodes, spec.Features)
	n += sizeOfMaps(spec.Meta, spec.ExportEnv)
	n += conditionsSize(spec.Constraints, spec.Affinities)
	for i := range spec.Dependencies {
		n += sizeOfLists(spec.Dependencies[i].Jobs)
	}
	for i := range spec.LogPolicies {
		n += len(spec.LogPolicies[i].Pattern)
	}
	if a := spec.Array; a != nil {
		n += len(a.Indices) + sizeOfLists(a.Columns) + sizeOfLists(a.Rows...)
		for i := range a.Matrix {
			n += len(a.Matrix[i].Name) + sizeOfLists(a.Matrix[i].Values)
		}
	}
	for i := range spec.Groups {
		g := &spec.Groups[i]
		if len(spec.Groups) > 1 { // version 1, whose bound this is too, did not count the name of the only one
			n += len(g.Name)
		}
		n += sizeOfMaps(g.Meta) + sizeOfLists(g.DependsOn) + conditionsSize(g.Constraints, g.Affinities)
		for k := range g.Tasks {
			n += taskSize(&g.Tasks[k])
		}
	}
	return n
}

func taskSize(t *jobspec.Task) int {
	n := len(t.Script) + len(t.Image) + sizeOfLists(t.Command) + sizeOfMaps(t.Env)
	for _, m := range t.Mounts {
		n += len(m.Source) + len(m.Target)
	}
	for _, s := range t.Secrets {
		n += len(s.Source) + len(s.File)
	}
	return n
}

func conditionsSize(constraints []jobspec.Constraint, affinities []jobspec.Affinity) int {
	n := 0
	for i := range constraints {
		n += len(constraints[i].Value) + sizeOfLists(constraints[i].Values)
	}
	for i := range affinities {
		n += len(affinities[i].Value) + sizeOfLists(affinities[i].Values)
	}
	return n
}

func sizeOfLists(lists ...[]string) int {
	n := 0
	for _, list := range lists {
		for _, s := range list {
			n += len(s)
		}
	}
	return n
}

func sizeOfMaps(maps ...map[string]string) int {
	n := 0
	for _, m := range maps {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}
