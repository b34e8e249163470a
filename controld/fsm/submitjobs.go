package fsm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/fsm/admission"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// KindSubmitJobs is the kind of [SubmitJobs].
var KindSubmitJobs = newKind("submit-jobs/1")

// SubmitJobs adds pending jobs, all or none. With a Key it is idempotent for (Owner.UID, Key): the
// same Digest again returns the same ids, another Digest is refused with ErrKeyReused. Keys are
// kept 24 h or the last million. Its result is []JobID: the id of an array job or pipeline is
// followed by those of its tasks.
type SubmitJobs struct {
	Owner  model.Identity `json:"owner"`            // user and group of the jobs
	Key    string         `json:"key,omitempty"`    // idempotency key
	Digest string         `json:"digest,omitempty"` // of the request body
	Jobs   []*jobspec.Job `json:"jobs"`             // defaults filled in
	Facts  []PastJob      `json:"facts,omitempty"`  // jobs of the history that new jobs depend on
	Admin  bool           `json:"admin,omitempty"`  // may depend on jobs of other users
	// Unlimited is set if the owner may have more jobs than [cluster.Config.MaxSubmitJobs].
	Unlimited bool `json:"unlimited,omitempty"`
	// NewAccount is created if the cluster does not have it: the jobs are the first of a Unix group.
	NewAccount string `json:"new_account,omitempty"`
	// Group is remembered: later jobs of this Unix group are charged to the same account.
	Group *cluster.GroupAccount `json:"group_account,omitempty"`
}

// Kind implements Command.
func (SubmitJobs) Kind() Kind { return KindSubmitJobs }

// PastJob is what the history says of a job that another depends on and the state may no longer
// have.
type PastJob struct {
	ID      model.JobID    `json:"id"`
	Code    int            `json:"code,omitempty"` // exit code
	Ended   model.JobState `json:"ended,omitempty"`
	UID     uint32         `json:"uid,omitempty"`     // of its owner
	Missing bool           `json:"missing,omitempty"` // the history has no such job either
}

// apply adds the jobs, all or none.
func (c SubmitJobs) apply(m *Machine) (any, error) {
	m.s.ExpireKeys()
	if ids, err := m.s.SubmittedWithKey(c.Owner.UID, c.Key, c.Digest); ids != nil || err != nil {
		return ids, err
	}
	r := m.newResolver(c.Owner, c.Admin, c.Facts)
	jobs, err := c.drafts(m, r)
	if err != nil {
		return nil, err
	}
	if err := m.createAccount(c.NewAccount, c.Group, c.Owner.User); err != nil {
		return nil, err
	}
	ids := make([]model.JobID, len(jobs))
	for i, j := range jobs {
		ids[i] = m.addJob(j, r)
	}
	m.s.Learn().Submission()
	if c.Key != "" {
		m.s.RememberKey(c.Owner.UID, c.Key, c.Digest, ids)
	}
	return ids, nil
}

// Admits returns why jobs would be refused if they were submitted now, nil if they would not. It
// changes nothing.
func (m *Machine) Admits(c SubmitJobs) error {
	_, err := c.drafts(m, m.newResolver(c.Owner, c.Admin, c.Facts))
	return err
}

// drafts makes the jobs, and refuses those that the cluster does not take.
func (c SubmitJobs) drafts(m *Machine, r *resolver) ([]*model.Job, error) {
	if err := m.admit(len(c.Jobs)); err != nil {
		return nil, err
	}
	jobs, members := make([]*model.Job, len(c.Jobs)), 0
	for i, spec := range c.Jobs {
		j, err := m.draft(c.Owner, spec, m.v.LastJob()+model.JobID(i+members+1), r)
		if err != nil {
			return nil, &model.JobError{Index: i, Name: nameOf(spec), Err: err}
		}
		jobs[i] = j
		members += j.Weight() - 1
	}
	if err := model.Limit("the number of jobs and elements in the cluster", int64(m.v.Weight()+len(jobs)+members),
		model.MaxJobs, ""); err != nil {
		return nil, err
	}
	if err := c.checkUserLimit(m, len(jobs)+members); err != nil {
		return nil, err
	}
	if why := m.s.TooMany(jobs); why.Code != model.ReasonNone {
		return nil, admission.Refusal(why)
	}
	return jobs, m.checkBytes(&c.Owner, m.s.BytesOf(c.Owner.UID, jobs), c.Unlimited)
}

// createAccount creates an account that the cluster does not have, and notes the account of a group. It is the
// last step of a submission that can be refused.
func (m *Machine) createAccount(name string, group *cluster.GroupAccount, by string) error {
	if name == "" || m.v.KnowsAccount(name) {
		return m.noteGroup(group)
	}
	if !jobspec.ValidName(name) {
		return &model.SpecError{Text: fmt.Sprintf("account %q: it is not a name", name)}
	}
	if err := model.Limit("the number of accounts created for Unix groups", int64(len(m.v.CreatedAccounts()))+1,
		cluster.MaxAccounts, ""); err != nil {
		return err
	}
	if err := m.noteGroup(group); err != nil {
		return err
	}
	m.s.AddAccount(&cluster.CreatedAccount{Name: name, By: by, Created: m.s.Now()})
	return nil
}

// noteGroup notes the account of a Unix group, nil for none.
func (m *Machine) noteGroup(g *cluster.GroupAccount) error {
	if g == nil {
		return nil
	}
	if !jobspec.ValidName(g.Account) {
		return &model.SpecError{Text: fmt.Sprintf("account %q: it is not a name", g.Account)}
	}
	if m.v.AccountOfGroup(g.GID) == "" {
		if err := model.Limit("the number of Unix groups with accounts", int64(m.v.GroupAccounts())+1, cluster.MaxGroups,
			""); err != nil {
			return err
		}
	}
	m.s.SetGroupAccount(*g)
	return nil
}

// checkUserLimit refuses more jobs than one user may have.
func (c SubmitJobs) checkUserLimit(m *Machine, jobs int) error {
	if c.Unlimited {
		return nil
	}
	most := cmp.Or(m.v.Config().MaxSubmitJobs, cluster.DefaultMaxSubmitJobs)
	return model.Limit(fmt.Sprintf("the number of unfinished jobs and elements of user %s", c.Owner.User),
		int64(m.s.Unfinished(c.Owner.UID)+jobs), int64(most), "")
}

// checkBytes refuses more bytes of job specifications than the jobs of one user, or of all, may have: each
// controller keeps them in memory.
func (m *Machine) checkBytes(owner *model.Identity, more int64, unlimited bool) error {
	if more <= 0 {
		return nil
	}
	c := m.v.Config()
	held, all := m.s.HeldBytes(owner.UID)
	if most := cmp.Or(c.MaxSpecBytes, cluster.DefaultMaxSpecBytes); held+more > int64(most) && !unlimited {
		return tooManyBytes("the jobs of user "+owner.User, held, more, most, "limits.max_spec_bytes",
			"cancel some or wait for some to end (they count for some minutes more), put long texts into files on a "+
				"shared path, or ask an admin")
	}
	if most := cmp.Or(c.MaxAllSpecBytes, cluster.DefaultMaxAllSpecBytes); all+more > int64(most) {
		return tooManyBytes("all jobs of the cluster", all, more, most, "limits.max_all_spec_bytes",
			"try again when jobs have ended, or ask an admin")
	}
	return nil
}

func tooManyBytes(whose string, held, more int64, most jobspec.Bytes, setting, advice string) error {
	size := func(n int64) string { return model.SizeText(jobspec.Bytes(n)) }
	return &model.SpecError{Text: fmt.Sprintf("%s hold %s of scripts, environments and other parts of specifications; "+
		"this is %s more, and %s allows %s: %s", whose, size(held), size(more), setting, size(int64(most)), advice)}
}

func nameOf(spec *jobspec.Job) string {
	if spec == nil {
		return ""
	}
	return spec.Name
}

// admit refuses submissions that are empty or too many.
func (m *Machine) admit(n int) error {
	if n == 0 {
		return &model.SpecError{Text: "a submission has at least one job"}
	}
	if err := model.Limit("the number of jobs in one submission", int64(n), model.MaxJobsPerCall, ""); err != nil {
		return err
	}
	return model.Limit("the number of jobs in the cluster", int64(m.v.Weight()+n), model.MaxJobs, "")
}

// add gives a job its id and stores it.
func (m *Machine) add(j *model.Job) model.JobID {
	m.s.Pack(j)
	j.ID = m.s.GiveIDs(1)
	m.jobs.Put(j)
	m.s.Learn().Arrival(j)
	m.s.EmitJob(model.EventSubmitted, j, "")
	if j.Hold != model.NotHeld {
		m.s.EmitJob(model.EventHeld, j, "")
	}
	return j.ID
}

// draft makes a pending job, or a parent job, from what its owner asked for.
func (m *Machine) draft(owner model.Identity, spec *jobspec.Job, id model.JobID, r *resolver) (*model.Job, error) {
	if err := admission.CheckSpec(spec); err != nil {
		return nil, err
	}
	j, err := m.compose(owner, spec)
	if err != nil {
		return nil, err
	}
	j.ID = id
	if err := m.setTimes(j); err != nil {
		return nil, err
	}
	switch n := len(spec.Groups); {
	case spec.Array != nil:
		size := spec.Array.Len()
		j.Children = &model.Children{Size: size, Waiting: ranges.Span(1, size)}
	case n > 1 && !model.OneGang(spec):
		j.Children = &model.Children{Size: n, Live: n}
	}
	if err := m.s.AdmitNodeSets(spec); err != nil {
		return nil, err
	}
	if err := m.checkGroupLimits(j); err != nil {
		return nil, err
	}
	if err := r.resolve(j); err != nil {
		return nil, err
	}
	r.note(j)
	return j, nil
}

// compose makes a pending job without an id. The job has been checked.
func (m *Machine) compose(owner model.Identity, spec *jobspec.Job) (*model.Job, error) {
	name := m.v.Config().QueueName(spec.Queue)
	q, ok := m.v.Config().Queues[name]
	if !ok {
		return nil, fmt.Errorf("queue %q: %w: the cluster has %s", name, model.ErrNoQueue,
			strings.Join(slices.Sorted(maps.Keys(m.v.Config().Queues)), ", "))
	}
	j := &model.Job{
		Owner: owner, Account: cmp.Or(spec.Account, model.DefaultAccount), Queue: name,
		Class: cmp.Or(spec.Class, q.DefaultClass, jobspec.BE), Priority: model.DefaultPriority,
		Spec: spec, SpecBytes: model.MeasureSpec(spec), State: model.Pending, Submitted: m.s.Now(), Eligible: m.v.At(),
	}
	if j.Class == jobspec.TE && slices.ContainsFunc(spec.Groups, func(g jobspec.Group) bool { return g.Elastic != nil }) {
		return nil, &model.SpecError{Text: fmt.Sprintf("a te job cannot be elastic, and te is the default class of queue %s",
			name)}
	}
	j.LayOut()
	j.PerCore = m.v.GPUEquivalentPerCore(j)
	if spec.Priority != nil {
		j.Priority = int32(*spec.Priority)
	}
	if spec.Hold {
		j.Hold, j.Reason = model.HeldByUser, model.Reason{Code: model.ReasonHeldUser}
	}
	j.Limit = q.TimeLimit(spec, &spec.Groups[0], j.Class)
	if !m.v.Config().MayUse(name, j.Account) {
		return nil, admission.AccountRefused(j.Account, name, q.Accounts)
	}
	return j, m.checkLimits(j, &q)
}

// checkLimits refuses a job that exceeds the limits of its queue, or a limit by itself.
func (m *Machine) checkLimits(j *model.Job, q *cluster.Queue) error {
	if err := admission.CheckQueue(j, j.Queue, q); err != nil {
		return err
	}
	return admission.CheckBounds(j, m.v.BoundsOf(j))
}

// checkGroupLimits holds every group of a job whose groups run one by one to the queue's limits.
func (m *Machine) checkGroupLimits(j *model.Job) error {
	if j.Children == nil || j.Spec.Array != nil {
		return nil
	}
	q := m.v.Config().Queues[j.Queue]
	for n := range j.Spec.Groups {
		task := j.MakeTask(n + 1)
		task.Limit = q.TimeLimit(j.Spec, task.GroupSpec(), j.Class)
		task.LayOut()
		if err := m.checkLimits(task, &q); err != nil {
			return fmt.Errorf("group %q: %w", task.GroupSpec().Name, err)
		}
	}
	return nil
}

// addJob stores a drafted job, which has its id, and the children of one whose groups run one by
// one.
func (m *Machine) addJob(j *model.Job, r *resolver) model.JobID {
	m.s.Pack(j)
	if j.Children == nil || j.Spec.Array != nil {
		id := m.add(j)
		m.s.GiveIDs(j.Weight() - 1)
		r.settleNew(j)
		return id
	}
	record := *j
	record.Hold, record.Dependencies = model.NotHeld, nil
	if j.Hold != model.NotHeld {
		record.Reason = model.Reason{}
	}
	id := m.add(&record)
	m.s.GiveIDs(j.Children.Size)
	q := m.v.Config().Queues[j.Queue]
	tasks := make([]*model.Job, j.Children.Size)
	for n := range tasks {
		task := j.MakeTask(n + 1)
		task.Hold, task.Reason = j.Hold, j.Reason
		task.Limit = q.TimeLimit(j.Spec, task.GroupSpec(), j.Class)
		task.LayOut()
		task.PerCore = m.v.GPUEquivalentPerCore(task)
		if task.Dependencies = groupNeeds(j, n); len(task.Dependencies) == 0 {
			task.Dependencies = slices.Clone(j.Dependencies)
		}
		tasks[n] = task
		m.jobs.Put(task)
		m.s.EmitJob(model.EventSubmitted, task, "")
	}
	for n, task := range tasks {
		if len(j.Spec.Groups[n].DependsOn) == 0 {
			r.settleNew(task)
		}
	}
	return id
}

// groupNeeds are the dependencies of one group of a job on others.
func groupNeeds(j *model.Job, group int) []model.OpenDependency {
	byType := map[string]string{"ok": model.NeedAfterOK, "any": model.NeedAfterAny, "failed": model.NeedAfterNotOK,
		"started": model.NeedAfter}
	var needs []model.OpenDependency
	for _, g := range j.Spec.Groups[group].Needs() {
		kind := byType[g.Condition]
		at := slices.IndexFunc(j.Spec.Groups, func(o jobspec.Group) bool { return o.Name == g.Group })
		i := slices.IndexFunc(needs, func(n model.OpenDependency) bool { return n.Type == kind })
		if i < 0 {
			i, needs = len(needs), append(needs, model.OpenDependency{Type: kind})
		}
		needs[i].Jobs = append(needs[i].Jobs, j.ID+model.JobID(at+1))
		slices.Sort(needs[i].Jobs)
	}
	return needs
}
