package introspect

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// pack tries suspended jobs on the GPUs of others: the job that uses least of a GPU first, on the
// least used GPU. The algorithm is greedy first fit, in O(guests x hosts). Only the rates that the
// node measures say whether they stay.
func (s *Sharing) pack(node int, n *shared) {
	guests := s.guests(n)
	if len(guests) == 0 {
		return
	}
	hosts := s.hosts(n)
	// Each host takes one guest in a cycle: its rates must be measured before the next one comes. A
	// guest that is over a limit may join only jobs of its own account and user.
	for _, g := range guests {
		for i, h := range hosts {
			if s.anyLimited(g) && !ofOneAccount(g.runs[0].Job, []*unit{h}) {
				continue
			}
			if expected := s.expected(node, h, g); expected >= Limits.WorthTrying &&
				s.putBeside(g.runs[0], node, h.runs[0], expected) {
				n.suspended = slices.DeleteFunc(n.suspended, func(u *unit) bool { return u == g })
				n.busy = true
				hosts = slices.Delete(hosts, i, i+1)
				break
			}
		}
	}
}

// guests are the suspended jobs of a node that may share a GPU, in order of how much they use of
// one.
func (s *Sharing) guests(n *shared) (list []*unit) {
	cfg := s.state.View.Config()
	for _, u := range n.suspended {
		if run := u.single(); run != nil && run.Attempt.Profile != nil && cfg.SharingOf(run.Job).Pack {
			if _, any := n.comingFor(u, u.nodes[0]); !any {
				list = append(list, u)
			}
		}
	}
	byUse(list)
	return list
}

// hosts are the units of a node on one GPU that others may join, in the same order. Another job
// joins a set only when the rates of its members have been measured.
func (s *Sharing) hosts(n *shared) (list []*unit) {
	cfg := s.state.View.Config()
	for _, u := range n.active {
		_, asked := s.state.Stopping[u.id()]
		if asked || len(u.runs) >= model.MaxPacked || !u.runs[0].Job.CanPack() || n.unsettled&(1<<u.gpu()) != 0 {
			continue
		}
		// All its jobs must allow sharing and have a profile, and no trial may be running on the GPU.
		if !slices.ContainsFunc(u.runs, func(r *estimate.LiveAttempt) bool {
			p := r.Attempt.Packing
			return !r.Job.CanPack() || r.Attempt.Profile == nil || !cfg.SharingOf(r.Job).Pack ||
				r.Attempt.Packed() && (p.Rate == 0 || p.With != 0 || p.Set == 0)
		}) {
			list = append(list, u)
		}
	}
	byUse(list)
	return list
}

func byUse(units []*unit) {
	slices.SortFunc(units, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.use(), b.use()), cmp.Compare(a.id(), b.id()))
	})
}

// use is how much of a GPU a unit keeps busy, in thousandths, if its jobs do not slow each other.
func (u *unit) use() (use int64) {
	for _, r := range u.runs {
		use += r.Attempt.Profile.Utilisation
	}
	return use
}

// gpu is the GPU of a unit of one GPU that runs.
func (u *unit) gpu() int { return u.runs[0].Attempt.Workers[0].GPUs[0] }

// expected is the gain that may be expected when a job joins others on a GPU, as
// [model.Trial.Expected]. It assumes that jobs slow each other only if together they want more than
// the whole GPU. 0: they may not be put together, or have been in vain.
func (s *Sharing) expected(node int, host, guest *unit) int64 {
	memory, sum, before := jobspec.Bytes(0), int64(len(host.runs)+1)*1000, int64(0)
	for _, r := range slices.Concat(host.runs, guest.runs) {
		memory += r.Attempt.Profile.Memory
	}
	// 1. A suspended job with state on a certain GPU can go on only there.
	n := s.state.View.Nodes()[node]
	g := n.GPUs[host.gpu()]
	if n.PinsGPUs && !slices.Contains(guest.runs[0].Attempt.Workers[0].Had, host.gpu()) {
		return 0
	}
	// 2. Pairs that were tried in vain are not tried again soon.
	for _, r := range host.runs {
		if guest.runs[0].Job.Failed(r.Job.ID, s.state.Now) || r.Job.Failed(guest.id(), s.state.Now) {
			return 0
		}
		if r.Attempt.Packing != nil && len(host.runs) > 1 {
			before += r.Attempt.Packing.Rate
		}
	}
	// 3. The measured memory of all must fit on the GPU, and classes are not mixed.
	if memory > g.Memory || guest.runs[0].Attempt.TriedEnough(s.state.Now) || host.rank != guest.rank {
		return 0
	}
	// 4. If together they want more than the whole GPU, all slow down in proportion.
	if use := host.use() + guest.use(); use > 1000 {
		sum = sum * 1000 / use
	}
	return model.TogetherPM(sum, before)
}

// separate has jobs pause that should not share a GPU any longer. Those are jobs that gained
// nothing by it, and slow ones if a whole GPU has come free.
func (s *Sharing) separate(node int, n *shared) {
	free := s.state.Room.Available(node).Active.GPUs >= model.WholeGPU && len(n.suspended) == 0 &&
		len(n.leaving) == 0 && !n.busy
	for _, u := range n.active {
		if len(u.runs) < 2 {
			continue
		}
		// The last that came leaves first. Only one slow job leaves for a GPU that has come free.
		for _, r := range slices.Backward(u.runs) {
			p := r.Attempt.Packing
			if _, asked := s.state.Stopping[r.Job.ID]; asked || r.Attempt.Resuming() {
				continue
			}
			if r.Attempt.OnTrial() {
				s.state.WakeAt(s.measuredBy(r.Attempt))
			}
			slow := free && p.With == 0 && p.Rate > 0 && p.Rate < Limits.SplitBelow
			if slow || p.Set == 0 || r.Attempt.TrialOver(s.state.Now) {
				s.suspend(n, &unit{runs: []*estimate.LiveAttempt{r}}, model.CausePack, 0)
				free = free && !slow
			}
		}
	}
}

// measuring reports whether the rates of a unit's attempts are still being measured.
func (s *Sharing) measuring(u *unit) bool {
	return slices.ContainsFunc(u.runs, func(r *estimate.LiveAttempt) bool { return s.measuredBy(r.Attempt) > s.state.Now })
}

// measuredBy returns until when an attempt that is tried on a GPU is left there to be measured. A
// rate that is missing by then will not come.
func (s *Sharing) measuredBy(a *model.Attempt) model.Instant {
	if !a.OnTrial() {
		return 0
	}
	return a.Packing.Since + model.TrialMS
}
