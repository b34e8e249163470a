package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// KindSubmitJobs is the kind of [SubmitJobs].
var KindSubmitJobs = newKind("submit-jobs/1")

// SubmitJobs adds pending jobs, all or none. With a Key it is idempotent for (Owner.UID, Key): the same Digest again returns the
// same ids, another Digest is refused with ErrKeyReused. Keys are kept 24 h or the last million. Its result is []JobID: the id of an
// array job or pipeline is followed by those of its tasks.
type SubmitJobs struct {
	Owner  Identity       `json:"owner"`
	Key    string         `json:"key,omitempty"`
	Digest string         `json:"digest,omitempty"` // of the request body
	Jobs   []*jobspec.Job `json:"jobs"`             // defaults filled in
	Facts  []Fact         `json:"facts,omitempty"`
	Admin  bool           `json:"admin,omitempty"` // an operator: may depend on any account's jobs
}

// Kind implements Command.
func (SubmitJobs) Kind() Kind { return KindSubmitJobs }

// Fact is what the history says of a job that another depends on and the state may no longer have.
type Fact struct {
	ID      JobID    `json:"id"`
	Code    int      `json:"code,omitempty"` // exit code
	Ended   JobState `json:"ended,omitempty"`
	UID     uint32   `json:"uid,omitempty"`     // of its owner
	Missing bool     `json:"missing,omitempty"` // the history has no such job either
}

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

// apply adds the jobs, all or none.
func (c SubmitJobs) apply(s *State) (any, error) {
	s.expireKeys()
	if ids, err := s.recall(c); ids != nil || err != nil {
		return ids, err
	}
	if err := s.admit(len(c.Jobs)); err != nil {
		return nil, err
	}
	r := s.newResolver(c.Owner, c.Admin, c.Facts)
	jobs, members := make([]*Job, len(c.Jobs)), 0
	for i, spec := range c.Jobs {
		j, err := s.draft(c.Owner, spec, s.v.lastJob+JobID(i+members+1), r)
		if err != nil {
			return nil, &JobError{Index: i, Name: nameOf(spec), Err: err}
		}
		jobs[i] = j
		members += j.weight() - 1
	}
	if err := limit("the number of jobs and elements in the cluster", int64(s.v.njobs+len(jobs)+members), MaxJobs, ""); err != nil {
		return nil, err
	}
	ids := make([]JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = s.addJob(j, r)
	}
	s.recordSubmission()
	if c.Key != "" {
		k := &key{keyName: keyName{c.Owner.UID, c.Key}, Digest: c.Digest, At: s.v.at, First: ids[0], Count: len(ids)}
		if members > 0 {
			k.IDs = slices.Clone(ids)
		}
		s.remember(k)
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
	s.recordArrival(j)
	s.recordRequest(j)
	s.emitJob(EventSubmitted, j, "")
	if j.Hold != NotHeld {
		s.emitJob(EventHeld, j, "")
	}
	return j.ID
}

// draft makes a pending job, or a parent job, from what its owner asked for.
func (s *State) draft(owner Identity, spec *jobspec.Job, id JobID, r *resolver) (*Job, error) {
	if err := checkSpec(spec); err != nil {
		return nil, err
	}
	j, err := s.compose(owner, spec)
	if err != nil {
		return nil, err
	}
	j.ID = id
	if err := s.setTimes(j); err != nil {
		return nil, err
	}
	switch n := len(spec.Groups); {
	case spec.Array != nil:
		size := spec.Array.Len()
		j.Family = &Family{Size: size, Waiting: Span(1, size)}
	case n > 1 && !oneGang(spec):
		j.Family = &Family{Size: n, Live: n}
	}
	if err := s.admitNodeSets(spec); err != nil {
		return nil, err
	}
	if err := s.checkGroupLimits(j); err != nil {
		return nil, err
	}
	if err := r.resolve(j); err != nil {
		return nil, err
	}
	r.note(j)
	return j, nil
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
	if j.Class == jobspec.TE && slices.ContainsFunc(spec.Groups, func(g jobspec.Group) bool { return g.Elastic != nil }) {
		return nil, &SpecError{errElasticTE}
	}
	j.layOut()
	s.setGPUEquivalents(j)
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

// checkGroupLimits holds every group of a job whose groups run one by one to the queue's limits.
func (s *State) checkGroupLimits(j *Job) error {
	if j.Family == nil || j.Spec.Array != nil {
		return nil
	}
	q := s.v.config.Queues[j.Queue]
	for n := range j.Spec.Groups {
		m := j.makeTask(n + 1)
		m.Limit = timeLimit(j.Spec, m.group(), j.Class, &q)
		m.layOut()
		if err := checkQueue(m, j.Queue, &q); err != nil {
			return fmt.Errorf("group %q: %w", m.group().Name, err)
		}
	}
	return nil
}

// addJob stores a drafted job, which has its id, and the children of one whose groups run one by one.
func (s *State) addJob(j *Job, r *resolver) JobID {
	s.pack(j)
	if j.Family == nil || j.Spec.Array != nil {
		id := s.add(j)
		s.v.lastJob += JobID(j.weight() - 1)
		r.settleNew(j)
		return id
	}
	record := *j
	record.Hold, record.Needs = NotHeld, nil
	if j.Hold != NotHeld {
		record.Reason = Reason{}
	}
	id := s.add(&record)
	s.v.lastJob += JobID(j.Family.Size)
	q := s.v.config.Queues[j.Queue]
	members := make([]*Job, j.Family.Size)
	for n := range members {
		m := j.makeTask(n + 1)
		m.Hold, m.Reason = j.Hold, j.Reason
		m.Limit = timeLimit(j.Spec, m.group(), j.Class, &q)
		m.layOut()
		s.setGPUEquivalents(m)
		if m.Needs = groupNeeds(j, n); len(m.Needs) == 0 {
			m.Needs = slices.Clone(j.Needs)
		}
		members[n] = m
		s.put(m)
		s.emitJob(EventSubmitted, m, "")
	}
	for n, m := range members {
		if len(j.Spec.Groups[n].DependsOn) == 0 {
			r.settleNew(m)
		}
	}
	return id
}

// groupNeeds are the dependencies of one group of a job on others.
func groupNeeds(j *Job, group int) []Need {
	byType := map[string]string{"ok": needAfterOK, "any": needAfterAny, "failed": needAfterNotOK, "started": needAfter}
	var needs []Need
	for _, g := range j.Spec.Groups[group].Needs() {
		kind := byType[g.Condition]
		at := slices.IndexFunc(j.Spec.Groups, func(o jobspec.Group) bool { return o.Name == g.Group })
		i := slices.IndexFunc(needs, func(n Need) bool { return n.Type == kind })
		if i < 0 {
			i, needs = len(needs), append(needs, Need{Type: kind})
		}
		needs[i].Jobs = append(needs[i].Jobs, j.ID+JobID(at+1))
		slices.Sort(needs[i].Jobs)
	}
	return needs
}
