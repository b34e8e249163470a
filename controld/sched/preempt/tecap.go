package preempt

import (
	"cmp"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// # How much trial-and-error jobs hold at once
//
// Trial-and-error jobs start before all others and take their room. An account and a user hold only
// a part of the cluster in such jobs at once. So labelling all jobs as trial and error gains
// little. A job with GPUs counts by its GPUs, and one without by its cores: both against the same
// part. One job is always allowed, since the smallest part of a small cluster holds none.

// wholeCluster is a part, in thousandths, from which on there is no cap.
const wholeCluster = 1000

// TECaps counts in one cycle what trial-and-error jobs hold, of each account and of each user.
type TECaps struct {
	state           *scratch.State
	accounts, users map[string]*teHolding // nil until they are needed
}

// NewTECaps returns the caps of a cycle.
func NewTECaps(t *scratch.State) *TECaps { return &TECaps{state: t} }

// teHolding is what trial-and-error jobs hold, those with GPUs and those without.
type teHolding struct {
	gpus, cores     int64 // thousandths of a GPU; cores of jobs without GPUs
	withGPUs, plain int   // jobs
}

// teCap is one limit, and what counts against it.
type teCap struct {
	of, name  string // of account or user
	held, may int64  // thousandths of a GPU, or cores
	part      int64  // thousandths of the cluster; 0 if the number of GPUs was written
	jobs      int    // that count
}

// Binds reports whether there is any cap.
func (c *TECaps) Binds() bool {
	return c.state.Policy.TEAccountGPUs > 0 || c.accountPart() < wholeCluster || c.userPart() < wholeCluster
}

// accountPart returns the part of the cluster that one account may hold, in thousandths.
func (c *TECaps) accountPart() int64 {
	return max(0, cmp.Or(c.state.Policy.TEAccountPM, tunables.TEAccountPM))
}

// userPart returns the part of the cluster that one user may hold, in thousandths.
func (c *TECaps) userPart() int64 { return max(0, cmp.Or(c.state.Policy.TEUserPM, tunables.TEUserPM)) }

// Exceeds reports whether a cap keeps a job from starting.
func (c *TECaps) Exceeds(j *model.Job) bool { return c.exceeded(j) != nil }

// Reason says which cap keeps a job from starting and what the numbers are; false if none does.
func (c *TECaps) Reason(j *model.Job) (model.Reason, bool) {
	cap := c.exceeded(j)
	if cap == nil {
		return model.Reason{}, false
	}
	unit, asks := "GPUs", gpusText(j.Width())
	held, may := gpusText(cap.held), gpusText(cap.may)
	if j.Width() == 0 {
		unit, asks, held, may = "cores", fmt.Sprint(coresOf(j)), fmt.Sprint(cap.held), fmt.Sprint(cap.may)
	}
	if cap.part > 0 {
		may += fmt.Sprintf(" (%s %% of the cluster)", percent(cap.part))
	}
	return model.Reason{Code: model.ReasonTELimit, Text: fmt.Sprintf(
		"%s %s holds %s %s in them, may hold %s at once, and this job asks for %s", cap.of, cap.name, held, unit, may, asks,
	)}, true
}

// Count notes that a job has started or been promised room, once.
func (c *TECaps) Count(j *model.Job) {
	if c.accounts != nil && j.Class == jobspec.TE && !c.state.AwaitsVictims(j.ID) {
		c.add(j)
	}
}

// exceeded returns the cap that keeps a job from starting, nil if none does.
func (c *TECaps) exceeded(j *model.Job) *teCap {
	if j.Class != jobspec.TE || !c.Binds() || c.state.AwaitsVictims(j.ID) {
		return nil // it was counted when the room was promised
	}
	if c.accounts == nil {
		c.countAll()
	}
	if a := c.accounts[j.Account]; a != nil && c.over(a, j, c.accountPart(), c.state.Policy.TEAccountGPUs) {
		return c.told("account", j.Account, a, j, c.accountPart(), c.state.Policy.TEAccountGPUs)
	}
	if u := c.users[j.Owner.User]; u != nil && c.over(u, j, c.userPart(), 0) {
		return c.told("user", j.Owner.User, u, j, c.userPart(), 0)
	}
	return nil
}

// over reports whether something that holds jobs already would hold too much with one more.
func (c *TECaps) over(h *teHolding, j *model.Job, part, gpus int64) bool {
	cap := c.capOf(h, j, part, gpus)
	asks := j.Width()
	if asks == 0 {
		asks = coresOf(j)
	}
	return cap.may >= 0 && cap.jobs > 0 && cap.held+asks > cap.may
}

// capOf returns the limit for a job: a number of GPUs where one was written, else a part of the
// cluster. Without either it is negative.
func (c *TECaps) capOf(h *teHolding, j *model.Job, part, gpus int64) teCap {
	all := &c.state.View.Inventory().All
	out := teCap{held: h.gpus, jobs: h.withGPUs, part: part, may: -1}
	whole := all.GPUs
	if j.Width() == 0 {
		out.held, out.jobs, whole = h.cores, h.plain, all.Cores
	} else if gpus > 0 {
		out.part, out.may = 0, gpus*model.WholeGPU
		return out
	}
	if part < wholeCluster {
		out.may = whole * part / wholeCluster
	}
	return out
}

func (c *TECaps) told(of, name string, h *teHolding, j *model.Job, part, gpus int64) *teCap {
	out := c.capOf(h, j, part, gpus)
	out.of, out.name = of, name
	return &out
}

// countAll counts the trial-and-error jobs that run or have been promised room.
func (c *TECaps) countAll() {
	c.accounts, c.users = map[string]*teHolding{}, map[string]*teHolding{}
	for o := range c.state.View.Live() {
		if o.Class == jobspec.TE {
			c.add(o)
		}
	}
	// Jobs that were promised room by preemption count as if they ran.
	for id, r := range c.state.Holders {
		if o := c.state.View.Job(id); r.ForPreemptor && o.Class == jobspec.TE {
			c.add(o)
		}
	}
	for id, n := range c.state.Started {
		if o := c.state.View.Job(id); o.Class == jobspec.TE {
			for range n {
				c.add(o)
			}
		}
	}
}

func (c *TECaps) add(j *model.Job) {
	for _, h := range []*teHolding{holdingOf(c.accounts, j.Account), holdingOf(c.users, j.Owner.User)} {
		if gpus := j.Width(); gpus > 0 {
			h.gpus, h.withGPUs = h.gpus+gpus, h.withGPUs+1
		} else {
			h.cores, h.plain = h.cores+coresOf(j), h.plain+1
		}
	}
}

func holdingOf(m map[string]*teHolding, name string) *teHolding {
	if m[name] == nil {
		m[name] = &teHolding{}
	}
	return m[name]
}

// coresOf returns how many cores all workers of a job ask for.
func coresOf(j *model.Job) int64 { return j.Total().Cores }

// gpusText writes thousandths of a GPU as GPUs.
func gpusText(milli int64) string { return fmt.Sprintf("%g", float64(milli)/model.WholeGPU) }

// percent writes thousandths as a percentage.
func percent(pm int64) string { return fmt.Sprintf("%g", float64(pm)/10) }
