package cluster

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Bounds of one job of several groups, and of one group of several tasks.
const (
	maxGroups = 64
	maxTasks  = 64
)

// submitJobs2 adds pending jobs, all or none. What is of a later version than the command is refused.
func (s *State) submitJobs2(c SubmitJobs2, version int) (any, error) {
	s.expireKeys()
	if ids, err := s.recall(c.SubmitJobs); ids != nil || err != nil {
		return ids, err
	}
	if err := s.admit(len(c.Jobs)); err != nil {
		return nil, err
	}
	r := s.newResolver(c.Owner, c.Admin, c.Facts)
	jobs, members := make([]*Job, len(c.Jobs)), 0
	for i, spec := range c.Jobs {
		j, err := s.draft2(c.Owner, spec, s.v.lastJob+JobID(i+members+1), r)
		if err == nil && version < 3 && newIn3(spec) != "" {
			err = &SpecError{newIn3(spec) + " needs cluster version 3"}
		}
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
		ids[i] = s.add2(j, r)
	}
	s.learnCame()
	if c.Key != "" {
		k := &key{keyName: keyName{c.Owner.UID, c.Key}, Digest: c.Digest, At: s.v.at, First: ids[0], Count: len(ids)}
		if members > 0 {
			k.IDs = slices.Clone(ids)
		}
		s.remember(k)
	}
	return ids, nil
}

// draft2 makes a pending job, or a record, from what its owner asked for.
func (s *State) draft2(owner Identity, spec *jobspec.Job, id JobID, r *resolver) (*Job, error) {
	if err := checkSpec2(spec); err != nil {
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
	if err := s.admitSites(spec); err != nil {
		return nil, err
	}
	if err := s.checkMembers(j); err != nil {
		return nil, err
	}
	if err := r.resolve(j); err != nil {
		return nil, err
	}
	r.note(j)
	return j, nil
}

// checkMembers holds every group of a job whose groups run one by one to the queue's limits.
func (s *State) checkMembers(j *Job) error {
	if j.Family == nil || j.Spec.Array != nil {
		return nil
	}
	q := s.v.config.Queues[j.Queue]
	for n := range j.Spec.Groups {
		m := j.materialise(n + 1)
		m.Limit = timeLimit(j.Spec, m.group(), j.Class, &q)
		m.layOut()
		if err := checkQueue(m, j.Queue, &q); err != nil {
			return fmt.Errorf("group %q: %w", m.group().Name, err)
		}
	}
	return nil
}

// add2 stores a drafted job, which has its id, and the members of one whose groups run one by one.
func (s *State) add2(j *Job, r *resolver) JobID {
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
		m := j.materialise(n + 1)
		m.Hold, m.Reason = j.Hold, j.Reason
		m.Limit = timeLimit(j.Spec, m.group(), j.Class, &q)
		m.layOut()
		s.measure(m)
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
