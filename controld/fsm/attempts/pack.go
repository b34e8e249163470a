package attempts

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/jobs"
	"github.com/rota-hpc/rota/controld/model"
)

// Together names a suspended attempt, and an attempt that runs on the GPU that both are to share.
type Together struct {
	Job         model.JobID
	Attempt     int
	Host        model.JobID
	HostAttempt int
	Expected    int64 // the expected gain, as [model.Trial.Expected]; 0: they were packed before
}

// Pack divides the GPU anew among its jobs and the attempt, and resumes the attempt there. It
// checks everything before the first change, so a refused action leaves the state as it was.
func (m *Manager) Pack(c *Together) error {
	// 1. Check that both attempts are there and may be together.
	a, err := m.Attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	host, err := m.Attempt(c.Host, c.HostAttempt)
	if err != nil {
		return fmt.Errorf("host %d: %w", c.Host, err)
	}
	j, h := m.view.Job(c.Job), m.view.Job(c.Host)
	if err := m.mayPack(c, j, a, h, host); err != nil {
		return err
	}
	// 2. Take capacity. This is the last step that can fail.
	set := m.onGPU(&host.Workers[0])
	_, node := m.view.Node(a.Workers[0].Node)
	if err := m.state.ShareGPU(node, j, set, host.Workers[0].GPUs); err != nil {
		return err
	}
	// 3. Number the new packing above all that its members have seen. A rate that a node still
	// reports for an older packing is then ignored.
	number := a.PackingNumber() + 1
	for _, o := range set {
		number = max(number, m.view.Job(o).Live().PackingNumber()+1)
	}
	// 4. Name the set: the host's set if it has one, else a new set named after the host. Older
	// members of a set of that name are from an earlier attempt of the host and leave it.
	of, before := c.Host, m.measured(set)
	if id := host.SetOf(); id != 0 {
		of = id
	} else {
		m.dissolve(node, of)
	}
	// 5. Give everyone their share: first the jobs on the GPU, then the one that comes.
	for k, o := range set {
		m.setShare(o, of, model.PartOfGPU(k, len(set)+1), number)
	}
	next, a := jobs.CopyToChange(j)
	m.wake(next, a, [][]int{slices.Clone(host.Workers[0].GPUs)})
	a.Packing = a.Repacked(m.view.At(), of, model.PartOfGPU(len(set), len(set)+1), number)
	m.state.TouchNodesOf(a)
	// 6. A trial remembers the rate before, so that judge can compare.
	if c.Expected > 0 {
		a.Packing.With, a.Packing.Before = c.Host, before
		m.emitTrial(model.EventTried, next, &model.Trial{What: model.TrialPack, With: c.Host, At: m.view.At(),
			Expected: c.Expected})
		a.Packing.Expected = c.Expected
	}
	m.jobs.Put(next)
	m.emitSwitch(model.EventResuming, next, a)
	return nil
}

// mayPack returns the reason why an attempt cannot join another one on its GPU; nil: it may. The
// first part looks at the two attempts, the loop at everything else on the GPU.
func (m *Manager) mayPack(c *Together, j *model.Job, a *model.Attempt, h *model.Job, host *model.Attempt) error {
	trial := c.Expected > 0 // else they return to a set that has been together
	switch {
	case a.Stop != nil || host.Stop != nil:
		return model.ErrStopping
	case !a.Suspended():
		return model.ErrNotSuspended
	case host.Suspended() || host.Suspending():
		return model.ErrSwitching
	case c.Expected < 0 || c.Expected == 0 && (a.SetOf() == 0 || a.SetOf() != host.SetOf()):
		return fmt.Errorf("%d and %d have not been together: %w", j.ID, h.ID, model.ErrCannotPack)
	case trial && a.TriedEnough(m.view.At()):
		return model.ErrTriedBefore
	case !j.CanPack() || !h.CanPack() || host.Started.At == 0 || host.AnyFinal() ||
		a.Workers[0].Node != host.Workers[0].Node:
		return model.ErrCannotPack
	}
	if !m.mayUse(&a.Workers[0], host.Workers[0].GPUs) {
		return fmt.Errorf("it goes on only with the GPU that it had: %w", model.ErrCannotPack)
	}
	n, _ := m.view.Node(host.Workers[0].Node)
	// The measured peaks of all together must fit into the GPU's memory.
	memory := n.GPUs[host.Workers[0].GPUs[0]].Memory
	set := m.onGPU(&host.Workers[0])
	if len(set) >= model.MaxPacked {
		return model.ErrCannotPack
	}
	for _, id := range append(slices.Clone(set), j.ID) {
		other := m.view.Job(id)
		o := other.Live()
		switch {
		case trial && id != j.ID && o.Packed() && (o.OnTrial() || o.Packing.Rate == 0):
			// The rate before must be known, and only one trial may run: nothing would tell which
			// of two slowed the set down.
			return fmt.Errorf("job %d: %w", id, model.ErrNoProfile)
		case o.Stop != nil || o.Suspending():
			return model.ErrSwitching
		case o.Late(): // it would take no turns with the others
			return fmt.Errorf("job %d: %w", id, model.ErrCannotPack)
		case o.Profile == nil:
			return fmt.Errorf("job %d: %w", id, model.ErrNoProfile)
		case trial && (j.Failed(id, m.view.At()) || other.Failed(j.ID, m.view.At())):
			return fmt.Errorf("jobs %d and %d: %w", j.ID, id, model.ErrTriedBefore)
		}
		memory -= o.Profile.Memory
	}
	if memory < 0 {
		return fmt.Errorf("they need %v more of its memory: %w", -memory, model.ErrCannotPack)
	}
	return nil
}

// onGPU lists the running jobs on a worker's GPU, in the order of JobsOnNode.
func (m *Manager) onGPU(w *model.Worker) (set []model.JobID) {
	_, node := m.view.Node(w.Node)
	for _, id := range m.view.JobsOnNode(nil, node) {
		if o := m.view.Job(id).Live(); o != nil && !o.Suspended() {
			for i := range o.Workers {
				if ow := &o.Workers[i]; ow.Node == w.Node && !ow.State.Final() && slices.Contains(ow.GPUs, w.GPUs[0]) {
					set = append(set, id)
					break
				}
			}
		}
	}
	return set
}

// measured returns the sum of the relative rates of a set; 0 if a member is not packed or its rate
// is unknown.
func (m *Manager) measured(set []model.JobID) (sum int64) {
	for _, id := range set {
		p := m.view.Job(id).Live().Packing
		if p == nil || p.Rate == 0 {
			return 0
		}
		sum += p.Rate
	}
	return sum
}

// setShare gives a running job another share of its GPU. The grid has the new shares already. Usage
// is charged first, because from now on the attempt holds a different amount.
func (m *Manager) setShare(id, set model.JobID, share int64, number int) {
	next, a := jobs.CopyToChange(m.view.Job(id))
	m.chargeUsage(next, a, 0)
	m.endTrial(next, a)
	if share == model.WholeGPU { // 0 stands for a GPU that is not shared any more
		share = 0
		m.chargedUntilNow(a)
	}
	a.Packing = a.Repacked(m.view.At(), set, share, number)
	m.state.TouchNodesOf(a)
	m.jobs.Put(next)
}

// chargedUntilNow notes that usage of the attempt was charged up to now.
func (m *Manager) chargedUntilNow(a *model.Attempt) {
	next := model.Switching{}
	if a.Switch != nil {
		next = *a.Switch
	}
	next.Charged = m.view.At()
	a.Switch = &next
}

// leaveGPU takes an attempt out of its packing after it has given its part of the GPU back. It
// divides the GPU among the jobs that stay. They get a new number, since their rates change.
func (m *Manager) leaveGPU(j *model.Job, a *model.Attempt, w *model.Worker, gpus []int) {
	if !a.Packed() {
		return
	}
	m.endTrial(j, a)
	a.Packing = a.Repacked(m.view.At(), a.SetOf(), 0, a.PackingNumber())
	set := slices.DeleteFunc(m.onGPU(&model.Worker{Place: model.Place{Node: w.Node, GPUs: gpus}}),
		func(id model.JobID) bool { return id == j.ID })
	if len(set) == 0 {
		return
	}
	_, node := m.view.Node(w.Node)
	m.state.DivideGPU(node, set)
	for k, id := range set {
		m.setShare(id, m.view.Job(id).Live().Packing.Set, model.PartOfGPU(k, len(set)), a.PackingNumber()+1)
	}
}

// endTrial ends a trial that ran long enough without the rates of all jobs on the GPU. It counts as
// undone, so it is not tried again soon.
func (m *Manager) endTrial(j *model.Job, a *model.Attempt) {
	if !a.TrialOver(m.view.At()) {
		return
	}
	t := model.Trial{What: model.TrialPack, With: a.Packing.With, At: m.view.At(), Expected: a.Packing.Expected,
		Undone: true}
	a.Remember(t)
	m.emitTrial(model.EventMeasured, j, &t)
}

// dissolve takes a node's attempts out of a set named after an earlier attempt of a job.
func (m *Manager) dissolve(node int, set model.JobID) {
	for _, id := range m.view.JobsOnNode(nil, node) {
		if o := m.view.Job(id).Live(); o != nil && o.SetOf() == set {
			next, a := jobs.CopyToChange(m.view.Job(id))
			a.LeaveSet()
			m.jobs.Put(next)
		}
	}
}

// judge compares the rate of the set with the rate before, once all rates
// on the GPU are known. A trial whose gain is below model.LeastGain is undone: the job leaves the
// set, and the cycle separates them.
func (m *Manager) judge(set []model.JobID) {
	sum := m.measured(set)
	if sum == 0 {
		return
	}
	for _, id := range set {
		p := m.view.Job(id).Live().Packing
		if p.With == 0 {
			continue
		}
		t := model.Trial{What: model.TrialPack, With: p.With, At: m.view.At(), Expected: p.Expected,
			Measured: model.TogetherPM(sum, p.Before)}
		t.Undone = t.Measured < model.LeastGain
		next, a := jobs.CopyToChange(m.view.Job(id))
		q := *p
		q.With, q.Before, q.Expected = 0, 0, 0
		if t.Undone {
			q.Set = 0
		}
		a.Packing = &q
		a.Remember(t)
		m.jobs.Put(next)
		m.emitTrial(model.EventMeasured, next, &t)
	}
}

// profileNews is how a job uses a GPU that it has for itself. The first report of an attempt counts.
type profileNews model.Profile

func (n *profileNews) note(m *Manager, from sender) {
	a, w := m.reported(from)
	if a == nil || w.State.Final() || a.Profile != nil || n.Rate <= 0 {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	a.Profile = (*model.Profile)(n)
	m.jobs.Put(next)
}

// packedNews is the rate of an attempt beside others on its GPU. The first report of the present
// packing counts. It is stored relative to the attempt's rate with a GPU for itself. When the last
// rate is in, judge decides.
type packedNews model.PackedRate

func (n *packedNews) note(m *Manager, from sender) {
	a, w := m.reported(from)
	if a == nil || w.State.Final() || !a.Packed() || a.Profile == nil || n.Number != a.Packing.Number ||
		a.Packing.Rate != 0 {
		return
	}
	next, a := jobs.CopyToChange(m.view.Job(from.job))
	q := *a.Packing
	q.Rate = max(1, model.MulDiv(n.Rate, model.WholeGPU, a.Profile.Rate))
	a.Packing = &q
	m.jobs.Put(next)
	m.judge(m.onGPU(&a.Workers[0]))
}
