package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// PackJob has a suspended attempt go on beside others on a GPU of its node: see [model.Packing].
// Whether they stay together follows from their rates, once the node has reported them.
type PackJob struct {
	Job         model.JobID `json:"job"`
	Attempt     int         `json:"attempt"`
	Host        model.JobID `json:"host"` // one of those on the GPU
	HostAttempt int         `json:"host_attempt"`
	// what it is expected to bring, as [model.Trial.Expected]; 0: they have been together before
	Expected int64 `json:"expected,omitempty"`
}

// planPack takes a part of the GPU from those that have it, and tells the attempt to go on there.
func (m *Machine) planPack(c *PackJob) error {
	a, err := m.attempt(c.Job, c.Attempt)
	if err != nil {
		return err
	}
	host, err := m.attempt(c.Host, c.HostAttempt)
	if err != nil {
		return fmt.Errorf("host %d: %w", c.Host, err)
	}
	j, h := m.v.Job(c.Job), m.v.Job(c.Host)
	if err := m.mayPack(c, j, a, h, host); err != nil {
		return err
	}
	set := m.onGPU(&host.Workers[0])
	_, node := m.v.Node(a.Workers[0].Node)
	if err := m.s.ShareGPU(node, j, set, host.Workers[0].GPUs); err != nil {
		return err
	}
	number := a.PackingNumber() + 1
	for _, o := range set {
		number = max(number, m.v.Job(o).Live().PackingNumber()+1)
	}
	of, before := c.Host, m.measured(set)
	if id := host.SetOf(); id != 0 {
		of = id
	} else {
		m.dissolve(node, of)
	}
	for k, o := range set {
		m.setShare(o, of, model.PartOfGPU(k, len(set)+1), number)
	}
	next, a := copyToChange(j)
	m.wake(next, a, [][]int{slices.Clone(host.Workers[0].GPUs)})
	a.Packing = a.Repacked(m.v.At(), of, model.PartOfGPU(len(set), len(set)+1), number)
	m.s.TouchNodesOf(a)
	if c.Expected > 0 {
		a.Packing.With, a.Packing.Before = c.Host, before
		m.emitTrial(model.EventTried, next, &model.Trial{What: model.TrialPack, With: c.Host, At: m.v.At(),
			Expected: c.Expected})
		a.Packing.Expected = c.Expected
	}
	m.put(next)
	m.emitSwitch(model.EventResuming, next, a)
	return nil
}

// mayPack says why an attempt cannot come to another one on its GPU.
func (m *Machine) mayPack(c *PackJob, j *model.Job, a *model.Attempt, h *model.Job, host *model.Attempt) error {
	trial := c.Expected > 0
	switch {
	case a.Stop != nil || host.Stop != nil:
		return model.ErrStopping
	case !a.Suspended():
		return model.ErrNotSuspended
	case host.Suspended() || host.Suspending():
		return model.ErrSwitching
	case c.Expected < 0 || c.Expected == 0 && (a.SetOf() == 0 || a.SetOf() != host.SetOf()):
		return fmt.Errorf("%d and %d have not been together: %w", j.ID, h.ID, model.ErrCannotPack)
	case trial && a.TriedEnough(m.v.At()):
		return model.ErrTriedBefore
	case !j.CanPack() || !h.CanPack() || host.Started.At == 0 || host.AnyFinal() ||
		a.Workers[0].Node != host.Workers[0].Node:
		return model.ErrCannotPack
	}
	if !m.mayUse(&a.Workers[0], host.Workers[0].GPUs) {
		return fmt.Errorf("it goes on only with the GPU that it had: %w", model.ErrCannotPack)
	}
	n, _ := m.v.Node(host.Workers[0].Node)
	memory := n.GPUs[host.Workers[0].GPUs[0]].Memory
	set := m.onGPU(&host.Workers[0])
	if len(set) >= model.MaxPacked {
		return model.ErrCannotPack
	}
	for _, id := range append(slices.Clone(set), j.ID) {
		other := m.v.Job(id)
		o := other.Live()
		switch {
		case trial && id != j.ID && o.Packed() && (o.OnTrial() || o.Packing.Rate == 0):
			return fmt.Errorf("job %d: %w", id, model.ErrNoProfile)
		case o.Stop != nil || o.Suspending():
			return model.ErrSwitching
		case o.Late(): // it would take no turns with the others
			return fmt.Errorf("job %d: %w", id, model.ErrCannotPack)
		case o.Profile == nil:
			return fmt.Errorf("job %d: %w", id, model.ErrNoProfile)
		case trial && (j.Failed(id, m.v.At()) || other.Failed(j.ID, m.v.At())):
			return fmt.Errorf("jobs %d and %d: %w", j.ID, id, model.ErrTriedBefore)
		}
		memory -= o.Profile.Memory
	}
	if memory < 0 {
		return fmt.Errorf("they need %v more of its memory: %w", -memory, model.ErrCannotPack)
	}
	return nil
}

// onGPU lists the jobs on the GPU of a worker, in order.
func (m *Machine) onGPU(w *model.Worker) (set []model.JobID) {
	_, node := m.v.Node(w.Node)
	for _, id := range m.v.JobsOnNode(nil, node) {
		if o := m.v.Job(id).Live(); o != nil && !o.Suspended() {
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

// measured returns the rate of a set, 0 if it is one job or its rate is not known.
func (m *Machine) measured(set []model.JobID) (sum int64) {
	for _, id := range set {
		p := m.v.Job(id).Live().Packing
		if p == nil || p.Rate == 0 {
			return 0
		}
		sum += p.Rate
	}
	return sum
}

// setShare gives a job that runs another share of its GPU, the capacity of which has been settled.
func (m *Machine) setShare(id, set model.JobID, share int64, number int) {
	next, a := copyToChange(m.v.Job(id))
	m.chargeUsage(next, a, 0)
	m.endTrial(next, a)
	if share == model.WholeGPU {
		share = 0
		m.chargedUntilNow(a)
	}
	a.Packing = a.Repacked(m.v.At(), set, share, number)
	m.s.TouchNodesOf(a)
	m.put(next)
}

// chargedUntilNow notes that all that an attempt held has been charged as usage.
func (m *Machine) chargedUntilNow(a *model.Attempt) {
	next := model.Switching{}
	if a.Switch != nil {
		next = *a.Switch
	}
	next.Charged = m.v.At()
	a.Switch = &next
}

// leaveGPU notes that an attempt has given its part of a GPU back, and divides it among those that
// stay there.
func (m *Machine) leaveGPU(j *model.Job, a *model.Attempt, w *model.Worker, gpus []int) {
	if !a.Packed() {
		return
	}
	m.endTrial(j, a)
	a.Packing = a.Repacked(m.v.At(), a.SetOf(), 0, a.PackingNumber())
	set := slices.DeleteFunc(m.onGPU(&model.Worker{Place: model.Place{Node: w.Node, GPUs: gpus}}),
		func(id model.JobID) bool { return id == j.ID })
	if len(set) == 0 {
		return
	}
	_, node := m.v.Node(w.Node)
	m.s.DivideGPU(node, set)
	for k, id := range set {
		m.setShare(id, m.v.Job(id).Live().Packing.Set, model.PartOfGPU(k, len(set)), a.PackingNumber()+1)
	}
}

// endTrial notes that an attempt has been tried on a GPU for long enough, and its rate or that of
// another one there has not come. This is not tried again soon.
func (m *Machine) endTrial(j *model.Job, a *model.Attempt) {
	if !a.TrialOver(m.v.At()) {
		return
	}
	t := model.Trial{What: model.TrialPack, With: a.Packing.With, At: m.v.At(), Expected: a.Packing.Expected,
		Undone: true}
	a.Remember(t)
	m.emitTrial(model.EventMeasured, j, &t)
}

// dissolve takes attempts of a node out of a set that was named after an earlier attempt of a job.
func (m *Machine) dissolve(node int, set model.JobID) {
	for _, id := range m.v.JobsOnNode(nil, node) {
		if o := m.v.Job(id).Live(); o != nil && o.SetOf() == set {
			next, a := copyToChange(m.v.Job(id))
			a.LeaveSet()
			m.put(next)
		}
	}
}

// packed notes the profile of an attempt, or its rate beside others.
func (m *Machine) packed(node string, r *model.WorkerReport) {
	a, w := m.reported(node, r)
	if a == nil || w.State.Final() {
		return
	}
	if p := r.Profile; p != nil && a.Profile == nil && p.Rate > 0 {
		next, a := copyToChange(m.v.Job(r.Job))
		a.Profile = p
		m.put(next)
	}
	if p := r.Packed; p != nil && a.Packed() && a.Profile != nil && p.Number == a.Packing.Number && a.Packing.Rate == 0 {
		next, a := copyToChange(m.v.Job(r.Job))
		q := *a.Packing
		q.Rate = max(1, model.MulDiv(p.Rate, model.WholeGPU, a.Profile.Rate))
		a.Packing = &q
		m.put(next)
		m.judge(m.onGPU(&a.Workers[0]))
	}
}

// judge says what a trial has brought, once the rates of all on the GPU are known.
func (m *Machine) judge(set []model.JobID) {
	sum := m.measured(set)
	if sum == 0 {
		return
	}
	for _, id := range set {
		p := m.v.Job(id).Live().Packing
		if p.With == 0 {
			continue
		}
		t := model.Trial{What: model.TrialPack, With: p.With, At: m.v.At(), Expected: p.Expected,
			Measured: model.TogetherPM(sum, p.Before)}
		t.Undone = t.Measured < model.LeastGain
		next, a := copyToChange(m.v.Job(id))
		q := *p
		q.With, q.Before, q.Expected = 0, 0, 0
		if t.Undone {
			q.Set = 0
		}
		a.Packing = &q
		a.Remember(t)
		m.put(next)
		m.emitTrial(model.EventMeasured, next, &t)
	}
}
